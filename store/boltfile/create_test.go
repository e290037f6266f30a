package boltfile

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestANewFileTakesLittleMemory: what a start takes at once, the process may keep: the heap is let grow to twice of it.
func TestANewFileTakesLittleMemory(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	content := bytes.Repeat([]byte("a page and "), 4<<20/11)
	must.Succeed(t, os.WriteFile(from, content, 0o600))
	to, err := os.Create(from + ".to")
	must.Succeed(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = inPages(to, from)
	runtime.ReadMemStats(&after)
	if err != nil || to.Close() != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(from + ".to"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the copy has %d bytes, want %d: %v", len(got), len(content), err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("the copy of %d bytes took %d of memory", len(content), took)
	}
}
