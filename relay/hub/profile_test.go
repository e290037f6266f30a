package hub

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestAProfileIsKeptWithItsConversation and stamped on that instance's next events of the chat, whatever they hold.
func TestAProfileIsKeptWithItsConversation(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.enroll("guest", "bob")
	g.claim("guest", "garden")
	g.update("guest", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
	g.net.Join("garden", "bob")
	home, guest := g.come("home"), g.come("guest")
	home.do(relay.Request{Action: relay.Typing{Chat: "@ann"}}) // its age is not what this is about
	both := func(id string, files ...relay.MediaID) (h, o relay.Event) {
		t.Helper()
		g.brings(id, "hello", "garden", files...)
		return home.takes(), guest.takes()
	}
	if h, o := both("e1"); h.Source.Profile != "" || o.Source.Profile != "" {
		t.Errorf("profiles %q, %q before any was named", h.Source.Profile, o.Source.Profile)
	}
	write := func(profile string) {
		t.Helper()
		res := home.do(relay.Request{Action: relay.Send{Chat: "garden", Content: "hi", Meta: relay.Metadata{Profile: profile}}})
		if res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	write("coder")
	for _, files := range [][]relay.MediaID{nil, {aPhoto}} {
		id := "e2"
		if files != nil {
			id = "e3"
		}
		if h, o := both(id, files...); h.Source.Profile != "coder" || o.Source.Profile != "" || len(h.Media) != len(files) {
			t.Errorf("profiles %q, %q with %d files, want coder for the one that named it", h.Source.Profile, o.Source.Profile, len(h.Media))
		}
	}
	write("") // which says nothing
	if h, _ := both("e4"); h.Source.Profile != "coder" {
		t.Errorf("profile %q, want coder still", h.Source.Profile)
	}
	g.brings("e5", "hello", "")
	if got := home.takes(); got.Source.Profile != "" {
		t.Errorf("profile %q in a chat where none was named", got.Source.Profile)
	}
	g.empty("home")
	g.empty("guest")
	commits := g.db.Stats().Commits
	write("coder")
	if n := g.db.Stats().Commits - commits; n > 0 {
		t.Errorf("%d commits for the same profile", n)
	}
	write("writer")
	h, _ := both("e6")
	if h.Source.Profile != "writer" {
		t.Errorf("profile %q, want the one named last", h.Source.Profile)
	}

	// Its gateway runs it under a key of that profile.
	src := relay.Source{Platform: local.LoopbackID, ChatID: "garden", ChatType: relay.ChatGroup, UserID: "ann"}
	key := sessionkey.Build(src, sessionkey.Options{Profile: "writer"})
	home.send(wire.Interrupt{Session: key})
	if f, ok := home.read().(wire.InterruptInbound); !ok || f.Session != key {
		t.Errorf("%+v, want the interrupt of %s", f, key)
	}
}
