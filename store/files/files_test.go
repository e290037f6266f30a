package files

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// names are the files in the folder of path.
func names(t *testing.T, path string) (out []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(path))
	must.Succeed(t, err)
	for _, f := range all {
		out = append(out, f.Name())
	}
	return out
}

// TestPublishWithoutLinks: not every file system has them; what is there is never replaced.
func TestPublishWithoutLinks(t *testing.T) {
	noLinks := func(string, string) error { return syscall.EPERM }
	for name, there := range map[string]string{"a new file": "", "a file that came meanwhile": "theirs"} {
		t.Run(name, func(t *testing.T) {
			temp, path := filepath.Join(t.TempDir(), "temp"), filepath.Join(t.TempDir(), "file")
			must.Succeed(t, os.WriteFile(temp, []byte("ours"), 0o600))
			if there != "" {
				must.Succeed(t, os.WriteFile(path, []byte(there), 0o600))
			}
			if err := publish(temp, path, noLinks); errors.Is(err, fs.ErrExist) != (there != "") || there == "" && err != nil {
				t.Fatal(err)
			}
			want := cmp.Or(there, "ours")
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

// TestPublishBesideAnother: who finds the file made removes what looks like a leftover of it, and that may be the temporary
// name of the very file, before its maker removes it. The file is there, and its maker is told so.
func TestPublishBesideAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	temp := path + ".new-1"
	must.Succeed(t, os.WriteFile(temp, []byte("ours"), 0o600))
	err := publish(temp, path, func(from, to string) error {
		return errors.Join(os.Link(from, to), RemoveLeftovers(filepath.Dir(path), "file.new-*"))
	})
	must.Succeed(t, err)
	if got, err := os.ReadFile(path); err != nil || string(got) != "ours" {
		t.Errorf("%q, %v; want ours", got, err)
	}
	if got := names(t, path); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the folder holds %v", got)
	}
}

func TestCreate(t *testing.T) {
	trouble := errors.New("trouble")
	for name, tc := range map[string]struct {
		there, want string
		fill, err   error
	}{
		"new":              {"", "ours", nil, nil},
		"there is one":     {"theirs", "theirs", nil, fs.ErrExist},
		"it is not filled": {"", "", trouble, trouble},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if tc.there != "" {
				must.Succeed(t, os.WriteFile(path, []byte(tc.there), 0o600))
			}
			err := Create(path, "file.new-*", func(f *os.File) error {
				_, err := f.WriteString("ours")
				return errors.Join(err, tc.fill)
			})
			if !errors.Is(err, tc.err) {
				t.Errorf("got %v, want %v", err, tc.err)
			}
			if content, _ := os.ReadFile(path); string(content) != tc.want {
				t.Errorf("it holds %q, want %q", content, tc.want)
			}
			if got := names(t, path); len(got) > 1 || len(got) == 1 && got[0] != "file" {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
}

func TestReplaceKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for name, content := range map[string]string{path: "old", path + ".new": "new"} {
		must.Succeed(t, os.WriteFile(name, []byte(content), 0o600))
	}
	must.Succeed(t, Replace(path+".new", path, path+".kept"))
	is, _ := os.ReadFile(path)
	kept, _ := os.ReadFile(path + ".kept")
	if string(is) != "new" || string(kept) != "old" || !slices.Equal(names(t, path), []string{"file", "file.kept"}) {
		t.Errorf("%q, kept %q; the folder holds %v", is, kept, names(t, path))
	}
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	err := Create(filepath.Join(dir, "file"), ".file-*", func(*os.File) error { return nil })
	if want := "open " + dir + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
