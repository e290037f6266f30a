package cli

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// A port that another program has stops the start, with the reason.
func TestABusyPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, cfg := range []config.Config{{Listen: taken.Addr().String()}, {Listen: "127.0.0.1:0", MetricsListen: taken.Addr().String()}} {
		if _, err := new(serving).openDoors(&cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another program uses "+taken.Addr().String()) {
			t.Errorf("listen %s, metrics %q: %v", cfg.Listen, cfg.MetricsListen, err)
		}
	}
}

// A data folder that is not there stops the start of a node, with the reason.
func TestANodeWithoutAFolder(t *testing.T) {
	t.Parallel()
	s := &serving{app: &app{}}
	cfg := config.Config{Listen: "127.0.0.1:0", DataDir: filepath.Join(t.TempDir(), "missing")}
	if _, err := s.openFront(t.Context(), &cfg, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), cfg.DataDir) {
		t.Errorf("%v; want what is wrong with %s", err, cfg.DataDir)
	}
}

func TestWhichShardARequestIsFor(t *testing.T) {
	of := func(name, address string) *site {
		c := &config.Config{Shard: name, PublicURL: address}
		if name != "main" {
			c.Prefix = "/s/" + name
		}
		return &site{Config: c}
	}
	alone := &front{sites: []*site{of("main", "https://relay.example.net/x")}}
	several := &front{sites: []*site{
		of("a", "https://relay.example.net/s/a"), of("b", "https://B.example.net"), of("c", "https://relay.example.net/team/c"), of("c-d", ""),
		of("six", "https://[fd00::5]"),
	}}
	for _, tc := range []struct {
		front       *front
		url         string
		shard, path string // empty: none
	}{
		{alone, "http://relay.example.net/relay", "main", "/relay"},
		{alone, "http://relay.example.net/s/main/relay", "main", "/s/main/relay"},
		{several, "http://10.0.0.5:8790/s/a/relay", "a", "/relay"},
		{several, "http://10.0.0.5:8790/s/a", "a", "/"},
		{several, "http://10.0.0.5:8790/s/ab/relay", "", ""},
		{several, "http://10.0.0.5:8790/s/c-d/webhooks/x%2Fy?z=1", "c-d", "/webhooks/x%2Fy?z=1"},
		{several, "http://10.0.0.5:8790/relay", "", ""},
		{several, "http://b.example.net:8443/relay", "b", "/relay"},
		{several, "http://b.example.net/s/a/relay", "a", "/relay"},
		{several, "http://[fd00::5]/relay", "six", "/relay"},
		{several, "http://[fd00::5]:8443/relay", "six", "/relay"},
		{several, "http://relay.example.net/team/c/relay", "c", "/relay"},
		{several, "http://relay.example.net/team/cd/relay", "", ""},
		{several, "http://relay.example.net/relay/media/xyz?s=c-d", "c-d", "/relay/media/xyz?s=c-d"},
		{several, "http://relay.example.net/relay/media/xyz?s=e", "", ""},
		{several, "http://relay.example.net/elsewhere?s=a", "", ""},
	} {
		r := httptest.NewRequest("GET", tc.url, nil)
		at, in := tc.front.find(r, func(c *config.Config) string { return c.PublicURL })
		switch {
		case at == nil:
			if tc.shard != "" {
				t.Errorf("%s is for none, want %s", tc.url, tc.shard)
			}
		case at.Shard != tc.shard || in.URL.RequestURI() != tc.path:
			t.Errorf("%s is for %s as %s, want %s as %s", tc.url, at.Shard, in.URL.RequestURI(), tc.shard, tc.path)
		}
	}
}
