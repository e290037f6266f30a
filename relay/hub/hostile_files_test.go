package hub

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/transfer"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// allFiles is what the hub of a real connector gets. The zero value has none yet.
type allFiles struct {
	*media.Keeper
	*transfer.Finder
}

// named is who a bearer is: the gateway of that name.
type named struct{}

func (named) Verify(_ context.Context, bearer string) (token.Peer, token.Verdict, error) {
	return token.Peer{Gateway: relay.GatewayID(bearer), Instance: relay.InstanceID(bearer)}, token.Valid, nil
}

// keepFiles makes files a keeper and a finder that may ask this machine, and is where they are fetched. It must come before
// anybody dials.
func (r *rig) keepFiles(files *allFiles) (url string) {
	r.t.Helper()
	k := media.NewKeeper(filepath.Join(r.t.TempDir(), "media"), r.db, r.hub.Bots(), media.Options{})
	g := guard.New(guard.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Body: media.MaxFile})
	*files = allFiles{k, transfer.NewFinder(k, g, func(count.Counter) {})}
	ctx, stop := context.WithCancel(r.t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(r.t, err)
	srv := &http.Server{Handler: routes.New(nil, transfer.New(k, named{}, transfer.Options{}).Routes()...)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := k.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	wg.Go(func() { _ = srv.Serve(l) })
	r.t.Cleanup(func() {
		_ = srv.Close()
		stop()
		wg.Wait()
	})
	return "http://" + l.Addr().String() + "/relay/media"
}

// slowServer gives a byte of a file every so often.
func slowServer(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		for backoff.Pause(r.Context(), 50*time.Millisecond) {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// oftenest is how often a gateway may ask for something without being hung up on.
const oftenest = 25 * time.Millisecond

// fileHostiles are gateways that make use of files and buttons, and of nothing else.
func fileHostiles(t testing.TB, media string) map[string]func(context.Context, net.Conn) {
	hello := string(hostileMessage(hostileHello))
	slow := slowServer(t)
	// many writes what frame says, with a number, as often as a session may, and reads what comes.
	many := func(frame string) func(context.Context, net.Conn) {
		return func(ctx context.Context, c net.Conn) {
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() { _, _ = io.Copy(io.Discard, c) })
			if _, err := io.WriteString(c, hello); err != nil {
				return
			}
			for n := 0; backoff.Pause(ctx, oftenest); n++ {
				if _, err := c.Write(hostileMessage(fmt.Sprintf(frame, n, n))); err != nil {
					return
				}
			}
		}
	}
	return map[string]func(context.Context, net.Conn){
		"uploads all the time": func(ctx context.Context, c net.Conn) {
			_, _ = io.WriteString(c, hello)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for backoff.Pause(ctx, oftenest) {
						upload(ctx, media, 1<<20)
					}
				})
			}
			wg.Wait()
		},
		"sends from slow servers": many(`{"type":"outbound","requestId":"%d","action":{"op":"send_media","chat_id":"@eve","media_kind":"document","source_url":"` + slow + `/%d"}}`),
		"asks all the time": many(`{"type":"outbound","requestId":"%d","action":{"op":"prompt","chat_id":"@eve","content":"?","prompt_kind":"choice","prompt_id":"p%d",` +
			`"options":[{"id":"yes","label":"Yes"},{"id":"no","label":"No"}]}}`),
	}
}

// upload sends a file as the gateway "evil".
func upload(ctx context.Context, to string, size int64) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, io.LimitReader(zeros{}, size))
	if err != nil {
		return
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer evil")
	if res, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestNeighboursOfFiles is TestHostileNeighbours beside gateways that send files and ask questions all the time.
func TestNeighboursOfFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "uploads all the time", "sends from slow servers", "asks all the time"} {
		t.Run("beside "+name, func(t *testing.T) {
			files := &allFiles{}
			r := newRig(t, with(files))
			at := r.keepFiles(files)
			besideHostile(t, r, name, fileHostiles(t, at)[name])
		})
	}
}
