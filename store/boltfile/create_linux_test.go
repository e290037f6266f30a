package boltfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestAFreshFileIsMostlyAHole: only the pages that hold something are written, though the file has room for more.
func TestAFreshFileIsMostlyAHole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	o := options()
	o.MaxSize = 1 << 30
	must.Succeed(t, create(path, o))
	st, err := os.Stat(path)
	must.Succeed(t, err)
	if on := st.Sys().(*syscall.Stat_t).Blocks * 512; st.Size() < 4<<20 || on > 1<<20 {
		t.Errorf("%d bytes, of which %d are on the disk; want 4 MiB at least, and 1 MiB at most", st.Size(), on)
	}
}
