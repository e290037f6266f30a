package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestPrivate(t *testing.T) {
	const nobody = 65534
	me := os.Geteuid()
	for name, tc := range map[string]struct {
		folder, file  os.FileMode
		owner, holder int // of the file and its folder
		want          bool
	}{
		"its owner's":                             {0o755, 0o600, me, me, true},
		"readable by its owner":                   {0o755, 0o400, me, me, true},
		"somebody's own":                          {0o755, 0o600, nobody, 0, true},
		"readable by all":                         {0o755, 0o444, me, me, false},
		"readable by others":                      {0o755, 0o604, me, me, false},
		"writable by others":                      {0o700, 0o602, me, me, false},
		"writable by the group":                   {0o700, 0o620, me, me, false},
		"readable by all, in a closed folder":     {0o700, 0o444, me, me, true},
		"the same, of mode 0644":                  {0o700, 0o644, me, me, true},
		"its folder can be searched":              {0o711, 0o444, me, me, false},
		"its folder is open to the group":         {0o750, 0o444, nobody, nobody, false},
		"root's, readable by a group":             {0o755, 0o440, 0, 0, true},
		"root's, writable by a group":             {0o755, 0o460, 0, 0, false},
		"another's, readable by a group":          {0o755, 0o440, nobody, 0, false},
		"root's folder is open to a group":        {0o750, 0o444, 0, 0, true},
		"root's folder can be changed by a group": {0o770, 0o444, 0, 0, false},
		"another's folder":                        {0o700, 0o444, 0, nobody, false},
	} {
		t.Run(name, func(t *testing.T) {
			if (tc.owner != me || tc.holder != me) && me != 0 {
				t.Skip("only root can give files away")
			}
			dir := filepath.Join(t.TempDir(), "folder")
			path := filepath.Join(dir, "token")
			must.Succeed(t, os.Mkdir(dir, 0o700))
			must.Succeed(t, os.WriteFile(path, nil, 0o600))
			own(t, path, tc.owner, tc.file)
			own(t, dir, tc.holder, tc.folder)
			st, err := os.Stat(path)
			must.Succeed(t, err)
			err = Private(path, st)
			if (err == nil) != tc.want || err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("Private() = %v, want none: %t, and not the path", err, tc.want)
			}
		})
	}
}

// TestPrivateBehindALink: what counts is the folder that the file lies in.
func TestPrivateBehindALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "token"), filepath.Join(dir, "closed", "link")
	must.Succeed(t, os.Mkdir(filepath.Dir(link), 0o700))
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	own(t, file, os.Geteuid(), 0o644)
	must.Succeed(t, os.Symlink(file, link))
	st, err := os.Stat(link)
	if err != nil || Private(link, st) == nil {
		t.Errorf("a link in a closed folder to a file in an open one: %v, taken", err)
	}
}

func own(t *testing.T, path string, uid int, mode os.FileMode) {
	t.Helper()
	must.Succeed(t, os.Chmod(path, mode))
	if uid != os.Geteuid() {
		must.Succeed(t, os.Chown(path, uid, uid))
	}
}
