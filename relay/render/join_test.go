package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// said is a message of ann's in a direct message.
func said(id relay.MessageID, text string, change ...func(*relay.Event)) relay.Event {
	ev := relay.Event{
		ID: relay.EventID(id), MessageID: id, Bot: relay.Bot{Platform: "net", ID: "b"}, Type: relay.TypeText, Text: text,
		Source: relay.Source{Platform: "net", ChatID: "c", ChatType: relay.ChatDM, UserID: "ann", MessageID: id},
	}
	for _, c := range change {
		c(&ev)
	}
	return ev
}

func withFiles(kind relay.MessageType, refs ...string) func(*relay.Event) {
	return func(ev *relay.Event) {
		ev.Type = kind
		for _, ref := range refs {
			ev.Attachments = append(ev.Attachments, relay.Attachment{Ref: ref, Kind: kind})
		}
	}
}

func quoting(id relay.MessageID, text string) func(*relay.Event) {
	return func(ev *relay.Event) { ev.ReplyToMessageID, ev.ReplyTo = id, &relay.Quote{Text: text} }
}

func many(n int) (refs []string) {
	for i := range n {
		refs = append(refs, fmt.Sprint("f", i))
	}
	return refs
}

func TestJoin(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second relay.Event
		want          func(*relay.Event) // of the second; nil: they are not joined
	}{
		"texts":         {said("1", "one"), said("2", "two"), func(ev *relay.Event) { ev.Text = "one\ntwo" }},
		"several lines": {said("1", "a\nb"), said("2", " c"), func(ev *relay.Event) { ev.Text = "a\nb\n c" }},
		"a photo, then a text": {said("1", "", withFiles(relay.TypePhoto, "p")), said("2", "look"), func(ev *relay.Event) {
			withFiles(relay.TypePhoto, "p")(ev)
		}},
		"a text, then a voice message": {said("1", "listen"), said("2", "", withFiles(relay.TypeVoice, "v")), func(ev *relay.Event) { ev.Text = "listen" }},
		"two voice messages": {said("1", "", withFiles(relay.TypeVoice, "v")), said("2", "", withFiles(relay.TypeVoice, "w")), func(ev *relay.Event) {
			ev.Attachments = nil
			withFiles(relay.TypeVoice, "v", "w")(ev)
		}},
		"a forwarded message":         {said("1", "one"), said("2", "two", func(ev *relay.Event) { ev.Traits.Forwarded = true }), nil},
		"behind a forwarded message":  {said("1", "one", func(ev *relay.Event) { ev.Traits.Forwarded = true }), said("2", "two"), nil},
		"a voice message and a photo": {said("1", "", withFiles(relay.TypeVoice, "v")), said("2", "", withFiles(relay.TypePhoto, "p")), nil},
		"a photo and a document": {said("1", "", withFiles(relay.TypePhoto, "p")), said("2", "", withFiles(relay.TypeDocument, "d")), func(ev *relay.Event) {
			ev.Attachments = []relay.Attachment{{Ref: "p", Kind: relay.TypePhoto}, {Ref: "d", Kind: relay.TypeDocument}}
		}},
		"as many files as an event has": {said("1", "", withFiles(relay.TypePhoto, many(9)...)), said("2", "", withFiles(relay.TypePhoto, "p")), func(ev *relay.Event) {
			ev.Attachments = nil
			withFiles(relay.TypePhoto, append(many(9), "p")...)(ev)
		}},
		"one file more": {said("1", "", withFiles(relay.TypePhoto, many(10)...)), said("2", "", withFiles(relay.TypePhoto, "p")), nil},
		"the same quote, with its file": {said("1", "a", quoting("q", "?"), withFiles(relay.TypePhoto, "q")), said("2", "b", quoting("q", "?"), withFiles(relay.TypePhoto, "q")), func(ev *relay.Event) {
			ev.Text = "a\nb"
		}},
		"quotes of different messages":      {said("1", "a", quoting("q", "?")), said("2", "b", quoting("r", "?")), nil},
		"different words of one message":    {said("1", "a", quoting("q", "?")), said("2", "b", quoting("q", "!")), nil},
		"only the second quotes":            {said("1", "a"), said("2", "b", quoting("q", "?")), nil},
		"only the first quotes":             {said("1", "a", quoting("q", "?")), said("2", "b"), nil},
		"addressed by the first":            {said("1", "a", func(ev *relay.Event) { ev.Traits.Addressed = true }), said("2", "b"), func(ev *relay.Event) { ev.Text, ev.Traits.Addressed = "a\nb", true }},
		"a command first":                   {said("1", "/new"), said("2", "b"), nil},
		"a command behind":                  {said("1", "a"), said("2", " /new"), nil},
		"a command by its type":             {said("1", "a"), said("2", "new", func(ev *relay.Event) { ev.Type = relay.TypeCommand }), nil},
		"a press":                           {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Traits.Press = true }), nil},
		"an answer to a prompt":             {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Prompt = &relay.PromptResponse{} }), nil},
		"somebody else":                     {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Source.UserID = "bob" }), nil},
		"another chat":                      {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Source.ChatID = "d" }), nil},
		"another topic":                     {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Source.ThreadID = "t" }), nil},
		"another profile":                   {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Source.Profile = "p" }), nil},
		"another bot":                       {said("1", "a"), said("2", "b", func(ev *relay.Event) { ev.Bot.ID = "c" }), nil},
		"nobody knows whose, in a group":    {nameless("1"), nameless("2"), nil},
		"too much":                          {said("1", strings.Repeat("x", MaxJoined-2)), said("2", "bb"), nil},
		"just not too much":                 {said("1", strings.Repeat("x", MaxJoined-2)), said("2", "b"), func(ev *relay.Event) { ev.Text = strings.Repeat("x", MaxJoined-2) + "\nb" }},
		"a pin on a map, and a word for it": {said("1", "pin", func(ev *relay.Event) { ev.Type = relay.TypeLocation }), said("2", "here"), func(ev *relay.Event) { ev.Type, ev.Text = relay.TypeLocation, "pin\nhere" }},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Join(tc.first, tc.second)
			if ok != (tc.want != nil) {
				t.Fatalf("joined: %v", ok)
			}
			if !ok {
				return
			}
			want := tc.second
			tc.want(&want)
			if name == "a photo and a document" {
				want.Type = relay.TypeDocument
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("joined (-want +got):\n%s", diff)
			}
		})
	}
}

func nameless(id relay.MessageID) relay.Event {
	return said(id, "a", func(ev *relay.Event) { ev.Source.UserID, ev.Source.ChatType = "", relay.ChatGroup })
}
