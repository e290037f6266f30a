package discord

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fromWords is the event in a MESSAGE_CREATE of a channel that is known.
func fromWords(t *testing.T, n normaliser, raw string) *relay.Event {
	t.Helper()
	var m messageData
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatal(err)
	}
	return n.fromMessage(&m, spot{channel: guilds.Channel{ID: m.ChannelID}})
}

// shown is an attachment without what no test here is about.
type shown struct {
	Where, Name string
	Kind        relay.MessageType
}

func shownOf(as []relay.Attachment) (out []shown) {
	for _, a := range as {
		r, _ := readRef(a.Ref)
		out = append(out, shown{fmt.Sprintf("%d/%d/%s %s", r.Channel, r.Message, r.ID, r.URL), a.Name, a.Kind})
	}
	return out
}

func TestAttachments(t *testing.T) {
	const head = `{"id":"50","channel_id":"42","author":{"id":"7","username":"ann"},`
	file := func(id, name string) string {
		return `{"id":"` + id + `","filename":"` + name + `","url":"u` + id + `","size":3}`
	}
	many := file("1", "a.png") + strings.Repeat(","+file("1", "a.png"), 6)
	for name, tc := range map[string]struct {
		message string
		cdn     string
		want    []shown
		kind    relay.MessageType
		text    string
	}{
		"own, forwarded, replied to": {
			message: head + `"type":19,"content":"see","attachments":[` + file("1", "a.png") + `],
				"message_snapshots":[{"message":{"attachments":[` + file("2", "b.pdf") + `]}}],"message_reference":{"message_id":"40"},
				"referenced_message":{"id":"40","channel_id":"41","author":{"id":"8"},"content":"","attachments":[` + file("3", "c.mp4") + `],
				"message_snapshots":[{"message":{"attachments":[` + file("4", "d.mp3") + `]}}]}}`,
			want: []shown{
				{"42/50/1 u1", "a.png", relay.TypePhoto}, {"42/50/2 u2", "b.pdf", relay.TypeDocument},
				{"41/40/3 u3", "c.mp4", relay.TypeVideo}, {"41/40/4 u4", "d.mp3", relay.TypeAudio},
			},
			kind: relay.TypePhoto, text: "see",
		},
		"a reply in the same channel": {
			message: head + `"type":19,"content":"see","message_reference":{"message_id":"40"},"referenced_message":{"id":"40","attachments":[` + file("3", "c.mp4") + `]}}`,
			want:    []shown{{"42/40/3 u3", "c.mp4", relay.TypeVideo}}, kind: relay.TypeVideo, text: "see",
		},
		"a voice message that is replied to": {
			message: head + `"type":19,"content":"see","message_reference":{"message_id":"40"},"referenced_message":{"id":"40","flags":8192,"attachments":[` + file("3", "c.ogg") + `]}}`,
			want:    []shown{{"42/40/3 u3", "c.ogg", relay.TypeVoice}}, kind: relay.TypeVoice, text: "see",
		},
		"only ten, the message's own first": {
			message: head + `"type":19,"content":"see","attachments":[` + many + `],"message_reference":{"message_id":"40"},"referenced_message":{"id":"40","attachments":[` + many + `]}}`,
			want: append(slices.Repeat([]shown{{"42/50/1 u1", "a.png", relay.TypePhoto}}, 7),
				slices.Repeat([]shown{{"42/40/1 u1", "a.png", relay.TypePhoto}}, 3)...),
			kind: relay.TypePhoto, text: "see",
		},
		"stickers": {
			message: head + `"type":0,"content":"","sticker_items":[{"id":"1","name":"Wave","format_type":1},{"id":"2","name":"Hop","format_type":2},
				{"id":"3","name":"Spin","format_type":3},{"id":"4","name":"Blink","format_type":4},{"id":"5","name":"New","format_type":9}]}`,
			want: []shown{
				{"0/0/ https://cdn.discordapp.com/stickers/1.png", "Wave.png", relay.TypeSticker},
				{"0/0/ https://cdn.discordapp.com/stickers/2.png", "Hop.png", relay.TypeSticker},
				{"0/0/ https://media.discordapp.net/stickers/4.gif", "Blink.gif", relay.TypeSticker},
			},
			kind: relay.TypeSticker, text: "[Sticker: Wave]\n[Sticker: Hop]\n[Sticker: Spin]\n[Sticker: Blink]\n[Sticker: New]",
		},
		"a sticker at an address of the operator's": {
			message: head + `"type":0,"content":"hi","sticker_items":[{"id":"../x","name":"Wave","format_type":1}]}`, cdn: "http://127.0.0.1:8082",
			want: []shown{{"0/0/ http://127.0.0.1:8082/stickers/..%2Fx.png", "Wave.png", relay.TypeSticker}}, kind: relay.TypeSticker, text: "hi",
		},
		"Lottie is a line": {
			message: head + `"type":0,"content":"hi","sticker_items":[{"id":"3","name":"Spin","format_type":3}]}`, kind: relay.TypeSticker, text: "hi\n[Sticker: Spin]",
		},
		"but not of a command": {
			message: head + `"type":0,"content":"/new","sticker_items":[{"id":"3","name":"Spin","format_type":3}]}`, kind: relay.TypeCommand, text: "/new",
		},
		"a file alone has no words": {
			message: head + `"type":0,"content":"","attachments":[` + file("1", "a.png") + `]}`,
			want:    []shown{{"42/50/1 u1", "a.png", relay.TypePhoto}}, kind: relay.TypePhoto,
		},
		"the first line of a thread has none": {
			message: head + `"type":0,"content":"x","referenced_message":{"id":"40","attachments":[` + file("3", "c.mp4") + `]}}`, kind: relay.TypeText, text: "x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ev := fromWords(t, normaliser{bot: relay.Bot{Platform: Name, ID: "9"}, me: 9, cdn: tc.cdn}, tc.message)
			if diff := cmp.Diff(tc.want, shownOf(ev.Attachments)); diff != "" {
				t.Errorf("attachments (-want +got):\n%s", diff)
			}
			if ev.Type != tc.kind || ev.Text != tc.text {
				t.Errorf("event is %s %q, want %s %q", ev.Type, ev.Text, tc.kind, tc.text)
			}
		})
	}
}

func TestWhatIsSaidOfAFile(t *testing.T) {
	ev := fromWords(t, normaliser{me: 9}, `{"id":"50","channel_id":"42","author":{"id":"7"},"attachments":[
		{"id":"1","filename":"a.png","url":"u","size":4294967296,"description":"a bowl","content_type":"image/png"},
		{"id":"2","filename":"b","url":"u","size":-1}]}`)
	got := slices.Clone(ev.Attachments)
	for i := range got {
		got[i].Ref = ""
	}
	want := []relay.Attachment{{Kind: relay.TypePhoto, Name: "a.png", Size: 1 << 32, Caption: "a bowl"}, {Kind: relay.TypeDocument, Name: "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
	own := fromWords(t, normaliser{me: 7}, `{"id":"50","channel_id":"42","author":{"id":"7"},"attachments":[{"id":"1","url":"u"}]}`)
	if own.Attachments != nil {
		t.Errorf("the bot's own message has files: %+v", own.Attachments)
	}
}

func TestFilesOfCommands(t *testing.T) {
	n := normaliser{bot: relay.Bot{Platform: Name, ID: "9"}, me: 9}
	for name, tc := range map[string]struct {
		data string
		want []shown
	}{
		"an option, also of a sub-command": {
			`{"name":"ask","type":1,"options":[{"name":"in","type":1,"options":[{"name":"file","type":11,"value":"6"}]},{"name":"other","type":11,"value":"7"},{"name":"text","type":3,"value":"6"}],
				"resolved":{"attachments":{"6":{"id":"6","filename":"a.png","url":"u6"}}}}`,
			[]shown{{"0/0/6 u6", "a.png", relay.TypePhoto}},
		},
		"the message it was used on": {
			`{"name":"ask","type":3,"target_id":"40","resolved":{"messages":{"40":{"id":"40","content":"x","attachments":[{"id":"6","filename":"a.pdf","url":"u6"}]}}}}`,
			[]shown{{"42/40/6 u6", "a.pdf", relay.TypeDocument}},
		},
		"none": {`{"name":"ask","type":1}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			i := &interaction{ID: 50, Kind: 2, Channel: 42, Data: json.RawMessage(tc.data)}
			ev, _, err := n.fromInteraction(i, spot{channel: guilds.Channel{ID: 42}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, shownOf(ev.Attachments)); diff != "" || ev.Type != relay.TypeCommand {
				t.Errorf("attachments of a %s (-want +got):\n%s", ev.Type, diff)
			}
		})
	}
}

func TestFilesOfForms(t *testing.T) {
	i := &interaction{ID: 50, Kind: 5, Channel: 42, Data: json.RawMessage(`{"custom_id":"m","components":[
		{"type":18,"component":{"type":19,"custom_id":"photo","values":["6","7"]}},{"type":18,"component":{"type":3,"custom_id":"s","values":["8"]}}],
		"resolved":{"attachments":{"6":{"id":"6","filename":"a.png","url":"u6"},"7":{"id":"7","filename":"b.pdf","url":"u7"}}}}`)}
	ev, _, err := normaliser{me: 9}.fromInteraction(i, spot{channel: guilds.Channel{ID: 42}})
	if err != nil {
		t.Fatal(err)
	}
	want := []shown{{"0/0/6 u6", "a.png", relay.TypePhoto}, {"0/0/7 u7", "b.pdf", relay.TypeDocument}}
	if diff := cmp.Diff(want, shownOf(ev.Attachments)); diff != "" || ev.Text != "photo=6, 7\ns=8" {
		t.Errorf("form %q (-want +got):\n%s", ev.Text, diff)
	}
}
