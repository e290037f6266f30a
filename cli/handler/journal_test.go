package handler

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func delivery(buffer, text string) wire.Inbound {
	return wire.Inbound{Buffer: buffer, Event: relay.Event{
		Text: text, MessageID: relay.MessageID("m" + buffer), Source: relay.Source{Platform: "p", ChatID: "c", UserID: "u"},
	}}
}

// reopened is the journal as the next process finds it.
func reopened(t *testing.T, s *State, j *journal) *journal {
	t.Helper()
	if j != nil {
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
	}
	j, err := openJournal(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() })
	return j
}

func TestJournal(t *testing.T) {
	s, err := OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j := reopened(t, s, nil)
	if _, err := openJournal(s); !errors.Is(err, errHeld) {
		t.Errorf("a second runner: %v", err)
	}
	for _, err := range []error{j.begin(delivery("1", "one")), j.finish(delivery("1", "one")), j.begin(delivery("2", "two"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	j = reopened(t, s, j)
	later := delivery("2", "two")
	later.Event.MessageID = "another"
	for name, tc := range map[string]struct {
		in          wire.Inbound
		began, done bool
	}{
		"what came to its end":           {delivery("1", "one"), true, true},
		"what had begun":                 {delivery("2", "two"), true, false},
		"what had not begun":             {delivery("4", "four"), false, false},
		"another message of the same id": {later, false, false}, // a backup was restored
	} {
		if began, done := j.state(tc.in); began != tc.began || done != tc.done {
			t.Errorf("%s: began %t, done %t", name, began, done)
		}
	}
	if err := j.finish(delivery("2", "two")); err != nil {
		t.Fatal(err)
	}
	j = reopened(t, s, j)
	if began, done := j.state(delivery("2", "two")); !began || !done {
		t.Errorf("what was finished later: began %t, done %t", began, done)
	}
	raw, err := os.ReadFile(j.path)
	if err != nil || strings.Contains(string(raw), "two") {
		t.Errorf("%v: the file holds what people wrote: %s", err, raw)
	}
}

// TestTornJournal: of a line that a crash has cut nothing was acted upon; a line that says nothing is named.
func TestTornJournal(t *testing.T) {
	s, err := OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j := reopened(t, s, nil)
	if err := errors.Join(j.begin(delivery("1", "one")), j.begin(delivery("2", "two")), j.close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "journal")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw[:len(raw)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	j = reopened(t, s, nil)
	if began, _ := j.state(delivery("1", "one")); !began {
		t.Error("the line before is lost")
	}
	if began, _ := j.state(delivery("2", "two")); began {
		t.Error("the line that was cut counts")
	}
	if err := errors.Join(j.close(), os.WriteFile(path, []byte("begun x\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(s); err == nil {
		t.Error("a line that says nothing is taken")
	}
}

// TestJournalIsBounded: it knows the last ones, and the file does not grow without end.
func TestJournalIsBounded(t *testing.T) {
	s, err := OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j := reopened(t, s, nil)
	const n = 2*maxJournal + 100
	for i := range n {
		in := delivery(strconv.Itoa(i), "x")
		if err := errors.Join(j.begin(in), j.finish(in)); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(j.path)
	if err != nil || st.Size() > 4*maxJournal*100 {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
	j = reopened(t, s, j)
	for i, want := range map[int]bool{n - 1: true, n - maxJournal: true, n - maxJournal - 1: false} {
		if began, done := j.state(delivery(strconv.Itoa(i), "x")); began != want || done != want {
			t.Errorf("the number %d: began %t, done %t, want %t", i, began, done, want)
		}
	}
}
