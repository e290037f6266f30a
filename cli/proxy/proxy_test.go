package proxy

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestFor(t *testing.T) {
	entries, err := Files.ReadDir(".")
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		text := For(e.Name(), "hermes.example.org", "127.0.0.1:9000")
		if !strings.Contains(text, "hermes.example.org") || !strings.Contains(text, "127.0.0.1:9000") || regexp.MustCompile(`relay\.example\.net|8787`).MatchString(text) {
			t.Errorf("%s is not filled in:\n%s", e.Name(), text)
		}
	}
}

// TestItWaitsForPings: nginx, which gives up a connection on which nothing came, has room for two pings in that time.
func TestItWaitsForPings(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "relay", "session", "ping.go"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(form, text string) int {
		m := regexp.MustCompile(form).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("nothing fits %s", form)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	every, waits := number(`pingEvery = (\d+) \* time\.Second`, string(source)), number(`proxy_read_timeout (\d+)s;`, For("nginx.conf", "", ""))
	if waits < 2*every {
		t.Errorf("nginx waits %d s, and a ping comes every %d s", waits, every)
	}
}
