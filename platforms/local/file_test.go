package local

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestParseLine(t *testing.T) {
	for line, want := range map[string]Message{
		"ann hello there":               {User: "ann", Text: "hello there"},
		"ann@garden hello":              {User: "ann", Chat: "garden", Text: "hello"},
		"ann@park/garden#roses hello ":  {User: "ann", Chat: "park/garden", Thread: "roses", Text: "hello"},
		"ann /link 7KQ2-9F4M":           {User: "ann", Text: "/link 7KQ2-9F4M"},
		"ann\t@bob is here":             {User: "ann", Text: "@bob is here"},
		"ann":                           {},
		"":                              {},
		" ":                             {},
		"@garden hello":                 {},
		"ann@@bob in their direct chat": {},
		"ann@garden@shed the second at": {User: "ann", Chat: "garden@shed", Text: "the second at"},
		"ann photo:a.jpg  voice:b.ogg look here": {User: "ann", Text: "look here", Files: []File{
			{Kind: relay.TypePhoto, Name: "a.jpg", Ref: "a.jpg"}, {Kind: relay.TypeVoice, Name: "b.ogg", Ref: "b.ogg"}}},
		"ann photo:a.jpg":                  {User: "ann", Files: []File{{Kind: relay.TypePhoto, Name: "a.jpg", Ref: "a.jpg"}}},
		"ann photo: of what":               {User: "ann", Text: "photo: of what"},
		"ann see:this":                     {User: "ann", Text: "see:this"},
		"ann document:../x":                {},
		"ann@garden press:m7:k3f9.1a:once": {User: "ann", Chat: "garden", Text: "press:m7:k3f9.1a:once", Press: &Press{"m7", "k3f9.1a", "once"}},
		"ann press:m7:once":                {},
	} {
		got, err := parseLine(line)
		if !cmp.Equal(got, want) || (err == nil) != (want.User != "") {
			t.Errorf("parseLine(%q) = %+v, %v; want %+v", line, got, err, want)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("ann@park/garden#roses hello")
	f.Add("ann@")
	f.Add("@ ")
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseLine(line)
		if err != nil {
			if !cmp.Equal(m, Message{}) {
				t.Errorf("parseLine(%q) gives %+v and %v", line, m, err)
			}
			return
		}
		if m.User == "" || strings.ContainsAny(string(m.User), "@ ") {
			t.Errorf("parseLine(%q) has the person %q", line, m.User)
		}
	})
}

// open makes a bot that follows dir, as a configuration would.
func open(t *testing.T, dir string) *Loopback {
	t.Helper()
	p, err := LoopbackNetwork.Open(platforms.Options{Values: map[string]string{keyDir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Loopback)
}

// write appends to the file of what is said.
func write(t *testing.T, dir, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, sayFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// settle lets the follower take a look and everything come to rest.
func settle() {
	<-time.After(look + time.Millisecond) // by the clock of the synctest bubble
	synctest.Wait()
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	in := &inbox{refuse: 1}
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir)
		stop := start(t, p, in)
		settle() // no file yet
		write(t, dir, "ann hello\nnonsense\nann@garden unfini")
		settle()
		settle() // the first was refused once
		if got := say(in); !slices.Equal(got, []string{"ann@@ann: hello", "?nonsense"}) {
			t.Errorf("accepted %q", got)
		}
		write(t, dir, "shed\n")
		settle()

		if _, err := p.Send(t.Context(), relay.Send{Chat: "@ann", Content: "answer"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()

		// What is said while nobody listens is read after the restart, and nothing twice.
		write(t, dir, "bob later\n")
		start(t, open(t, dir), in)
		settle()
	})
	want := []string{"ann@@ann: hello", "?nonsense", "ann@garden: unfinished", "bob@@bob: later"}
	if got := say(in); !slices.Equal(got, want) {
		t.Errorf("accepted %q, want %q", got, want)
	}
	seen := make(map[relay.EventID]bool)
	for _, ev := range in.events() {
		if seen[ev.ID] {
			t.Errorf("the event id %q stands for two lines", ev.ID)
		}
		seen[ev.ID] = true
	}
	posted, err := os.ReadFile(filepath.Join(dir, postedFile))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`{"op":"send","chat":"@ann","messageId":"m1","text":"answer"}`+"\n", string(posted)); d != "" {
		t.Errorf("posted (-want +got):\n%s", d)
	}
}

// TestALongLineHoldsUpNoOther: what does not fit a frame can be said, and what nobody says is put aside.
func TestALongLineHoldsUpNoOther(t *testing.T) {
	dir := t.TempDir()
	in := &inbox{}
	large, endless := strings.Repeat("x", 2<<20), strings.Repeat("y", 8<<20)
	synctest.Test(t, func(t *testing.T) {
		start(t, open(t, dir), in)
		write(t, dir, "ann "+large+"\nann "+endless+"\nann after\nann "+endless)
		settle()
	})
	got := say(in)
	if len(got) != 3 || got[0] != "ann@@ann: "+large || !strings.HasPrefix(got[1], "?ann yyy") || len(got[1]) > 64<<10 || got[2] != "ann@@ann: after" {
		for i := range got {
			got[i] = got[i][:min(len(got[i]), 20)]
		}
		t.Errorf("accepted %q", got)
	}
}

// TestAConfiguredBotDoesNotGrow: a server may run for months.
func TestAConfiguredBotDoesNotGrow(t *testing.T) {
	dir := t.TempDir()
	const sends = 3 * maxTexts
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir)
		stop := start(t, p, &inbox{})
		var last relay.MessageID
		for range sends {
			res, err := p.Send(t.Context(), relay.Send{Chat: "@ann", Content: "answer"})
			if err != nil {
				t.Fatal(err)
			}
			last = res.MessageID
			synctest.Wait()
		}
		if _, err := p.Edit(t.Context(), relay.Edit{Chat: "@ann", Message: last, Content: "better"}); err != nil {
			t.Errorf("edit of the newest message: %v", err)
		}
		synctest.Wait()
		stop()
		if acts, texts := len(p.net.acts), len(p.net.rooms["@ann"].standing); acts != 0 || texts > maxTexts {
			t.Errorf("%d acts and %d texts are remembered, want none and %d", acts, texts, maxTexts)
		}
	})
	posted, err := os.ReadFile(filepath.Join(dir, postedFile))
	if n := strings.Count(string(posted), "\n"); err != nil || n != sends+1 {
		t.Errorf("%d lines written, %v; want %d", n, err, sends+1)
	}
}

// say renders what was accepted; a line that made no sense begins with "?".
func say(in *inbox) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var out []string
	for _, b := range in.batches {
		for _, ev := range b.Events {
			out = append(out, string(ev.Source.UserID)+"@"+string(ev.Source.ChatID)+": "+ev.Text)
		}
		for _, u := range b.Undecodable {
			out = append(out, "?"+string(u.Raw))
		}
	}
	return out
}

// TestFileIsReadAgainAfterACrash: lines whose batch was not accepted have the same ids next time.
func TestFileIsReadAgainAfterACrash(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ann one\nann two\n")
	var ids [2][]relay.EventID
	for i := range ids {
		in := &inbox{} // a database without the cursor
		synctest.Test(t, func(t *testing.T) {
			start(t, open(t, dir), in)
			settle()
		})
		for _, ev := range in.events() {
			ids[i] = append(ids[i], ev.ID)
		}
	}
	if len(ids[0]) != 2 || !slices.Equal(ids[0], ids[1]) {
		t.Errorf("ids are %q, then %q; want the same two", ids[0], ids[1])
	}
}

func TestFileFaultsAreLogged(t *testing.T) {
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "taken")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p := open(t, dir)
		p.log = newTextLog(&log)
		stop := start(t, p, brokenCursor{&inbox{}})
		settle()
		if _, err := p.Send(t.Context(), relay.Send{Chat: "@ann", Content: "answer"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
	})
	for _, want := range []string{"reading what is said failed", "writing down what the bot did failed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "answer") {
		t.Errorf("what was written stands in the log:\n%s", log.String())
	}
}

type brokenCursor struct{ *inbox }

func (brokenCursor) Cursor(context.Context) ([]byte, error) { return nil, os.ErrInvalid }

func newTextLog(w *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// TestAFolderThatCannotBe: the bot is degraded, which is logged once; when the folder can be made the bot is connected,
// and what people look for is there.
func TestAFolderThatCannotBe(t *testing.T) {
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "loop")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p := open(t, dir)
		p.log = newTextLog(&log)
		stop := start(t, p, &inbox{})
		time.Sleep(time.Minute)
		synctest.Wait() // the log is the follower's until then
		if st := p.Status(); st.State != platforms.Degraded || st.Reason != "what is said in "+dir+" cannot be read: not a directory" {
			t.Errorf("state %s: %q", st.State, st.Reason)
		}
		if got := strings.Count(log.String(), "\n"); got != 1 {
			t.Errorf("%d lines in the log, want 1:\n%s", got, log.String())
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if st := p.Status(); st.State != platforms.Connected || st.Reason != "" {
			t.Errorf("with the folder: state %s: %q", st.State, st.Reason)
		}
		for _, name := range []string{"say", "posted", "managers", "files"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		stop()
	})
}
