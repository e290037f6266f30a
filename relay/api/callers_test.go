package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

// TestWhoHasVerifiedTakesNoStrangersPlace, with a body still to come: its own address may dial as if it
// were not there.
func TestWhoHasVerifiedTakesNoStrangersPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   identity.Mode
		path   string
		bearer func(*rig) string
		proves bool
	}{
		"nobody yet":        {identity.None, "/relay/enroll", func(*rig) string { return "" }, false},
		"a gateway":         {identity.None, "/relay/policy", func(r *rig) string { return r.gw("gw") }, true},
		"a managed token":   {identity.JWKS, "/relay/policy", func(r *rig) string { return r.jwt("agent:gw", "home") }, true},
		"an identity token": {identity.None, "/relay/provision", func(r *rig) string { return r.ambient("gw") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, identity.Options{Mode: tc.mode})
				p := pipe{conn: make(chan net.Conn)}
				p.end = sync.OnceFunc(func() { close(p.conn) })
				srv := &http.Server{Handler: r.door(), ConnContext: limits.ConnContext}
				served := make(chan error, 1)
				go func() { served <- srv.Serve(limits.NewListener(p, nil, func() {})) }()
				defer func() {
					_ = srv.Close()
					<-served
				}()
				dial := func() net.Conn {
					near, far := net.Pipe()
					p.conn <- far
					return near
				}
				near := dial()
				defer func() { _ = near.Close() }()
				if _, err := io.WriteString(near, "POST "+tc.path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+tc.bearer(r)+
					"\r\nContent-Length: 2\r\n\r\n{"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				var last net.Conn
				for range limits.MaxStrangers {
					last = dial()
					defer func() { _ = last.Close() }()
				}
				synctest.Wait()
				_ = last.SetReadDeadline(time.Now())
				if _, err := last.Read(make([]byte, 1)); (err != io.EOF) != tc.proves {
					t.Errorf("there is room for as many strangers as without it: %t, want %t", !tc.proves, tc.proves)
				}
				if _, err := io.WriteString(near, "}"); err != nil {
					t.Fatalf("the rest of the body: %v; want the connection there", err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err != nil || resp.StatusCode != http.StatusBadRequest { // members are missing
					t.Errorf("answer %v, %v, want 400", resp, err)
				}
			})
		})
	}
}
