package hub

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// town is facts.Stored about an instance "home" with n people "p0", "p1" and on, who talked in "yard" and "hall",
// and with grants for "hall" and n other chats. It counts the records that are read, and the looks
// that find none.
type town struct {
	n, reads int
}

var _ facts.Stored = (*town)(nil)

func (f *town) read(records int) { f.reads += max(1, records) }

func (f *town) bound(u relay.UserID) store.Binding {
	return store.Binding{Platform: tell, User: u, Instance: "home"}
}

func (f *town) Instances(_ context.Context, ids ...relay.InstanceID) (out []store.Instance, err error) {
	for _, i := range ids {
		out = append(out, store.Instance{ID: i, Tenant: "home", Principal: store.Principal{Policy: relay.AnyOne}})
	}
	f.read(len(out))
	return out, nil
}

func (f *town) Bindings(_ context.Context, b store.BindingFilter) (out []store.Binding, err error) {
	switch {
	case b.User != "":
		if b.User[0] == 'p' && (b.Instance == "" || b.Instance == "home") {
			out = append(out, f.bound(b.User))
		}
	case b.DMChat == "" && b.Instance == "home":
		next := 0
		if b.After != "" {
			last, _ := strconv.Atoi(string(b.After[1:]))
			next = last + 1
		}
		for n := next; n < f.n && (b.Limit == 0 || len(out) < b.Limit); n++ {
			out = append(out, f.bound(relay.UserID(fmt.Sprint("p", n))))
		}
	}
	f.read(len(out))
	return out, nil
}

func (f *town) Grants(_ context.Context, g store.GrantFilter) (out []store.Grant, err error) {
	switch {
	case g.Covering != nil && g.Covering.Chat == "hall":
		out = []store.Grant{{Platform: tell, Chat: "hall", Instance: "home"}}
	case g.Chat == "" && g.Covering == nil:
		for n := range f.n {
			if g.Limit == 0 || n < g.Limit {
				out = append(out, store.Grant{Platform: tell, Chat: relay.ChatID(fmt.Sprint("c", n)), Instance: "home"})
			}
		}
	}
	f.read(len(out))
	return out, nil
}

func (f *town) Conversations(_ context.Context, c store.ConversationFilter) ([]store.Conversation, error) {
	f.read(1)
	if c.Instance != "" && c.Instance != "home" || c.Chat.ID != "yard" && c.Chat.ID != "hall" {
		return nil, nil
	}
	return []store.Conversation{{Instance: "home", Bot: c.Chat.Bot, Chat: c.Chat.ID, By: "p5", LastAt: time.Now()}}, nil
}

func (f *town) CurrentChat(_ context.Context, _ relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	f.read(1)
	return c, nil
}

// TestJudgingReadsTheSameWhateverThereIs: a few records for an event and for an action, with a hundred people
// and chats and with a hundred thousand.
func TestJudgingReadsTheSameWhateverThereIs(t *testing.T) {
	event := func(u relay.UserID, c relay.ChatID) relay.Event {
		return relay.Event{
			ID: "e", MessageID: "e", Bot: relay.Bot{Platform: tell, ID: "1"}, Traits: relay.Traits{Addressed: true},
			Source: relay.Source{Platform: tell, ChatID: c, ChatType: relay.ChatGroup, UserID: u},
		}
	}
	press := func(u relay.UserID) relay.Event {
		ev := event(u, "hall")
		ev.Prompt, ev.Traits.Press = &relay.PromptResponse{PromptID: "p", OptionID: "yes"}, true
		return ev
	}
	withFile := event("p7", "hall")
	withFile.Attachments = []relay.Attachment{{ID: relay.NewMediaID(), Ref: "f", Kind: relay.TypeDocument}}
	for name, tc := range map[string]struct {
		event  relay.Event  // judged, if it has an author
		known  relay.UserID // is known to see its chat
		action relay.Action // else decided about
		want   string
		most   int
	}{
		"a bound person":                       {event: event("p7", "yard"), want: "delivered", most: 4},
		"a bound person in a granted chat":     {event: event("p7", "hall"), want: "delivered", most: 4},
		"a stranger":                           {event: event("eve", "yard"), want: "no_binding", most: 4},
		"a stranger in a granted chat":         {event: event("eve", "hall"), known: "p5", want: "delivered", most: 6},
		"and somebody else sees it":            {event: event("eve", "hall"), known: "p9", want: "delivered", most: 6 + facts.SomeWatchers},
		"and the network is to say who sees":   {event: event("eve", "hall"), want: "undecided", most: 6 + facts.SomeWatchers},
		"an event with a file":                 {event: withFile, want: "delivered", most: 4},
		"an owner's press":                     {event: press("p7"), want: "delivered", most: 4},
		"a guest's press":                      {event: press("eve"), known: "p5", want: "delivered", most: 7},
		"a question to a granted chat":         {action: relay.Prompt{Chat: "hall"}, want: "yes", most: 8},
		"a file to a granted chat":             {action: relay.SendMedia{Chat: "hall"}, want: "yes", most: 8},
		"a message to a granted chat":          {action: relay.Send{Chat: "hall"}, want: "yes", most: 8},
		"a message to a chat that was heard":   {action: relay.Send{Chat: "yard"}, want: "yes", most: 8},
		"a message to a chat of nobody":        {action: relay.Send{Chat: "street"}, want: "no", most: 8},
		"a change of what nobody remembers":    {action: relay.Edit{Chat: "hall", Message: "old"}, want: "yes", most: 16},
		"a deletion of what nobody remembers":  {action: relay.Delete{Chat: "hall", Message: "old"}, want: "yes", most: 16},
		"a change where nobody knows the chat": {action: relay.Edit{Chat: "street", Message: "old"}, want: "no", most: 16},
	} {
		t.Run(name, func(t *testing.T) {
			reads := make(map[int]int)
			for _, n := range []int{100, 100_000} {
				h, first, _ := claims(t)
				first.sees = func(relay.Place, relay.UserID) (bool, error) { return true, nil }
				if tc.known != "" {
					h.facts.Visible.Observe(visibility.Of{Bot: first.bot, Place: tc.event.Source.Place(), User: tc.known}, time.Now())
				}
				s := h.newAttachment(nil, session.Peer{Gateway: "home", Instance: "home", Tenant: "home"})
				s.say(first.bot)
				s.markNewer()
				if tc.event.Prompt != nil {
					r := prompt.Record{
						Instance: "home", Bot: first.bot, Chat: "hall", Kind: relay.PromptChoice, ID: "p", Options: []relay.PromptOption{{ID: "yes"}},
						At: time.Now().UTC(), ExpiresAt: time.Now().Add(time.Hour).UTC(),
					}
					if _, err := h.db.Prompts.Add(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
				f := &town{n: n}
				h.facts.Stored = f
				got := ""
				if tc.action == nil {
					must.Succeed(t, h.in.Inbox(first.bot).Accept(t.Context(), platforms.Batch{Events: []relay.Event{tc.event}}))
					got = string(h.Decisions()[0].Reason)
				} else {
					err := s.Action(t.Context(), relay.Request{Action: tc.action}).Allow(t.Context())
					got = map[bool]string{true: "yes", false: "no"}[err == nil]
				}
				if got != tc.want {
					t.Errorf("with %d: %s, want %s", n, got, tc.want)
				}
				reads[n] = f.reads
			}
			if reads[100] != reads[100_000] || reads[100] > tc.most {
				t.Errorf("reads = %v, want the same twice, at most %d", reads, tc.most)
			}
		})
	}
}

// slowLane is a stage whose chats are closed by their rate limit until open is closed.
type slowLane struct {
	*stage
	open    chan struct{}
	waiting chan struct{} // gets one for each that waits
}

func (p *slowLane) WaitOpen(ctx context.Context, _ relay.ChatID) error {
	p.waiting <- struct{}{}
	select {
	case <-p.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *slowLane) Typing(context.Context, relay.Typing) (relay.Result, error) {
	return relay.Result{}, nil
}

func (p *slowLane) React(context.Context, relay.React) (relay.Result, error) {
	return relay.Result{}, nil
}

func (p *slowLane) Reaction(relay.React) relay.Reaction { return relay.Reaction{} }

func (p *slowLane) Draft(context.Context, relay.Draft) (relay.Result, error) {
	return relay.Result{}, nil
}

func (p *slowLane) Drafts() bool { return true }

// TestAnActionWaitsForItsRateLimitAndIsPickedThen: but what shows the moment does not wait, and what was
// allowed a while ago is not allowed any more if the reason is gone.
func TestAnActionWaitsForItsRateLimitAndIsPickedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, first, _ := claims(t)
		answers(first)
		p := &slowLane{stage: first, open: make(chan struct{}), waiting: make(chan struct{}, 1)}
		h.Bots()[0] = p
		s := h.newAttachment(nil, session.Peer{Gateway: "home", Instance: "home", Tenant: "home"})
		s.say(first.bot)
		s.markNewer()
		for _, a := range []relay.Action{relay.Typing{Chat: "@ann"}, relay.React{Chat: "@ann", Message: "1", Emoji: "x"}, relay.Draft{Chat: "@ann", DraftID: 1}} {
			if _, err := act(t.Context(), s, relay.Request{Action: a}); err != nil || len(p.waiting) > 0 {
				t.Errorf("%s: %v, and %d wait for the rate limit", a.Op(), err, len(p.waiting))
			}
		}
		for _, tc := range []struct {
			unbound bool
			want    int // sent
		}{{false, 1}, {true, 1}} {
			old := relay.Request{Action: relay.Send{Chat: "@ann", Content: "old"}}
			a := s.Action(t.Context(), old)
			must.Succeed(t, a.Allow(t.Context()))
			done := make(chan error)
			picked := make(chan struct{}, 1)
			go func() {
				_, err := a.Do(t.Context(), func() (context.Context, relay.Request, bool) {
					picked <- struct{}{}
					return t.Context(), old, true
				})
				done <- err
			}()
			<-p.waiting
			if len(picked) > 0 || len(first.sent) == tc.want && !tc.unbound {
				t.Error("it did not wait")
			}
			if tc.unbound {
				must.Succeed(t, h.db.Unbind(t.Context(), nil, "home", tell, "ann"))
				time.Sleep(time.Minute) // that long it waited
			}
			close(p.open)
			err := <-done
			if ae := relay.Explain(err); (err != nil) != tc.unbound || tc.unbound && ae.Code != relay.CodeEgressDeclined || len(first.sent) != tc.want {
				t.Errorf("unbound %t: %v, %d sent, want %d", tc.unbound, err, len(first.sent), tc.want)
			}
			p.open = make(chan struct{})
		}
	})
}

// TestAnActionThatTheRateLimitRefusesIsCounted: it failed, like one that the network refused.
func TestAnActionThatTheRateLimitRefusesIsCounted(t *testing.T) {
	h, first, _ := claims(t)
	answers(first)
	h.Bots()[0] = &slowLane{stage: first, waiting: make(chan struct{}, 1)}
	s := h.newAttachment(nil, session.Peer{Gateway: "home", Instance: "home", Tenant: "home"})
	s.say(first.bot)
	a := s.Action(t.Context(), relay.Request{Action: relay.Send{Chat: "@ann", Content: "x"}})
	must.Succeed(t, a.Allow(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Do(ended, func() (context.Context, relay.Request, bool) {
		t.Error("it was picked")
		return nil, relay.Request{}, false
	})
	if n := h.Counters()["action_not_sent"]; err == nil || relay.Explain(err).Outcome != relay.NotSent || n != 1 || len(first.sent) > 0 {
		t.Errorf("%v, %d counted as not sent, %d sent; want an error that says so, 1, 0", err, n, len(first.sent))
	}
}

// TestWhatWasAllowedCoversTheNewestOfItsKind: an edit is carried out as the newest text says, where the one
// that was allowed was to be.
func TestWhatWasAllowedCoversTheNewestOfItsKind(t *testing.T) {
	h, first, _ := claims(t)
	answers(first)
	var done []relay.Edit
	h.Bots()[0] = &scribbler{stage: first, done: &done}
	s := h.newAttachment(nil, session.Peer{Gateway: "home", Instance: "home", Tenant: "home"})
	s.say(first.bot)
	s.markNewer()
	a := s.Action(t.Context(), relay.Request{Action: relay.Edit{Chat: "@ann", Message: "m", Content: "old"}})
	must.Succeed(t, a.Allow(t.Context()))
	_, err := a.Do(t.Context(), func() (context.Context, relay.Request, bool) {
		return t.Context(), relay.Request{Action: relay.Edit{Chat: "@ann", Message: "m", Content: "new"}}, true
	})
	if err != nil || len(done) != 1 || done[0].Content != "new" || done[0].Chat != "@ann" {
		t.Errorf("edited %+v, %v, want the newest text", done, err)
	}
}

// scribbler is a stage that remembers what it edits.
type scribbler struct {
	*stage
	done *[]relay.Edit
}

func (p *scribbler) Edit(_ context.Context, a relay.Edit) (relay.Result, error) {
	*p.done = append(*p.done, a)
	return relay.Result{MessageID: a.Message}, nil
}

var (
	_ platforms.Limited = (*slowLane)(nil)
	_ platforms.Editor  = (*scribbler)(nil)
)
