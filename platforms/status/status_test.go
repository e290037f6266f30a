package status

import (
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// TestWhatCannotBeTakenInShows: but not while something worse is to be said.
func TestWhatCannotBeTakenInShows(t *testing.T) {
	b := New("pi")
	want := func(state platforms.State, reason string) {
		t.Helper()
		if s := b.Get(); s.State != state || s.Reason != reason || s.Name != "pi" {
			t.Errorf("%+v, want %s %q", s, state, reason)
		}
	}
	want(platforms.Starting, "")
	b.SetStuck("the disk is full")
	want(platforms.Starting, "")
	b.Set(platforms.Connected, "")
	want(platforms.Degraded, "the disk is full")
	b.Set(platforms.BadCredentials, "a new token is needed")
	want(platforms.BadCredentials, "a new token is needed")
	b.Set(platforms.Connected, "")
	b.SetStuck("")
	want(platforms.Connected, "")
	if s := b.Get(); time.Since(s.Since) > time.Minute || s.Since.IsZero() {
		t.Errorf("connected since %s, want now", s.Since)
	}
	at := time.Now().Add(time.Hour)
	b.Set(platforms.Connecting, "no network")
	b.SetRetryAt(at)
	if s := b.Get(); !s.RetryAt.Equal(at) {
		t.Errorf("the next try is at %s, want %s", s.RetryAt, at)
	}
	b.Set(platforms.Connected, "")
	if s := b.Get(); !s.RetryAt.IsZero() {
		t.Errorf("connected, and the next try is at %s", s.RetryAt)
	}
	if b.EventReceived(); b.Get().LastEventAt.IsZero() {
		t.Error("nothing was heard")
	}
}

// TestAForeignNameIsOneLine: what a network says is shown by many.
func TestAForeignNameIsOneLine(t *testing.T) {
	b := New("")
	b.SetName("pi\n✓ linked\x1b[2J\u009b\u202e")
	b.Set(platforms.Degraded, "Telegram says: no\n✓ yes\u202e")
	if s := b.Get(); s.Name != "pi ✓ linked[2J" || s.Reason != "Telegram says: no ✓ yes" {
		t.Errorf("%q, %q", s.Name, s.Reason)
	}
}
