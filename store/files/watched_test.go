package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestNobodyWaitsForAnothersLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.Succeed(t, os.WriteFile(path, []byte("one"), 0o600))
	w, err := Watch([]string{path}, time.Now, func(texts [][]byte) (string, error) { return string(texts[0]), nil },
		func(err error) { t.Error(err) })
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(path, []byte("another"), 0o600))
	w.mu.Lock() // somebody is looking
	if got := w.Get(1); got != "one" {
		t.Errorf("while another looks: %q, want what is known", got)
	}
	w.mu.Unlock()
	if got := w.Get(0); got != "another" {
		t.Errorf("Get = %q, want what the file says now", got)
	}
}
