package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// bench is a bot on a fake, and what it handed in.
type bench struct {
	t    *testing.T
	fake *fakeServer
	base string
	in   *memoryInbox
	log  platformtest.Log
	*Bot
	stop func()
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, fake: newFake(), in: &memoryInbox{linked: map[relay.UserID]bool{ann: true}}}
	b.base = b.fake.serve(t)
	b.fake.room(annRoom, obj{}, ann, botUser)
	b.fake.room(groupRoom, obj{}, ann, botUser, bob)
	return b
}

// start runs a bot until stop, or until the test ends.
func (b *bench) start() {
	b.t.Helper()
	p, err := openAt(b.base, b.log.Logger())
	if err != nil {
		b.t.Fatal(err)
	}
	b.Bot = p
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, b.in) }()
	ended := false
	b.stop = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				b.t.Error(err)
			}
		}
	}
	b.t.Cleanup(func() {
		b.stop()
		if b.t.Failed() {
			b.t.Log(b.log.String())
		}
	})
	b.until("the bot is connected", func() bool {
		s := p.Status().State
		return s == platforms.Connected || s == platforms.Degraded
	})
}

// until waits for what comes with the next sync.
func (b *bench) until(what string, is func() bool) { b.t.Helper(); wait.Until(b.t, what, is) }

func (b *bench) heard(text string) (ev relay.Event) {
	b.t.Helper()
	b.until("the event "+text, func() bool {
		for _, e := range b.in.events() {
			if e.Text == text {
				ev = e
				return true
			}
		}
		return false
	})
	return ev
}

func (b *bench) texts() (out []string) {
	for _, ev := range b.in.events() {
		out = append(out, ev.Text)
	}
	return out
}

// TestTheFirstSyncTakesNoHistory: what was said before there was a position is nobody's to answer, nor what was said in a room
// before the bot came.
func TestTheFirstSyncTakesNoHistory(t *testing.T) {
	b := newBench(t)
	b.fake.say(annRoom, ann, "old")
	b.start()
	b.fake.say(annRoom, ann, "new")
	b.heard("new")
	room := "!third:" + server
	b.fake.room(room, obj{}, ann, bob)
	b.fake.say(room, ann, "before it came")
	b.fake.join(room, botUser)
	b.fake.say(room, ann, "after it came")
	b.heard("after it came")
	if diff := cmp.Diff([]string{"new", "after it came"}, b.texts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	syncs := b.fake.called("sync")
	if first, next := syncs[0].query, syncs[1].query; first.Get("since") != "" || !strings.Contains(first.Get("filter"), `"limit":1}`) || !strings.Contains(next.Get("filter"), `"limit":100}`) {
		t.Errorf("the first sync asks for %v, the next for %v", first, next)
	}
}

// TestARestartInTheMiddleOfABatch: the disk took the first part of what one answer brought, and the process died. All of it comes once.
func TestARestartInTheMiddleOfABatch(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.say(annRoom, ann, "zero")
	b.heard("zero")
	b.stop()
	var want []string
	for i := range 250 {
		text := fmt.Sprintf("line %d", i)
		want = append(want, text)
		b.fake.say(annRoom, ann, text)
	}
	taken := 0
	b.in.refuses = func(batch platforms.Batch) error {
		if len(batch.Events) > 0 {
			taken++
		}
		if taken > 1 {
			return errors.New("the disk is full")
		}
		return nil
	}
	b.start()
	b.until("half of it is stored", func() bool { return strings.HasPrefix(b.Status().Reason, "what the homeserver sent cannot be stored") })
	before := len(b.in.events())
	b.stop()
	if before <= 1 || before > batchSize+1 {
		t.Errorf("%d events were stored of the first batch", before-1)
	}
	b.in.refuses = nil
	b.start()
	b.heard(want[len(want)-1])
	if diff := cmp.Diff(append([]string{"zero"}, want...), b.texts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestWhatWasMissedIsBounded: of a room that said very much, the newest is asked for.
func TestWhatWasMissedIsBounded(t *testing.T) {
	b := newBench(t)
	b.start()
	b.stop()
	const said = batchSize + maxMissed + 150
	for i := range said {
		b.fake.say(annRoom, ann, fmt.Sprint("line ", i))
	}
	b.start()
	b.heard(fmt.Sprint("line ", said-1))
	if n := len(b.in.events()); n != batchSize+maxMissed {
		t.Errorf("%d events came, want %d", n, batchSize+maxMissed)
	}
	if n := len(b.fake.called("messages")); n != maxMissed/missedPage {
		t.Errorf("%d pages were asked for", n)
	}
}

// TestARoomThatCannotBeAskedAbout keeps nobody waiting for ever: neither for who is in it, nor for what was missed there.
func TestARoomThatCannotBeAskedAbout(t *testing.T) {
	t.Parallel() // it waits
	for name, bad := range map[string]fault{
		"refused": {status: 400, code: "M_UNKNOWN"}, "broken": {status: 500, code: "M_UNKNOWN"}, "a proxy": {status: 502, page: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.start()
			always := slices.Repeat([]fault{bad}, 10_000)
			b.fake.fail("joined_members", always...)
			b.fake.say(annRoom, ann, "to a deaf bot")
			if ev := b.heard("to a deaf bot"); ev.Source.ChatType != relay.ChatGroup {
				t.Errorf("a room of which it is not known who is in it is a %s", ev.Source.ChatType)
			}
			b.fake.mu.Lock()
			b.fake.faults["joined_members"] = nil
			b.fake.mu.Unlock()
			b.fake.say(annRoom, ann, "again")
			if ev := b.heard("again"); ev.Source.ChatType != relay.ChatDM {
				t.Errorf("a direct chat is a %s, once the homeserver answers", ev.Source.ChatType)
			}
			b.stop()
			for i := range batchSize + 1 {
				b.fake.say(annRoom, ann, fmt.Sprint("line ", i))
			}
			b.fake.fail("messages", always...)
			b.start()
			b.heard(fmt.Sprint("line ", batchSize))
		})
	}
}

// TestAnUnclearSendIsSettled by a sync that shows its transaction, whatever the answers were.
func TestAnUnclearSendIsSettled(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.fail("send", fault{cut: true}, fault{status: 502, page: true}, fault{status: 502, page: true}, fault{status: 502, page: true})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	res, err := b.Send(ctx, relay.Send{Chat: annRoom, Content: "hello"})
	if err != nil || !strings.HasPrefix(string(res.MessageID), "$event") {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := len(b.fake.called("send")); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
}

// TestTheWholeRoom is not notified, whatever an agent writes or calls a file: the fake tells of it.
func TestTheWholeRoom(t *testing.T) {
	b := newBench(t)
	b.start()
	res, err := b.Send(t.Context(), relay.Send{Chat: groupRoom, Content: "**@room**, @Room and me@roomy.example"})
	if err != nil {
		t.Fatal(err)
	}
	file := relay.File{Content: strings.NewReader("x"), Name: "@room.txt", FileFacts: relay.FileFacts{Size: 1}}
	_, err = b.SendMedia(t.Context(), relay.SendMedia{Chat: groupRoom, File: file})
	_, err2 := b.SendMedia(t.Context(), relay.SendMedia{Chat: groupRoom, File: file, Caption: "for @room"})
	_, err3 := b.Edit(t.Context(), relay.Edit{Chat: groupRoom, Message: res.MessageID, Content: "@room again"})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Error(err)
	}
	sent := b.fake.called("send")
	if got := sent[0].body["formatted_body"]; len(sent) != 4 || got != "<strong>@\u200broom</strong>, @\u200bRoom and me@\u200broomy.example" {
		t.Errorf("%d were sent, the first %q", len(sent), got)
	}
}

// TestAFlood: nothing is asked within a penalty, in any room. The fake tells of what is.
func TestAFlood(t *testing.T) {
	t.Parallel() // it waits
	b := newBench(t)
	b.start()
	errs := make(chan error)
	send := func(i int) {
		_, err := b.Send(t.Context(), relay.Send{Chat: relay.ChatID([]string{annRoom, groupRoom}[i%2]), Content: fmt.Sprint("line ", i)})
		errs <- err
	}
	b.fake.fail("send", fault{status: 429, code: "M_LIMIT_EXCEEDED", retry: 700})
	go send(0)
	b.until("the penalty is known, or over", func() bool { return b.turns.Limiter.Closed(groupRoom) || len(b.fake.called("send")) > 0 })
	n := long.Pick(10, 200)
	for i := range n {
		go send(i + 1)
	}
	for range n + 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := len(b.fake.called("send")); got != n+1 {
		t.Errorf("%d were sent, want %d", got, n+1)
	}
}

// TestAPenaltyHoldsForAll: within one it is not asked who is in a room, no invitation is followed, and it is not said that
// the bot types no more.
func TestAPenaltyHoldsForAll(t *testing.T) {
	t.Parallel() // it waits
	b := newBench(t)
	b.start()
	if _, err := b.Typing(t.Context(), relay.Typing{Chat: annRoom}); err != nil {
		t.Fatal(err)
	}
	limited := fault{status: 429, code: "M_LIMIT_EXCEEDED", retry: 300}
	b.fake.fail("send", limited)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.Send(ctx, relay.Send{Chat: annRoom, Content: "hello"}); err == nil {
		t.Error("it was sent within a penalty")
	}
	b.fake.say(groupRoom, bob, "meanwhile") // who is in that room has not been asked yet
	if err := b.WaitOpen(t.Context(), annRoom); err != nil {
		t.Fatal(err)
	}
	b.heard("meanwhile")
	b.fake.fail("join", limited)
	rooms := []string{"!one:" + server, "!two:" + server}
	for _, room := range rooms {
		b.fake.room(room, obj{}, ann)
		b.fake.add(room, ann, "m.room.member", key(botUser), obj{"membership": "invite"})
	}
	b.until("the penalty is known, or over", func() bool { return b.turns.Limiter.Closed(annRoom) || len(b.fake.called("join")) > 0 })
	b.fake.say(groupRoom, bob, "whatever comes has invitations tried again") // not within the penalty
	if err := b.WaitOpen(t.Context(), annRoom); err != nil {
		t.Fatal(err)
	}
	b.fake.say(groupRoom, bob, "now")
	b.until("both are entered", func() bool { return len(b.fake.called("join")) >= len(rooms) })
}

// TestInvitations: direct ones are taken, others only of who is linked; what is not taken is declined.
func TestInvitations(t *testing.T) {
	b := newBench(t)
	b.start()
	invite := func(room, by string, direct bool) {
		b.fake.room(room, obj{}, by)
		b.fake.add(room, by, "m.room.member", key(botUser), obj{"membership": "invite", "is_direct": direct})
	}
	is := func(room string) string {
		b.fake.mu.Lock()
		defer b.fake.mu.Unlock()
		return b.fake.membershipLocked(room, botUser, b.fake.at+1)
	}
	invite("!of-ann:"+server, ann, false)
	invite("!of-bob:"+server, bob, false)
	b.until("ann's is taken", func() bool { return is("!of-ann:"+server) == "join" })
	b.until("bob's is declined", func() bool { return is("!of-bob:"+server) == "leave" })
	for i := range directADay + 1 {
		room := fmt.Sprintf("!direct%d:%s", i, server)
		invite(room, bob, true)
		want := "join"
		if i == directADay {
			want = "leave"
		}
		b.until(fmt.Sprint("direct invitation ", i), func() bool { return is(room) == want })
	}
	// What could not be followed is, after a restart.
	b.stop()
	b.fake.fail("join", slices.Repeat([]fault{{status: 500, code: "M_UNKNOWN"}}, 100)...)
	invite("!later:"+server, ann, false)
	b.start()
	b.until("the invitation is tried", func() bool { return b.fake.refused("join", "!later:"+server) })
	b.stop()
	if raw, _ := b.in.Cursor(t.Context()); !bytes.Contains(raw, []byte("!later")) {
		t.Fatalf("the invitation is not stored: %s", raw)
	}
	b.fake.heal("join")
	b.start()
	b.until("the later one is taken", func() bool { return is("!later:"+server) == "join" })
	// What nobody can enter any more is not tried for ever.
	b.fake.fail("join", fault{status: 404, code: "M_UNKNOWN"})
	invite("!nowhere:"+server, ann, false)
	b.until("it was tried", func() bool { return strings.Contains(b.log.String(), "cannot be followed") })
	b.fake.say(annRoom, ann, "and on")
	b.until("it is forgotten", func() bool {
		raw, _ := b.in.Cursor(t.Context())
		return !bytes.Contains(raw, []byte("!nowhere"))
	})
}

// TestWhoInvitesMayWriteAtOnce: what was said between the invitation and the bot's coming is for it, and nothing before that.
func TestWhoInvitesMayWriteAtOnce(t *testing.T) {
	b := newBench(t)
	b.start()
	b.stop()
	room := "!new:" + server
	b.fake.room(room, obj{}, ann)
	b.fake.say(room, ann, "before")
	b.fake.add(room, ann, "m.room.member", key(botUser), obj{"membership": "invite", "is_direct": true})
	b.fake.say(room, ann, "at once")
	b.start()
	b.until("the invitation is followed", func() bool { return len(b.fake.called("join")) > 0 })
	b.fake.say(room, ann, "then")
	b.heard("then")
	if diff := cmp.Diff([]string{"at once", "then"}, b.texts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestASessionThatEnded: it is told whether the token expired.
func TestASessionThatEnded(t *testing.T) {
	for body, want := range map[string]string{
		`{"errcode": "M_UNKNOWN_TOKEN", "error": "Who?"}`:                      "M_UNKNOWN_TOKEN Who?",
		`{"errcode": "M_UNKNOWN_TOKEN", "error": "Who?", "soft_logout": true}`: "M_UNKNOWN_TOKEN Who?; the token has expired",
	} {
		f := refusal(newClient(relay.NewSecret([]byte(testToken)), server, nil).calls, "sync", httpcall.Answer{Status: 401, Body: []byte(body)})
		if !refusedToken(f) || f.Message != want {
			t.Errorf("%s: %q, want %q", body, f.Message, want)
		}
	}
}

// TestAnInvitationThatAlwaysFails is given up, lest such fill the room for all others.
func TestAnInvitationThatAlwaysFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p, err := open(platforms.Options{
			Token: relay.NewSecret([]byte(testToken)), Values: optionsAt("https://matrix.example.net", nil).Values, Log: slog.New(slog.DiscardHandler),
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				asked++
				return &http.Response{StatusCode: 502, Body: io.NopCloser(strings.NewReader("a proxy")), Header: http.Header{}, Request: r}, nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		l := &runner{Bot: p, follows: make(chan map[relay.ChatID]invite, 1), done: make(chan followed, 1)}
		l.follows <- map[relay.ChatID]invite{"!nowhere:" + server: {By: ann}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		go l.follow(ctx)
		select {
		case f := <-l.done:
			if f.chat != "!nowhere:"+server || asked != maxTries {
				t.Errorf("%s was given up after %d tries", f.chat, asked)
			}
		case <-ctx.Done():
			t.Errorf("after a day and %d tries it is not given up", asked)
		}
		cancel()
		synctest.Wait()
	})
}

// TestAMove: only two rooms that name each other are one.
func TestAMove(t *testing.T) {
	b := newBench(t)
	b.start()
	old, next, stolen := groupRoom, "!next:"+server, "!stolen:"+server
	b.fake.room(stolen, obj{"predecessor": obj{"room_id": groupRoom, "event_id": "$x"}}, bob, botUser) // says so alone
	b.fake.room(next, obj{"predecessor": obj{"room_id": old, "event_id": "$x"}}, ann)
	b.fake.add(old, ann, "m.room.tombstone", key(""), obj{"body": "moved", "replacement_room": next})
	b.fake.add(next, ann, "m.room.member", key(botUser), obj{"membership": "invite"})
	b.until("the move", func() bool { return len(b.in.moves()) > 0 })
	b.fake.say(next, ann, "here")
	b.heard("here")
	if diff := cmp.Diff([]platforms.Move{{From: relay.ChatID(old), To: relay.ChatID(next)}}, b.in.moves()); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// TestADirectRoomGrows: from then on it is shared, also for a bot that has only just started.
func TestADirectRoomGrows(t *testing.T) {
	b := newBench(t)
	b.start()
	shared := func(user relay.UserID) bool {
		t.Helper()
		is, err := b.Shared(t.Context(), annRoom, user)
		if err != nil {
			t.Error(err)
		}
		return is
	}
	if shared(ann) || !shared(bob) {
		t.Errorf("alone: shared with others than ann: %t, than bob: %t", shared(ann), shared(bob))
	}
	b.fake.join(annRoom, bob)
	b.until("it is shared", func() bool { return shared(ann) })
	b.stop()
	b.start()
	if !shared(ann) {
		t.Error("after a restart it is not shared")
	}
	b.fake.fail("joined_members", fault{status: 500, code: "M_UNKNOWN"})
	b.rooms.gap(annRoom)
	if _, err := b.Shared(t.Context(), annRoom, ann); err == nil {
		t.Error("what the homeserver does not say is known")
	}
}

// TestAnEncryptedRoom is told once that nothing is read there, also over a restart, and nothing else is written there.
func TestAnEncryptedRoom(t *testing.T) {
	b := newBench(t)
	b.fake.add(groupRoom, ann, "m.room.encryption", key(""), obj{"algorithm": "m.megolm.v1.aes-sha2"})
	b.start()
	for range 2 {
		b.fake.add(groupRoom, ann, "m.room.encrypted", nil, obj{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
		b.until("the room is told", func() bool { return len(b.fake.called("send")) == 1 })
		b.fake.say(groupRoom, ann, "in the clear, from a client that does not care")
		b.fake.say(annRoom, ann, "on")
		b.stop()
		b.start()
	}
	b.heard("on")
	if texts := b.texts(); slices.ContainsFunc(texts, func(text string) bool { return text != "on" }) {
		t.Errorf("heard %q", texts)
	}
	if !strings.Contains(b.Status().Reason, groupRoom) {
		t.Errorf("the status says %q", b.Status().Reason)
	}
	_, err := b.Send(t.Context(), relay.Send{Chat: groupRoom, Content: "in the clear"})
	_, err2 := b.SendMedia(t.Context(), relay.SendMedia{Chat: groupRoom, File: relay.File{Content: strings.NewReader("x"), FileFacts: relay.FileFacts{Size: 1}}})
	_, err3 := b.React(t.Context(), relay.React{Chat: groupRoom, Message: "$x", Emoji: "👍"})
	for _, err := range []error{err, err2, err3} {
		if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || ae.Retried() {
			t.Errorf("into an encrypted room: %v", err)
		}
	}
	// A room of which no sync has told is asked about before anything is written.
	b.stop()
	p, err := openAt(b.base, b.log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	for _, look := range []bool{false, true} { // a look at who is in the room says nothing of its encryption
		if look {
			if _, err := p.ChatInfo(t.Context(), relay.GetChatInfo{Chat: groupRoom}); err != nil {
				t.Error(err)
			}
		}
		if _, err := p.Send(t.Context(), relay.Send{Chat: groupRoom, Content: "in the clear"}); relay.Explain(err) == nil {
			t.Errorf("a bot that does not run wrote into an encrypted room (after a look: %t)", look)
		}
	}
	if n := len(b.fake.called("send")) + len(b.fake.called("upload")); n != 1 {
		t.Errorf("%d things were sent, want the notice alone", n)
	}
}

// TestAForgottenPosition: a homeserver that was set up anew does not know it; the bot begins now.
func TestAForgottenPosition(t *testing.T) {
	b := newBench(t)
	at := position{Next: "x7", Home: b.base}
	b.in.cursor = at.encode()
	b.start()
	b.fake.say(annRoom, ann, "hello")
	b.heard("hello")
	if readAt, err := readPosition([]byte(`{"next":"s5","home":"https://other.example"}`), b.base); err != nil || readAt.Next != "" {
		t.Errorf("the position of another homeserver counts: %+v, %v", readAt, err)
	}
}

// TestTheTokensOwner: a token of another account is none of the bot's.
func TestTheTokensOwner(t *testing.T) {
	b := newBench(t)
	b.fake.tokens[testToken] = bob
	p, err := openAt(b.base, b.log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(t.Context(), b.in)
	if !errors.Is(err, relay.ErrBadCredentials) || !strings.Contains(p.Status().Reason, bob) {
		t.Errorf("%v; the status says %q", err, p.Status().Reason)
	}
	found := p.Examine(t.Context(), nil)
	if len(found.Findings) != 1 || found.Findings[0].Code != "HC102" {
		t.Errorf("the examination found %+v", found.Findings)
	}
}

// TestOldMedia: a homeserver without the routes that ask for the token is asked by the former ones.
func TestOldMedia(t *testing.T) {
	b := newBench(t)
	b.fake.old, b.fake.files["abc"] = true, []byte("cat")
	b.start()
	r, err := b.FetchMedia(t.Context(), relay.Attachment{Ref: "mxc://" + server + "/abc"})
	if err != nil {
		t.Fatal(err)
	}
	got := new(bytes.Buffer)
	if _, err := got.ReadFrom(r); err != nil || got.String() != "cat" || r.Close() != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNoSecretLeaves: neither what fails nor what is logged has the token, whatever the homeserver echoes.
func TestNoSecretLeaves(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.fail("send", fault{status: 400, code: "M_" + testToken})
	_, err := b.Send(t.Context(), relay.Send{Chat: annRoom, Content: "hello"})
	b.fake.fail("sync", fault{status: 400, code: "M_UNKNOWN " + testToken}, fault{lose: true})
	b.fake.say(annRoom, ann, "an end to the sync under way") // the next ones fail
	b.until("a position again", func() bool {
		syncs, begun := b.fake.called("sync"), 0
		for _, c := range syncs {
			if c.query.Get("since") == "" {
				begun++
			}
		}
		return begun == 2 && syncs[len(syncs)-1].query.Get("since") != ""
	})
	b.fake.say(annRoom, ann, "words of a person") // before that position they would be history
	b.heard("words of a person")
	raw, _ := json.Marshal(b.in.events())
	for _, said := range []string{fmt.Sprint(err), b.log.String(), string(raw), fmt.Sprint(b.Status())} {
		if strings.Contains(said, testToken) {
			t.Errorf("the token stands in %q", said)
		}
	}
	if strings.Contains(b.log.String(), "words of a person") {
		t.Error("the log has what somebody wrote")
	}
}

// TestReactions: a second one with the same key is success, of the bot's memory and of the homeserver's.
func TestReactions(t *testing.T) {
	b := newBench(t)
	b.start()
	message := relay.MessageID(b.fake.say(annRoom, ann, "hello"))
	a := relay.React{Chat: annRoom, Message: message, Emoji: "👍"}
	for i := range 3 {
		if _, err := b.React(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			b.marks = recent.New[reaction, id.EventID](10)
		}
	}
	if n := len(b.fake.called("send")); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
	b.marks = recent.New[reaction, id.EventID](10)
	b.fake.add(annRoom, bob, "m.reaction", nil, obj{"m.relates_to": obj{"rel_type": "m.annotation", "event_id": string(message), "key": 1.0}})
	a.Remove = true
	if _, err := b.React(t.Context(), a); err != nil || len(b.fake.called("redact")) != 1 {
		t.Errorf("%v, %d redactions", err, len(b.fake.called("redact")))
	}
}

// TestLogin: a password gives a token of the account that is meant; what is refused says so, without the password.
func TestLogin(t *testing.T) {
	b := newBench(t)
	o := optionsAt(b.base, nil)
	secret := func(s string) relay.Secret { return relay.NewSecret([]byte(s)) }
	token, err := Network.Login(t.Context(), o, secret("open sesame"))
	if err != nil || token.RevealString() != testToken {
		t.Errorf("%v", err)
	}
	if _, err := Network.Login(t.Context(), o, secret("open barley")); err == nil || strings.Contains(err.Error(), "barley") {
		t.Errorf("a wrong password: %v", err)
	}
	o.Values[keyUser] = "@other:" + server
	if _, err := Network.Login(t.Context(), o, secret("open sesame")); err == nil {
		t.Error("another account's password gave a token")
	}
	for _, c := range b.fake.called("login") {
		if c.method != "POST" {
			t.Errorf("login was asked with %s", c.method)
		}
	}
}

// TestWellKnown: a bare name leads to where its server says the homeserver is.
func TestWellKnown(t *testing.T) {
	for name, c := range map[string]struct {
		status         int
		body, to, want string
	}{
		"named":             {200, `{"m.homeserver": {"base_url": "https://matrix.example.net/"}}`, "", "https://matrix.example.net"},
		"none":              {404, `nothing`, "", "https://example.net"},
		"plain":             {200, `{"m.homeserver": {"base_url": "http://matrix.example.net"}}`, "", ""},
		"senseless":         {200, `{"m.homeserver": 7}`, "", ""},
		"broken":            {500, `{}`, "", ""},
		"elsewhere":         {301, ``, "https://www.example.net/matrix", "https://elsewhere.example.net"},
		"elsewhere, plain":  {302, ``, "http://www.example.net/matrix", ""},
		"elsewhere, always": {308, ``, "/.well-known/matrix/client", ""},
		"nowhere":           {301, ``, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := newClient(relay.NewSecret([]byte(testToken)), "example.net", roundTrip(func(r *http.Request) (*http.Response, error) {
				status, body := c.status, c.body
				if r.URL.String() == "https://www.example.net/matrix" {
					status, body = 200, `{"m.homeserver": {"base_url": "https://elsewhere.example.net"}}`
				} else if r.URL.String() != "https://example.net/.well-known/matrix/client" {
					t.Errorf("asked %s", r.URL)
				}
				if r.Header.Get("Authorization") != "" {
					t.Errorf("asked with %v", r.Header)
				}
				return &http.Response{
					StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Location": {c.to}}, Request: r,
				}, nil
			}))
			got, err := c2.address(t.Context())
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSettings: what is no setting of a Matrix bot is refused before anything is asked.
func TestSettings(t *testing.T) {
	for home, ok := range map[string]bool{
		"https://matrix.example.net": true, "example.net": true, "example.net:8448": true, "http://127.0.0.1:8008": true,
		"http://matrix.example.net": false, "": false, "https://u:p@example.net": false, "ftp://x": false, "a b": false,
	} {
		if err := checkHomeserver(home); (err == nil) != ok {
			t.Errorf("homeserver %q: %v", home, err)
		}
	}
	for user, ok := range map[string]bool{"@a:b": true, "@Hermes:example.net:8448": true, "@a=b/c:[::1]": true, "hermes": false, "@a": false, "@a:b c": false, "#a:b": false} {
		if isUser(user) != ok {
			t.Errorf("user %q: %t", user, !ok)
		}
	}
	for id, ok := range map[string]bool{"@a:b": true, "!x:y": true, "!LgtI01iv3xmjCZ1TpYMLhMTGKFshEoMfP5P1fEcF5Yw": true, "#room:b": false, "1": false} {
		if err := checkID(id); (err == nil) != ok {
			t.Errorf("id %q: %v", id, err)
		}
	}
}
