package hub

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

func TestContextIsReadWhenTheEntrySettles(t *testing.T) {
	broken := errors.New("not now")
	said := []relay.ContextLine{{UserID: "7", UserName: "bob", Text: "it rains"}}
	for name, tc := range map[string]struct {
		part    bool
		err     error
		policy  relay.ContextPolicy
		want    []relay.ContextLine
		wantErr bool
	}{
		"all of it":         {want: said},
		"not reaching back": {part: true, want: said, wantErr: true},
		"not known":         {err: broken, wantErr: true},
		"switched off":      {policy: relay.ContextOff},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGallery(t)
			g.enroll("home", "ann")
			g.claim("home", "garden")
			g.past.lines, g.past.part, g.past.err = said, tc.part, tc.err
			g.brings("e1", "what now?", "garden")
			if len(g.past.asked) > 0 {
				t.Error("the network was asked when the event came")
			}
			// What holds when it is pushed counts.
			g.update("home", func(i *store.Instance) {
				i.Relevance = map[relay.PlatformID]store.Relevance{local.LoopbackID: {Context: tc.policy}}
			})
			got := g.come("home").takes()
			if diff := cmp.Diff(tc.want, got.Context); diff != "" || got.ContextError != tc.wantErr || got.Text != "what now?" {
				t.Errorf("error %v, text %q, context (-want +got):\n%s", got.ContextError, got.Text, diff)
			}
		})
	}
}

// TestAJoinBringsWhatOthersSaid, before it and in between, and not its own messages once more.
func TestAJoinBringsWhatOthersSaid(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.claim("home", "garden")
	others := []relay.ContextLine{{UserID: "7", Text: "it rains"}, {UserID: "7", Text: "what now?"}, {UserID: "ann", Text: "rain"}}
	g.past.lines = slices.Insert(slices.Clone(others), 1, relay.ContextLine{UserID: "ann", Text: "what now?"})
	g.brings("e1", "what now?", "garden")
	g.brings("e2", "really?", "garden")
	got := g.come("home").takes()
	if diff := cmp.Diff(others, got.Context); diff != "" || got.Text != "what now?\nreally?" {
		t.Errorf("text %q, context (-want +got):\n%s", got.Text, diff)
	}
}

// TestContextIsForWhoeverItIsGrantedTo: of two that get an event, the one whose policy says so.
func TestContextIsForWhoeverItIsGrantedTo(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.enroll("guest", "bob")
	g.claim("guest", "garden")
	g.update("guest", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	g.past.lines = []relay.ContextLine{{UserID: "7", Text: "aaaaa"}}
	g.net.Join("garden", "bob")
	g.brings("e1", "hello", "garden")
	wait.Until(t, "a verdict", g.decided)
	for name, want := range map[string]int{"home": 0, "guest": 1} {
		if got := g.come(name).takes(); len(got.Context) != want || got.Text != "hello" {
			t.Errorf("%s got %q with %d lines of context, want %d", name, got.Text, len(got.Context), want)
		}
	}
}
