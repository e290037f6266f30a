package discord

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStateSurvives(t *testing.T) {
	want := state{
		Base: "http://a/api", Session: gateway.Session{ID: "s", URL: "wss://gateway", Seq: 42}, Seen: 7, Gap: 5,
		Budget:      gateway.Budget{Known: true, Remaining: 3, ResetAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Spent: []int64{1, 2}},
		Application: "9", Name: "pi", Commands: "fingerprint", Threads: []madeThread{{"1", "one"}},
	}
	got, err := readState(want.encode(), want.Base)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := readState(want.encode(), "http://b/api"); err != nil || got.Session.ID != "" || got.Seen != 0 {
		t.Errorf("a state of another API: %+v, %v", got, err)
	}
}

// TestWhatWasNotReadIsNotWrittenOver: a bot that is stopped before its store answered leaves the
// stored state alone.
func TestWhatWasNotReadIsNotWrittenOver(t *testing.T) {
	m := newMemory()
	m.change(true, func(s *state) { s.Name = "pi" })
	if raw := m.unsaved(); raw != nil {
		t.Errorf("unsaved %s, want nothing", raw)
	}
	m.recall(state{})
	if raw := m.unsaved(); raw != nil {
		t.Errorf("unsaved %s after the first start, want nothing", raw)
	}
}

// TestChangesMeanwhileStay: what others changed while a batch was being stored is not lost, and is
// stored later.
func TestChangesMeanwhileStay(t *testing.T) {
	m := newMemory()
	m.recall(state{})
	advance := func(s *state) { s.Session.Seq = 9 }
	_, version, _ := m.draft(advance)
	m.change(true, func(s *state) { s.Commands = "new" })
	m.keep(version, advance)
	if s := m.read(); s.Session.Seq != 9 || s.Commands != "new" {
		t.Errorf("state %+v", s)
	}
	if !m.wanting() {
		t.Error("the change is not to be stored")
	}
	raw, version, _ := m.draft(func(*state) {})
	m.keep(version, func(*state) {})
	if m.wanting() || m.unsaved() != nil {
		t.Error("something is left to store")
	}
	if !bytes.Contains(raw, []byte(`"new"`)) {
		t.Errorf("stored %s", raw)
	}
}

func TestThreadsAreBounded(t *testing.T) {
	p := &threads{memory: newMemory()}
	for i := range maxThreads + 10 {
		p.rememberThread(fmt.Sprint(i), fmt.Sprint("name ", i))
	}
	p.rememberThread("50", "renamed")
	if name, ok := p.createdThread("50"); !ok || name != "renamed" {
		t.Errorf("thread 50 is %q, %t", name, ok)
	}
	if _, ok := p.createdThread("9"); ok {
		t.Error("the oldest thread is still there")
	}
	if n := len(p.memory.read().Threads); n != maxThreads {
		t.Errorf("%d threads, want %d", n, maxThreads)
	}
}

func TestSnowflakesAreTimes(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	id := guilds.At(at)
	if got := id.Time(); !got.Equal(at) {
		t.Errorf("time of %s is %s, want %s", id, got, at)
	}
	if got := id.Back(time.Minute).Time(); !got.Equal(at.Add(-time.Minute)) {
		t.Errorf("a minute before %s is %s", at, got)
	}
	if id := guilds.At(time.Unix(0, 0)); id != 0 {
		t.Errorf("id before there were ids: %s", id)
	}
	for in, want := range map[string]guilds.ID{`{"id":"12"}`: 12, `{"id":""}`: 0, `{"id":"x"}`: 0, `[]`: 0, ``: 0} {
		if got := idOf([]byte(in)); got != want {
			t.Errorf("idOf(%s) = %d, want %d", in, got, want)
		}
	}
}

// TestNoDraftOfWhatWasNeverRead: it would be written over.
func TestNoDraftOfWhatWasNeverRead(t *testing.T) {
	m := newMemory()
	m.change(true, func(s *state) { s.Seen = 1 })
	if raw, _, owed := m.draft(func(*state) {}); raw != nil || owed {
		t.Errorf("%s, owed %v", raw, owed)
	}
	m.recall(state{Seen: 2})
	if raw, _, _ := m.draft(func(*state) {}); raw == nil {
		t.Error("no draft of what was read")
	}
}

func FuzzReadState(f *testing.F) {
	f.Add(state{Session: gateway.Session{ID: "s", Seq: 1}, Seen: 1}.encode(), "")
	f.Add([]byte(`{"session":{"seq":-5},"seen":-1,"budget":{"spent":[9e99]}}`), "")
	f.Add([]byte(`{"base":"a","session":{"id":"x","seq":3}}`), "a")
	f.Add([]byte(`null`), "")
	f.Fuzz(func(t *testing.T, raw []byte, base string) {
		if strings.ToValidUTF8(base, "") != base {
			return
		}
		s, err := readState(raw, base)
		if err != nil && (s.Session.ID != "" || s.Seen != 0) {
			t.Errorf("a value and an error: %+v, %v", s, err)
		}
		if s.Session.Seq < 0 || s.Base != base {
			t.Errorf("state %+v", s)
		}
		again, err := readState(s.encode(), base)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(s)
		b, _ := json.Marshal(again)
		if !bytes.Equal(a, b) {
			t.Errorf("%s became %s", a, b)
		}
	})
}
