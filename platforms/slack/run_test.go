package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestCatchUp: what was said while no socket stood comes from the history of the chats that matter, threads too, in order,
// once, and before what is said afterwards. What the bot said itself does not come.
func TestCatchUp(t *testing.T) {
	t.Parallel() // it waits
	h, in := newHarness(t), newInbox("C0GROUP", "C0NOBODY")
	h.forgets = true
	r := start(t, h, in)
	r.connected(t)
	h.personSays("U0ANN", "C0GROUP", "", "before")
	asked := h.personSays("U0ANN", "C0GROUP", "", "<@"+testBotUser+"> a question")
	h.personSays("U0BOB", "D0BOB", "", "in private")
	in.await(t, "before", "a question", "in private")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	h.alone(t)
	h.personSays("U0ANN", "C0GROUP", "", "missed one")
	h.personSays("U0ANN", "C0GROUP", asked, "missed in a known thread")
	h.personSays("U0ANN", "C0GROUP", h.root, "missed in an old thread")
	h.personSays("U0ANN", "C0OTHER", "", "in a chat that does not matter")
	fresh := h.personSays("U0ANN", "C0GROUP", "", "missed two")
	h.personSays("U0ANN", "C0GROUP", fresh, "missed in a new thread")
	h.Echo(t.Context(), 1, "the bot's own")
	h.refuse(rest.ChannelHistory, "1") // a second's pause
	h.refuse(rest.ThreadReplies, "internal_error")
	r = start(t, h, in)
	r.connected(t)
	h.personSays("U0ANN", "C0GROUP", "", "afterwards")
	in.await(t, "before", "a question", "in private", "missed one", "missed in a known thread", "missed two", "missed in a new thread", "afterwards")
	if ev := in.event(t, "missed in a known thread"); ev.Source.ThreadID != relay.ThreadID(asked) || !ev.Traits.Addressed {
		t.Errorf("a missed reply: %+v", ev)
	}
	h.settled(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inside > 0 {
		t.Errorf("%d calls within a penalty", h.inside)
	}
}

// TestCatchUpOfAWorkspace: when all of it is claimed, every channel that the bot is in counts; and what comes in others meanwhile
// does not wait.
func TestCatchUpOfAWorkspace(t *testing.T) {
	t.Parallel() // it waits
	h, in := interrupted(t, "")
	h.personSays("U0ANN", "C0GROUP", "", "missed")
	h.personSays("U0ANN", "C0TWIN", "", "missed, too")
	h.refuse(rest.ChannelHistory, "internal_error", "1")
	r := start(t, h, in)
	r.connected(t)
	h.personSays("U0BOB", "D0BOB", "", "meanwhile")
	in.await(t, "before", "meanwhile", "missed, too", "missed") // the channel that failed goes to the end
}

// TestCatchUpHasBounds: of one channel at most maxMissed messages, the newest.
func TestCatchUpHasBounds(t *testing.T) {
	t.Parallel() // it waits
	h, in := interrupted(t, "C0GROUP")
	for n := range maxMissed + 2*missedPage {
		h.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("line ", n))
	}
	start(t, h, in)
	last := fmt.Sprint("line ", maxMissed+2*missedPage-1)
	in.event(t, last)
	if got := in.heard(); len(got) != 1+maxMissed || got[1] != fmt.Sprint("line ", 2*missedPage) {
		t.Errorf("%d messages, from %q", len(got)-1, got[1])
	}
}

// TestHandover: when Slack asks to connect again, the next socket stands before the old one is let go, which stays until what
// came on it is acknowledged; nothing is fetched, for nothing is missing.
func TestHandover(t *testing.T) {
	h, in := newHarness(t), newInbox("C0GROUP")
	h.forgets = true
	r := start(t, h, in)
	r.connected(t)
	for n, reason := range []string{"warning", "refresh_requested", "something new"} {
		release := make(chan struct{})
		in.mu.Lock()
		in.block = release
		in.mu.Unlock()
		h.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("on the old one ", n))
		h.rotate(reason)
		await(t, func() string {
			if open, sockets := h.unsettled(); sockets != 2 || open != 1 {
				return fmt.Sprintf("%d sockets, %d envelopes open; want both sockets while one envelope waits", sockets, open)
			}
			return ""
		})
		h.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("on the next one ", n))
		in.mu.Lock()
		in.block = nil
		in.mu.Unlock()
		close(release)
		await(t, func() string {
			if open, sockets := h.unsettled(); sockets != 1 || open != 0 {
				return fmt.Sprintf("%d sockets, %d envelopes open; want one, and none", sockets, open)
			}
			return ""
		})
		if s := r.Status(); s.State != platforms.Connected {
			t.Errorf("the state is %s: %s", s.State, s.Reason)
		}
	}
	in.await(t, "on the old one 0", "on the next one 0", "on the old one 1", "on the next one 1", "on the old one 2", "on the next one 2")
	if n := len(h.called(rest.ChannelHistory)); n != 0 {
		t.Errorf("the history was asked for %d times", n)
	}
}

// TestALostHandover: when the next socket breaks while the old one waits for its acknowledgements alone, none stands, and what
// is missing is fetched.
func TestALostHandover(t *testing.T) {
	h, in := newHarness(t), newInbox("C0GROUP")
	r := start(t, h, in)
	r.connected(t)
	release := make(chan struct{})
	in.mu.Lock()
	in.block = release
	in.mu.Unlock()
	h.personSays("U0ANN", "C0GROUP", "", "on the old one")
	h.rotate("warning")
	await(t, func() string {
		if n := strings.Count(h.Logged(), "slack socket stands"); n < 2 {
			return "the next socket does not stand"
		}
		return ""
	})
	h.smu.Lock()
	next := h.open[1]
	_ = next.ws.CloseNow()
	h.smu.Unlock()
	await(t, func() string {
		h.smu.Lock()
		defer h.smu.Unlock()
		if len(h.open) != 2 || h.open[1] == next {
			return "no socket in the place of the one that broke"
		}
		return ""
	})
	in.mu.Lock()
	in.block = nil
	in.mu.Unlock()
	close(release)
	await(t, func() string {
		if len(h.called(rest.ChannelHistory)) == 0 {
			return "what is missing was not asked for"
		}
		return ""
	})
}

// TestAcknowledgements: a message is acknowledged when it is stored, a press and a command at once.
func TestAcknowledgements(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	release := make(chan struct{})
	in.block = release
	ts := h.personSays("U0ANN", "C0GROUP", "", "a message")
	m, _ := h.messageAt("C0GROUP", relay.MessageID(ts))
	h.press("U0ANN", "C0GROUP", m, "hp1:p1:yes", "Yes")
	h.command("U0ANN", "C0OTHER", "new and more")
	await(t, func() string {
		h.smu.Lock()
		defer h.smu.Unlock()
		if len(h.acked) != 2 {
			return fmt.Sprintf("acknowledged before anything is stored: %q; want the press and the command", h.acked)
		}
		return ""
	})
	close(release)
	in.await(t, "a message", "/yes", "/new and more")
	h.settled(t)
	ev := in.event(t, "/new and more")
	in.mu.Lock()
	defer in.mu.Unlock()
	n := slices.IndexFunc(in.batches, func(b platforms.Batch) bool { return len(b.Capabilities) > 0 })
	if n < 0 {
		t.Fatal("a command brought no capability")
	}
	if c := in.batches[n].Capabilities[0]; c.Event != ev.ID || c.ID != string(ev.MessageID) || !strings.Contains(c.Token.RevealString(), "/commands/") {
		t.Errorf("the capability %+v is not for %+v", c, ev)
	}
}

// TestForeignEvents: what is for another app or another workspace is acknowledged and left out. In a channel that two companies
// share, a message carries the workspace of its author, and tells for which it came; a mention comes twice and counts once.
func TestForeignEvents(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	n := 0
	event := func(kind, app, team string, authorized []obj, text string) {
		n++
		h.deliver(kindEvents, obj{"team_id": team, "api_app_id": app, "authorizations": authorized, "event": obj{
			"type": kind, "channel": "C0GROUP", "user": "U0ANN", "ts": fmt.Sprintf("1700000000.%06d", n), "text": text,
		}})
	}
	ours := []obj{{"team_id": testTeam}}
	event("message", "A0OTHER", testTeam, ours, "for another app")
	event("message", testApp, "T0OTHER", nil, "from another workspace")
	event("message", testApp, testTeam, []obj{{"team_id": "T0OTHER"}}, "for another workspace")
	event("message", testApp, "T0OTHER", ours, "from the other company")
	event("message", testApp, testTeam, []obj{{"team_id": nil}}, "for the whole organisation")
	event("app_mention", testApp, testTeam, ours, "<@"+testBotUser+"> a mention")
	n--
	event("message", testApp, testTeam, ours, "<@"+testBotUser+"> a mention")
	in.await(t, "from the other company", "for the whole organisation", "a mention")
	h.settled(t)
	if ev := in.event(t, "a mention"); !ev.Traits.Addressed {
		t.Error("a mention is not for the bot")
	}
	for _, team := range []string{"T0OTHER", testTeam} {
		h.deliver(kindCommand, obj{"team_id": team, "api_app_id": testApp, "channel_id": "C0TWIN", "user_id": "U0ANN", "text": "typed in " + team})
	}
	in.await(t, "from the other company", "for the whole organisation", "a mention", "typed in "+testTeam)
}

// TestSlackbotInADirectChannel: what Slack's own bot says in somebody's direct messages makes them nobody else's.
func TestSlackbotInADirectChannel(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	h.personSays("U0ANN", "D0ANN", "", "hello")
	h.personSays(slackbot, "D0ANN", "", "a reminder")
	in.await(t, "hello", "a reminder")
	if user, _ := r.DirectUser("D0ANN"); user != "U0ANN" {
		t.Errorf("they are taken for %q's", user)
	}
}

// TestCommandInADirectChannel: only a command in the person's own chat with the bot is a direct message; what is typed between
// two people has an id of the same form, is no direct message of anybody's, and its answer is read by who typed it.
func TestCommandInADirectChannel(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	for channel, want := range map[string]relay.ChatType{"D0ANN": relay.ChatDM, "D0BOB": relay.ChatGroup, "D0PAIR": relay.ChatGroup} {
		h.command("U0ANN", channel, "typed in "+channel)
		ev := in.event(t, "typed in "+channel)
		if ev.Source.ChatType != want {
			t.Errorf("in %s the command is of a %s, want %s", channel, ev.Source.ChatType, want)
		}
		if user, _ := r.DirectUser(relay.ChatID(channel)); (user == "U0ANN") != (want == relay.ChatDM) {
			t.Errorf("%s is taken for %q's direct messages", channel, user)
		}
	}
	h.personSays("U0ANN", "D0ANN", "", "in private") // known without a question from here on
	in.event(t, "in private")
	h.refuse(rest.ChannelInfo, "internal_error")
	h.command("U0ANN", "D0ANN", "again")
	if ev := in.event(t, "again"); ev.Source.ChatType != relay.ChatDM {
		t.Errorf("in a known chat the command is of a %s", ev.Source.ChatType)
	}
	c := platforms.Capability{Kind: kindResponse, ID: "1", Token: relay.NewSecret([]byte(h.answerURL("D0PAIR")))}
	if _, err := r.Respond(t.Context(), c, relay.Send{Chat: "D0PAIR", Content: "for Ann"}, false); err != nil {
		t.Fatal(err)
	}
	if got := h.called("response_url"); len(got) != 1 || got[0].Get("text") != "for Ann" || got[0].Get("response_type") != "ephemeral" {
		t.Errorf("answered with %q", got)
	}
}

// TestPressesOutliveAStop: what was acknowledged at once is stored before Run returns.
func TestPressesOutliveAStop(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	in.mu.Lock()
	in.refuse = errors.New("the disk is full")
	in.mu.Unlock()
	h.command("U0ANN", "C0OTHER", "wait for me")
	await(t, func() string {
		if n, _ := h.unsettled(); n > 0 {
			return "the command is not acknowledged"
		}
		return ""
	})
	in.mu.Lock()
	in.refuse = nil
	in.mu.Unlock()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	h.alone(t)
	in.await(t, "wait for me")
}

// TestHandLeft: all that was acknowledged at once is stored at the end, on both sides of a gap, with such names as are known.
func TestHandLeft(t *testing.T) {
	f, in := newFakeAPI(t), newInbox()
	p := openOn(t, f, nil)
	fd := &feeder{Bot: p, in: in, queue: newQueue()}
	for _, text := range []string{"before", "", "after"} {
		i := item{gap: text == "", at: time.Now()}
		if !i.gap {
			i.envelope.ID, i.envelope.Type = text, kindCommand
			i.envelope.Payload = []byte(`{"channel_id":"C0GROUP","user_id":"U0ANN","text":"` + text + `"}`)
		}
		fd.queue.put(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fd.handLeft(ctx)
	if got := in.heard(); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("stored %q", got)
	}
	if n := len(f.calls); n > 0 {
		t.Errorf("asked Slack %d times", n)
	}
}

// TestRefusedPress: who pressed a button in vain reads why, alone.
func TestRefusedPress(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	ts := h.personSays("U0ANN", "C0GROUP", "", "a question")
	m, _ := h.messageAt("C0GROUP", relay.MessageID(ts))
	h.press("U0BOB", "C0GROUP", m, "hp1:p1:yes", "Yes")
	ev := in.event(t, "/yes")
	in.mu.Lock()
	for _, b := range in.batches {
		if b.Refused != nil {
			b.Refused(ev.ID, "This question is not for <you>")
		}
	}
	in.mu.Unlock()
	want := url.Values{"id": {"answer0"}, "text": {"This question is not for &lt;you&gt;"}, "response_type": {"ephemeral"}, "replace_original": {"false"}}
	await(t, func() string { return cmp.Diff([]url.Values{want}, h.called("response_url")) })
}

// TestOtherProgram: a socket of somebody else is a finding, until it is gone.
func TestOtherProgram(t *testing.T) {
	h, in := newHarness(t), newInbox()
	h.foreign = 1
	r := start(t, h, in)
	await(t, func() string {
		if s := r.Status(); s.State != platforms.Degraded || !strings.HasPrefix(s.Reason, "another program") {
			return fmt.Sprintf("with another program's socket the state is %s: %s", s.State, s.Reason)
		}
		return ""
	})
	x := r.Examine(t.Context(), nil)
	if len(x.Findings) != 1 || x.Findings[0].Code != "HC103" {
		t.Errorf("doctor finds %+v", x.Findings)
	}
	h.smu.Lock()
	h.foreign = 0
	h.smu.Unlock()
	r.connected(t)
}

// TestTrouble: what the state says while no socket stands, and that it ends by itself.
func TestTrouble(t *testing.T) {
	t.Parallel() // it waits
	for word, want := range map[string]string{
		"missing_scope": "missing_scope", "internal_error": "internal_error", "ratelimited": "ratelimited", "1": "left alone for 1s",
	} {
		t.Run(word, func(t *testing.T) {
			h, in := newHarness(t), newInbox()
			times := 5
			if word == "1" { // a second each
				times = 2
			}
			h.refuse(rest.OpenSocket, slices.Repeat([]string{word}, times)...)
			r := start(t, h, in)
			await(t, func() string {
				if s := r.Status(); !strings.Contains(s.Reason, want) {
					return fmt.Sprintf("the state is %s: %s", s.State, s.Reason)
				}
				return ""
			})
			r.connected(t)
			noSecrets(t, h, in, fmt.Sprint(r.Status()))
		})
	}
}

// TestRevokedTokens: each of the two ends Run, with words that say which.
func TestRevokedTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		revoke func(*harness)
		says   string
	}{
		"the bot's": {func(h *harness) { h.token = "xoxb-another" }, "the bot's token"},
		"the app's": {func(h *harness) { h.appToken = "xapp-another" }, "the app token"},
	} {
		t.Run(name, func(t *testing.T) {
			h, in := newHarness(t), newInbox()
			tc.revoke(h)
			r := start(t, h, in)
			await(t, func() string {
				if s := r.Status(); s.State != platforms.BadCredentials || !strings.Contains(s.Reason, tc.says) {
					return fmt.Sprintf("the state is %s: %s", s.State, s.Reason)
				}
				return ""
			})
			if err := r.stop(); !errors.Is(err, relay.ErrBadCredentials) {
				t.Errorf("Run returned %v", err)
			}
			noSecrets(t, h, in, fmt.Sprint(r.Status()))
		})
	}
}
