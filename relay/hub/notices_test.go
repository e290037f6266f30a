package hub

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// newPoliteRig is newRig with replies, of a process that has run for an hour.
func newPoliteRig(t *testing.T, replies inbound.Replies) *rig {
	return newRig(t, func(_ *store.DB, o *Options) { o.Replies, o.Began = replies, time.Now().Add(-time.Hour) })
}

// hears says m and returns what the bot answered since.
func (r *rig) hears(m local.Message) (answers []string) {
	r.t.Helper()
	before := len(r.net.Acts())
	r.say(m)
	r.hub.Farewell(r.t.Context())
	for _, a := range r.net.Acts()[before:] {
		answers = append(answers, a.Text)
	}
	return answers
}

// again hands m's like to another hub over the same database, as after a restart, and counts what it wants to say.
func (r *rig) again(id relay.EventID, user relay.UserID) int {
	r.t.Helper()
	h := New(r.db, r.desk, &bus.Local{}, r.hub.Bots(), r.hub.opts)
	ev := relay.Event{
		ID: id, MessageID: "m1", Bot: r.bot, Type: relay.TypeText, Text: "hello",
		Source: relay.Source{Platform: r.bot.Platform, ChatID: relay.ChatID("@" + string(user)), ChatType: relay.ChatDM, UserID: user},
	}
	must.Succeed(r.t, h.in.Inbox(r.bot).Accept(r.t.Context(), platforms.Batch{Events: []relay.Event{ev, ev}}))
	return h.tasks.Waiting()
}

func TestAStrangerIsToldOnceADay(t *testing.T) {
	r := newPoliteRig(t, inbound.Replies{Unbound: "ask for a code"})
	r.enroll("home", "ann")
	for name, m := range map[string]local.Message{
		"in a group":             {User: "zoe", Chat: "garden", Text: "hello"},
		"in a group, to the bot": {User: "zoe", Chat: "garden", Text: "hello @loopback"},
		"a bot":                  {User: "robot", IsBot: true, Text: "hello"},
		"somebody bound":         {User: "ann", Text: "hello"},
		"a press on nothing":     {User: "yan", Press: &local.Press{Message: "m1", Prompt: "none", Option: "once"}},
	} {
		if got := r.hears(m); slices.Contains(got, "ask for a code") {
			t.Errorf("%s is told %q", name, got)
		}
	}
	if got := r.hears(local.Message{User: "eve", Text: "/start"}); len(got) != 1 || got[0] != "ask for a code" {
		t.Errorf("a stranger is told %q", got)
	}
	if why := r.reasons()[""]; why != gate.NoBinding {
		t.Errorf("the verdict is %s", why)
	}
	if got := r.hears(local.Message{User: "eve", Text: "hello?"}); len(got) > 0 {
		t.Errorf("a stranger is told a second time: %q", got)
	}
	if n := r.again("later", "eve"); n != 0 {
		t.Errorf("after a restart, %d answers to a stranger who was told", n)
	}
	if n := r.again("other", "sam"); n != 1 {
		t.Errorf("two messages of another stranger in one batch get %d answers, want 1", n)
	}
}

func TestSilenceForStrangers(t *testing.T) {
	r := newPoliteRig(t, inbound.Replies{})
	if got := r.hears(local.Message{User: "eve", Text: "hello"}); len(got) > 0 {
		t.Errorf("a stranger is told %q", got)
	}
	if n := r.again("later", "eve"); n != 0 {
		t.Errorf("%d answers", n)
	}
}

func TestWhoWritesToAnAbsentGatewayIsToldOnce(t *testing.T) {
	r := newPoliteRig(t, inbound.Replies{Away: true})
	r.enroll("home", "ann", "bob")
	gone := func(since time.Time) {
		r.update("home", func(i *store.Instance) { i.LastSeenAt = since })
	}
	says := func(user relay.UserID, want int, when string) {
		t.Helper()
		if got := r.hears(local.Message{User: user, Text: "hello"}); len(got) != want || want == 1 && !strings.HasSuffix(got[0], "` is not reachable; your message is kept.") {
			t.Errorf("%s, %s is told %q", when, user, got)
		}
	}
	gone(time.Now())
	says("ann", 1, "in an time.Minute that just began")
	says("ann", 0, "in the same")
	gone(time.Now().Add(-2 * time.Minute))
	says("bob", 1, "in an time.Minute")
	says("bob", 0, "in the same")
	if n := r.again("later", "bob"); n != 0 {
		t.Errorf("after a restart, %d answers in the same time.Minute", n)
	}
	if got := r.hears(local.Message{User: "bob", Chat: "garden", Text: "hello"}); len(got) > 0 {
		t.Errorf("in a group, bob is told %q", got)
	}
	gone(time.Now().Add(-3 * time.Minute))
	says("bob", 0, "in an earlier time.Minute than that of the message before")
	r.update("home", func(i *store.Instance) { i.Asleep = true })
	r.enroll("attic", "cat")
	says("cat", 1, "of a gateway that never came")
	says("cat", 0, "the same again")
	r.update("home", func(i *store.Instance) { i.LastSeenAt = time.Now().Add(-4 * time.Minute) })
	says("ann", 0, "of a gateway that sleeps")
}

func TestNobodyIsToldOfARestart(t *testing.T) {
	r := newRig(t, func(_ *store.DB, o *Options) { o.Replies = inbound.Replies{Away: true} })
	r.enroll("home", "ann")
	r.update("home", func(i *store.Instance) { i.LastSeenAt = time.Now().Add(-time.Hour) })
	if got := r.hears(local.Message{User: "ann", Text: "hello"}); len(got) > 0 {
		t.Errorf("just after the start, ann is told %q", got)
	}
	r.enroll("attic", "cat")
	if got := r.hears(local.Message{User: "cat", Text: "hello"}); len(got) != 1 {
		t.Errorf("just after the start, of a gateway that never came, cat is told %q", got)
	}
}
