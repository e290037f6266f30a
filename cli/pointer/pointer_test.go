package pointer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFolders(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		uid  int
		want []string
	}{
		"a service":                {map[string]string{"RUNTIME_DIRECTORY": "/run/hermes-connector:/run/x", "XDG_RUNTIME_DIR": "/run/user/7"}, 7, []string{"/run/hermes-connector"}},
		"a user":                   {map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, 7, []string{"/run/user/7/hermes-connector", "/run/hermes-connector"}},
		"a user without a session": {nil, 7, []string{"", "/run/hermes-connector"}},
		"root":                     {nil, 0, []string{"/run/hermes-connector"}},
		"root in a session":        {map[string]string{"XDG_RUNTIME_DIR": "/run/user/0"}, 0, []string{"/run/user/0/hermes-connector", "/run/hermes-connector"}},
		"a relative folder":        {map[string]string{"RUNTIME_DIRECTORY": "run", "XDG_RUNTIME_DIR": "x"}, 0, []string{"/run/hermes-connector"}},
	} {
		if got := Folders(func(name string) string { return tc.env[name] }, tc.uid); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestFolderOfAnother: what su leaves in the environment is another user's.
func TestFolderOfAnother(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }
	for uid, want := range map[int][]string{
		os.Getuid():     {filepath.Join(dir, "hermes-connector"), "/run/hermes-connector"},
		os.Getuid() + 7: {"", "/run/hermes-connector"},
	} {
		if got := Folders(env, uid); !slices.Equal(got, want) {
			t.Errorf("user %d: %q, want %q", uid, got, want)
		}
	}
}

// TestAPointerIsFoundUntilItGoes: in whichever folder it is, once.
func TestAPointerIsFoundUntilItGoes(t *testing.T) {
	dir := t.TempDir()
	own, system := filepath.Join(dir, "own", "hermes-connector"), filepath.Join(dir, "system")
	home := Server{DataDir: "/srv/home", Socket: "/srv/home/admin.sock", Config: "/etc/c.toml", PID: 7}
	kids := Server{DataDir: "/srv/kids", Socket: "/srv/kids/admin.sock", PID: 8}
	remove, err := Leave([]string{own, system}, home)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Server{kids, kids, home} { // as after a kill; and home once more, elsewhere
		if _, err := Leave([]string{system}, s); err != nil {
			t.Fatal(err)
		}
	}
	all, hidden := All([]string{own, system})
	if want := []Server{home, kids}; hidden || !slices.Equal(all, want) {
		t.Errorf("All = %v, hidden %t; want %v", all, hidden, want)
	}
	names, err := filepath.Glob(filepath.Join(own, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("in the folder: %q, %v", names, err)
	}
	if st, err := os.Stat(names[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if err := remove(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if all, _ := All([]string{own}); len(all) != 0 {
		t.Errorf("after it went: %v", all)
	}
}

// TestWhatIsNoPointer: what others could have written, links, and what makes no sense.
func TestWhatIsNoPointer(t *testing.T) {
	dir := t.TempDir()
	good := `{"dataDir":"/srv/home","socket":"/srv/home/admin.sock","pid":7}`
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"lax":      {good, 0o644},
		"garbage":  {"{", 0o600},
		"relative": {`{"dataDir":"home","socket":"/s"}`, 0o600},
		"large":    {good + strings.Repeat(" ", maxPointer), 0o600},
		"whole":    {good, 0o600},
	} {
		path := filepath.Join(dir, name+ending)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "whole"+ending), filepath.Join(dir, "a-link"+ending)); err != nil {
		t.Fatal(err)
	}
	all, hidden := All([]string{"", dir, filepath.Join(dir, "missing")})
	if len(all) != 1 || all[0].DataDir != "/srv/home" || hidden {
		t.Errorf("All = %v, hidden %t; want the whole one", all, hidden)
	}
}

// TestNoPlaceForAPointer: a server without one starts all the same.
func TestNoPlaceForAPointer(t *testing.T) {
	remove, err := Leave([]string{"", systemFolder}, Server{DataDir: "/srv/home"})
	if err != nil || remove() != nil {
		t.Errorf("Leave: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Leave([]string{file}, Server{DataDir: "/srv/home"}); err == nil {
		t.Error("a pointer was left below a file")
	}
}
