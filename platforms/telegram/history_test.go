package telegram

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asks is what was said before a message at a place, as texts.
func asks(t *testing.T, p *Bot, chat relay.ChatID, thread relay.ThreadID, message relay.MessageID, n int) (texts []string, whole bool) {
	t.Helper()
	lines, whole, err := p.History(context.Background(), relay.Event{
		MessageID: message, Source: relay.Source{ChatID: chat, ThreadID: thread},
	}, n)
	if err != nil {
		t.Error(err)
	}
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts, whole
}

func TestHistory(t *testing.T) {
	const g = "-1009001"
	bubble(t, func(t *testing.T, f *fakeAPI, p *Bot, _ *platformtest.Log) {
		inb := newInbox()
		running(t, p, inb)
		look := func(what string, thread relay.ThreadID, message relay.MessageID, n int, whole bool, want ...string) {
			t.Helper()
			synctest.Wait()
			if got, all := asks(t, p, g, thread, message, n); !slices.Equal(got, want) || all != whole {
				t.Errorf("%s: %q, whole %t; want %q, %t", what, got, all, want, whole)
			}
		}
		look("before anything", "", "5", 30, false)
		for i := range 3 {
			f.push(said(groupChat(), int64(10+i), fmt.Sprint("l", i)))
		}
		f.push(in(77, said(groupChat(), 14, "in the topic")))
		f.push(said(annChat(), 15, "elsewhere"))
		f.push(photoOf(groupChat(), 16, "", ""))
		look("since the start", "", "20", 30, false, "l0", "l1", "l2", "[Photo]")
		look("before one of them", "", "12", 30, false, "l0", "l1")
		look("the newest two", "", "20", 2, true, "l2", "[Photo]")
		look("a press", "", "q99", 30, false, "l0", "l1", "l2", "[Photo]")
		look("the topic", "77", "20", 30, false, "in the topic")

		// The bot says something: in the chat, then in the topic.
		send := func(thread relay.ThreadID) {
			t.Helper()
			f.answer("sendMessage", func(url.Values) any {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.messageID++
				m := obj{"message_id": f.messageID, "chat": groupChat(), "text": "x"}
				if thread != "" {
					m["message_thread_id"], m["is_topic_message"] = 77, true
				}
				return m
			})
			if _, err := p.Send(t.Context(), relay.Send{Chat: g, Content: "hello", Meta: relay.Metadata{ThreadID: thread}}); err != nil {
				t.Fatal(err)
			}
		}
		send("") // 501
		look("after the bot", "", "600", 30, true)
		look("before the bot", "", "20", 30, false, "l0", "l1", "l2", "[Photo]")
		look("the topic all the same", "77", "600", 30, false, "in the topic")
		f.push(said(groupChat(), 502, "late"))
		f.push(said(groupChat(), 490, "overtaken"))
		look("lines have their order", "", "600", 30, true, "late")
		send("77") // 502
		look("the topic after the bot", "77", "600", 30, true)

		// What is an hour old is forgotten; behind the bot's own message nothing is missing then.
		time.Sleep(30 * time.Minute)
		f.push(said(groupChat(), 510, "new"))
		look("half an hour later", "", "600", 30, true, "late", "new")
		time.Sleep(31 * time.Minute)
		look("an hour later", "", "600", 30, false, "new")
		look("the topic an hour later", "77", "600", 30, true)
	})
}

func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := func(h *history, chat int, number int64, text string) {
			h.heard(relay.Event{
				MessageID: messageID(number), Text: text, Type: relay.TypeText,
				Source: relay.Source{ChatID: chatID(int64(chat)), UserID: "4001", UserName: "Ann"},
			})
		}
		h := newHistory()
		for i := range int64(200) {
			say(h, 1, i+1, "x")
			say(h, 1, i+1, "again") // what comes twice
		}
		if n := len(h.places[spot{chat: "1"}].lines); n != maxLines {
			t.Errorf("%d lines", n)
		}
		if lines, whole := h.before(spot{chat: "1"}, 200, 60); len(lines) != maxLines-1 || whole || lines[0].Text != "x" {
			t.Errorf("%d lines, whole %t", len(lines), whole)
		}
		if lines, whole := h.before(spot{chat: "1"}, 5, 30); len(lines) != 0 || whole {
			t.Errorf("before all that is known: %d, %t", len(lines), whole)
		}

		for i := range int64(20) {
			say(h, 2, i+1, strings.Repeat("ä", 5000))
		}
		c := h.places[spot{chat: "2"}]
		lines, whole := h.before(spot{chat: "2"}, 99, 30)
		if c.bytes > maxHeard || len(lines) < 4 || !whole || len(lines[0].Text) > maxLine+8 || !strings.HasSuffix(lines[0].Text, "ä…") {
			t.Errorf("%d bytes, %d lines, whole %t", c.bytes, len(lines), whole)
		}

		for chat := range 600 {
			time.Sleep(time.Second)
			say(h, 1000+chat, 1, "x")
		}
		if len(h.places) != maxPlaces || h.places[spot{chat: "1599"}] == nil || h.places[spot{chat: "1000"}] != nil {
			t.Errorf("%d places", len(h.places))
		}
		time.Sleep(2 * time.Hour)
		say(h, 1599, 2, "y")
		for s, c := range h.places {
			if len(c.lines) > 0 && s.chat != "1599" || c.bytes > 20 {
				t.Errorf("%s: %d lines an hour later", s.chat, len(c.lines))
			}
		}
	})
}

// TestEditsAndPressesAreNoLines, and neither is what is forgotten by number.
func TestEditsAndPressesAreNoLines(t *testing.T) {
	h := newHistory()
	for _, id := range []relay.MessageID{"5:e1.2", "q7"} {
		h.heard(relay.Event{MessageID: id, Text: "x", Source: relay.Source{ChatID: "1"}})
	}
	if len(h.places) > 0 {
		t.Errorf("%d places", len(h.places))
	}
	h.heard(relay.Event{MessageID: "5", Text: "mine", Traits: relay.Traits{Own: true}, Source: relay.Source{ChatID: "1"}})
	h.heard(relay.Event{MessageID: "6", Text: "x", Source: relay.Source{ChatID: "1"}})
	if lines, whole := h.before(spot{chat: "1"}, 9, 30); len(lines) != 1 || !whole {
		t.Errorf("behind an own message that came as an update: %v, %t", lines, whole)
	}
}
