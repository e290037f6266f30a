package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// TestGuestOf: who may not look at the configuration is sent to sudo; who has none, or one of their own, is not.
func TestGuestOf(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "connector.toml")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(mine)
	if err != nil {
		t.Fatal(err)
	}
	owner := files.Owner(st)
	const packaged = "/etc/hermes-connector/connector.toml"
	for name, tc := range map[string]struct {
		file string
		st   os.FileInfo
		err  error
		uid  int
		want string
	}{
		"a file of another's":              {mine, st, nil, owner + 1, "sudo hermes-connector doctor --config " + mine},
		"the package's, readable":          {packaged, st, nil, owner + 1, "sudo hermes-connector doctor"},
		"the package's, its folder closed": {packaged, nil, &os.PathError{Op: "stat", Path: packaged, Err: syscall.EACCES}, 4711, "sudo hermes-connector doctor"},
		"root":                             {packaged, st, nil, 0, ""},
		"no file":                          {packaged, nil, &os.PathError{Op: "stat", Path: packaged, Err: syscall.ENOENT}, 4711, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := guestOf(tc.file, tc.st, tc.err, tc.uid); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	if got := guestOf(mine, st, nil, owner); got != "" {
		t.Errorf("a file of one's own: %q", got)
	}
}
