package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMergeEnv(t *testing.T) {
	lines := []string{"A=1", "# about b", "B='2'", "C=3"}
	for name, tc := range map[string]struct{ file, want string }{
		"no file":            {"", "A=1\n# about b\nB='2'\nC=3\n"},
		"no final newline":   {"X=9", "X=9\nA=1\n# about b\nB='2'\nC=3\n"},
		"in their places":    {"C=0 # old\nX=9\nexport A = 0\n", "C=3\nX=9\nA=1\n# about b\nB='2'\n"},
		"given twice":        {"A=0\nX=9\nA=2\n", "A=1\nX=9\n# about b\nB='2'\nC=3\n"},
		"all there":          {"A=0\n\n# mine\nB=0\nC=0\n\n\n", "A=1\n\n# mine\nB='2'\nC=3\n"},
		"a name that begins": {"AB=0\n#A=5\n", "AB=0\n#A=5\nA=1\n# about b\nB='2'\nC=3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mergeEnv(tc.file, lines); got != tc.want {
				t.Errorf("got\n%s, want\n%s", got, tc.want)
			}
			if got := mergeEnv(tc.want, lines); got != tc.want {
				t.Errorf("a second time gives\n%s", got)
			}
		})
	}
}

// TestWriteEnv: only its owner reads the file afterwards, and a link stays one.
func TestWriteEnv(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real", ".env"), filepath.Join(dir, ".env")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("X=1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := writeEnv(link, []string{"A=1"}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(file)
	text, err2 := os.ReadFile(file)
	to, err3 := os.Readlink(link)
	if err != nil || err2 != nil || err3 != nil || st.Mode().Perm() != 0o600 || string(text) != "X=1\nA=1\n" || to != file {
		t.Errorf("%v %v %v: %v %q, the link is to %q", err, err2, err3, st.Mode(), text, to)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "real", "*new*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if err := writeEnv(dir, []string{"A=1"}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}
