package cli

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hermes-connector/hermes-connector"

// mayImport is the direction of imports: each package of this module, and what it may import of
// the others. A name may end in "/*", on both sides; an exact name wins. The root is ".".
var mayImport = map[string]string{
	"relay":                  "",
	"relay/wire":             "relay",
	"relay/gate":             "relay", // pure: no store, no platforms
	"relay/sessionkey":       "relay",
	"relay/bus":              "relay",
	"platforms":              "relay",
	"platforms/pace":         "relay platforms",
	"platforms/backoff":      "",
	"platforms/markdown":     "",
	"files":                  "",      // the lowest: whoever makes a file
	"store/boltfile":         "files", // knows no record, so no id either
	"store":                  "relay files store/boltfile",
	"vault":                  "relay files",
	"platforms/platformtest": "relay platforms",
	"platforms/*":            "relay platforms platforms/pace platforms/backoff platforms/markdown", // never the store, the hub or one another
	"relay/link":             "relay store",
	"relay/token":            "relay store",
	"relay/delivery":         "relay store",
	"relay/session":          "relay relay/wire",
	"relay/hub": "relay relay/wire relay/gate relay/bus relay/delivery relay/link relay/session relay/sessionkey" +
		" platforms store vault",
	"relay/limit":    "",
	"relay/guard":    "",
	"relay/wake":     "relay relay/guard store",
	"relay/identity": "relay store",
	"relay/manage":   "relay relay/token relay/link relay/gate relay/bus relay/identity platforms store",
	"relay/api":      "relay relay/token relay/identity relay/limit relay/manage store",
	"relay/metrics":  "relay relay/limit relay/manage platforms store",
	"store/backup":   "files store",
	"relay/server":   "relay relay/* platforms store",
	"cli/config":     "relay platforms",
	"cli":            "relay relay/* platforms platforms/* store store/* vault cli/*",
	"cli/*":          "relay relay/* platforms platforms/* store store/* vault cli/*",
	".":              "cli",
}

func TestImportDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[short(words[0])] = words[1:]
	}
	if len(imports) < 2 {
		t.Fatalf("go list shows %d packages", len(imports))
	}
	for _, stray := range strays(imports) {
		t.Error(stray)
	}
}

func TestStrays(t *testing.T) {
	for name, tc := range map[string]struct {
		pkg, imports string
		want         string // empty: allowed
	}{
		"the standard library":     {"relay", "context net/http", ""},
		"another module":           {"store", "go.etcd.io/bbolt " + module + "-else/store", ""},
		"what the table says":      {"relay/gate", module + "/relay", ""},
		"a pattern":                {"platforms/matrix", module + "/platforms/pace", ""},
		"a pattern on the right":   {"cli", module + "/platforms/matrix", ""},
		"a platform and the store": {"platforms/loopback", module + "/store", "platforms/loopback imports store, which mayImport does not allow"},
		"the exact name wins":      {"platforms/pace", module + "/platforms/backoff", "platforms/pace imports platforms/backoff, which mayImport does not allow"},
		"the root":                 {".", module + "/relay", ". imports relay, which mayImport does not allow"},
		"nobody imports the root":  {"cli", module, "cli imports ., which mayImport does not allow"},
		"a package nobody placed":  {"relay/new", "", "relay/new stands nowhere in mayImport"},
		"a pattern goes one deep":  {"platforms/matrix/sync", "", "platforms/matrix/sync stands nowhere in mayImport"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(strays(map[string][]string{tc.pkg: strings.Fields(tc.imports)}), "; ")
			if got != tc.want {
				t.Errorf("strays = %q, want %q", got, tc.want)
			}
		})
	}
}

// strays are the sentences about what mayImport does not allow, sorted.
func strays(imports map[string][]string) []string {
	var out []string
	for pkg, imported := range imports {
		allowed, ok := mayImport[pkg]
		if !ok {
			allowed, ok = mayImport[path.Dir(pkg)+"/*"]
		}
		if !ok {
			out = append(out, pkg+" stands nowhere in mayImport")
			continue
		}
		list := strings.Fields(allowed)
		for _, p := range imported {
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			if p = short(p); !slices.Contains(list, p) && !slices.Contains(list, path.Dir(p)+"/*") {
				out = append(out, fmt.Sprintf("%s imports %s, which mayImport does not allow", pkg, p))
			}
		}
	}
	slices.Sort(out)
	return out
}

// short is an import path of this module as the table spells it.
func short(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}
