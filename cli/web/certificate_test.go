package web_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/web"
)

// TestOwnCertificate: it stays as long as it can, and a new one has the same key.
func TestOwnCertificate(t *testing.T) {
	dir, noon := t.TempDir(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	c := web.Certificate{File: filepath.Join(dir, "web.crt"), Key: filepath.Join(dir, "web.key")}
	if f := c.Fingerprint(); f != "" {
		t.Errorf("the fingerprint of none is %q", f)
	}
	ensure := func(host string, after time.Duration) tls.Certificate {
		t.Helper()
		if err := c.Ensure(host, noon.Add(after)); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(c.File, c.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
		return pair
	}
	const day = 24 * time.Hour
	first := ensure("192.168.1.20", 0)
	if st, err := os.Stat(c.Key); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", st.Mode(), err)
	}
	if days := first.Leaf.NotAfter.Sub(first.Leaf.NotBefore) / day; days > 398 {
		t.Errorf("it lasts %d days, which browsers refuse", days)
	}
	for _, name := range append([]string{"localhost", "127.0.0.1"}, addresses(netaddr.All())...) {
		if err := first.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	sum := fmt.Sprintf("%X", sha256.Sum256(first.Leaf.Raw))
	if got := c.Fingerprint(); strings.ReplaceAll(got, ":", "") != sum || strings.Count(got, ":") != 31 {
		t.Errorf("the fingerprint is %s, want %s", got, sum)
	}
	for title, tc := range map[string]struct {
		host  string
		after time.Duration
		same  bool
	}{
		"the next start":           {"192.168.1.20", time.Hour, true},
		"31 days before its end":   {"192.168.1.20", 366 * day, true},
		"29 days before its end":   {"192.168.1.20", 368 * day, false},
		"after its end":            {"192.168.1.20", 500 * day, false},
		"another address to open":  {"192.168.1.21", day, false},
		"a name to open":           {"box.example", day, false},
		"one of its names to open": {"localhost", day, true},
	} {
		t.Run(title, func(t *testing.T) {
			before, err := os.ReadFile(c.File)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.WriteFile(c.File, before, 0o600) })
			next := ensure(tc.host, tc.after)
			if got := next.Leaf.Equal(first.Leaf); got != tc.same {
				t.Errorf("it is the same: %t, want %t", got, tc.same)
			}
			if !next.Leaf.NotAfter.After(noon.Add(tc.after + 29*day)) {
				t.Errorf("it ends at %s", next.Leaf.NotAfter)
			}
			if !next.PrivateKey.(*ecdsa.PrivateKey).Equal(first.PrivateKey) {
				t.Error("its key is another")
			}
		})
	}
	if err := os.WriteFile(c.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Ensure("192.168.1.20", noon); err == nil || !strings.Contains(err.Error(), c.Key) {
		t.Errorf("a key that cannot be read: %v", err)
	}
}

func addresses(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}
