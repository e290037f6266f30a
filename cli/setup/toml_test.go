package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

func TestSet(t *testing.T) {
	listen := setting{"", "listen", `"127.0.0.1:1"`}
	cert := setting{"tls", "cert_file", `"c.pem"`}
	for name, tc := range map[string]struct {
		from string
		set  setting
		want string // empty: refused
	}{
		"an empty file":          {"", listen, "listen = \"127.0.0.1:1\"\n"},
		"where it stands":        {"# a\nlisten   =  \"x:1\" # mine\n[tls]\n", listen, "# a\nlisten   =  \"127.0.0.1:1\" # mine\n[tls]\n"},
		"a value in quotes":      {"listen = 'a # b' # c", listen, "listen = \"127.0.0.1:1\" # c\n"},
		"below other keys":       {"data_dir = \"d\" # x\n\n# the bot\n[[bots]]\nplatform = \"telegram\"\n", listen, "data_dir = \"d\" # x\nlisten = \"127.0.0.1:1\"\n\n# the bot\n[[bots]]\nplatform = \"telegram\"\n"},
		"above the first header": {"[[bots]]\nplatform = \"telegram\"", listen, "listen = \"127.0.0.1:1\"\n\n[[bots]]\nplatform = \"telegram\"\n"},
		"below the file's title": {"# my file\n[wake]\n", listen, "# my file\n\nlisten = \"127.0.0.1:1\"\n\n[wake]\n"},
		"a key of a section with that name": {
			"[metrics]\nlisten = \"x:1\"\n", listen, "listen = \"127.0.0.1:1\"\n\n[metrics]\nlisten = \"x:1\"\n",
		},
		"behind a list of several lines":  {"trusted_proxies = [\n  \"::1\",\n]\n", listen, ""},
		"in place of several lines":       {"trusted_proxies = [\n  \"::1\",\n]\n", setting{"", "trusted_proxies", "[]"}, ""},
		"a list on one line":              {"trusted_proxies = [\"::1\", \"#\"] # ok", setting{"", "trusted_proxies", "[]"}, "trusted_proxies = [] # ok\n"},
		"a section that is there":         {"[tls] # x\nkey_file = \"k\"\n", cert, "[tls] # x\ncert_file = \"c.pem\"\nkey_file = \"k\"\n"},
		"a section that is not there":     {"[wake]\n", cert, "[wake]\n\n[tls]\ncert_file = \"c.pem\"\n"},
		"a section in one line":           {"tls = { cert_file = \"x\", key_file = \"k\" }\n", cert, ""},
		"a dotted key is changed by hand": {"tls.cert_file = \"x\"\n", cert, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDocument([]byte(tc.from))
			err := d.set(tc.set)
			if got := string(d.bytes()); tc.want != "" && (got != tc.want || err != nil) {
				t.Errorf("set gives %v and\n%s, want\n%s", err, got, tc.want)
			}
			if tc.want == "" && (err == nil || strings.TrimSpace(string(d.bytes())) != strings.TrimSpace(tc.from)) {
				t.Errorf("set gives %v and\n%s, want a refusal", err, d.bytes())
			}
		})
	}
}

func TestAddBot(t *testing.T) {
	d := newDocument([]byte("# mine\n[[bots]]\nplatform = \"discord\" # first\n"))
	if err := d.addBot(setting{key: "platform", value: text("telegram")}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.bytes()), "# mine\n[[bots]]\nplatform = \"discord\" # first\n\n[[bots]]\nplatform = \"telegram\"\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if err := newDocument([]byte("bots = [{ platform = \"discord\" }]\n")).addBot(); err == nil {
		t.Error("a table was added to a list")
	}
}

func TestDifference(t *testing.T) {
	from := strings.Split("a b c d e f g", " ")
	got := difference(from, strings.Split("a b c x e f g h", " "))
	want := []string{"  …", "  b", "  c", "- d", "+ x", "  e", "  f", "  g", "+ h"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := difference(nil, []string{"a"}); !slices.Equal(got, []string{"+ a"}) {
		t.Errorf("a new file: %q", got)
	}
}

// FuzzText: what is written as a TOML string is read as what it was.
func FuzzText(f *testing.F) {
	f.Add(`C:\a "b"` + "\n\x7f ü")
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.ContainsRune(s, '�') && len(config.Outline([]byte("a = "+text(s)))) != 1 {
			t.Errorf("%q is no TOML: %s", s, text(s))
		}
	})
}

// FuzzSet: whatever stands in a file, a key that was set is there, and no other line is lost.
func FuzzSet(f *testing.F) {
	f.Add("a = [\n1,\n]\n[tls]\n# x\n[[bots]]\nb = \"\"\"\nlisten = 1\n\"\"\"\n")
	f.Add("listen = 'x' # y\nx = { a = \"}\" }")
	f.Fuzz(func(t *testing.T, s string) {
		d := newDocument([]byte(s))
		before := config.Outline(d.bytes())
		if before == nil || d.set(setting{"", "listen", `"h:1"`}) != nil {
			return
		}
		after := config.Outline(d.bytes())
		if len(after) < len(before) || !slices.ContainsFunc(after, func(l config.Line) bool { return l.Path == "listen" && !l.Header }) {
			t.Errorf("%q became %q", s, d.bytes())
		}
	})
}

func TestDrop(t *testing.T) {
	d := newDocument([]byte("listen = \"a\" # mine\ninsecure = true\npublic_url = [\n\"x\"]\n\n[tls]\n# of the house\nkey_file = \"k\"\n\n[web]\ninsecure = 1\n"))
	d.drop([]setting{{key: "listen", value: `"b"`}}, "listen", "insecure", "public_url", "tls.key_file")
	const want = "listen = \"a\" # mine\npublic_url = [\n\"x\"]\n\n[tls]\n# of the house\n\n[web]\ninsecure = 1\n"
	if got := string(d.bytes()); got != want {
		t.Errorf("left:\n%s\nwant:\n%s", got, want)
	}
}
