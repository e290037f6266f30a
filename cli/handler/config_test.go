package handler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaults: each is named with its line.
func TestFaults(t *testing.T) {
	const sh = "#!/bin/sh\n"
	dir := folder(t, map[string]string{"a.sh": sh, "b.sh": sh, "plain": "x", "state/key": "k", "data/x": "", "data/tool.sh": sh, "cred.env": ""})
	if err := os.Symlink("state", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	one := func(lines ...string) string {
		return "[[handlers]]\nname = \"a\"\nrun = [\"./a.sh\"]\n" + strings.Join(lines, "\n") + "\n"
	}
	two := func(lines ...string) string {
		return "[[handlers]]\nname = \"b\"\nrun = [\"./b.sh\"]\ncommand = \"/b\"\n" + strings.Join(lines, "\n") + "\n"
	}
	for name, tc := range map[string]struct {
		text string
		want string // each fault as it begins, a line each; DIR is the folder
	}{
		"one":                                   {one(), ""},
		"a program of the machine":              {strings.Replace(one(), "./a.sh", "date", 1), ""},
		"two, and one has no command":           {one() + two(), ""},
		"all keys":                              {one(`command = "/a"`, `format = "xml"`, `agent = true`, `timeout = "60s"`, `network = true`, `read = ["plain"]`, `write = ["data"]`, `peers = ["b"]`, `payload = [{name = "x", type = "decimal", min = 0.5, max = 2}]`) + two(`format = "xml"`), ""},
		"without a cage":                        {one(`sandbox = "none"`), ""},
		"nothing":                               {"", "F: no handlers"},
		"no TOML":                               {"[[handlers]]\nname = a\n", "F:2: "},
		"an unknown key":                        {one(`comand = "/a"`), "F:4: handlers.comand: unknown key"},
		"a wrong type":                          {one(`command = 1`), "F:4: "},
		"a name of capitals":                    {"[[handlers]]\nname = \"A\"\nrun = [\"./a.sh\"]\n", "F:2: name: want a name"},
		"a name that is a fragment's":           {"[[handlers]]\nname = \"result\"\nrun = [\"./a.sh\"]\n", "F:2: name: want a name"},
		"no name":                               {"[[handlers]]\nrun = [\"./a.sh\"]\n", "F:1: name: want a name"},
		"no program":                            {"[[handlers]]\nname = \"a\"\n", "F:1: run: want the program"},
		"a program that is not there":           {"[[handlers]]\nname = \"a\"\nrun = [\"./no.sh\"]\n", "F:3: run: DIR/no.sh: no such file"},
		"a program that is not in the path":     {"[[handlers]]\nname = \"a\"\nrun = [\"no-such-program\"]\n", "F:3: run: no-such-program is in none of"},
		"a program of the current folder":       {"[[handlers]]\nname = \"a\"\nrun = [\"config.go\"]\n", "F:3: run: config.go is in none of"},
		"a file that is no program":             {"[[handlers]]\nname = \"a\"\nrun = [\"./plain\"]\n", "F:3: run: DIR/plain is no program: chmod"},
		"a command without a slash":             {one(`command = "a"`), "F:4: command: want a command"},
		"a command of another bot":              {one(`command = "/a@b"`), "F:4: command: want a command"},
		"a command twice":                       {one(`command = "/b"`) + two(), "F:8: command: a has this command"},
		"a name twice":                          {one() + one(`command = "/b"`), "F:6: name: another handler has this name"},
		"two for the rest":                      {one() + strings.Replace(two(), "command", "# ", 1), "F:5: a gets what no command matches already"},
		"an unknown format":                     {one(`format = "json"`), "F:4: format: want"},
		"a text agent":                          {one(`agent = true`), "F:4: agent: needs format"},
		"a time without a unit":                 {one(`timeout = "10"`), "F:4: timeout: want a time"},
		"a time too long":                       {one(`timeout = "61s"`), "F:4: timeout: want a time"},
		"a cage of another kind":                {one(`sandbox = "docker"`), "F:4: sandbox: want"},
		"without a cage, and what it allows":    {one(`sandbox = "none"`, `network = true`), "F:4: sandbox: read, write and network"},
		"a field of an unknown type":            {one(`payload = [`, `  { name = "x", type = "integer" },`, `  { name = "y", type = "int" },`, `]`), "F:6: payload.1.type: want string"},
		"a field twice":                         {one(`payload = [{ name = "x", type = "integer" }, { name = "x", type = "string" }]`), "F:4: payload.1.name: the field \"x\" is there twice"},
		"a field in its own table":              {one() + "[[handlers.payload]]\nname = \"X\"\ntype = \"string\"\n", "F:6: payload.0.name: want a name"},
		"an enum without values":                {one(`payload = [{ name = "x", type = "enum" }]`), "F:4: payload.0.values: an enum wants"},
		"values of another type":                {one(`payload = [{ name = "x", type = "string", values = ["a"] }]`), "F:4: payload.0.values: an enum wants"},
		"a bound of a boolean":                  {one(`payload = [{ name = "x", type = "boolean", min = 1 }]`), "F:4: payload.0.min: bounds are"},
		"a fraction as a bound":                 {one(`payload = [{ name = "x", type = "integer", max = 1.5 }]`), "F:4: payload.0.max: bounds are"},
		"bounds the wrong way round":            {one(`payload = [{ name = "x", type = "integer", min = 2, max = 1 }]`), "F:4: payload.0.max: is below min"},
		"a path that is not there":              {one(`read = [`, ` "plain",`, ` "none" ]`), "F:4: read.1: DIR/none: no such file"},
		"the whole machine":                     {one(`read = ["/"]`), "F:4: read.0: /: no handler may see"},
		"the processes of the machine":          {one(`read = ["/proc/self"]`), "F:4: read.0: /proc/self: no handler may see"},
		"the runner's folder":                   {one(`read = ["state"]`), "F:4: read.0: DIR/state is where DIR/state is"},
		"what is in the runner's folder":        {one(`write = ["state/key"]`), "F:4: write.0: DIR/state/key is where DIR/state is"},
		"what the runner's folder is in":        {one(`write = ["."]`), "F:4: write.0: DIR is where DIR/state is"},
		"a link to the runner's folder":         {one(`read = ["link"]`), "F:4: read.0: DIR/link is where DIR/state is"},
		"the credential":                        {one(`read = ["cred.env"]`), "F:4: read.0: DIR/cred.env is where DIR/cred.env is"},
		"this file":                             {one(`write = ["handlers.toml"]`), "F:4: write.0: DIR/handlers.toml is where DIR/handlers.toml is"},
		"a program that another may change":     {one(`write = ["data"]`) + strings.Replace(two(), "./b.sh", "data/tool.sh", 1), "F:7: run: a may write to DIR/data, and so put"},
		"its own program":                       {strings.Replace(one(`write = ["data"]`), "./a.sh", "data/tool.sh", 1), ""},
		"a path that another may change":        {one(`write = ["data"]`) + two(`read = ["data/x"]`), "F:9: read.0: a may write to DIR/data, and so put a link"},
		"a folder that both may write to":       {one(`write = ["data"]`) + two(`write = ["data"]`), ""},
		"a peer that is not there":              {one(`format = "xml"`, `peers = ["c"]`), "F:5: peers.0: there is no handler \"c\""},
		"a peer of text":                        {one(`format = "xml"`, `peers = ["b"]`) + two(), "F:5: peers.0: b needs format"},
		"a caller of text":                      {one(`peers = ["b"]`) + two(`format = "xml"`), "F:4: peers: needs format"},
		"a circle of one":                       {one(`format = "xml"`, `peers = ["a"]`, `command = "/a"`), "F:5: peers: they call one another in a circle: a → a"},
		"a circle of two":                       {one(`format = "xml"`, `peers = ["b"]`) + two(`format = "xml"`, `peers = ["a"]`), "F:5: peers: they call one another in a circle: a → b → a\nF:11: peers: they call one another in a circle: b → a → b"},
		"a circle that others lead to":          {one(`format = "xml"`, `peers = ["b"]`) + two(`format = "xml"`, `peers = ["b"]`), "F:11: peers: they call one another in a circle: b → b"},
		"peers that cannot be told apart":       {one(`format = "xml"`, `peers = ["b", "b.c"]`) + two(`format = "xml"`) + "[[handlers]]\nname = \"b.c\"\nrun = [\"./b.sh\"]\nformat = \"xml\"\n", "F:5: peers.1: \"b.c\" begins with"},
		"several faults, in the order of lines": {one(`timeout = "1"`, `format = "x"`), "F:4: timeout\nF:5: format"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "handlers.toml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(path, filepath.Join(dir, "state"), filepath.Join(dir, "cred.env"))
			if tc.want == "" {
				if err != nil || c == nil {
					t.Fatalf("%v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("no fault")
			}
			got := strings.Split(strings.ReplaceAll(err.Error(), path+":", "F:"), "\n")
			want := strings.Split(strings.ReplaceAll(tc.want, "DIR", dir), "\n")
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}
