package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// pressed is an update with a press of Ann's on a message of the bot's.
func pressed(query, data string, m obj) obj {
	return obj{"callback_query": obj{
		"id": query, "chat_instance": "1", "data": data, "message": m,
		"from": obj{"id": int64(4001), "is_bot": false, "first_name": "Ann", "last_name": "Example", "username": "ann_x"},
	}}
}

// asked is a message of the bot's with the buttons of the prompt p1.
func asked(chat obj, topic int64) obj {
	m := obj{
		"message_id": 501, "date": 1_790_000_000, "chat": chat, "text": "go on?",
		"from":         obj{"id": testMe.id, "is_bot": true, "first_name": "Pi", "username": testMe.name},
		"reply_markup": obj{"inline_keyboard": [][]obj{{{"text": "Yes", "callback_data": "hp1:p1:y"}, {"text": "No", "callback_data": "hp1:p1:n"}}}},
	}
	if topic != 0 {
		m["message_thread_id"], m["is_topic_message"] = topic, true
	}
	return m
}

// deskInbox is an inbox that refuses presses, and whose disk may stall.
type deskInbox struct {
	*memInbox
	refuse map[relay.EventID]string
	stall  time.Duration
}

func (in *deskInbox) Accept(ctx context.Context, b platforms.Batch) error {
	for _, ev := range b.Events {
		if words, ok := in.refuse[ev.ID]; ok {
			b.Refused(ev.ID, words)
		}
	}
	time.Sleep(in.stall)
	return in.memInbox.Accept(ctx, b)
}

func TestPress(t *testing.T) {
	forum := obj{"id": int64(-1009003), "type": "supergroup", "title": "Workshop", "is_forum": true}
	old := obj{"message_id": 501, "date": 0, "chat": groupChat()}
	for name, tc := range map[string]struct {
		update obj
		want   relay.Source // but for what is the same in all
		label  string
	}{
		"direct":          {pressed("7", "hp1:p1:y", asked(annChat(), 0)), relay.Source{ChatID: "4001", ChatType: relay.ChatDM, ChatName: "Ann Example"}, "Yes"},
		"group":           {pressed("7", "hp1:p1:y", asked(groupChat(), 0)), relay.Source{ChatID: "-1009001", ChatType: relay.ChatGroup, ChatName: "Allotment"}, "Yes"},
		"topic":           {pressed("7", "hp1:p1:y", asked(forum, 77)), relay.Source{ChatID: "-1009003", ChatType: relay.ChatGroup, ChatName: "Workshop", ThreadID: "77"}, "Yes"},
		"General":         {pressed("7", "hp1:p1:y", asked(forum, 0)), relay.Source{ChatID: "-1009003", ChatType: relay.ChatGroup, ChatName: "Workshop", ThreadID: "1"}, "Yes"},
		"DM topic":        {pressed("7", "hp1:p1:y", asked(annChat(), 77)), relay.Source{ChatID: "4001", ChatType: relay.ChatDM, ChatName: "Ann Example", ThreadID: "77"}, "Yes"},
		"old":             {pressed("7", "hp1:p1:y", old), relay.Source{ChatID: "-1009001", ChatType: relay.ChatGroup, ChatName: "Allotment"}, ""},
		"old, in a forum": {pressed("7", "hp1:p1:y", obj{"message_id": 501, "date": 0, "chat": forum}), relay.Source{ChatID: "-1009003", ChatType: relay.ChatGroup, ChatName: "Workshop"}, ""},
		"never was":       {pressed("7", "hp1:p1:zz", asked(annChat(), 0)), relay.Source{ChatID: "4001", ChatType: relay.ChatDM, ChatName: "Ann Example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
				in := newInbox()
				running(t, p, in)
				f.push(tc.update)
				synctest.Wait()
				if len(in.events()) != 1 {
					t.Fatalf("%d events", len(in.events()))
				}
				tc.want.Platform, tc.want.UserID, tc.want.UserName, tc.want.UserDisplayName, tc.want.UserHandle, tc.want.MessageID =
					Name, "4001", "Ann Example", "Ann Example", "ann_x", "q7"
				option := strings.TrimPrefix(tc.update["callback_query"].(obj)["data"].(string), "hp1:p1:")
				want := relay.Event{
					ID: "q:7", Bot: p.bot, At: time.Now().UTC(), Source: tc.want, Type: relay.TypeCommand, Text: "/" + option, MessageID: "q7",
					Prompt: &relay.PromptResponse{PromptID: "p1", OptionID: option, Label: tc.label, PromptMessageID: "501"},
					Traits: relay.Traits{Press: true},
				}
				if diff := cmp.Diff(want, in.events()[0]); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
				if got := f.callsTo("answerCallbackQuery"); len(got) != 1 || got[0].Get("callback_query_id") != "7" || got[0].Has("text") {
					t.Errorf("answers %v", got)
				}
			})
		})
	}
}

// TestForeignPress: what is no button of a prompt reaches nobody, and is answered.
func TestForeignPress(t *testing.T) {
	inline := pressed("7", "hp1:p1:y", nil)
	delete(inline["callback_query"].(obj), "message")
	inline["callback_query"].(obj)["inline_message_id"] = "x"
	for name, u := range map[string]obj{
		"another bot's data":   pressed("7", "page:2", asked(groupChat(), 0)),
		"a game":               pressed("7", "", asked(groupChat(), 0)),
		"too long":             pressed("7", "hp1:"+strings.Repeat("p", 32)+":"+strings.Repeat("o", 28), asked(groupChat(), 0)),
		"of an inline message": inline,
	} {
		t.Run(name, func(t *testing.T) {
			for _, updates := range []string{"poll", "webhook"} {
				onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
					in := newInbox()
					running(t, restart(updates), in)
					f.push(u)
					synctest.Wait()
					if len(in.events()) > 0 || len(f.callsTo("answerCallbackQuery")) != 1 || f.pending() > 0 && updates == "webhook" {
						t.Errorf("%s: events %+v, answers %v", updates, in.events(), f.callsTo("answerCallbackQuery"))
					}
				})
			}
		})
	}
}

// TestPressesAreAnsweredInTime: with the words of a refusal or with nothing, within three seconds, whatever the disk does.
func TestPressesAreAnsweredInTime(t *testing.T) {
	bad := func(words string) fault { return fault{code: 400, description: "Bad Request: " + words} }
	for name, tc := range map[string]struct {
		stall, takes time.Duration // of the disk; of Telegram
		faults       []fault
		tries        int
		quiet        bool
	}{
		"at once":            {0, 0, nil, 3, true},
		"the disk stalls":    {15 * time.Second, 0, nil, 3, true},
		"and Telegram":       {15 * time.Second, 900 * time.Millisecond, nil, 3, true},
		"too old":            {0, 0, slices.Repeat([]fault{bad("query is too old and response timeout expired or query ID is invalid")}, 3), 3, true},
		"a lost answer":      {0, 0, []fault{{cut: true}}, 4, true},
		"refused":            {0, 0, []fault{bad("no")}, 3, false},
		"Telegram is silent": {0, 0, slices.Repeat([]fault{{hang: true}}, 6), 6, false},
	} {
		for _, updates := range []string{"poll", "webhook"} {
			t.Run(name+", "+updates, func(t *testing.T) {
				onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, log *platformtest.Log) {
					in := &deskInbox{newInbox(), map[relay.EventID]string{"q:2": "This question is closed", "q:none": "x"}, tc.stall}
					running(t, restart(updates), in)
					time.Sleep(time.Second)
					f.fail("answerCallbackQuery", tc.faults...)
					late := map[string]time.Duration{}
					began := time.Now()
					f.answer("answerCallbackQuery", func(v url.Values) any {
						time.Sleep(tc.takes)
						f.mu.Lock()
						defer f.mu.Unlock()
						if _, again := late[v.Get("callback_query_id")]; !again {
							late[v.Get("callback_query_id")] = time.Since(began)
						}
						return true
					})
					for n := range 3 {
						if updates == "webhook" && tc.stall > 0 && n > 0 {
							break // Telegram posts one after the other
						}
						q := 2 - n // the refused one first
						if q == 0 {
							q = 3
						}
						f.push(pressed(fmt.Sprint(q), "hp1:p1:y", asked(groupChat(), 0)))
					}
					time.Sleep(3 * time.Second)
					synctest.Wait()
					f.mu.Lock()
					for q, d := range late {
						if d > 3*time.Second {
							t.Errorf("%s was answered after %v", q, d)
						}
					}
					f.mu.Unlock()
					time.Sleep(5 * time.Minute)
					calls := f.callsTo("answerCallbackQuery")
					want := tc.tries
					if updates == "webhook" && tc.stall > 0 {
						want = 1
					}
					if len(calls) < want {
						t.Errorf("%d tries, want %d", len(calls), want)
					}
					for _, c := range calls {
						words := ""
						if c.Get("callback_query_id") == "2" {
							words = "This question is closed"
						}
						if c.Get("text") != words || c.Has("show_alert") {
							t.Errorf("answer %v", c)
						}
					}
					if len(pressLines(log)) > 0 == tc.quiet {
						t.Errorf("log: %s", log.String())
					}
				})
			})
		}
	}
}

// TestPressesDuringAStall: who presses while an earlier update waits for the disk is answered in time, once.
func TestPressesDuringAStall(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		in := &deskInbox{newInbox(), nil, 15 * time.Second}
		running(t, p, in)
		time.Sleep(time.Second)
		pushed, late := map[string]time.Time{}, map[string]time.Duration{}
		f.answer("answerCallbackQuery", func(v url.Values) any {
			f.mu.Lock()
			defer f.mu.Unlock()
			late[v.Get("callback_query_id")] = time.Since(pushed[v.Get("callback_query_id")])
			return true
		})
		for n := range 9 {
			q := fmt.Sprint(n)
			f.mu.Lock()
			pushed[q] = time.Now()
			f.mu.Unlock()
			f.push(pressed(q, "hp1:p1:y", asked(groupChat(), 0)))
			time.Sleep(1300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for q := range pushed {
			if d, answered := late[q]; !answered || d > 3*time.Second {
				t.Errorf("%s was answered after %v, %v", q, d, answered)
			}
		}
		if got := len(f.callsTo("answerCallbackQuery")); got != 9 || len(in.events()) != 9 || len(p.desk.ahead) > 0 {
			t.Errorf("%d answers, %d events; %v", got, len(in.events()), p.desk.ahead)
		}
	})
}

// TestUndecidedPressesWaitForTheirWords: that they are stored answers nothing yet.
func TestUndecidedPressesWaitForTheirWords(t *testing.T) {
	for _, updates := range []string{"poll", "webhook"} {
		onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
			in := &undecidedInbox{memInbox: newInbox()}
			running(t, restart(updates), in)
			time.Sleep(time.Second)
			f.push(pressed("1", "hp1:p1:y", asked(groupChat(), 0)))
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
			in.batches[0].Refused("q:1", "This question is closed")
			f.push(pressed("2", "hp1:p1:y", asked(groupChat(), 0)))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			calls := f.callsTo("answerCallbackQuery")
			if len(calls) != 2 || calls[0].Get("text") != "This question is closed" || calls[1].Has("text") {
				t.Errorf("%s: answers %v", updates, calls)
			}
		})
	}
}

// undecidedInbox does not know yet what becomes of a press.
type undecidedInbox struct{ *memInbox }

func (in *undecidedInbox) Accept(ctx context.Context, b platforms.Batch) error {
	for _, ev := range b.Events {
		b.Undecided(ev.ID)
	}
	return in.memInbox.Accept(ctx, b)
}

// pressLines are the lines of a log about presses.
func pressLines(log *platformtest.Log) (lines []string) {
	for l := range strings.Lines(log.String()) {
		if strings.Contains(l, "press") {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestPressesInOneAnswer: each has its own, and what cannot be stored comes again.
func TestPressesInOneAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		in := &deskInbox{newInbox(), map[relay.EventID]string{"q:40": "This question is not for you"}, 0}
		in.errs = []error{errors.New("disk full")}
		for n := range 90 {
			f.push(pressed(fmt.Sprint(n), "hp1:p1:y", asked(groupChat(), 0)))
		}
		stop, _ := running(t, p, in)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(in.batches) != 1 || len(in.events()) != 90 || f.pending() > 0 {
			t.Errorf("%d batches, %d events", len(in.batches), len(in.events()))
		}
		said := map[string]string{}
		for _, c := range f.callsTo("answerCallbackQuery") {
			said[c.Get("callback_query_id")] += c.Get("text") + "."
		}
		for n := range 90 {
			want := "."
			if n == 40 {
				want = "This question is not for you."
			}
			if got := said[fmt.Sprint(n)]; got != want {
				t.Errorf("press %d was answered %q", n, got)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(p.desk.open) > 0 {
			t.Errorf("%d presses remembered", len(p.desk.open))
		}
	})
}

// TestPressWithoutSense goes into quarantine.
func TestPressWithoutSense(t *testing.T) {
	onHook(t, func(t *testing.T, f *fakeAPI, restart func(string) *Bot, _ *platformtest.Log) {
		in := newInbox()
		p := restart("webhook")
		running(t, p, in)
		synctest.Wait()
		body := mustJSON(t, obj{"update_id": 7, "callback_query": obj{"data": "hp1:a:b"}})
		a := p.Receive(t.Context(), hookRequest("/", p.hooked.secret.RevealString(), []byte(body)))
		if a.Status != http.StatusOK || a.Refused != platforms.Unreadable || len(in.batches) != 1 || len(in.batches[0].Undecodable) != 1 {
			t.Errorf("%+v, %+v", a, in.batches)
		}
	})
}
