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

// kit is what all networks share.
const (
	kit   = "platforms/status platforms/httpcall platforms/sender platforms/ratelimit platforms/backoff platforms/markdown"
	hooks = " platforms/inbox platforms/markdown/plain" // of those that are called over HTTP
)

// mayImport is the direction of imports: each package of this module, and what it may import of
// the others. A name may end in "/*", on both sides; an exact name wins. The root is ".".
var mayImport = map[string]string{
	"relay":                      "",
	"relay/wire":                 "relay",
	"relay/wire/wiretest":        "relay/wire", // an end of the socket, for tests
	"relay/gate":                 "relay",      // pure: no store, no platforms
	"relay/sniff":                "relay",      // pure, both: bytes and names
	"relay/filename":             "relay",
	"relay/render":               "relay relay/filename",
	"relay/count":                "relay/gate",
	"relay/sessionkey":           "relay",
	"relay/bus":                  "relay",
	"relay/finding":              "", // pure: words
	"platforms":                  "relay relay/finding",
	"platforms/ratelimit":        "relay platforms",
	"platforms/status":           "relay platforms",
	"platforms/backoff":          "",
	"platforms/recent":           "",
	"platforms/httpcall":         "relay relay/finding platforms",
	"platforms/sender":           "relay platforms platforms/httpcall platforms/ratelimit platforms/backoff", // calls within a limiter
	"platforms/markdown":         "",
	"store/files":                "",                                 // the lowest: whoever makes a file
	"store/boltfile":             "store/files",                      // knows no record, so no id either
	"store/boltfile/logtest":     "store/boltfile",                   // a log in memory, for tests
	"store/cluster":              "relay store/boltfile store/files", // one log on several machines; knows no record
	"store/table":                "store/boltfile",                   // records, whatever they say
	"platforms/socket":           "",
	"store/table/tabletest":      "store/boltfile store/table",
	"store/dedupe":               "relay store/boltfile store/table",
	"store/audit":                "relay store/boltfile store/table",
	"store/rekey":                "store/boltfile store/table",
	"store/capability":           "relay store/table store/rekey",
	"store/authors":              "relay store/table",
	"store/prompt":               "relay store/boltfile store/table",
	"store/history":              "relay store/boltfile store/table",
	"store/callers":              "relay store/table store/rekey",
	"store/media":                "relay store/table",
	"store/outbox":               "relay store/boltfile store/table store/media", // an answer holds its file
	"store":                      "relay store/boltfile store/table store/dedupe store/audit store/capability store/prompt store/authors store/callers store/media store/outbox store/history store/rekey",
	"store/storetest":            "store", // a database, for tests
	"vault":                      "relay store/files",
	"platforms/markdown/plain":   "platforms/markdown", // the dialect of networks that show plain text
	"platforms/inbox":            "relay platforms platforms/backoff platforms/httpcall platforms/status",
	"platforms/platformtest":     "relay platforms platforms/backoff platforms/markdown testdata/long", // to pause where nothing should happen
	"platforms/*":                "relay platforms " + kit + hooks,                                     // never the store, the hub or one another
	"platforms/slack":            "relay relay/finding platforms " + kit + " platforms/recent platforms/slack/*",
	"platforms/slack/dialect":    "platforms/markdown",
	"platforms/slack/*":          "relay platforms platforms/httpcall platforms/ratelimit platforms/backoff platforms/status platforms/socket",
	"platforms/discord":          "relay platforms " + kit + " platforms/inbox platforms/discord/*",
	"platforms/discord/dialect":  "platforms/markdown",
	"platforms/telegram":         "relay relay/finding platforms " + kit + " platforms/inbox platforms/telegram/*",
	"platforms/telegram/dialect": "platforms/markdown",
	"platforms/matrix":           "relay relay/finding platforms " + kit + " platforms/recent platforms/matrix/*",
	"platforms/matrix/dialect":   "platforms/markdown",
	"platforms/signal":           "relay relay/finding platforms " + kit + " platforms/recent",
	"platforms/whatsapp":         "relay relay/finding platforms platforms/status platforms/httpcall platforms/sender platforms/ratelimit platforms/recent platforms/markdown platforms/inbox",
	"platforms/discord/*":        "relay relay/finding platforms platforms/httpcall platforms/ratelimit platforms/backoff platforms/status platforms/socket platforms/discord/*", // parts of one network
	"relay/link":                 "relay relay/gate store store/audit store/callers",
	"relay/login":                "relay store store/audit",
	"relay/token":                "relay store store/audit store/rekey",
	"relay/delivery":             "relay store",
	"relay/session":              "relay relay/wire relay/count",
	"relay/visibility":           "relay platforms",
	"relay/background":           "relay relay/count platforms",
	"relay/facts":                "relay relay/gate relay/visibility platforms store",
	"relay/outbound":             "relay relay/background relay/count relay/delivery relay/facts relay/fair relay/gate relay/session relay/sessionkey relay/wire platforms store store/capability store/history store/outbox store/prompt",
	"relay/inbound":              "relay relay/count relay/facts relay/gate relay/link relay/sessionkey relay/visibility relay/wire platforms store store/capability store/history store/prompt",
	"relay/hub": "relay relay/background relay/bus relay/count relay/delivery relay/facts relay/gate relay/inbound relay/link relay/outbound relay/render relay/session relay/wire" +
		" platforms store",
	"relay/fair":           "relay", // pure: numbers and turns
	"relay/media":          "relay relay/count relay/fair relay/filename platforms store store/files store/media",
	"relay/server/limits":  "",
	"relay/server/routes":  "relay relay/server/limits",
	"relay/server/door":    "relay/server/limits relay/server/routes",
	"relay/server/through": "relay/server/limits relay/server/routes",
	"relay/guard":          "",
	"relay/transfer":       "relay relay/count relay/server/routes relay/fair relay/filename relay/guard relay/server/limits relay/media relay/sniff relay/token",
	"relay/webhooks":       "relay relay/count relay/server/routes relay/server/limits platforms", // finds bots by their paths; knows no network
	"relay/wake":           "relay relay/guard relay/count relay/fair store",
	"relay/notify":         "relay relay/facts relay/finding relay/guard platforms store",
	"relay/identity":       "relay store store/files", // keys in a file
	"relay/manage":         "relay relay/finding relay/token relay/link relay/login relay/gate relay/bus relay/identity relay/media relay/notify relay/outbound relay/webhooks relay/wake platforms store store/audit store/callers store/media store/outbox store/history",
	"relay/agents":         "relay relay/count relay/facts relay/server/limits relay/server/routes relay/wake platforms platforms/inbox platforms/status store store/callers", // a bot, and who talks through it
	"relay/ops":            "relay/manage store/audit",                                                                                                                        // a table
	"relay/api":            "relay relay/token relay/identity relay/server/routes relay/server/limits relay/manage relay/ops store store/audit",
	"relay/metrics":        "relay/count relay/server/door relay/server/limits relay/manage platforms store",
	"store/restore":        "relay store store/files store/boltfile store/table store/dedupe store/authors", // one database of others
	"store/backup":         "store store/files relay/count",
	"relay/server":         "platforms relay/count relay/server/door relay/server/routes relay/delivery relay/hub relay/server/limits relay/session relay/token store/files", // certificates
	"cli/config":           "relay relay/identity relay/guard relay/notify platforms store/backup store/files vault cli/netaddr",
	"cli":                  "relay relay/* relay/server/* platforms platforms/* store store/* vault cli/* cli/mcp/spool cli/web/*",
	"cli/words":            "platforms relay relay/finding relay/gate relay/manage relay/ops relay/outbound relay/token store store/outbox store/history",
	"cli/admin":            "relay/manage relay/ops store store/audit store/backup store/files",
	"cli/client":           "relay relay/token relay/wire platforms/backoff", // a gateway's end of the wire
	"cli/echo":             "relay relay/wire cli/client",
	"cli/handler":          "cli/client cli/config platforms/backoff relay relay/sessionkey relay/wire store/files",    // scripts behind chat commands
	"cli/mcp":              "cli/client cli/mcp/spool platforms/backoff relay relay/sessionkey relay/sniff relay/wire", // a gateway whose agent is an MCP client
	"cli/mcp/spool":        "relay store/files",                                                                        // knows neither the wire nor MCP
	"cli/qr":               "",
	"cli/web/page":         "relay relay/finding relay/login store/audit",
	"cli/web/status":       "cli/qr cli/words relay relay/count relay/finding relay/gate relay/manage relay/ops platforms store/audit store/cluster cli/web/page",
	"cli/web":              "relay relay/server/door relay/server/routes relay/server/limits relay/login store/files cli/web/page cli/web/* cli/netaddr",
	"cli/service":          "", // the unit, and where it is
	".":                    "cli",
	"cli/web/chat":         "cli/words cli/web/page platforms/local platforms/markdown relay relay/finding relay/manage store/audit",
	"cli/web/browsertest":  "", // tests alone
	"cli/doctor":           "relay relay/finding relay/manage relay/ops platforms store store/backup store/boltfile store/cluster vault cli/admin cli/config cli/mcp/spool cli/netaddr",
	"cli/netaddr":          "",
	"cli/terminal":         "relay",
	"cli/proxy":            "", // what nginx and its like read
	"cli/setup":            "cli/netaddr cli/proxy cli/qr cli/service cli/terminal relay relay/finding relay/manage relay/ops platforms store/files cli/admin cli/config",
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
	for _, grant := range unused(imports) {
		t.Error(grant)
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
		"a pattern":                {"platforms/mattermost", module + "/platforms/ratelimit", ""},
		"a pattern on the right":   {"cli", module + "/platforms/mattermost", ""},
		"a platform and the store": {"platforms/local", module + "/store", "platforms/local imports store, which mayImport does not allow"},
		"the exact name wins":      {"platforms/ratelimit", module + "/platforms/backoff", "platforms/ratelimit imports platforms/backoff, which mayImport does not allow"},
		"the root":                 {".", module + "/relay", ". imports relay, which mayImport does not allow"},
		"nobody imports the root":  {"cli", module, "cli imports ., which mayImport does not allow"},
		"a package nobody placed":  {"relay/new", "", "relay/new stands nowhere in mayImport"},
		"a pattern goes one deep":  {"platforms/mattermost/sync", "", "platforms/mattermost/sync stands nowhere in mayImport"},
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

// unused are the sentences about what mayImport allows and nobody imports, sorted.
func unused(imports map[string][]string) []string {
	used := make(map[string]bool) // "row: grant"
	for pkg, imported := range imports {
		row := pkg
		if _, ok := mayImport[row]; !ok {
			row = path.Dir(pkg) + "/*"
		}
		for _, p := range imported {
			used[row+": "+short(p)], used[row+": "+path.Dir(short(p))+"/*"] = true, true
		}
	}
	var out []string
	for row, grants := range mayImport {
		for _, g := range strings.Fields(grants) {
			if !used[row+": "+g] {
				out = append(out, row+" may import "+g+", and does not")
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestUnused(t *testing.T) {
	imports := map[string][]string{"relay/count": {module + "/relay/gate"}, "platforms/mattermost": {module + "/platforms/ratelimit"}}
	got := unused(imports)
	for sentence, want := range map[string]bool{
		"relay/gate may import relay, and does not":                true, // nobody has that package here
		"relay/count may import relay/gate, and does not":          false,
		"platforms/* may import platforms/ratelimit, and does not": false, // one of the pattern's packages does
		"platforms/* may import platforms, and does not":           true,
	} {
		if slices.Contains(got, sentence) != want {
			t.Errorf("%q said: %t, want %t", sentence, !want, want)
		}
	}
}

// short is an import path of this module as the table spells it.
func short(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}
