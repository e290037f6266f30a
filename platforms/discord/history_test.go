package discord

import (
	"context"
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// said is a message of a page. by is an id: testBotID is the bot's.
func said(id int, by, text string, more ...obj) obj {
	m := obj{
		"id": strconv.Itoa(id), "channel_id": "42", "type": 0, "content": text,
		"author": obj{"id": by, "username": "user" + by, "global_name": "User " + by},
	}
	for _, o := range more {
		maps.Copy(m, o)
	}
	return m
}

func line(by, text string) relay.ContextLine {
	return relay.ContextLine{UserID: relay.UserID(by), UserName: "User " + by, Text: text}
}

func TestHistory(t *testing.T) {
	var full, chatter []obj // two pages that go on: of what people said, and of joins
	var newest []relay.ContextLine
	for i := range historyPage {
		full = append(full, said(100-i, "7", strconv.Itoa(100-i)))
		chatter = append(chatter, said(100-i, "7", "", obj{"type": 7}))
	}
	for i := 98; i <= 100; i++ {
		newest = append(newest, line("7", strconv.Itoa(i)))
	}
	voice := obj{"flags": 8192, "attachments": []obj{{"id": "1", "filename": "voice-message.ogg", "content_type": "audio/ogg"}}}
	for name, tc := range map[string]struct {
		page  []obj
		n     int
		lines []relay.ContextLine
		whole bool
	}{
		"nothing that the bot may read":  {nil, 30, nil, false},
		"nothing before the event":       {[]obj{said(500, "7", "hello")}, 30, nil, true},
		"the event itself is no context": {[]obj{said(500, "7", "hello"), said(9, "8", "two")}, 30, []relay.ContextLine{line("8", "two")}, true},
		"from the channel's beginning":   {[]obj{said(9, "8", "two"), said(8, "7", "one")}, 30, []relay.ContextLine{line("7", "one"), line("8", "two")}, true},
		"since the bot's last message": {
			append([]obj{said(300, "7", "new"), said(299, testBotID, "an answer")}, full[:48]...), 30, []relay.ContextLine{line("7", "new")}, true,
		},
		"an answer to a command is the bot's too": {
			append([]obj{said(300, "7", "new"), said(299, testBotID, "", obj{"type": 20})}, full[:48]...), 30, []relay.ContextLine{line("7", "new")}, true,
		},
		"the bot's pin is none":        {[]obj{said(9, "8", "two"), said(8, testBotID, "", obj{"type": 6}), said(7, "7", "one")}, 30, []relay.ContextLine{line("7", "one"), line("8", "two")}, true},
		"the newest of many":           {full, 3, newest, true},
		"exactly as many":              {[]obj{said(9, "8", "two"), said(8, "7", "one")}, 2, []relay.ContextLine{line("7", "one"), line("8", "two")}, true},
		"a page of nothing said":       {chatter, 30, nil, false},
		"out of order":                 {[]obj{said(8, "7", "one"), said(9, "8", "two")}, 30, []relay.ContextLine{line("7", "one"), line("8", "two")}, true},
		"a message that shows nothing": {[]obj{said(9, "8", " "), said(8, "7", "one")}, 30, []relay.ContextLine{line("7", "one")}, true},
		"a nickname":                   {[]obj{said(9, "8", "x", obj{"author": obj{"id": "8", "username": "ben"}})}, 30, []relay.ContextLine{{UserID: "8", UserName: "ben", Text: "x"}}, true},
		"files are words": {
			[]obj{
				said(9, "8", "see", obj{"attachments": []obj{{"id": "1", "filename": "a.png"}, {"id": "2", "filename": "b.pdf"}}}),
				said(8, "7", "", voice), said(7, "7", "", obj{"sticker_items": []obj{{"id": "3", "name": "Wave", "format_type": 3}}}),
				said(6, "7", "", obj{"attachments": []obj{{"id": "1", "filename": "a.mp4"}, {"id": "2", "filename": "b.mp3"}, {"id": "3"}}}),
				said(5, "7", "", obj{"message_snapshots": []obj{{"message": obj{"content": "heard", "attachments": []obj{{"id": "1", "filename": "c.gif"}}}}}}),
			}, 30, []relay.ContextLine{
				line("7", "heard\n[Photo]"), line("7", "[Video]\n[Audio]\n[File]"), line("7", "[Sticker: Wave]"), line("7", "[Voice message]"),
				line("8", "see\n[Photo]\n[File: b.pdf]"),
			}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				page := tc.page
				if page == nil {
					page = []obj{}
				}
				f.has("/channels/42/messages", page)
				lines, whole, err := p.History(ctx, relay.Event{MessageID: "500", Source: relay.Source{ChatID: "42"}}, tc.n)
				if err != nil || whole != tc.whole {
					t.Errorf("whole = %v, %v", whole, err)
				}
				if diff := cmp.Diff(tc.lines, lines); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"GET /channels/42/messages?limit=50&before=501"}, f.paths()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestHistoryFails(t *testing.T) {
	for name, tc := range map[string]struct {
		chat  relay.ChatID
		fault restFault
		asked int
	}{
		"no access": {"42", restFault{status: 403, code: 50001}, 1}, "no answer": {"42", restFault{status: 500}, 1}, "no chat": {"../guilds", restFault{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail("GET /channels/42/messages", tc.fault)
				if lines, whole, err := p.History(ctx, relay.Event{MessageID: "500", Source: relay.Source{ChatID: tc.chat}}, 30); err == nil || whole || lines != nil {
					t.Errorf("= %v, %v, %v; want an error", lines, whole, err)
				}
				if got := len(f.paths()); got != tc.asked {
					t.Errorf("%d requests, want %d", got, tc.asked)
				}
			})
		})
	}
}
