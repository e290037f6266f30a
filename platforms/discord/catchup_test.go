package discord

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// places are chats without a scope, as a conversation row knows them.
func places(chats ...relay.ChatID) []relay.Place {
	var out []relay.Place
	for _, c := range chats {
		out = append(out, relay.Place{Platform: Name, Chat: c})
	}
	return out
}

// testGuild has two text channels, a forum, and a thread of the first channel.
func testGuild() obj {
	return obj{
		"id": "900", "name": "Park", "owner_id": "4001", "roles": []obj{{"id": "900", "permissions": "1024"}},
		"channels": []obj{
			{"id": "910", "type": 0, "name": "garden"}, {"id": "920", "type": 0, "name": "yard"},
			{"id": "930", "type": 15, "name": "forum"}, {"id": "940", "type": 4, "name": "a category"},
		},
		"threads": []obj{
			{"id": "911", "type": 11, "name": "roses", "parent_id": "910", "thread_metadata": obj{"archived": false}},
			{"id": "931", "type": 11, "name": "post", "parent_id": "930", "thread_metadata": obj{"archived": false}},
		},
	}
}

// listings answers what a survey of a guild asks.
func (f *fakeDiscord) listings(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	with := func(list []obj, guild any) []obj {
		out := []obj{}
		for _, c := range list {
			full := obj{"guild_id": guild}
			maps.Copy(full, c)
			if h := f.history[c["id"].(string)]; len(h) > 0 {
				full["last_message_id"] = h[len(h)-1]["id"]
			}
			out = append(out, full)
		}
		return out
	}
	for _, g := range f.guilds {
		switch r.URL.Path {
		case "/api/v10/guilds/" + g["id"].(string):
			reply(w, http.StatusOK, obj{"id": g["id"], "name": g["name"], "owner_id": g["owner_id"], "roles": g["roles"]})
		case "/api/v10/guilds/" + g["id"].(string) + "/channels":
			reply(w, http.StatusOK, with(g["channels"].([]obj), g["id"]))
		case "/api/v10/guilds/" + g["id"].(string) + "/threads/active":
			reply(w, http.StatusOK, obj{"threads": with(g["threads"].([]obj), g["id"])})
		default:
			continue
		}
		return true
	}
	return false
}

// missed runs a bot, ends its session for good while said is said, and returns what it accepts then.
func missed(t *testing.T, f *fakeDiscord, in *testInbox, open func() *Bot, said func()) *running {
	r := run(t, open(), in)
	time.Sleep(time.Minute)
	f.say("500", "before")
	time.Sleep(2 * time.Minute)
	r.end(t)
	f.forget()
	said()
	time.Sleep(time.Minute)
	r = run(t, open(), in)
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	return r
}

// TestCatchUp: after a session that cannot be resumed, what was said in the chats that matter comes
// all the same, the oldest first over all of them, and before anything said later.
func TestCatchUp(t *testing.T) {
	for name, tc := range map[string]struct {
		places []relay.Place
		want   []string // of what was missed
	}{
		"single chats": {places("500", "910"), []string{"dm 1", "garden 1", "dm 2", "garden 2"}},
		"a channel and its threads": {
			[]relay.Place{{Platform: Name, Scope: "900", Chat: "910"}}, []string{"garden 1", "roses 1", "garden 2"},
		},
		"a forum's posts":       {[]relay.Place{{Platform: Name, Scope: "900", Chat: "930"}}, []string{"post 1"}},
		"a whole server":        {[]relay.Place{{Platform: Name, Scope: "900"}}, []string{"garden 1", "yard 1", "roses 1", "garden 2", "post 1"}},
		"of another network":    {[]relay.Place{{Platform: "telegram", Chat: "500"}}, nil},
		"nothing is known":      {nil, nil},
		"a chat that is gone":   {places("404", "500"), []string{"dm 1", "dm 2"}},
		"a server that is gone": {[]relay.Place{{Platform: Name, Scope: "404"}, {Platform: Name, Chat: "500"}}, []string{"dm 1", "dm 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
				f.guilds = []obj{testGuild()}
				f.rest = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.Contains(r.URL.Path, "/404") {
						reply(w, http.StatusForbidden, obj{"code": 50001, "message": "Missing Access"})
						return true
					}
					return f.listings(w, r)
				}
				in := newTestInbox()
				in.places = tc.places
				r := missed(t, f, in, open, func() {
					for _, line := range [][2]string{
						{"500", "dm 1"}, {"910", "garden 1"}, {"920", "yard 1"}, {"911", "roses 1"}, {"500", "dm 2"},
						{"910", "garden 2"}, {"931", "post 1"},
					} {
						time.Sleep(time.Second)
						f.say(line[0], line[1])
					}
					f.write("910", obj{"id": testBotID, "username": "pi", "bot": true}, "my own")
				})
				f.say("500", "after")
				time.Sleep(time.Second)
				in.await(t, append(append([]string{"before"}, tc.want...), "after")...)
				in.mu.Lock()
				events := slices.Clone(in.events)
				in.mu.Unlock()
				for _, ev := range events {
					if strings.HasPrefix(ev.Text, "garden") && (ev.Source.Scope != "900" || ev.Source.ChatType != relay.ChatGroup) {
						t.Errorf("source of a missed message: %+v", ev.Source)
					}
				}
				if s := r.p.memory.read(); s.Gap != 0 {
					t.Errorf("the gap stays at %s", s.Gap)
				}
				r.end(t)
			})
		})
	}
}

func TestCatchUpIsBounded(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.places = places("500", "501")
		r := missed(t, f, in, open, func() {
			f.say("501", "too old")
			time.Sleep(maxMissedAge)
			for _, text := range numbered(maxMissed + 50) {
				f.say("500", text)
			}
			f.say("501", "young")
		})
		got := in.texts()
		if slices.Contains(got, "too old") || !slices.Contains(got, "young") {
			t.Error("the age of missed messages is not bounded, or too much")
		}
		if n := len(got); n != maxMissed+2 {
			t.Errorf("%d events, want %d", n, maxMissed+2)
		}
		r.end(t)
	})
}

// TestCatchUpSpendsNothingOnWhatIsKnown: however much of what it looks through is known
// already or was written by the bot, everything that was missed arrives, and nothing is handed in twice.
func TestCatchUpSpendsNothingOnWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ known, own, missed, want int }{
		"a busy minute before":     {451, 0, 100, 100},
		"more than the limit":      {maxMissed + 77, 0, 100, 100},
		"the bot's own":            {10, maxMissed, 100, 100},
		"still at most so many":    {451, 0, maxMissed + 1, maxMissed},
		"and looked through":       {maxFetched, 0, 100, 0},
		"a page that is all known": {3 * missedPage, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
				in := newTestInbox()
				in.places = places("500")
				r := run(t, open(), in)
				time.Sleep(time.Minute)
				for i := range tc.known {
					f.say("500", "known "+strconv.Itoa(i))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Second)
				r.end(t)
				f.forget()
				for range tc.own {
					f.write("500", obj{"id": testBotID, "username": "pi", "bot": true}, "my own")
				}
				for i := range tc.missed {
					f.say("500", "missed "+strconv.Itoa(i))
				}
				r = run(t, open(), in)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if n := in.count(); n != tc.known+tc.want || len(in.texts()) != n {
					t.Errorf("%d events, %d of them once; want %d and %d", n, len(in.texts()), tc.known, tc.want)
				}
				r.end(t)
			})
		})
	}
}

// TestFirstStartFetchesNothing: what was said before the bot ever ran is not for it.
func TestFirstStartFetchesNothing(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.places = places("500")
		f.say("500", "long ago")
		time.Sleep(time.Hour)
		r := run(t, open(), in)
		time.Sleep(time.Minute)
		in.await(t)
		r.end(t)
		calls := f.counts().calls
		if slices.ContainsFunc(calls, func(c string) bool { return strings.HasSuffix(c, "/messages") }) {
			t.Errorf("calls %q", calls)
		}
	})
}

// TestCatchUpSurvives: a fault of Discord's delays it, and a restart in its middle continues it, also
// when the new session can be resumed.
func TestCatchUpSurvives(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.places = places("500")
		var healthy atomic.Bool
		f.rest = func(w http.ResponseWriter, r *http.Request) bool {
			if !healthy.Load() && strings.HasSuffix(r.URL.Path, "/messages") {
				reply(w, http.StatusBadGateway, obj{})
				return true
			}
			return false
		}
		r := missed(t, f, in, open, func() { f.say("500", "missed") })
		f.say("600", "live") // another chat need not wait
		time.Sleep(time.Second)
		in.await(t, "before", "live")
		r.end(t)
		before := f.identifies()
		r = run(t, open(), in)
		time.Sleep(time.Minute)
		healthy.Store(true)
		time.Sleep(time.Hour)
		in.await(t, "before", "live", "missed")
		r.end(t)
		if f.identifies() != before {
			t.Errorf("%d identifies more, want none", f.identifies()-before)
		}
	})
}

// TestCatchUpWaitsForTheDisk: a missed message the disk does not take is not passed over.
func TestCatchUpWaitsForTheDisk(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.places = places("500")
		refused := 0
		in.judge = func(_ context.Context, b platforms.Batch) error {
			if slices.ContainsFunc(b.Events, func(ev relay.Event) bool { return ev.Text == "missed" }) && refused < 5 {
				refused++
				return errStall
			}
			return nil
		}
		r := missed(t, f, in, open, func() { f.say("500", "missed") })
		in.await(t, "before", "missed")
		r.end(t)
		if refused != 5 {
			t.Errorf("refused %d times, want 5", refused)
		}
	})
}
