package board

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
		if s := b.Read(); s.State != state || s.Reason != reason || s.Name != "pi" {
			t.Errorf("%+v, want %s %q", s, state, reason)
		}
	}
	want(platforms.Starting, "")
	b.Blocked("the disk is full")
	want(platforms.Starting, "")
	b.Is(platforms.Connected, "")
	want(platforms.Degraded, "the disk is full")
	b.Is(platforms.BadCredentials, "a new token is needed")
	want(platforms.BadCredentials, "a new token is needed")
	b.Is(platforms.Connected, "")
	b.Blocked("")
	want(platforms.Connected, "")
	if s := b.Read(); time.Since(s.Since) > time.Minute || s.Since.IsZero() {
		t.Errorf("connected since %s, want now", s.Since)
	}
	at := time.Now().Add(time.Hour)
	b.Is(platforms.Connecting, "no network")
	b.Retries(at)
	if s := b.Read(); !s.RetryAt.Equal(at) {
		t.Errorf("the next try is at %s, want %s", s.RetryAt, at)
	}
	b.Is(platforms.Connected, "")
	if s := b.Read(); !s.RetryAt.IsZero() {
		t.Errorf("connected, and the next try is at %s", s.RetryAt)
	}
	if b.Heard(); b.Read().LastEventAt.IsZero() {
		t.Error("nothing was heard")
	}
}

// TestAForeignNameIsOneLine: what a network says is shown by many.
func TestAForeignNameIsOneLine(t *testing.T) {
	b := New("")
	b.Named("pi\n✓ linked\x1b[2J\u009b\u202e")
	b.Is(platforms.Degraded, "Telegram says: no\n✓ yes\u202e")
	if s := b.Read(); s.Name != "pi ✓ linked[2J" || s.Reason != "Telegram says: no ✓ yes" {
		t.Errorf("%q, %q", s.Name, s.Reason)
	}
}
