package routes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestATooLargeBodyReadsWhy: a caller that sends all of its body before it reads gets the answer, and no reset.
func TestATooLargeBodyReadsWhy(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request, _ netip.Addr) {
		if _, err := io.ReadAll(r.Body); err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				Refuse(w, http.StatusRequestEntityTooLarge, "larger than 1 KiB")
			}
		}
	}
	unread := func(w http.ResponseWriter, _ *http.Request, _ netip.Addr) {
		Refuse(w, http.StatusRequestEntityTooLarge, "larger than 1 KiB")
	}
	d := New(nil,
		Route{Path: "/read", Methods: []string{http.MethodPost}, Policy: Policy{Body: 1 << 10}, Serve: read},
		Route{Path: "/unread", Methods: []string{http.MethodPost}, Policy: Policy{Body: 1 << 10}, Serve: unread},
	)
	s := httptest.NewServer(d)
	defer s.Close()
	const size = 8 << 20
	whole := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
	announced := fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", size)
	for path, forms := range map[string][]string{"/read": {whole, chunked}, "/unread": {whole, announced}} {
		for _, form := range forms {
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\n"+form); err != nil {
				t.Errorf("%s, %.18s: the body could not be sent: %v", path, form, err)
			} else if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, %.18s: %v, %v", path, form, resp, err)
			} else if resp.ContentLength < 0 { // who waits to be told to send the body would wait for the connection's end
				t.Errorf("%s, %.60q: the answer does not say where it ends", path, form)
			} else if said, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(said), "larger than 1 KiB") {
				t.Errorf("%s, %.18s: %s, %v", path, form, said, err)
			}
			_ = c.Close()
		}
	}
}
