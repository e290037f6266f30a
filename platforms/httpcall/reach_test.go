package httpcall

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// late is a context whose deadline passes when over is closed: a real one may pass before the resolver is asked at all.
type late struct {
	context.Context
	over chan struct{}
}

func (l late) Done() <-chan struct{} { return l.over }

func (l late) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestBlock: what keeps a call from the network is told apart, and so is what is said about it.
func TestBlock(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Welcome, please log in") })
	secure := httptest.NewUnstartedServer(page) // with a certificate that nobody knows
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(page)
	defer plain.Close()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	closed := fmt.Sprintf("http://127.0.0.1:%d", port)
	proxy := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(closed) }}
	defer proxy.CloseIdleConnections()
	no := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer no.Close()
	refuses := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(no.URL) }}
	defer refuses.CloseIdleConnections()
	untilAsked := late{t.Context(), make(chan struct{})}
	asked := sync.OnceFunc(func() { close(untilAsked.over) })
	silent := &http.Transport{DialContext: (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked()
		<-ctx.Done()
		return nil, ctx.Err()
	}}}).DialContext}
	for name, tc := range map[string]struct {
		via     http.RoundTripper
		address string
		block   Block
		want    *finding.Kind
	}{
		"nobody listens":           {nil, closed, NoWay, finding.Unreachable},
		"no such name":             {nil, "http://network.invalid", NoName, finding.NoDNS},
		"a proxy that is away":     {proxy, "https://network.invalid", Between, finding.Between},
		"a proxy that refuses":     {refuses, "https://network.invalid", Between, finding.Between},
		"a resolver that is away":  {silent, "http://network.example", NoName, finding.NoDNS},
		"a certificate of another": {nil, secure.URL, Between, finding.Between},
		"no TLS at all":            {nil, strings.Replace(plain.URL, "http:", "https:", 1), Between, finding.Between},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if tc.via == silent {
				ctx = untilAsked
			}
			_, f := get(t, ctx, client(t, colons, tc.via), tc.address)
			if f == nil || f.Block != tc.block {
				t.Fatalf("%+v, want block %d", f, tc.block)
			}
			if got := (Asked{About: "telegram:1", Network: "Telegram", Host: "network.invalid"}).Unanswered(f); got.Code != tc.want.Code || strings.Contains(got.What, "dial tcp") || strings.Contains(got.What, "context") {
				t.Errorf("said: %+v, want %s", got, tc.want.Code)
			}
		})
	}
	if got := blockOf(x509.HostnameError{}); got != Between {
		t.Errorf("a certificate of another host is block %d", got)
	}
}

// TestEachChat: what was not looked at is said, and the order stays.
func TestEachChat(t *testing.T) {
	asked := Asked{About: "telegram:1"}
	chats := make([]relay.Place, maxChats+3)
	for i := range chats {
		chats[i].Chat = relay.ChatID(fmt.Sprint(i))
	}
	got := asked.EachChat(t.Context(), chats, func(c relay.Place) ([]finding.Finding, error) {
		if c.Chat == "7" {
			return nil, errors.New("not answered")
		}
		return []finding.Finding{finding.NotInChat.Of("x", string(c.Chat), "x")}, nil
	})
	last := got[len(got)-1]
	if len(got) != maxChats || got[8].What != "9" || last.Code != finding.NotAsked.Code || !strings.HasSuffix(last.What, "be checked: 4") {
		t.Errorf("%d found, the last one %+v", len(got), last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got = asked.EachChat(ctx, chats[:2], func(relay.Place) ([]finding.Finding, error) { t.Error("looked after the end"); return nil, nil })
	if len(got) != 1 {
		t.Errorf("after the end: %+v", got)
	}
}
