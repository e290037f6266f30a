package cli

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryCounterIsKnown compares the list with what the source counts.
func TestEveryCounterIsKnown(t *testing.T) {
	root := os.DirFS("..")
	counted := regexp.MustCompile(`\b[Cc]ount[A-Z]\w*\s*= "([a-z_]+)"|counters\.add\("([a-z_]+)",|\.later\("([a-z_]+)",`)
	reason := regexp.MustCompile(`\w+ +Reason = "([a-z_]+)"`)
	var found []string
	read := func(name string, re *regexp.Regexp, prefix string) {
		src, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range re.FindAllStringSubmatch(string(src), -1) {
			found = append(found, prefix+strings.Join(m[1:], ""))
		}
	}
	read("relay/gate/reason.go", reason, "event_")
	for _, dir := range []string{"relay", "store", "platforms"} {
		err := fs.WalkDir(root, dir, func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				read(name, counted, "")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(counterNames(), slices.Compact(found)); diff != "" {
		t.Errorf("the list (-) and the source (+):\n%s", diff)
	}
}
