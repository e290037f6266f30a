package hub

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// answer has ann write and the gateway answer.
func (g *gallery) answer(home *gateway, n int) {
	g.t.Helper()
	g.brings(fmt.Sprint("a", n), "hello", "")
	home.takes()
	g.empty("home")
	if res := home.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "hi"}}); res.Err != nil {
		g.t.Fatal(res.Err)
	}
}

// wantOld checks what is stored about the gateway.
func (g *gallery) wantOld(old, fetches bool) {
	g.t.Helper()
	r, err := store.Only(g.db.Gateways(g.t.Context(), "home"))
	if err != nil || r.TooOld != old || r.Fetches != fetches {
		g.t.Errorf("too old %v, fetches %v, %v; want %v, %v", r.TooOld, r.Fetches, err, old, fetches)
	}
}

// becomesOld waits until the gateway is known to be too old for files: that follows its acknowledgement.
func (g *gallery) becomesOld() {
	g.t.Helper()
	wait.Until(g.t, "the gateway is too old for files", func() bool {
		r, err := store.Only(g.db.Gateways(g.t.Context(), "home"))
		return err == nil && r.TooOld && !r.Fetches
	})
}

// TestAGatewayThatOnlyAnswersIsNotTooOld: that it uses nothing newer says nothing, before it was offered a file.
func TestAGatewayThatOnlyAnswersIsNotTooOld(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	home := g.come("home")
	home.do(relay.Request{Action: relay.GetChatInfo{Chat: "@ann"}})
	for n := range 6 {
		g.answer(home, n)
	}
	g.wantOld(false, false)
	g.brings("e1", "look", "", aPhoto)
	if got := home.takes(); len(got.Media) != 1 || !strings.HasPrefix(got.Media[0].URL, origin) {
		t.Errorf("it is not offered its first picture: %+v", got)
	}
}

func TestAGatewayThatLeavesFilesIsTooOldForThem(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.brings("e1", "look", "", aPhoto)
	home := g.come("home")
	if got := home.inbound(); len(got.Event.Media) != 1 {
		t.Fatalf("%+v", got)
	}
	_ = home.conn.CloseNow() // it says nothing of the file: perhaps it fetches
	home = g.come("home")
	again := home.inbound()
	home.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "nice"}})
	g.wantOld(false, false)
	home.send(wire.InboundAck{Buffer: again.Buffer})
	g.becomesOld()

	g.brings("e2", "look", "", aText)
	got := home.takes()
	if got.Type != relay.TypeText || len(got.Media) > 0 || !strings.Contains(got.Text, "seeds") {
		t.Errorf("a text file: %+v", got)
	}
	g.brings("e3", "look", "", aPhoto)
	got = home.takes()
	if got.Type != relay.TypePhoto || len(got.Media) != 1 || got.Media[0].URL != "https://cdn.example/secret/"+string(aPhoto) {
		t.Errorf("a picture that anybody can load: %+v", got)
	}
}

// TestAnOldGatewayIsKnownAfterARestart, and gets a line where its network's pictures have no address.
func TestAnOldGatewayIsKnownAfterARestart(t *testing.T) {
	r := newRig(t, with(newCabinet())) // the loopback bot itself
	g := &gallery{rig: r}
	r.enroll("home", "ann")
	must.Succeed(t, r.db.UpdateGateway(t.Context(), nil, "home", func(g *store.Gateway, _ *store.Instance) error {
		g.TooOld = true
		return nil
	}))
	g.brings("e1", "look", "", aPhoto)
	got := g.come("home").takes()
	if got.Type != relay.TypeText || len(got.Media) > 0 || got.Text != "look\n[Photo: this gateway is too old to fetch files]" {
		t.Errorf("%s %q", got.Type, got.Text)
	}
}

func TestWhatShowsThatAGatewayFetches(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*gallery, *gateway){
		"a newer op":  func(_ *gallery, home *gateway) { home.do(relay.Request{Action: relay.Typing{Chat: "@ann"}}) },
		"one not its": func(_ *gallery, home *gateway) { home.do(relay.Request{Action: relay.Typing{Chat: "elsewhere"}}) },
		"one newer than us": func(_ *gallery, home *gateway) {
			home.do(relay.Request{Action: relay.UnknownAction{Name: "task_card"}})
		},
		"the media route": func(g *gallery, _ *gateway) { g.hub.Fetches(g.t.Context(), "home") },
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(name+" "+when, func(t *testing.T) {
				g := newGallery(t)
				g.enroll("home", "ann")
				home := g.come("home")
				if when == "before" {
					does(g, home)
				}
				g.brings("e1", "look", "", aPhoto)
				home.takes()
				g.empty("home")
				if when == "after" {
					g.becomesOld()
					does(g, home)
				}
				g.wantOld(false, true)
				g.brings("e2", "look", "", aPhoto)
				if got := home.takes(); len(got.Media) != 1 || !strings.HasPrefix(got.Media[0].URL, origin) {
					t.Errorf("%+v", got)
				}
				commits := g.db.Stats().Commits
				does(g, home)
				if n := g.db.Stats().Commits - commits; n > 1 { // the acknowledgement's
					t.Errorf("%d commits for the same again", n)
				}
			})
		}
	}
}
