package discord

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// scripted is Discord for lookups: for each path what it says, one after the other, the last for
// ever. A body of digits is an HTTP status; "" is a connection that does not come about.
type scripted struct{ says map[string][]string }

func (s *scripted) Do(_ context.Context, _, endpoint string, _, out any) error {
	path := "/" + strings.TrimPrefix(endpoint, discordgo.EndpointAPI)
	script := s.says[path]
	if len(script) == 0 {
		script = []string{"404"}
	} else if len(script) > 1 {
		s.says[path] = script[1:]
	}
	status, err := strconv.Atoi(script[0])
	switch {
	case script[0] == "":
		return &httpcall.Fault{What: path, Sent: httpcall.Never, Message: "connection refused"}
	case err != nil:
		return json.Unmarshal([]byte(script[0]), out)
	case status < 500:
		return &httpcall.Fault{What: path, Status: status, Message: "refused", Sent: httpcall.Refused}
	}
	return &httpcall.Fault{What: path, Status: status, Message: "refused"}
}

// restarted is a reader whose process resumed a session: it knows nothing yet.
func restarted(says map[string][]string) (*reader, *scripted) {
	api := &scripted{says: says}
	bot := relay.Bot{Platform: Name, ID: worldBot}
	return newReader(bot, guilds.New(bot, api)), api
}

// worldOverREST is the guild of the payloads as lookups tell it.
func worldOverREST() map[string][]string {
	return map[string][]string{
		"/guilds/" + worldGuild:         {`{"id":"` + worldGuild + `","name":"Potters","owner_id":"5","roles":[{"id":"1200000000000000031","permissions":"0","tags":{"bot_id":"` + worldBot + `"}}]}`},
		"/channels/" + worldRoom:        {`{"id":"` + worldRoom + `","type":0,"guild_id":"` + worldGuild + `","name":"general","topic":"Clay and glaze","parent_id":"1200000000000000010"}`},
		"/channels/1210000000000000021": {`{"id":"1210000000000000021","type":11,"guild_id":"` + worldGuild + `","name":"Lathe","parent_id":"` + worldRoom + `"}`},
		"/channels/" + worldForum:       {`{"id":"` + worldForum + `","type":15,"guild_id":"` + worldGuild + `","name":"firings","topic":"One kiln per post"}`},
		"/channels/1210000000000000023": {`{"id":"1210000000000000023","type":11,"guild_id":"` + worldGuild + `","name":"Cone 6 in spring","parent_id":"` + worldForum + `"}`},
		"/channels/" + worldDM:          {`{"id":"` + worldDM + `","type":1,"recipients":[{"id":"` + worldAnn + `"}]}`},
	}
}

func TestAfterARestartEventsAreTheSame(t *testing.T) {
	for _, name := range []string{
		"text", "mention_own_role", "thread", "thread_starter_as_default", "post_first", "post_answer",
		"dm", "dm_without_type", "slash", "slash_thread", "slash_post", "slash_dm", "slash_no_channel_object",
	} {
		t.Run(name, func(t *testing.T) {
			want, err := read(t.Context(), worldReader(t), payload(t, name))
			if err != nil {
				t.Fatal(err)
			}
			r, _ := restarted(worldOverREST())
			got, err := read(t.Context(), r, payload(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Event, got.Event); diff != "" {
				t.Errorf("event (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAfterAResumeWithoutAnyHelp(t *testing.T) {
	const thread = "1210000000000000021"
	for name, tc := range map[string]struct {
		payload string
		fault   string // what every lookup says
		want    relay.Source
		waits   bool
	}{
		"channel of a known type": {payload: "text", fault: "503", want: relay.Source{ChatType: relay.ChatGroup, ChatID: worldRoom, Scope: worldGuild}},
		"channel, not to be seen": {payload: "text", fault: "403", want: relay.Source{ChatType: relay.ChatGroup, ChatID: worldRoom, Scope: worldGuild}},
		"thread":                  {payload: "thread", fault: "503", waits: true, want: relay.Source{ChatType: relay.ChatThread, ChatID: thread, ThreadID: thread, Scope: worldGuild}},
		"thread, gone by now":     {payload: "thread", fault: "404", want: relay.Source{ChatType: relay.ChatThread, ChatID: thread, ThreadID: thread, Scope: worldGuild}},
		"direct message":          {payload: "dm", fault: "503", want: relay.Source{ChatType: relay.ChatDM, ChatID: worldDM}},
		"type not told":           {payload: "dm_without_type", fault: "503", waits: true, want: relay.Source{ChatType: relay.ChatDM, ChatID: worldDM}},
		"command":                 {payload: "slash", fault: "503", want: relay.Source{ChatType: relay.ChatGroup, ChatID: worldRoom, Scope: worldGuild}},
		"command in a thread":     {payload: "slash_thread", fault: "503", want: relay.Source{ChatType: relay.ChatThread, ChatID: thread, ThreadID: thread, ParentChatID: worldRoom, Scope: worldGuild}},
		"command, place not told": {payload: "slash_no_channel_object", fault: "503", waits: true, want: relay.Source{ChatType: relay.ChatGroup, ChatID: worldRoom, Scope: worldGuild}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				says := worldOverREST()
				for path := range says {
					says[path] = []string{tc.fault}
				}
				r, _ := restarted(says)
				d := payload(t, tc.payload)
				began := time.Now()
				g, err := read(t.Context(), r, d)
				for errors.Is(err, guilds.ErrUnknownYet) && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
					g, err = read(t.Context(), r, d)
				}
				if err != nil || g.Event == nil {
					t.Fatalf("= %+v, %v", g, err)
				}
				if waited := time.Since(began) > patience; waited != tc.waits {
					t.Errorf("went on after %s, waits %t", time.Since(began), tc.waits)
				}
				s := g.Event.Source
				got := relay.Source{ChatType: s.ChatType, ChatID: s.ChatID, ThreadID: s.ThreadID, ParentChatID: s.ParentChatID, Scope: s.Scope}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("source (-want +got):\n%s", diff)
				}
				began = time.Now()
				if _, err := read(t.Context(), r, d); err != nil || time.Since(began) > 4*guilds.AskWithin {
					t.Errorf("the next one there: %v after %s; want it to go on at once", err, time.Since(began))
				}
			})
		})
	}
}

func TestLookupThatWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := worldOverREST()
		says["/channels/1210000000000000021"] = append([]string{"500", "429", ""}, says["/channels/1210000000000000021"]...)
		r, _ := restarted(says)
		g, err := read(t.Context(), r, payload(t, "thread"))
		for tries := 0; errors.Is(err, guilds.ErrUnknownYet) && tries < 3; tries++ {
			g, err = read(t.Context(), r, payload(t, "thread"))
		}
		if err != nil || g.Event.Source.ParentChatID != worldRoom {
			t.Errorf("= %+v, %v; want the thread with its parent", g.Event, err)
		}
	})
}

func TestPostWhoseForumCannotBeLookedUp(t *testing.T) {
	// Whether it repeats a message of the parent hangs on the parent: it is waited for, and in the end
	// the message counts as said.
	synctest.Test(t, func(t *testing.T) {
		says := worldOverREST()
		says["/channels/"+worldForum] = []string{"503"}
		r, _ := restarted(says)
		d := payload(t, "post_first")
		if _, err := read(t.Context(), r, d); !errors.Is(err, guilds.ErrUnknownYet) {
			t.Fatalf("error = %v, want one that calls for another try", err)
		}
		time.Sleep(patience + time.Second)
		if g, err := read(t.Context(), r, d); err != nil || g.Event == nil {
			t.Errorf("= %+v, %v; want the message", g, err)
		}
		// An answer in the post needs the forum for its name only.
		if g, err := read(t.Context(), r, payload(t, "post_answer")); err != nil || g.Event == nil {
			t.Errorf("answer = %+v, %v", g, err)
		}
	})
}

func TestNameOfAHiddenChannelComesFromTheInteraction(t *testing.T) {
	g, err := read(t.Context(), worldReader(t), payload(t, "slash_hidden"))
	if err != nil || g.Event.Source.ChatName != "Potters / #cellar" {
		t.Errorf("= %+v, %v; want Potters / #cellar", g.Event, err)
	}
}

func TestCapability(t *testing.T) {
	for name, placeholder := range map[string]bool{"slash": true, "modal": true, "context_user": true, "press_prompt": false, "select": false} {
		t.Run(name, func(t *testing.T) {
			d := payload(t, name)
			i, err := decodeInteraction(d.Data)
			if err != nil {
				t.Fatal(err)
			}
			ev, c, err := worldReader(t).interaction(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			if c.Event != ev.ID || c.Kind != "discord.interaction_token" || c.ID != string(ev.MessageID) || c.Placeholder != placeholder {
				t.Errorf("capability = %+v of event %s", c, ev.ID)
			}
			if got := c.Token.RevealString(); got != "CANARY-token-of-an-interaction" {
				t.Errorf("token = %q", got)
			}
			if d := c.ExpiresAt.Sub(ev.At); d != 15*time.Minute {
				t.Errorf("expires after %s, want 15m", d)
			}
		})
	}
}

func TestDirectUser(t *testing.T) {
	r := worldReader(t)
	if user, ok := r.guilds.DirectUser(worldDM); ok {
		t.Errorf("before anything was said there: %s", user)
	}
	for _, name := range []string{"own_dm", "dm"} {
		if _, err := read(t.Context(), r, payload(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	for chat, want := range map[relay.ChatID]relay.UserID{worldDM: worldAnn, worldRoom: "", "51": "", "x": "", "": ""} {
		if got, ok := r.guilds.DirectUser(chat); got != want || ok != (want != "") {
			t.Errorf("DirectUser(%q) = %q, %t; want %q", chat, got, ok, want)
		}
	}
	for _, name := range []string{"slash_dm", "dm_without_type"} {
		r := worldReader(t)
		if _, err := read(t.Context(), r, payload(t, name)); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.guilds.DirectUser(worldDM); got != worldAnn {
			t.Errorf("after %s DirectUser = %q, want %q", name, got, worldAnn)
		}
	}
}
