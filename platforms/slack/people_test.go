package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// withSelf is a bot of h's that knows who it is, and does not run.
func withSelf(t testing.TB, h *harness) *Bot {
	t.Helper()
	p, err := h.Open()
	if err != nil {
		t.Fatal(err)
	}
	b := p.(*Bot)
	b.memory.recall(state{Self: self{Team: testTeam, User: testBotUser, Bot: testBotID, Handle: "hermes"}})
	return b
}

// TestRoster: who sees a channel and who manages it, by Slack's word.
func TestRoster(t *testing.T) {
	h := newHarness(t)
	h.users["U0GUEST"] = &fakeUser{ID: "U0GUEST", Name: "guest", Guest: true}
	h.users["U0MAKER"] = &fakeUser{ID: "U0MAKER", Name: "maker"}
	members := slices.Repeat([]string{"U0SOMEBODY"}, 2500) // on three pages
	for _, c := range []fakeChannel{
		{ID: "C0PUBLIC", Name: "public", Creator: "U0MAKER", Members: []string{testBotUser, "U0GUEST"}},
		{ID: "C0PRIVATE", Name: "private", Private: true, Creator: "U0MAKER", Members: append(members, testBotUser, "U0MAKER")},
		{ID: "C0MPIM", Name: "mpdm-ann--bob-1", MPIM: true, Private: true, Members: []string{testBotUser, "U0ANN", "U0BOB"}},
		{ID: "C0HIDDEN", Name: "hidden", Private: true, Creator: "U0ANN", Members: []string{"U0ANN"}},
	} {
		h.channels[c.ID] = &c
	}
	p := withSelf(t, h)
	for what, tc := range map[string]struct {
		chat          relay.ChatID
		user          relay.UserID
		sees, manages bool
	}{
		"a full member in public":       {"C0PUBLIC", "U0BOB", true, false},
		"a guest who is in it":          {"C0PUBLIC", "U0GUEST", true, false},
		"a guest who is not":            {"C0OTHER", "U0GUEST", false, false},
		"who made it":                   {"C0PUBLIC", "U0MAKER", true, true},
		"an admin":                      {"C0PUBLIC", "U0ANN", true, true},
		"a member of a private one":     {"C0PRIVATE", "U0MAKER", true, true},
		"an admin who is not in it":     {"C0PRIVATE", "U0ANN", false, false},
		"a group of people":             {"C0MPIM", "U0BOB", true, false},
		"somebody outside of it":        {"C0MPIM", "U0MAKER", false, false},
		"one that the bot does not see": {"C0HIDDEN", "U0ANN", false, false},
		"the direct messages' person":   {"D0ANN", "U0ANN", true, false},
		"somebody else":                 {"D0ANN", "U0BOB", false, false},
		"nobody":                        {"C0PUBLIC", "U0NOBODY", false, false},
		"no channel at all":             {"C0NOWHERE", "U0ANN", false, false},
		"what is no id":                 {"general", "ann", false, false},
	} {
		place := relay.Place{Platform: Name, Scope: testTeam, Chat: tc.chat}
		sees, err := p.CanSee(t.Context(), place, tc.user)
		manages, err2 := p.CanManage(t.Context(), place, tc.user)
		if sees != tc.sees || manages != tc.manages || err != nil || err2 != nil {
			t.Errorf("%s: sees %t, manages %t (%v, %v); want %t, %t", what, sees, manages, err, err2, tc.sees, tc.manages)
		}
		place.Scope = "T0ANOTHER"
		if sees, err := p.CanSee(t.Context(), place, tc.user); sees || err != nil {
			t.Errorf("%s, in another workspace: sees %t, %v", what, sees, err)
		}
	}
	for user, want := range map[relay.UserID]bool{"U0ANN": true, "U0BOB": false, "U0GUEST": false} {
		if manages, err := p.CanManage(t.Context(), relay.Place{Platform: Name, Scope: testTeam}, user); manages != want || err != nil {
			t.Errorf("%s manages the workspace: %t, %v", user, manages, err)
		}
	}
	h.refuse(rest.ChannelInfo, "7")
	_, err := p.CanSee(t.Context(), relay.Place{Platform: Name, Scope: testTeam, Chat: "C0PUBLIC"}, "U0BOB")
	if _, ok := errors.AsType[*platforms.MutedError](err); !ok {
		t.Errorf("within a penalty: %v, want a MutedError", err)
	}
}

// TestNamesAreAskedOnce: and what cannot be had does not hold a message up.
func TestNamesAreAskedOnce(t *testing.T) {
	h, in := newHarness(t), newInbox()
	r := start(t, h, in)
	r.connected(t)
	h.refuse(rest.UserInfo, "internal_error")
	for n := range 3 {
		h.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("line ", n))
	}
	in.await(t, "line 0", "line 1", "line 2")
	if n := len(h.called(rest.UserInfo)); n != 1 {
		t.Errorf("somebody was looked up %d times", n)
	}
	if n := len(h.called(rest.ChannelInfo)); n != 1 {
		t.Errorf("a channel was looked up %d times", n)
	}
	if ev := in.event(t, "line 0"); ev.Source.UserName != "U0ANN" || ev.Source.ChatName != "#general" {
		t.Errorf("said by %q in %q", ev.Source.UserName, ev.Source.ChatName)
	}
	h.event(obj{"type": "user_change", "user": obj{"id": "U0ANN", "name": "ann"}})
	h.event(obj{"type": "member_left_channel", "user": "U0BOB", "channel": "C0GROUP"})
	h.event(obj{"type": "channel_left", "channel": "C0TWIN"})
	h.personSays("U0ANN", "C0GROUP", "", "renamed")
	if ev := in.event(t, "renamed"); ev.Source.UserName != "Ann" {
		t.Errorf("said by %q", ev.Source.UserName)
	}
	var got []platforms.RosterChange
	in.mu.Lock()
	for _, b := range in.batches {
		got = append(got, b.Roster...)
	}
	in.mu.Unlock()
	want := []platforms.RosterChange{{Scope: testTeam, User: "U0ANN"}, {Scope: testTeam, Chat: "C0GROUP", User: "U0BOB"}, {Scope: testTeam, Chat: "C0TWIN"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roster (-want +got):\n%s", diff)
	}
}

// TestManyNames: a message that names many strangers waits for their names no longer than one that names one, and still says who
// wrote it.
func TestManyNames(t *testing.T) {
	for name, add := range map[string]func(context.Context, *feeder, *draft, string){
		"as it comes": func(ctx context.Context, fd *feeder, d *draft, text string) {
			i := item{at: time.Now()}
			i.envelope.Type = kindEvents
			i.envelope.Payload = []byte(`{"event":{"type":"message","channel":"C0GROUP","user":"U0ANN","ts":"1700000000.000001","text":` + jsonOf(text) + `}}`)
			fd.add(ctx, d, i)
		},
		"missed": func(ctx context.Context, fd *feeder, d *draft, text string) {
			if err := fd.addMissed(ctx, d, &messageData{Channel: "C0GROUP", User: "U0ANN", TS: "1700000000.000001", Text: text}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fd := &feeder{Bot: openOn(t, newFakeAPI(t), nil), queue: newQueue()}
				var text string
				for n := range 100 {
					text += fmt.Sprintf("<@U0STRANGER%d> <#C0STRANGE%d> ", n, n)
				}
				began := time.Now()
				var d draft
				add(t.Context(), fd, &d, text)
				if took := time.Since(began); took > nameWait {
					t.Errorf("took %v", took)
				}
				if len(d.Events) != 1 || d.Events[0].Source.UserName != "Ann" || d.Events[0].Source.ChatName != "#general" {
					t.Errorf("brings %+v", d.Events)
				}
			})
		})
	}
}

// TestFiles: a file opens for the bot's token, which goes nowhere else; stubs are asked about.
func TestFiles(t *testing.T) {
	h := newHarness(t)
	p := withSelf(t, h)
	is := func(name string) obj { return h.host(name, "text/plain", []byte("what is in it")) }
	visible, stub, lost, elsewhere, foreign := is("a"), is("b"), is("c"), is("d"), is("e")
	h.fileInfoOf = map[string]obj{stub["id"].(string): stub}
	delete(h.hosted, lost["id"].(string))
	elsewhere["is_external"], elsewhere["mode"] = true, "external"
	h.fileInfoOf[elsewhere["id"].(string)] = elsewhere
	foreign["url_private_download"] = strings.Replace(h.address, "127.0.0.1", "localhost", 1) + "/files/" + foreign["id"].(string)
	for name, tc := range map[string]struct {
		file   obj
		access string
		scopes []string
		why    string // empty: it opens
	}{
		"visible":      {file: visible},
		"a stub":       {file: stub, access: "check_file_info"},
		"lost":         {file: lost, why: whyGone},
		"on a drive":   {file: elsewhere, why: whyElsewhere},
		"another host": {file: foreign, why: whyElsewhere},
		"no scope":     {file: visible, scopes: []string{"chat:write"}, why: whyNoScope},
	} {
		t.Run(name, func(t *testing.T) {
			h.mu.Lock()
			h.scopes = allScopes
			if tc.scopes != nil {
				h.scopes = tc.scopes
			}
			h.mu.Unlock()
			if tc.access != "" {
				tc.file["file_access"] = tc.access
			}
			ev, _ := readEvent(t, testNormaliser(), fmt.Sprintf(`{"type":"message","channel":"C1","user":"U1","ts":"1.000001","text":"","files":[%s]}`, jsonOf(tc.file)), false)
			if len(ev.Attachments) != 1 || strings.Contains(ev.Attachments[0].Ref, testToken) {
				t.Fatalf("attachments %+v", ev.Attachments)
			}
			body, err := p.FetchMedia(t.Context(), ev.Attachments[0])
			var gone *platforms.MediaError
			switch {
			case tc.why != "" && (!errors.As(err, &gone) || gone.Why != tc.why || gone.State != relay.MediaGone):
				t.Errorf("%v, want %q", err, tc.why)
			case tc.why == "" && err != nil:
				t.Error(err)
			case err == nil:
				got, err := io.ReadAll(body)
				if !bytes.Equal(got, []byte("what is in it")) || err != nil || body.Close() != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
}

// TestExamine: what doctor finds.
func TestExamine(t *testing.T) {
	granted := []relay.Place{{Platform: Name, Scope: testTeam, Chat: "C0GROUP"}, {Platform: Name, Scope: testTeam, Chat: "C0OTHER"}, {Platform: Name, Scope: testTeam, Chat: "C0NONE"}}
	for name, tc := range map[string]struct {
		seed  func(*harness)
		chats []relay.Place
		want  []string
	}{
		"all is well":        {chats: granted[:1]},
		"a dead token":       {seed: func(h *harness) { h.token = "xoxb-another" }, want: []string{"HC101"}},
		"a dead app token":   {seed: func(h *harness) { h.appToken = "xapp-another" }, want: []string{"HC101"}},
		"tokens of two apps": {seed: func(h *harness) { h.appOfBot = "A0OTHER" }, want: []string{"HC102"}},
		"a person's token":   {seed: func(h *harness) { h.noBot = true }, want: []string{"HC102"}},
		"scopes are missing": {seed: func(h *harness) {
			h.scopes = slices.DeleteFunc(slices.Clone(allScopes), func(s string) bool { return s == "files:read" })
		}, want: []string{"HC115"}},
		"no sockets":           {seed: func(h *harness) { h.refuse(rest.OpenSocket, "missing_scope") }, want: []string{"HC115"}},
		"not in channels":      {chats: granted, want: []string{"HC107", "HC107"}},
		"an archived channel":  {seed: func(h *harness) { h.channels["C0GROUP"].Archived = true }, chats: granted[:1], want: []string{"HC108"}},
		"Slack is in trouble":  {seed: func(h *harness) { h.refuse(rest.AuthTest, "internal_error") }, want: []string{"HC112"}},
		"a channel is unknown": {seed: func(h *harness) { h.refuse(rest.ChannelInfo, "internal_error") }, chats: granted[:1], want: []string{"HC114"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			if tc.seed != nil {
				tc.seed(h)
			}
			p := withSelf(t, h)
			x := p.Examine(t.Context(), tc.chats)
			var got []string
			for _, f := range x.Findings {
				got = append(got, f.Code)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("finds %q, want %q: %+v", got, tc.want, x.Findings)
			}
			if dead := slices.Contains(tc.want, "HC101") || slices.Contains(tc.want, "HC112"); x.Name != "hermes" && !dead && name != "a person's token" {
				t.Errorf("the name %q", x.Name)
			}
			noSecrets(t, h, newInbox(), fmt.Sprintf("%+v", x))
		})
	}
}

// TestCanary: neither token, nor a ticket, nor what answers a command, is in anything that is kept or shown.
func TestCanary(t *testing.T) {
	h, in := newHarness(t), newInbox("C0GROUP")
	r := start(t, h, in)
	r.connected(t)
	h.personSays("U0ANN", "C0GROUP", "", "hello")
	h.deliver(kindEvents, obj{"token": "old-verification-token", "team_id": testTeam, "api_app_id": testApp, "event": obj{"type": "message", "channel": "C0GROUP", "ts": "x", "user": "U0ANN"}})
	h.deliver(kindCommand, obj{"token": "old-verification-token", "team_id": testTeam, "response_url": "https://x/commands/answer9", "trigger_id": "1.2.hunter2"})
	h.deliver(kindInteractive, obj{"type": "block_actions", "response_url": "https://x/commands/answer9", "trigger_id": "1.2.hunter2", "user": obj{"id": 7}})
	h.deliver(kindEvents, "no object")
	h.command("U0ANN", "C0GROUP", "a command")
	in.event(t, "a command")
	h.settled(t) // else they come again
	_ = h.Drop(t.Context())
	h.personSays("U0ANN", "C0GROUP", "", "after a drop")
	in.event(t, "after a drop")
	_, err := r.Send(t.Context(), relay.Send{Chat: "C0NOBODY", Content: "x"})
	h.revoke()
	await(t, func() string {
		if s := r.Status(); s.State != platforms.BadCredentials {
			return fmt.Sprint("the state is ", s.State)
		}
		return ""
	})
	in.mu.Lock()
	quarantined := 0
	for _, b := range in.batches {
		quarantined += len(b.Undecodable)
	}
	in.mu.Unlock()
	if quarantined != 4 {
		t.Errorf("%d payloads in quarantine, want 4", quarantined)
	}
	noSecrets(t, h, in, fmt.Sprint(r.Status(), err, r.stop()))
}
