package handler

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// handlersOf is a handlers.toml with one handler of a shell script, and what else its table says.
func handlersOf(script string, lines ...string) map[string]string {
	return map[string]string{
		"a.sh":          "#!/bin/sh\n" + script,
		"handlers.toml": "[[handlers]]\nname = \"a\"\nrun = [\"./a.sh\", \"an argument\"]\n" + strings.Join(lines, "\n") + "\n",
	}
}

// TestWhatAProgramIsTold: its environment, its folder, its argument and its input, and nothing else.
func TestWhatAProgramIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		own   string
	}{
		"a program":           {nil, ""},
		"an agent":            {[]string{`format = "xml"`, `agent = true`}, "HANDLER_OWN_NAME=a\n"},
		"one without a cage":  {[]string{`sandbox = "none"`}, ""},
		"an agent without it": {[]string{`sandbox = "none"`, `format = "xml"`, `agent = true`}, "HANDLER_OWN_NAME=a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CANARY", "canary")
			e, _ := engine(t, handlersOf(`echo "<result>"; env -u PWD -u SHLVL -u OLDPWD -u _ | sort; echo "$1"; cat | sed 's/<[^>]*>//g'; echo "</result>"`, tc.lines...))
			got := strings.TrimSpace(strings.NewReplacer("<result>", "", "</result>", "").Replace(ask(t, e, "somewhere", "some words")))
			thread := e.State.threadID(e.Config.Handlers[0], "somewhere")
			want := tc.own + "HANDLER_THREAD_ID=" + thread + "\nLANG=C.UTF-8\nPATH=" + searchPath + "\nan argument\nsome words"
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestThreadsKeepTheirFolders: what a thread writes is there at its next run, and for nobody else.
func TestThreadsKeepTheirFolders(t *testing.T) {
	e, _ := engine(t, handlersOf(`echo x >>seen; wc -l <seen`))
	for i, where := range []string{"one", "one", "two", "one"} {
		want := map[int]string{0: "1", 1: "2", 2: "1", 3: "3"}[i]
		if got := strings.TrimSpace(ask(t, e, where, "")); got != want {
			t.Errorf("run %d in %s: %q, want %q", i, where, got, want)
		}
	}
}

// TestWhatACageShows: reads that are allowed and reads that are not, as the program sees them.
func TestWhatACageShows(t *testing.T) {
	texts := handlersOf(`
		for f in may/read may/write/f ../canary /etc/passwd /etc/shadow /root; do cat "DIR/$f" >/dev/null 2>&1 && echo "read $f"; cat "$f" >/dev/null 2>&1 && echo "read $f itself"; done
		for f in may/read may/write/f may/new a.sh; do echo x 2>/dev/null >"DIR/$f" && echo "wrote $f"; done
		for f in /x /usr/x /dev/x /proc/x /tmp/x /dev/shm/x /thread/x; do touch $f 2>/dev/null && echo "made $f"; done
		ls /home /root /var /srv /opt /run /sys 2>/dev/null
		ls DIR DIR/..
		:`, `read = ["may"]`, `write = ["may/write"]`)
	texts["may/read"], texts["may/write/f"], texts["canary"] = "1", "2", "3"
	dir := folder(t, texts)
	for name, text := range texts { // the script has to know where it is
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e, _ := engine(t, handlersOf(""))
	c, err := Load(filepath.Join(dir, "handlers.toml"))
	if err != nil {
		t.Fatal(err)
	}
	e.Config = c
	const want = "read may/read\nread may/write/f\nwrote may/write/f\nmade /tmp/x\nmade /dev/shm/x\nmade /thread/x\nDIR:\na.sh\nmay\n\nDIR/..:\nDIRBASE\n"
	got := ask(t, e, "x", "")
	got = strings.ReplaceAll(got, dir, "DIR")
	if wants := strings.ReplaceAll(want, "DIRBASE", filepath.Base(dir)); got != wants {
		t.Errorf("got\n%s\nwant\n%s", got, wants)
	}
}

// TestLimits: a run that takes too much ends, and the next one runs.
func TestLimits(t *testing.T) {
	const well = "well"
	for name, tc := range map[string]struct{ script, want string }{
		"too much output":       {`yes`, didNotWork},
		"as much as may be":     {fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, maxOutput), strings.Repeat("x", maxOutput)},
		"too much on stderr":    {`yes | head -c 10000000 >&2; echo -n well`, well},
		"it does not end":       {`sleep 1000`, didNotWork},
		"it burns":              {`while :; do :; done`, didNotWork},
		"it kills itself":       {`kill -9 $$`, didNotWork},
		"it fails":              {`echo well; exit 3`, didNotWork},
		"it kills all it can":   {`kill -9 -1; kill -9 0; echo -n well`, didNotWork},
		"it does not read":      {`exec <&-; echo -n well`, well},
		"it leaves children":    {`(sleep 1000 & ) ; setsid sleep 1000 & echo -n well`, well},
		"it closes its output":  {`echo -n well; exec >&- 2>&-; (sleep 1000 &)`, well},
		"a file too large":      {`head -c 70000000 /dev/zero >f; echo -n well`, well},
		"more than /tmp takes":  {`for i in 1 2 3; do head -c 60000000 /dev/zero >/tmp/$i; done 2>/dev/null; test $(du -s /tmp | cut -f1) -le 65600 && echo -n well`, well},
		"memory":                {`exec 2>/dev/null; x=$(head -c 600000000 /dev/zero | tr '\0' x); test ${#x} -lt 600000000 && echo -n well`, ""},
		"no privileges by suid": {`grep -q "NoNewPrivs:.1" /proc/self/status && grep -q "CapEff:.0000000000000000" /proc/self/status && echo -n well`, well},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := engine(t, handlersOf(tc.script, `timeout = "2s"`))
			e.Config.Handlers[0].Timeout = 2 * time.Second
			switch name {
			case "as much as may be", "too much on stderr", "a file too large", "more than /tmp takes", "it leaves children", "it closes its output", "it does not read", "memory", "no privileges by suid":
				e.Config.Handlers[0].Timeout = maxTimeout // on a slow machine, too
			}
			got := ask(t, e, "x", strings.Repeat("some words ", 10_000))
			if name == "memory" { // the shell may die of it, or be told
				if got != well && got != didNotWork {
					t.Errorf("got %q", got)
				}
			} else if got != tc.want {
				t.Errorf("got %.80q, want %.80q", got, tc.want)
			}
			if left := processesOf(e.State.threadID(e.Config.Handlers[0], "x")); len(left) > 0 {
				t.Errorf("processes are left: %q", left)
			}
		})
	}
}

// waitGone waits until no process is left that was told of what: a thread, a folder.
func waitGone(t *testing.T, what string) {
	t.Helper()
	var left []string
	for range 6000 {
		if left = processesOf(what); len(left) == 0 {
			return
		}
		<-time.After(10 * time.Millisecond) // a process that was killed is there a moment longer
	}
	t.Errorf("processes are left: %q", left)
}

// processesOf are the command lines of all processes that were told of the thread, or name it.
func processesOf(thread string) (all []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, p := range paths {
		env, _ := os.ReadFile(p + "/environ") // another's, or gone
		line, _ := os.ReadFile(p + "/cmdline")
		if strings.Contains(string(env)+string(line), thread) {
			all = append(all, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return all
}

// TestRecent: what a cage needs came with bubblewrap 0.8.
func TestRecent(t *testing.T) {
	for said, want := range map[string]bool{
		"bubblewrap 0.8.0\n": true, "bubblewrap 0.11.0": true, "bubblewrap 1.0": true, "bubblewrap 0.7.0": false, "bubblewrap 0.4.1": false, "": false, "bwrap 0.9": false,
	} {
		if recent(said) != want {
			t.Errorf("%q is recent: %t", said, !want)
		}
	}
}

// TestALinkThatCameLater: what a handler may see is looked at before each run.
func TestALinkThatCameLater(t *testing.T) {
	texts := handlersOf(`echo -n ran`, `read = ["seen"]`)
	texts["seen/f"] = ""
	e, dir := engine(t, texts)
	if got := ask(t, e, "x", ""); got != "ran" {
		t.Fatalf("got %q", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "seen")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(e.State.dir, filepath.Join(dir, "seen")); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, e, "x", ""); got != didNotWork {
		t.Errorf("got %q", got)
	}
}

// TestTools: what is missing is named at the start; nothing runs without it.
func TestTools(t *testing.T) {
	caged, uncaged := &Config{Handlers: []*Handler{{Name: "a", Run: []string{"/usr/bin/true"}}}}, &Config{Handlers: []*Handler{{Name: "a", Run: []string{"/usr/bin/true"}, Uncaged: true}}}
	const limiter, cage, version = "prlimit", "bwrap", "#!/bin/sh\necho bubblewrap "
	for name, tc := range map[string]struct {
		config   *Config
		programs map[string]string
		want     string // empty: it is content
	}{
		"nothing":                       {caged, nil, "install util-linux"},
		"no bwrap":                      {caged, map[string]string{limiter: "#!/bin/sh\n"}, "install the package bubblewrap"},
		"an old bwrap":                  {caged, map[string]string{limiter: "#!/bin/sh\n", cage: version + "0.7.0\n"}, "0.8 or newer"},
		"a broken bwrap":                {caged, map[string]string{limiter: "#!/bin/sh\n", cage: "#!/bin/sh\nexit 1\n"}, "0.8 or newer"},
		"a kernel that refuses":         {caged, map[string]string{limiter: "#!/bin/sh\n", cage: version + "0.8.0\ntest $# = 1 || { echo No permissions >&2; exit 1; }\n"}, "refuses the cage that handlers run in (No permissions)"},
		"no bwrap, and nobody needs it": {uncaged, map[string]string{limiter: "#!/bin/sh\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", folder(t, tc.programs))
			_, err := FindTools(t.Context(), tc.config)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestABwrapThatFails is known as soon as it ends: nobody holds on to the file in which it would have said who is in the cage.
func TestABwrapThatFails(t *testing.T) {
	dir := folder(t, map[string]string{"bwrap": "#!/bin/sh\necho no >&2; exit 1\n"})
	r := Tools{bwrap: filepath.Join(dir, "bwrap")}.run(t.Context(), &Handler{Run: []string{"/usr/bin/true"}, Timeout: time.Second}, "", dir, nil)
	if r.cause != "exit status 1" || r.said != "no" {
		t.Errorf("cause %q, said %q", r.cause, r.said)
	}
}

// TestTheReadmesBackup: what README shows works, with other folders.
func TestTheReadmesBackup(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	srv := t.TempDir()
	_, after, found := strings.Cut(string(readme), "```sh\n#!")
	script, _, whole := strings.Cut(after, "```")
	if n := strings.Count(script, "\n"); n != 5 || !found || !whole {
		t.Fatalf("the script in README has %d lines", n)
	}
	script = "#!" + strings.ReplaceAll(script, "/srv/", srv+"/")
	for _, dir := range []string{"photos", "backup"} {
		if err := os.Mkdir(filepath.Join(srv, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(srv, "photos", "cat.png"), []byte("a cat"), 0o600); err != nil {
		t.Fatal(err)
	}
	handlers := fmt.Sprintf("[[handlers]]\nname = \"backup\"\nrun = [\"./backup.sh\"]\ncommand = \"/backup\"\nread = [%q]\nwrite = [%q]\n",
		filepath.Join(srv, "photos"), filepath.Join(srv, "backup"))
	e, _ := engine(t, map[string]string{"backup.sh": script, "handlers.toml": handlers})
	if got := ask(t, e, "x", "/backup"); !strings.HasPrefix(got, "Backed up: ") {
		t.Errorf("the person reads %q", got)
	}
	made, err := filepath.Glob(filepath.Join(srv, "backup", "*.tar.gz"))
	if err != nil || len(made) != 1 {
		t.Fatalf("backups %q, %v", made, err)
	}
	if list, err := exec.Command("tar", "-tzf", made[0]).Output(); err != nil || !strings.Contains(string(list), "cat.png") {
		t.Errorf("in it is %q, %v", list, err)
	}
}
