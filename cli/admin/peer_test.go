package admin

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhoAsks: root and the server's own user say who ran the command; nobody else passes for another. (invariant 4)
func TestWhoAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		uid   int
		known bool
		says  string
		want  string
	}{
		"root, by sudo":                        {0, true, "carol", "carol"},
		"the server's user":                    {os.Geteuid(), true, "carol", "carol"},
		"a system that does not say":           {0, false, "carol", "carol"},
		"another user":                         {1, true, "root", "daemon"},
		"one whom the system does not know":    {4_000_000, true, "root", "root (by their own word)"},
		"one whom the namespace does not know": {nobody, true, "carol", "carol (by their own word)"},
		"one who says too much":                {nobody, true, strings.Repeat("x", 99), strings.Repeat("x", 64) + " (by their own word)"},
	} {
		if got := nameOf(tc.uid, tc.known, tc.says); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestASharedSocket: the group of a folder may use it, if the folder lets that group in and nobody else. (invariant 1)
func TestASharedSocket(t *testing.T) {
	for folder, want := range map[fs.FileMode]fs.FileMode{0o750: 0o660, 0o710: 0o660, 0o700: 0o600, 0o755: 0o600, 0o740: 0o600, 0o751: 0o600} {
		dir := t.TempDir()
		if err := os.Chmod(dir, folder); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "admin.sock")
		l, err := ListenShared(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("in a folder of mode %04o: %v, %v, want %04o", folder, st.Mode(), err, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAnothersSocket: one that root gave a place, and whose group this user is in, is a service's; others are not taken.
func TestAnothersSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	const service, another = 65534, 65533
	for name, tc := range map[string]struct {
		mode        fs.FileMode
		group       int
		folderOwner int
		above       fs.FileMode
		aboveOwner  int
		want        bool
	}{
		"a service's":                     {0o660, os.Getegid(), service, 0o755, 0, true},
		"of another group":                {0o660, another, service, 0o755, 0, false},
		"that its group may not use":      {0o600, os.Getegid(), service, 0o755, 0, false},
		"that everybody may use":          {0o666, os.Getegid(), service, 0o755, 0, false},
		"in somebody else's folder":       {0o660, os.Getegid(), another, 0o755, 0, false},
		"where anybody can make a folder": {0o660, os.Getegid(), service, 0o777, 0, false},
		"where another user gives places": {0o660, os.Getegid(), service, 0o755, another, false},
	} {
		t.Run(name, func(t *testing.T) {
			above := filepath.Join(root, strings.ReplaceAll(name, " ", ""))
			folder := filepath.Join(above, "f")
			if err := os.MkdirAll(folder, 0o750); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "s")
			l, err := Listen(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			for _, err := range []error{
				os.Chmod(path, tc.mode), os.Chown(path, service, tc.group), os.Chown(folder, tc.folderOwner, os.Getegid()),
				os.Chmod(above, tc.above), os.Chown(above, tc.aboveOwner, 0),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := ofMyGroup(path); got != tc.want {
				t.Errorf("taken: %t, want %t", got, tc.want)
			}
		})
	}
}
