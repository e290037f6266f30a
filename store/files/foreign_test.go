package files

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestWhoIsTrusted: this user and root, and of groups root's and this user's own.
func TestWhoIsTrusted(t *testing.T) {
	const me, bob = 4001, 4002
	for name, tc := range map[string]struct {
		mode             fs.FileMode
		owner, group, me int
		want             string
	}{
		"mine":                            {0o644, me, me, me, ""},
		"root's":                          {0o644, 0, 0, me, ""},
		"another's":                       {0o644, bob, bob, me, "belongs to the user 4002"},
		"another's, for root":             {0o600, bob, bob, 0, "belongs to the user 4002"},
		"open to my own group":            {0o775, me, me, me, ""},
		"open to root's group":            {0o775, 0, 0, me, ""},
		"open to a group":                 {0o775, me, 100, me, "can be written by others (mode 0775)"},
		"root's, open to a group":         {0o775, 0, 50, 0, "can be written by others (mode 0775)"},
		"open to everybody":               {0o777, me, me, me, "can be written by others (mode 0777)"},
		"open to everybody, for root":     {0o602, 0, 0, 0, "can be written by others (mode 0602)"},
		"as /tmp":                         {0o777 | fs.ModeDir | fs.ModeSticky, 0, 0, me, "can be written by others (mode 0777)"},
		"of a system that tells no owner": {0o644, -1, -1, me, ""},
	} {
		if got := foreign(tc.mode, tc.owner, tc.group, tc.me); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if u, err := user.Lookup("nobody"); err == nil && u.Uid == "65534" {
		if got := other(65534, 0); got != "nobody" {
			t.Errorf("user 65534 is called %q", got)
		}
	}
}

func TestForeign(t *testing.T) {
	const nobody = 65534
	me := os.Geteuid()
	for name, tc := range map[string]struct {
		folder, file  os.FileMode
		owner, holder int // of the file and its folder
		link          int // who made the link to it, which lies in a folder of this user's; negative: there is none
		want          string
	}{
		"mine":                           {0o755, 0o644, me, me, -1, ""},
		"another's":                      {0o755, 0o644, nobody, me, -1, "it belongs to the user "},
		"in another's folder":            {0o755, 0o644, me, nobody, -1, "the folder that it lies in belongs to the user "},
		"in a folder others write":       {0o777, 0o644, me, me, -1, "the folder that it lies in can be written by others"},
		"in a sticky folder":             {0o777 | os.ModeSticky, 0o644, me, me, -1, "the folder that it lies in can be written by others"},
		"that others write":              {0o755, 0o646, me, me, -1, "it can be written by others"},
		"behind my link":                 {0o755, 0o644, me, me, me, ""},
		"behind another's link":          {0o755, 0o644, me, me, nobody, "the link belongs to the user "},
		"another's, behind my link":      {0o755, 0o644, nobody, me, me, "it belongs to the user "},
		"where others write, and linked": {0o777, 0o644, me, me, me, "the folder that it lies in can be written by others"},
	} {
		t.Run(name, func(t *testing.T) {
			if me != 0 && (tc.owner != me || tc.holder != me || tc.link > 0 && tc.link != me) {
				t.Skip("only root can give files away")
			}
			top := t.TempDir()
			dir := filepath.Join(top, "folder")
			path := filepath.Join(dir, "connector.toml")
			must.Succeed(t, os.Mkdir(dir, 0o700))
			must.Succeed(t, os.WriteFile(path, nil, 0o600))
			own(t, path, tc.owner, tc.file)
			own(t, dir, tc.holder, tc.folder)
			if tc.link >= 0 {
				link := filepath.Join(top, "link")
				must.Succeed(t, os.Symlink(path, link))
				must.Succeed(t, os.Lchown(link, tc.link, tc.link))
				path = link
			}
			if err := Foreign(path); (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if got := Anothers(path); (got != "") != (tc.owner != me) {
				t.Errorf("it is %q's", got)
			}
		})
	}
}
