package handler

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// contract are the two examples of the handler contract: a pure tool, and an agent that thinks, calls a peer and answers.
func contract() map[string]string {
	return map[string]string{
		"handlers.toml": `
[[handlers]]
name = "calculator.add"
run = ["./add.sh"]
command = "/add"
format = "xml"
payload = [{ name = "a", type = "integer" }, { name = "b", type = "integer" }]

[[handlers]]
name = "researcher"
run = ["./research.sh"]
command = "/research"
format = "xml"
agent = true
peers = ["calculator.add"]
`,
		"add.sh": `#!/bin/sh
set -- $(sed 's/<[^>]*>/ /g')
echo "$HANDLER_THREAD_ID" >>thread
test -z "$HANDLER_OWN_NAME" || exit 1
echo "<result>$(($1 + $2))</result>"
`,
		"research.sh": `#!/bin/sh
read -r payload
case $payload in
"<researcher>"*) echo "
<thought>I am the $HANDLER_OWN_NAME agent. Next step...</thought>
<calculator.add.addpayload><a>7</a><b>35</b></calculator.add.addpayload>
" ;;
"<calculator.add.result>42<"*) echo "<reply>*It is 42.*</reply>" ;;
*) echo "$payload" >&2; exit 1 ;;
esac
`,
	}
}

// TestTheContract: both of its examples, whole.
func TestTheContract(t *testing.T) {
	e, _ := engine(t, contract())
	for text, want := range map[string]string{
		"/add 7 35":           "42",
		"/add@abot\u00a07 -8": "-1", // a space as some phones write it
		"/add 7":              "Write `/add a b`: a is a whole number, b is a whole number.",
		"/research sums":      "*It is 42.*",
		"/subtract 7 35":      "",
		"/add 7 35 && x":      "Write `/add a b`: a is a whole number, b is a whole number.",
		"/research 42<":       "*It is 42.*",
	} {
		if got := ask(t, e, "here", text); got != want {
			t.Errorf("%q is answered %q, want %q", text, got, want)
		}
	}
	add, researcher := e.Config.byName("calculator.add"), e.Config.byName("researcher")
	for _, thread := range []string{e.State.threadID(add, "here"), e.State.threadID(add, e.State.threadID(researcher, "here"))} {
		raw, err := os.ReadFile(filepath.Join(e.State.dir, "threads", thread, "thread"))
		if want := strings.Repeat(thread+"\n", 2); err != nil || string(raw) != want {
			t.Errorf("in the thread %s the tool has written %q, %v; want %q", thread, raw, err, want)
		}
	}
}

// TestWhatIsSaid: which fragments become messages.
func TestWhatIsSaid(t *testing.T) {
	for name, tc := range map[string]struct{ output, want string }{
		"two":                     {"<result>a</result><reply>b</reply>", "a|b"},
		"a thought":               {"<thought>x</thought>", ""},
		"silence":                 {"<halt/>", ""},
		"nothing behind a halt":   {"<result>a</result><halt/><result>b</result>", "a"},
		"a result of nothing":     {"<result/><result> </result>", ""},
		"as many as may be":       {strings.Repeat("<result>a</result>", maxMessages), strings.TrimSuffix(strings.Repeat("a|", maxMessages), "|")},
		"more than may be":        {strings.Repeat("<result>a</result>", maxMessages+1), didNotWork},
		"misuse beside a result":  {"<result>a</result><unknown/>", didNotWork},
		"a forged message's chat": {`<result chat="another">a</result>`, didNotWork},
		"a forged complaint":      {"<huh/>", didNotWork},
		"a forged error":          {systemError, didNotWork},
		"another handler":         {"<a/>", didNotWork},
	} {
		t.Run(name, func(t *testing.T) {
			texts := handlersOf("cat <<'END'\n"+tc.output+"\nEND\n", `format = "xml"`)
			e, _ := engine(t, texts)
			if got := ask(t, e, "x", ""); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTextIsItsOutput: it is given as it is, and nothing in it has a meaning.
func TestTextIsItsOutput(t *testing.T) {
	e, _ := engine(t, handlersOf(`printf '%s' " <halt/> *a*
b "`))
	if got := ask(t, e, "x", ""); got != " <halt/> *a*\nb " {
		t.Errorf("got %q", got)
	}
	e, _ = engine(t, handlersOf(`echo`))
	if got := ask(t, e, "x", ""); got != "" {
		t.Errorf("only a new line is answered %q", got)
	}
}

// TestMisuse: an agent hears of it once, in the same words whatever it was, and has one more try; nobody has a third run.
func TestMisuse(t *testing.T) {
	const first = "<<result>"
	for name, tc := range map[string]struct {
		script, want string
		runs         int
	}{
		"it finds its way":          {`echo "<result>sorry</result>"`, "sorry", 2},
		"and may halt":              {`echo "<halt/>"`, "", 2},
		"it does it again":          {`echo "<<result>"`, didNotWork, 2},
		"it fails then":             {`exit 1`, didNotWork, 2},
		"it ends by a signal then":  {`kill -9 $$`, didNotWork, 2},
		"it says nothing at all":    {`:`, didNotWork, 2},
		"it fails at once":          {``, didNotWork, 1},
		"an exit status that is no": {`echo "<result>x</result>"; exit 4`, didNotWork, 2},
	} {
		t.Run(name, func(t *testing.T) {
			begin := `if test -e was; then cat >heard; ` + tc.script + `; exit; fi; touch was; cat >/dev/null; printf '%s' '` + first + `'`
			if tc.runs == 1 {
				begin = `kill -9 $$`
			}
			e, _ := engine(t, handlersOf(begin, `format = "xml"`, `agent = true`))
			runs := 0
			e.Seen = func(Seen) { runs++ }
			if got := ask(t, e, "x", ""); got != tc.want || runs != tc.runs {
				t.Errorf("got %q after %d runs, want %q after %d", got, runs, tc.want, tc.runs)
			}
			if tc.runs == 1 {
				return
			}
			heard, err := os.ReadFile(filepath.Join(e.State.dir, "threads", e.State.threadID(e.Config.Handlers[0], "x"), "heard"))
			if err != nil || string(heard) != string(huh([]byte(first))) {
				t.Errorf("it heard %q, %v", heard, err)
			}
		})
	}
	for name, script := range map[string]string{"no output": ``, "text": `printf 42`, "a status": `printf 42; exit 7`} {
		e, _ := engine(t, handlersOf(script, `format = "xml"`))
		runs := 0
		e.Seen = func(Seen) { runs++ }
		if got := ask(t, e, "x", ""); got != didNotWork || runs != 1 {
			t.Errorf("%s, of none that is an agent: %q after %d runs", name, got, runs)
		}
	}
}

// TestOneHuhForAllCauses: what a program put out is told back to it in the same bytes, whatever was wrong with it.
func TestOneHuhForAllCauses(t *testing.T) {
	var first string
	for n, cause := range []string{`exit 0`, `exit 1`, `exit 77`, `exit 255`} {
		e, _ := engine(t, handlersOf(`if test -e was; then cat >heard; echo "<halt/>"; exit; fi; touch was; printf 'no XML'; `+cause, `format = "xml"`, `agent = true`))
		_ = ask(t, e, "x", "")
		heard, err := os.ReadFile(filepath.Join(e.State.dir, "threads", e.State.threadID(e.Config.Handlers[0], "x"), "heard"))
		if n == 0 {
			first = string(heard)
		}
		if err != nil || string(heard) != first || first == "" {
			t.Errorf("%s: it heard %q, %v; want %q", cause, heard, err, first)
		}
	}
}

// callers is an agent of which the first run puts out what its input says, and each next one what it was given.
func callers(peers string) map[string]string {
	texts := map[string]string{
		"caller.sh": `#!/bin/sh
read -r payload
case $payload in
"<caller>"*) echo "$payload" | sed 's/^<caller><text>//; s/<.text><.caller>$//; s/&lt;/</g; s/&gt;/>/g' ;;
*) echo "<result>$(echo "$payload" | sed 's/</\&lt;/g; s/>/\&gt;/g')</result>" ;;
esac
`,
		"echo.sh":   "#!/bin/sh\nsed 's/.*<x>/<result>/; s/<.x>.*/<.result>/; s/<\\.r/<\\/r/'\n",
		"fail.sh":   "#!/bin/sh\nexit 1\n",
		"silent.sh": "#!/bin/sh\necho '<halt/>'\n",
		"two.sh":    "#!/bin/sh\necho '<result>1</result><reply>2</reply>'\n",
	}
	texts["handlers.toml"] = "[[handlers]]\nname = \"caller\"\nrun = [\"./caller.sh\"]\ncommand = \"/call\"\nformat = \"xml\"\ntimeout = \"60s\"\npeers = [" + peers + "]\n"
	for _, name := range []string{"echo", "fail", "silent", "two", "hidden"} {
		program := name
		if name == "hidden" {
			program = "echo"
		}
		texts["handlers.toml"] += fmt.Sprintf("[[handlers]]\nname = %q\nrun = [\"./%s.sh\"]\ncommand = \"/%s\"\nformat = \"xml\"\npayload = [{ name = \"x\", type = \"integer\" }]\n", name, program, name)
	}
	return texts
}

func TestPeers(t *testing.T) {
	e, _ := engine(t, callers(`"echo", "fail", "silent", "two"`))
	for call, want := range map[string]string{
		"<echo><x>7</x></echo>":                                   "<echo.result>7</echo.result>",
		"<echo.now><x>7</x></echo.now>":                           "<echo.result>7</echo.result>",
		"<echo><x>7</x></echo><echo><x>8</x></echo>":              "<echo.result>7</echo.result>|<echo.result>8</echo.result>",
		"<result>a</result><echo><x>7</x></echo><reply>b</reply>": "a|<echo.result>7</echo.result>|b",
		"<silent><x>7</x></silent>":                               "",
		"<two><x>7</x></two>":                                     "<two.result>1</two.result>|<two.reply>2</two.reply>",
		"<halt/><echo><x>7</x></echo>":                            "",
		"<echo><x>seven</x></echo>":                               systemError,
		"<echo><y>7</y></echo>":                                   systemError,
		"<echo><x>7</x><y>7</y></echo>":                           systemError,
		"<echo>7</echo>":                                          systemError,
		"<echo.now.then><x>7</x></echo.now.then>":                 systemError,
		"<fail><x>7</x></fail>":                                   systemError,
		"<hidden><x>7</x></hidden>":                               systemError,
		"<absent><x>7</x></absent>":                               systemError,
		"<caller><text>7</text></caller>":                         systemError,
		"<SystemError/>":                                          systemError,
	} {
		if got := ask(t, e, "x", "/call "+call); got != want {
			t.Errorf("%s is answered %q, want %q", call, got, want)
		}
	}
}

// TestProbing: by what it takes, and by what it is told, a caller cannot tell a peer that is absent from one that it may not call,
// nor from one that fails.
func TestProbing(t *testing.T) {
	e, _ := engine(t, callers(`"fail"`))
	caller, x := e.Config.byName("caller"), &exchange{engine: e}
	for _, root := range []string{"absent", "hidden", "echo", "fail", "caller", "silent.x"} {
		began := time.Now()
		got := x.call(t.Context(), caller, fragment{root: root, said: map[string]string{"x": "7"}}, "thread", 0)
		if len(got) != 1 || string(got[0]) != systemError {
			t.Errorf("%s: %q", root, got)
		}
		if took := time.Since(began); took < errorStep {
			t.Errorf("%s: after %s, before the time that all take", root, took)
		}
	}
}

// TestAThousandProbes: of the handlers that are there and that it may not call, a caller learns nothing by asking for them, nor by how
// it asks: to the nanosecond it is all the same.
func TestAThousandProbes(t *testing.T) {
	e, _ := engine(t, callers(`"echo"`))
	caller := e.Config.byName("caller")
	roots := []string{"hidden", "hidden.addpayload", "fail", "silent", "two", "caller", "absent", "absent.more", "a.b.c", "echo.x.y", "SystemError"}
	said := []map[string]string{nil, {}, {"x": "7"}, {"x": "seven"}, {"y": "7"}, {"x": "7", "y": "7"}}
	synctest.Test(t, func(t *testing.T) {
		for n := range 1000 {
			root, depth, x := roots[n%len(roots)], n%maxDepth, &exchange{engine: e, runs: n % (maxRuns + 1)}
			began, runs := time.Now(), x.runs
			got := x.call(t.Context(), caller, fragment{root: root, said: said[n%len(said)]}, "thread", depth)
			if len(got) != 1 || string(got[0]) != systemError || time.Since(began) != errorStep || x.runs != runs {
				t.Fatalf("%s %v at depth %d after %d runs: %q after %s, and %d runs", root, said[n%len(said)], depth, runs, got, time.Since(began), x.runs)
			}
		}
		for _, fields := range said { // of a peer it may call, what does not fit is the same
			if fields["x"] == "7" && len(fields) == 1 {
				continue
			}
			x, began := &exchange{engine: e}, time.Now()
			if got := x.call(t.Context(), caller, fragment{root: "echo", said: fields}, "thread", 0); string(got[0]) != systemError || time.Since(began) != errorStep || x.runs != 0 {
				t.Errorf("echo %v: %q after %s", fields, got, time.Since(began))
			}
		}
	})
}

// TestBudgets: a message cannot cause more than so many runs, nor peers that call one another for ever.
func TestBudgets(t *testing.T) {
	texts := map[string]string{"handlers.toml": ""}
	for i := range 6 { // each calls the next, and says what it was told
		texts["handlers.toml"] += fmt.Sprintf("[[handlers]]\nname = \"h%d\"\nrun = [\"./h.sh\", \"h%d\"]\ncommand = \"/h%d\"\nformat = \"xml\"\npayload = []\ntimeout = \"60s\"\n", i, i+1, i)
		if i < 5 {
			texts["handlers.toml"] += fmt.Sprintf("peers = [\"h%d\"]\n", i+1)
		}
	}
	texts["h.sh"] = `#!/bin/sh
read -r payload
case $payload in
"<h5>"*) echo "<result>deep</result>" ;;
*result*) echo "<result>$(echo "$payload" | sed 's/<[^>]*>//g')</result>" ;;
*Error*) echo "<result>error</result>" ;;
*) echo "<$1/>" ;;
esac
`
	e, _ := engine(t, texts)
	for text, want := range map[string]string{"/h5": "deep", "/h4": "deep", "/h2": "deep", "/h1": "error", "/h0": "error"} {
		if got := ask(t, e, "x", text); got != want {
			t.Errorf("%s is answered %q, want %q", text, got, want)
		}
	}
	e, _ = engine(t, callers(`"echo", "two"`))
	runs := 0
	e.Seen = func(Seen) { runs++ }
	for _, call := range []string{strings.Repeat("<echo><x>7</x></echo>", 20), strings.Repeat("<two><x>7</x></two>", 20)} {
		runs = 0
		if got := ask(t, e, "x", "/call "+call); !strings.HasSuffix(got, didNotWork) || runs != maxRuns {
			t.Errorf("%d runs, and the answer %q", runs, got)
		}
	}
}

// TestOptions: values by name are a command's own; a handler without a command gets the message as text.
func TestOptions(t *testing.T) {
	texts := handlersOf("cat")
	texts["handlers.toml"] += "[[handlers]]\nname = \"b\"\nrun = [\"./a.sh\"]\ncommand = \"/b\"\n"
	e, _ := engine(t, texts)
	for text, want := range map[string]string{"/b two words": "two words", "/other two words": "/other two words"} {
		run, _ := e.prepare(message{conversation: "x", text: text, options: map[string]string{"text": "two words"}})
		if got := strings.Join(run(t.Context()), "|"); got != want {
			t.Errorf("%s is answered %q, want %q", text, got, want)
		}
	}
}
