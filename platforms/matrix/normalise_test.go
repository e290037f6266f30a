package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

// TestVectors has the keys that the gateways' own code computed come of whole events.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vectors/session_keys_more.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Source struct {
			Platform relay.PlatformID `json:"platform"`
			Type     relay.ChatType   `json:"chat_type"`
			Chat     string           `json:"chat_id"`
			User     string           `json:"user_id"`
			Thread   string           `json:"thread_id"`
		} `json:"source"`
		Options struct {
			Profile       string `json:"profile"`
			GroupPerUser  *bool  `json:"group_sessions_per_user"`
			ThreadPerUser bool   `json:"thread_sessions_per_user"`
		} `json:"options"`
		Key relay.SessionKey `json:"key"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	b, n := newBench(t), 0
	b.start()
	for i, v := range vectors {
		if v.Source.Platform != Name {
			continue
		}
		n++
		text := fmt.Sprint("vector ", i)
		b.fake.mu.Lock()
		made := b.fake.membershipLocked(v.Source.Chat, botUser, b.fake.at+1) != ""
		b.fake.mu.Unlock()
		if !made {
			members := []string{v.Source.User, botUser}
			if v.Source.Type == relay.ChatGroup {
				members = append(members, "@one:more", "@another:one")
			}
			b.fake.room(v.Source.Chat, obj{}, members...)
		}
		content := obj{}
		if v.Source.Thread != "" {
			content["m.relates_to"] = obj{"rel_type": "m.thread", "event_id": v.Source.Thread}
		}
		b.fake.say(v.Source.Chat, v.Source.User, text, content)
		ev := b.heard(text)
		o := sessionkey.Options{
			Profile: v.Options.Profile, ThreadPerUser: v.Options.ThreadPerUser,
			SharedGroups: v.Options.GroupPerUser != nil && !*v.Options.GroupPerUser,
		}
		if got := sessionkey.Build(ev.Source, o); got != v.Key {
			t.Errorf("vector %d: got %s, want %s", i, got, v.Key)
		}
	}
	if n < 30 {
		t.Errorf("%d vectors are Matrix's, want 30", n)
	}
}

// TestMessages has people say things, and looks what becomes of it.
func TestMessages(t *testing.T) {
	reply := func(to string) obj { return obj{"m.relates_to": obj{"m.in_reply_to": obj{"event_id": to}}} }
	b := newBench(t)
	b.fake.add(groupRoom, ann, "m.room.name", key(""), obj{"name": "Kitchen"})
	own := b.fake.say(groupRoom, botUser, "I said this")
	hers := b.fake.say(groupRoom, ann, "she said this")
	b.start()
	type seen struct {
		Text      string
		Type      relay.MessageType
		Addressed bool
		Quote     string
		Own       bool
		Files     int
	}
	file := func(kind string, more obj) obj {
		out := obj{"msgtype": kind, "body": "cat.ogg", "url": "mxc://a/b", "info": obj{"size": 7.0}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for name, c := range map[string]struct {
		content obj
		want    seen
	}{
		"text":          {obj{"body": "plain"}, seen{Text: "plain", Type: relay.TypeText}},
		"mention":       {obj{"body": "Hermes: hi", "m.mentions": obj{"user_ids": []any{botUser}}}, seen{Text: "hi", Type: relay.TypeText, Addressed: true}},
		"mention by id": {obj{"body": "hi " + botUser + ", you", "m.mentions": obj{"user_ids": []any{botUser}}}, seen{Text: "hi you", Type: relay.TypeText, Addressed: true}},
		"mention alone": {obj{"body": botUser, "m.mentions": obj{"user_ids": []any{botUser}}}, seen{Text: botUser, Type: relay.TypeText, Addressed: true}},
		"pill": {obj{"body": "Hermes, hi", "format": "org.matrix.custom.html",
			"formatted_body": `<a href="https://matrix.to/#/%40hermes%3Afake.example">Hermes</a>, hi`}, seen{Text: "hi", Type: relay.TypeText, Addressed: true}},
		"pill of another": {obj{"body": "Ann, hi", "format": "org.matrix.custom.html",
			"formatted_body": `<a href="https://matrix.to/#/@ann:fake.example">Ann</a>, hi`}, seen{Text: "Ann, hi", Type: relay.TypeText}},
		"pill in a quote": {merged(obj{"body": "> <@ann:fake.example> Hermes\n\nindeed", "format": "org.matrix.custom.html",
			"formatted_body": `<mx-reply><blockquote><a href="https://matrix.to/#/@hermes:fake.example">Hermes</a></blockquote></mx-reply>indeed`}, reply(hers)),
			seen{Text: "indeed", Type: relay.TypeText, Quote: "she said this"}},
		"the whole room":   {obj{"body": "@room hi", "m.mentions": obj{"room": true}}, seen{Text: "@room hi", Type: relay.TypeText}},
		"command":          {obj{"body": "!new chat"}, seen{Text: "/new chat", Type: relay.TypeCommand, Addressed: true}},
		"slash":            {obj{"body": "/status"}, seen{Text: "/status", Type: relay.TypeCommand, Addressed: true}},
		"no command":       {obj{"body": "!important"}, seen{Text: "!important", Type: relay.TypeText}},
		"reply to the bot": {merged(obj{"body": "yes"}, reply(own)), seen{Text: "yes", Type: relay.TypeText, Addressed: true, Quote: "I said this", Own: true}},
		"reply to ann": {merged(obj{"body": "> <@ann:fake.example> she said this\n\nindeed"}, reply(hers)),
			seen{Text: "indeed", Type: relay.TypeText, Quote: "she said this"}},
		"reply to what is gone": {merged(obj{"body": "hm"}, reply("$gone")), seen{Text: "hm", Type: relay.TypeText}},
		"emote":                 {obj{"msgtype": "m.emote", "body": "waves"}, seen{Text: "waves", Type: relay.TypeText}},
		"voice":                 {file("m.audio", obj{"org.matrix.msc3245.voice": obj{}}), seen{Type: relay.TypeVoice, Files: 1}},
		"music":                 {file("m.audio", obj{"filename": "cat.ogg", "body": "a song"}), seen{Type: relay.TypeAudio, Text: "a song", Files: 1}},
		"film":                  {file("m.video", nil), seen{Type: relay.TypeVideo, Files: 1}},
		"no file":               {file("m.file", obj{"url": "https://evil.example/x"}), seen{Type: relay.TypeDocument}},
		"place": {obj{"msgtype": "m.location", "body": "Here", "geo_uri": "geo:51.5,-0.1;u=5"}, seen{Type: relay.TypeLocation,
			Text: "[The user shared a location pin.]\nHere\nlatitude: 51.5\nlongitude: -0.1\nMap: https://www.google.com/maps/search/?api=1&query=51.5,-0.1\nIf it is not clear what the place is for, ask."}},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(b.in.events())
			b.fake.say(groupRoom, bob, "", c.content)
			b.until("the event", func() bool { return len(b.in.events()) > before })
			ev := b.in.events()[before]
			got := seen{Text: ev.Text, Type: ev.Type, Addressed: ev.Traits.Addressed, Files: len(ev.Attachments)}
			if ev.ReplyTo != nil {
				got.Quote, got.Own = ev.ReplyTo.Text, ev.ReplyTo.IsOwn
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if ev.Source.ChatName != "Kitchen" || ev.Source.UserName != "Bob" || ev.Source.ThreadID != "" {
				t.Errorf("source %+v", ev.Source)
			}
		})
	}
}

// TestAThreadOfTheBots is one also if what it is about could not be read at first.
func TestAThreadOfTheBots(t *testing.T) {
	b := newBench(t)
	root := b.fake.say(groupRoom, botUser, "I began")
	b.start()
	in := obj{"m.relates_to": obj{"rel_type": "m.thread", "event_id": root}}
	b.fake.fail("event", fault{status: 500, code: "M_UNKNOWN"})
	b.fake.say(groupRoom, bob, "one", in)
	if b.heard("one").Traits.Addressed {
		t.Error("what could not be read is the bot's")
	}
	b.fake.say(groupRoom, bob, "two", in)
	if !b.heard("two").Traits.Addressed {
		t.Error("the thread is nobody's for good")
	}
}

func merged(a, b obj) obj {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// TestWhatIsNoEvent: edits, notices, reactions, redacted messages and what the bot wrote are none; what makes no sense is
// kept, and the rest goes on.
func TestWhatIsNoEvent(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.say(annRoom, ann, "* new", obj{"m.new_content": obj{"body": "new"}, "m.relates_to": obj{"rel_type": "m.replace", "event_id": "$x"}})
	b.fake.say(annRoom, ann, "", obj{"msgtype": "m.notice", "body": "beep"})
	b.fake.add(annRoom, ann, "m.reaction", nil, obj{"m.relates_to": obj{"rel_type": "m.annotation", "event_id": "$x", "key": "👍"}})
	b.fake.add(annRoom, ann, "m.room.message", nil, obj{})
	b.fake.say(annRoom, botUser, "mine")
	b.fake.add(annRoom, ann, "m.room.message", nil, obj{"msgtype": 7.0, "body": []any{}})
	b.fake.add(annRoom, ann, "org.example.other", nil, obj{"body": 7.0})
	b.fake.add(annRoom, ann, "m.room.topic", key(""), obj{"topic": 7.0})
	b.fake.say(annRoom, ann, "on it goes")
	b.heard("on it goes")
	if len(b.in.events()) != 1 {
		t.Errorf("events: %q", b.texts())
	}
	kept := 0
	for _, batch := range b.in.all {
		for _, u := range batch.Undecodable {
			kept++
			if strings.Contains(u.Err.Error(), "on it goes") || !strings.Contains(string(u.Raw), `"msgtype":7`) {
				t.Errorf("kept %s: %v", u.Raw, u.Err)
			}
		}
	}
	if kept != 1 {
		t.Errorf("%d are in quarantine, want 1", kept)
	}
}

// TestKindOfRoom: a room of two is direct, until a third one comes.
func TestKindOfRoom(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.say(annRoom, ann, "alone")
	if ev := b.heard("alone"); ev.Source.ChatType != relay.ChatDM || ev.Source.ChatName != "Ann" {
		t.Errorf("of two: %+v", ev.Source)
	}
	if who, ok := b.DirectUser(annRoom); who != ann || !ok {
		t.Errorf("the room is %q's, %t", who, ok)
	}
	b.fake.join(annRoom, bob)
	b.fake.say(annRoom, ann, "not alone")
	if ev := b.heard("not alone"); ev.Source.ChatType != relay.ChatGroup {
		t.Errorf("of three: %+v", ev.Source)
	}
	if who, ok := b.DirectUser(annRoom); ok {
		t.Errorf("a room of three is %q's", who)
	}
}

// TestSomebodyComesInWhileItIsAskedWhoIsThere: an answer that is older than what a sync told does not hide them.
func TestSomebodyComesInWhileItIsAskedWhoIsThere(t *testing.T) {
	var p *Bot
	asked := 0
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), Values: optionsAt("https://matrix.example.net", nil).Values, Log: slog.New(slog.DiscardHandler),
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body := `{"joined": {"` + ann + `": {}, "` + botUser + `": {}}}`
			if asked++; asked == 1 {
				e, err := decoded([]byte(`{"type": "m.room.member", "state_key": "` + bob + `", "content": {"membership": "join"}}`))
				if err != nil {
					t.Error(err)
				}
				p.rooms.apply(annRoom, e)
			} else {
				body = strings.Replace(body, "}}}", `}, "`+bob+`": {}}}`, 1)
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if shared, err := p.Shared(t.Context(), annRoom, ann); err != nil || !shared {
		t.Errorf("a room that somebody came into is shared: %t, %v", shared, err)
	}
}

// TestWhoCameInIsNotOverlooked: a join whose content makes no sense counts, and so does an encryption of a strange kind.
func TestWhoCameInIsNotOverlooked(t *testing.T) {
	b := newBench(t)
	b.start()
	b.fake.say(annRoom, ann, "alone")
	b.heard("alone")
	b.fake.add(annRoom, bob, "m.room.member", key(bob), obj{"membership": "join", "displayname": 7.0})
	b.fake.say(annRoom, ann, "not alone")
	if ev := b.heard("not alone"); ev.Source.ChatType != relay.ChatGroup {
		t.Errorf("of three, one of them with a strange name: %+v", ev.Source)
	}
	b.fake.add(annRoom, ann, "m.room.encryption", key(""), obj{"algorithm": 7.0})
	b.fake.say(annRoom, ann, "sealed")
	b.until("the room is told", func() bool { return len(b.fake.called("send")) == 1 })
	if _, err := b.Send(t.Context(), relay.Send{Chat: annRoom, Content: "in the clear"}); err == nil {
		t.Error("something was sent into an encrypted room")
	}
}

// TestOldStampsHideNothing: of what was missed, what somebody's server calls old is left out, and not what came before it.
func TestOldStampsHideNothing(t *testing.T) {
	b := newBench(t)
	b.start()
	b.stop()
	b.fake.say(annRoom, ann, "before")
	old := b.fake.say(annRoom, ann, "from long ago")
	b.fake.mu.Lock()
	b.fake.findLocked(annRoom, old).raw["origin_server_ts"] = 1.0
	b.fake.mu.Unlock()
	for i := range batchSize {
		b.fake.say(annRoom, ann, fmt.Sprint("line ", i))
	}
	b.start()
	b.heard(fmt.Sprint("line ", batchSize-1))
	if got := b.texts(); len(got) != batchSize+1 || got[0] != "before" {
		t.Errorf("%d events came, the first %q", len(got), got[:1])
	}
}

// FuzzAnswer has a homeserver say anything: the bot goes on, and what becomes an event has what every event has.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"type":"m.room.message","event_id":"$1","sender":"@a:b","origin_server_ts":1,"content":{"msgtype":"m.text","body":"hi","m.relates_to":{"m.in_reply_to":{"event_id":"$0"}}}}`,
		`{"type":"m.sticker","event_id":"$1","sender":"@a:b","content":{"body":"x","url":"mxc://a/b","info":{"size":-1}}}`,
		`{"type":"m.room.member","state_key":"@a:b","sender":"@a:b","content":{"membership":"join"},"unsigned":{"prev_content":{"membership":"leave"}}}`,
		`{"type":"m.room.create","state_key":"","sender":"@a:b","content":{"room_version":"12","additional_creators":["@c:d"],"predecessor":{"room_id":"!x"}}}`,
		`{"type":"m.room.message","event_id":"$1","sender":"@a:b","content":{"msgtype":"m.location","body":"","geo_uri":"geo:,;"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		p, err := open(optionsAt("http://127.0.0.1:1", nil))
		if err != nil {
			t.Fatal(err)
		}
		p.log = new(platformtest.Log).Logger()
		p.rooms.joined("!r", map[id.UserID]string{"@a:b": "A", "@hermes:fake.example": ""}, 0)
		r := &reader{Bot: p, words: normaliser{bot: p.bot, me: p.me, name: "Hermes", commands: &p.CommandNames}}
		o := &reading{asking: time.Now().Add(time.Hour)}
		o.batch()
		c := receivedIn(raw)
		if m, ok := written(c.Event); ok && (m.RelatesTo.GetReplyTo() != "" || m.RelatesTo.GetThreadParent() != "") {
			return // of which the homeserver would be asked
		}
		entered([]came{c}, p.me)
		if err := r.event(t.Context(), o, "!r", c); err != nil && c.Sender != "" {
			return // of somebody whom the room does not show
		}
		for _, ev := range o.all[0].Events {
			if ev.ID == "" || ev.MessageID == "" || ev.Source.UserID == "" || ev.Source.ChatID != "!r" || ev.At.Year() > 9999 {
				t.Errorf("%+v", ev)
			}
		}
	})
}
