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
	"github.com/hermes-connector/hermes-connector/relay/limit"
)

// TestWhoHasVerifiedKeepsItsConnection, with a body still to come, while its own address dials more
// than strangers may hold (issue 9, point 7).
func TestWhoHasVerifiedKeepsItsConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   identity.Mode
		path   string
		bearer func(*rig) string
		stays  bool
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
				c := limit.NewCallers(p, func() {})
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.Serve(w, req, r.from) })}
				c.Attach(srv, nil)
				served := make(chan error, 1)
				go func() { served <- srv.Serve(c) }()
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
				for range limit.MaxCallers + 1 {
					silent := dial()
					defer func() { _ = silent.Close() }()
				}
				<-time.After(time.Second) // whoever has to wait is served by now
				synctest.Wait()
				if _, err := io.WriteString(near, "}"); (err == nil) != tc.stays {
					t.Fatalf("the rest of the body: %v; want the connection there: %t", err, tc.stays)
				}
				if !tc.stays {
					return
				}
				resp, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err != nil || resp.StatusCode != http.StatusBadRequest { // members are missing
					t.Errorf("answer %v, %v, want 400", resp, err)
				}
			})
		})
	}
}
