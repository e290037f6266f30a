package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// That loopback keeps the contract is proved in package platformtest, which uses it as its
// reference: TestLoopback there.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox accepts, refusing the first batches.
type inbox struct {
	mu      sync.Mutex // guards the fields below
	refuse  int
	offers  int
	batches []platforms.Batch
	cursor  []byte
	words   string // said to whoever presses a button
}

func (in *inbox) Accept(_ context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.offers++
	if in.refuse > 0 {
		in.refuse--
		return errors.New("refused")
	}
	in.batches = append(in.batches, b)
	if b.Cursor != nil {
		in.cursor = b.Cursor
	}
	if in.words != "" {
		b.Refused(b.Events[0].ID, in.words)
	}
	return nil
}

func (in *inbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

// events are the accepted ones.
func (in *inbox) events() []relay.Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	var out []relay.Event
	for _, b := range in.batches {
		out = append(out, b.Events...)
	}
	return out
}

// start runs p against in until the test, or stop, ends it.
func start(t *testing.T, p platforms.Bot, in platforms.Inbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestMessageBecomesEvent(t *testing.T) {
	direct := relay.Source{
		Platform: LoopbackID, ChatID: "@ann", ChatType: relay.ChatDM, ChatName: "ann", UserID: "ann", UserName: "ann", MessageID: "m2",
	}
	group := relay.Source{
		Platform: LoopbackID, ChatID: "garden", ChatType: relay.ChatGroup, ChatName: "garden", UserID: "ann", UserName: "ann", MessageID: "m2",
	}
	scoped := group
	scoped.ChatID, scoped.ChatName, scoped.Scope, scoped.ThreadID = "park/garden", "park/garden", "park", "roses"
	for name, tc := range map[string]struct {
		say    Message
		source relay.Source
		typ    relay.MessageType
		traits relay.Traits
		quote  *relay.Quote
	}{
		"directly":                       {say: Message{Text: "hi"}, source: direct},
		"directly, by the chat's id":     {say: Message{Chat: "@ann", Text: "hi"}, source: direct},
		"in a shared chat":               {say: Message{Chat: "garden", Text: "hi"}, source: group},
		"in a thread inside a scope":     {say: Message{Chat: "park/garden", Thread: "roses", Text: "hi"}, source: scoped},
		"to the bot":                     {say: Message{Chat: "garden", Text: "hi @loopback"}, source: group, traits: relay.Traits{Addressed: true}},
		"to somebody else":               {say: Message{Chat: "garden", Text: "hi @bob"}, source: group},
		"a command":                      {say: Message{Text: "/new one"}, source: direct, typ: relay.TypeCommand, traits: relay.Traits{Addressed: true}},
		"a command for the bot":          {say: Message{Text: "/new@loopback"}, source: direct, typ: relay.TypeCommand, traits: relay.Traits{Addressed: true}},
		"a command for another":          {say: Message{Text: "/new@other"}, source: direct, typ: relay.TypeCommand, traits: relay.Traits{OtherCommand: true}},
		"an address in an argument":      {say: Message{Text: "/new x@y"}, source: direct, typ: relay.TypeCommand, traits: relay.Traits{Addressed: true}},
		"by a bot":                       {say: Message{Text: "hi", IsBot: true}, source: direct, traits: relay.Traits{AuthorIsBot: true}},
		"by the bot itself":              {say: Message{Text: "hi", Own: true}, source: direct, traits: relay.Traits{AuthorIsBot: true, Own: true}},
		"an answer to the bot":           {say: Message{Text: "hi", ReplyTo: "m1"}, source: direct, traits: relay.Traits{Addressed: true}, quote: &relay.Quote{Text: "first", IsOwn: true}},
		"an answer to something unknown": {say: Message{Text: "hi", ReplyTo: "m7"}, source: direct},
	} {
		t.Run(name, func(t *testing.T) {
			net, in := NewNetwork(), &inbox{}
			p := NewLoopback(net, nil)
			if _, err := p.Send(t.Context(), relay.Send{Chat: "@ann", Content: "first"}); err != nil {
				t.Fatal(err)
			}
			start(t, p, in)
			tc.say.User = "ann"
			if err := net.Say(t.Context(), tc.say); err != nil {
				t.Fatal(err)
			}
			want := relay.Event{
				ID: "m2", MessageID: "m2", Bot: p.ID(), Source: tc.source, Type: tc.typ, Text: tc.say.Text,
				ReplyToMessageID: tc.say.ReplyTo, ReplyTo: tc.quote, Traits: tc.traits,
			}
			if want.Type == "" {
				want.Type = relay.TypeText
			}
			got := in.events()
			for i := range got {
				got[i].At = time.Time{}
			}
			if d := cmp.Diff([]relay.Event{want}, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}

func TestRefusedEventsWait(t *testing.T) { // invariant 1
	synctest.Test(t, func(t *testing.T) {
		net, in := NewNetwork(), &inbox{refuse: 3}
		stop := start(t, NewLoopback(net, nil), in)
		net.Post(Message{User: "ann", Text: "one"})
		synctest.Wait()
		net.Post(Message{User: "ann", Text: "two"}) // does not shorten the pause
		synctest.Wait()
		if in.offers != 1 {
			t.Errorf("%d offers before the pause is over, want 1", in.offers)
		}
		// The next process goes on where this one stopped.
		stop()
		start(t, NewLoopback(net, nil), in)
		if err := net.Say(t.Context(), Message{User: "ann", Text: "three"}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ev := range in.events() {
			got = append(got, ev.Text)
		}
		if want := []string{"one", "two", "three"}; !slices.Equal(got, want) {
			t.Errorf("accepted %q, want %q", got, want)
		}
	})
}

func TestSayGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewNetwork().Say(ctx, Message{User: "ann", Text: "hi"}); !errors.Is(err, context.Canceled) {
		t.Errorf("say without a bot, on a cancelled context: %v", err)
	}
}

func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := NewNetwork()
		p := NewLoopback(net, nil)
		is := func(want platforms.State) {
			t.Helper()
			synctest.Wait()
			if got := p.Status(); got.State != want || got.Name != Handle {
				t.Errorf("status is %+v, want %s", got, want)
			}
		}
		is(platforms.Starting)
		stop := start(t, p, &inbox{})
		is(platforms.Connected)
		net.Drop()
		is(platforms.Connected)
		stop()
		is(platforms.Stopped)
		net.Revoke()
		p = NewLoopback(net, nil)
		if err := p.Run(t.Context(), &inbox{}); !errors.Is(err, relay.ErrBadCredentials) {
			t.Errorf("run, revoked: %v", err)
		}
		is(platforms.BadCredentials)
	})
}

func TestActs(t *testing.T) {
	net := NewNetwork()
	p := NewLoopback(net, nil)
	ctx := t.Context()
	long := strings.Repeat("ä", MaxLength) + "b"
	for _, a := range []relay.Action{
		relay.Send{Chat: "garden", Content: "hello", ReplyTo: "m0", Meta: relay.Metadata{ThreadID: "roses"}},
		relay.Send{Chat: "garden", Content: long},
		relay.Edit{Chat: "garden", Message: "m1", Content: "hello again"},
		relay.Edit{Chat: "garden", Message: "m1", Content: long},
		relay.Typing{Chat: "garden"},
		relay.React{Chat: "garden", Message: "m1", Emoji: "👍"},
		relay.React{Chat: "garden", Message: "m1", Emoji: "👍", Remove: true},
		relay.Delete{Chat: "garden", Message: "m1"},
		relay.GetChatInfo{Chat: "@ann"},
	} {
		if _, err := platforms.Do(ctx, p, a); err != nil {
			t.Fatalf("%s: %v", a.Op(), err)
		}
	}
	want := []Act{
		{Op: relay.OpSend, Chat: "garden", Thread: "roses", Message: "m1", ReplyTo: "m0", Text: "hello"},
		{Op: relay.OpSend, Chat: "garden", Message: "m2", Text: long[:2*MaxLength]},
		{Op: relay.OpSend, Chat: "garden", Message: "m3", Text: "b"},
		{Op: relay.OpEdit, Chat: "garden", Message: "m1", Text: "hello again"},
		{Op: relay.OpEdit, Chat: "garden", Message: "m1", Text: long[:2*MaxLength]},
		{Op: relay.OpSend, Chat: "garden", Message: "m4", Text: "b"},
		{Op: relay.OpTyping, Chat: "garden"},
		{Op: relay.OpReact, Chat: "garden", Message: "m1", Text: "👍"},
		{Op: relay.OpReact, Chat: "garden", Message: "m1", Text: "👍", Remove: true},
		{Op: relay.OpDelete, Chat: "garden", Message: "m1"},
		{Op: relay.OpGetChatInfo, Chat: "@ann"},
	}
	if d := cmp.Diff(want, net.Acts()); d != "" {
		t.Errorf("acts (-want +got):\n%s", d)
	}
	for i := range want {
		if got, err := net.Act(ctx, i); err != nil || got != want[i] {
			t.Errorf("act %d is %+v, %v; want %+v", i, got, err, want[i])
		}
	}
	none, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := net.Act(none, len(want)); !errors.Is(err, context.Canceled) {
		t.Errorf("an act that never comes: %v", err)
	}
}

func TestResults(t *testing.T) {
	ctx := t.Context()
	for name, tc := range map[string]struct {
		do   relay.Action
		want relay.Result
	}{
		"one message":  {relay.Send{Chat: "@ann", Content: "hi"}, relay.Result{MessageID: "m1"}},
		"two parts":    {relay.Send{Chat: "@ann", Content: strings.Repeat("x", MaxLength+1)}, relay.Result{MessageID: "m2", MessageIDs: []relay.MessageID{"m1", "m2"}}},
		"a person":     {relay.GetChatInfo{Chat: "@ann"}, relay.Result{ChatInfo: &relay.ChatInfo{Name: "ann", Type: relay.ChatDM}}},
		"shared chat":  {relay.GetChatInfo{Chat: "park/garden"}, relay.Result{ChatInfo: &relay.ChatInfo{Name: "park/garden", Type: relay.ChatGroup}}},
		"only showing": {relay.Typing{Chat: "@ann"}, relay.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := platforms.Do(ctx, NewLoopback(NewNetwork(), nil), tc.do)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("result (-want +got):\n%s", d)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	maybe := &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	not := &relay.ActionError{Outcome: relay.NotSent, Public: "network: down"}
	said := func(n *Network) { // m1, to bob
		if _, err := NewLoopback(n, nil).Send(t.Context(), relay.Send{Chat: "@bob", Content: "hi"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		before  func(*Network)
		do      relay.Action
		want    string // the public words
		outcome relay.Outcome
		acts    int
	}{
		"no chat":            {do: relay.Send{Content: "hi"}, want: "chat not found", outcome: relay.NotSent},
		"edit of nothing":    {do: relay.Edit{Chat: "@ann", Message: "m9"}, want: "message not found", outcome: relay.NotSent},
		"deletion of naught": {do: relay.Delete{Chat: "@ann", Message: "m9"}, want: "message not found", outcome: relay.NotSent},
		"edit elsewhere":     {before: said, do: relay.Edit{Chat: "@ann", Message: "m1"}, want: "message not found", outcome: relay.NotSent, acts: 1},
		"deletion elsewhere": {before: said, do: relay.Delete{Chat: "@ann", Message: "m1"}, want: "message not found", outcome: relay.NotSent, acts: 1},
		"revoked":            {before: (*Network).Revoke, do: relay.Send{Chat: "@ann"}, want: "unauthorized", outcome: relay.NotSent},
		"scripted, not sent": {before: func(n *Network) { n.FailNext(not) }, do: relay.GetChatInfo{Chat: "@ann"}, want: not.Public, outcome: relay.NotSent},
		"scripted, unclear":  {before: func(n *Network) { n.FailNext(maybe, not) }, do: relay.Send{Chat: "@ann"}, want: maybe.Public, acts: 1},
		"unknown ability":    {do: relay.Draft{Chat: "@ann"}, want: "unsupported op draft", outcome: relay.NotSent},
	} {
		t.Run(name, func(t *testing.T) {
			net := NewNetwork()
			if tc.before != nil {
				tc.before(net)
			}
			_, err := platforms.Do(t.Context(), NewLoopback(net, nil), tc.do)
			ae := relay.Explain(err)
			if ae == nil || ae.Public != tc.want || ae.Outcome != tc.outcome || len(net.Acts()) != tc.acts {
				t.Errorf("%+v gives %+v after %d acts; want %q, outcome %d, %d acts", tc.do, ae, len(net.Acts()), tc.want, tc.outcome, tc.acts)
			}
		})
	}
}

func TestFailNextLetsOthersPass(t *testing.T) {
	net := NewNetwork()
	p := NewLoopback(net, nil)
	down := &relay.ActionError{Outcome: relay.NotSent, Public: "network: down"}
	net.FailNext(nil, down)
	for i, want := range []bool{true, false, true} {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "@ann", Content: "hi"}); (err == nil) != want {
			t.Errorf("send %d: %v, want success: %t", i, err, want)
		}
	}
}

func TestCanSee(t *testing.T) {
	net, in := NewNetwork(), &inbox{}
	p := NewLoopback(net, nil)
	start(t, p, in)
	if err := net.Say(t.Context(), Message{User: "ann", Chat: "garden", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	net.Join("garden", "bob")
	net.Join("garden", "eve")
	net.Leave("garden", "eve")
	net.Leave("nowhere", "eve")
	for name, tc := range map[string]struct {
		chat relay.ChatID
		user relay.UserID
		want bool
	}{
		"who spoke":                   {"garden", "ann", true},
		"who joined":                  {"garden", "bob", true},
		"who left":                    {"garden", "eve", false},
		"who never was there":         {"garden", "kim", false},
		"a chat nobody knows":         {"shed", "ann", false},
		"one's own direct chat":       {"@ann", "ann", true},
		"somebody else's direct chat": {"@ann", "bob", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.CanSee(t.Context(), relay.Place{Platform: LoopbackID, Chat: tc.chat}, tc.user)
			if err != nil || got != tc.want {
				t.Errorf("CanSee = %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}
