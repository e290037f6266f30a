package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

var rewriteEvents = flag.Bool("update-events", false, "rewrite the golden files of testdata/discord")

const payloads = "../../testdata/discord"

// The world of the payloads.
const (
	worldBot   = "1200000000000000100"
	worldGuild = "1200000000000000001"
	worldRoom  = "1200000000000000011"
	worldForum = "1200000000000000014"
	worldDM    = "1220000000000000051"
	worldAnn   = "1100000000000004001"
)

// dispatch is a captured payload.
type dispatch struct {
	Kind string          `json:"t"`
	Data json.RawMessage `json:"d"`
}

func payload(t testing.TB, name string) dispatch {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(payloads, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dispatch
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// payloadNames lists the captured payloads, the world itself left out.
func payloadNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(payloads, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads in %s: %v", payloads, err)
	}
	var names []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if name != "world" && !strings.HasSuffix(name, ".want") {
			names = append(names, name)
		}
	}
	return names
}

// answers is Discord for lookups: by path. What is not in it is not there.
type answers map[string]string

func (a answers) Do(_ context.Context, _, endpoint string, _, out any) error {
	body, ok := a["/"+strings.TrimPrefix(endpoint, discordgo.EndpointAPI)]
	if !ok {
		return &httpcall.Fault{What: endpoint, Status: 404, Code: 10003, Message: "Unknown Channel", Sent: httpcall.Refused}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(body), out)
}

// worldReader knows the guild of the payloads.
func worldReader(t testing.TB) *reader {
	t.Helper()
	bot := relay.Bot{Platform: Name, ID: worldBot}
	known := guilds.New(bot, answers{
		"/channels/" + worldDM: `{"id":"` + worldDM + `","type":1,"recipients":[{"id":"` + worldAnn + `","username":"ann.potter"}]}`,
	})
	if _, err := known.Apply("GUILD_CREATE", payload(t, "world").Data); err != nil {
		t.Fatal(err)
	}
	return newReader(bot, known)
}

// golden is what a payload comes to, as the files show it.
type golden struct {
	Event      *relay.Event          `json:"event"`
	Capability *platforms.Capability `json:"capability,omitempty"`
}

// read is what d comes to.
func read(ctx context.Context, r *reader, d dispatch) (golden, error) {
	if d.Kind == "MESSAGE_CREATE" {
		ev, err := r.message(ctx, d.Data, "")
		return golden{Event: ev}, err
	}
	i, err := decodeInteraction(d.Data)
	if err != nil {
		return golden{}, err
	}
	ev, c, err := r.interaction(ctx, i)
	return golden{ev, c}, err
}

func TestNormaliseGolden(t *testing.T) {
	for _, name := range payloadNames(t) {
		t.Run(name, func(t *testing.T) {
			g, err := read(t.Context(), worldReader(t), payload(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(g); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(got.String(), "CANARY") {
				t.Error("the event has the token in it")
			}
			file := filepath.Join(payloads, name+".want.json")
			if *rewriteEvents {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInteractionIsKeyedLikeAMessage(t *testing.T) {
	for interaction, message := range map[string]string{
		"slash": "text", "slash_thread": "thread", "slash_dm": "dm", "slash_no_channel_object": "text",
		"press_prompt": "text", "press_prompt_dm": "dm", "modal": "text", "select": "text",
	} {
		t.Run(interaction, func(t *testing.T) {
			r := worldReader(t)
			said, err := read(t.Context(), r, payload(t, message))
			if err != nil {
				t.Fatal(err)
			}
			done, err := read(t.Context(), r, payload(t, interaction))
			if err != nil {
				t.Fatal(err)
			}
			got, want := done.Event.Source, said.Event.Source
			if g, w := sessionkey.Build(got, sessionkey.Options{}), sessionkey.Build(want, sessionkey.Options{}); g != w {
				t.Errorf("session key = %s, want %s", g, w)
			}
			got.MessageID, want.MessageID = "", ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("source (-message +interaction):\n%s", diff)
			}
		})
	}
}

func TestMessagesThatAreNoEvents(t *testing.T) {
	r := worldReader(t)
	for _, name := range []string{
		"thread_starter", "thread_starter_as_default", "group_dm", "other_slash_answer", "join", "pin",
		"thread_member_added", "autocomplete", "private_channel", "group_dm_command",
	} {
		if g, err := read(t.Context(), r, payload(t, name)); err != nil || g.Event != nil || g.Capability != nil {
			t.Errorf("%s = %+v, %v; want nothing", name, g.Event, err)
		}
	}
}

func TestOwnMessagesAreMarked(t *testing.T) {
	bot := relay.Bot{Platform: Name, ID: worldBot}
	r := newReader(bot, guilds.New(bot, failing{}))
	for _, name := range []string{"own", "own_dm", "own_slash_answer"} {
		if g, err := read(t.Context(), r, payload(t, name)); err != nil || g.Event == nil || !g.Event.Traits.Own {
			t.Errorf("%s = %+v, %v; want an event of the bot's own, without any lookup", name, g.Event, err)
		}
	}
}

// failing is Discord in pieces.
type failing struct{}

func (failing) Do(_ context.Context, _, endpoint string, _, _ any) error {
	return &httpcall.Fault{What: endpoint, Status: 503, Message: "no answer of the API"}
}

func TestMakesNoSense(t *testing.T) {
	r := worldReader(t)
	for name, tc := range map[string]struct{ kind, data string }{
		"no JSON":                     {"MESSAGE_CREATE", `secret words`},
		"nothing":                     {"MESSAGE_CREATE", ``},
		"a list":                      {"MESSAGE_CREATE", `["secret words"]`},
		"null":                        {"MESSAGE_CREATE", `null`},
		"a message without a channel": {"MESSAGE_CREATE", `{"id":"5","author":{"id":"6"},"content":"secret words"}`},
		"a message without an id":     {"MESSAGE_CREATE", `{"channel_id":"5","author":{"id":"6"}}`},
		"a message without an author": {"MESSAGE_CREATE", `{"id":"5","channel_id":"5","content":"secret words"}`},
		"an author without an id":     {"MESSAGE_CREATE", `{"id":"5","channel_id":"5","author":{"username":"secret words"}}`},
		"an id of words":              {"MESSAGE_CREATE", `{"id":"secret words","channel_id":"5","author":{"id":"6"}}`},
		"an id with a zero in front":  {"MESSAGE_CREATE", `{"id":"05","channel_id":"5","author":{"id":"6"}}`},
		"a number as content":         {"MESSAGE_CREATE", `{"id":"5","channel_id":"5","author":{"id":"6"},"content":7}`},
		"interaction, no JSON":        {"INTERACTION_CREATE", `{"token":"secret words"`},
		"interaction without token":   {"INTERACTION_CREATE", `{"id":"5","type":2,"channel_id":"7","user":{"id":"6"},"data":{"name":"x"}}`},
		"interaction without id":      {"INTERACTION_CREATE", `{"token":"secret words","type":2,"channel_id":"7","user":{"id":"6"},"data":{"name":"x"}}`},
		"interaction without user":    {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":2,"channel_id":"7","data":{"name":"x"}}`},
		"interaction without channel": {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":2,"user":{"id":"6"},"data":{"name":"x"}}`},
		"interaction without data":    {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":2,"channel_id":"7","user":{"id":"6"}}`},
		"command without a name":      {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":2,"channel_id":"7","user":{"id":"6"},"data":{}}`},
		"command of words":            {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":2,"channel_id":"7","user":{"id":"6"},"data":"secret words"}`},
		"press of words":              {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":3,"channel_id":"7","user":{"id":"6"},"data":"secret words"}`},
		"form of words":               {"INTERACTION_CREATE", `{"id":"5","token":"secret words","type":5,"channel_id":"7","user":{"id":"6"},"data":["secret words"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := read(t.Context(), r, dispatch{tc.kind, json.RawMessage(tc.data)})
			if err == nil || g.Event != nil || g.Capability != nil {
				t.Fatalf("= %+v, %v; want an error", g, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats what was written: %v", err)
			}
		})
	}
}

func TestMentions(t *testing.T) {
	n := normaliser{me: 7}
	for name, tc := range map[string]struct{ text, want string }{
		"at the front":  {"<@7> hello", "hello"},
		"old form":      {"<@!7> hello", "hello"},
		"in the middle": {"hey <@7> you", "hey  you"},
		"twice":         {"<@7><@7> hello <@!7>", "hello"},
		"alone":         {"<@7>", ""},
		"another's":     {" <@77> hello ", "<@77> hello"},
		"a role":        {"<@&7> hello", "<@&7> hello"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := n.withoutMention(tc.text); got != tc.want {
				t.Errorf("withoutMention(%q) = %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	guildA, room := guilds.Guild{ID: 1, Name: "Potters"}, guilds.Channel{ID: 2, Guild: 1, Name: "general"}
	forum := guilds.Channel{ID: 3, Guild: 1, Kind: discordgo.ChannelTypeGuildForum, Name: "firings"}
	thread := guilds.Channel{ID: 4, Guild: 1, Kind: discordgo.ChannelTypeGuildPublicThread, Name: "Lathe"}
	for name, tc := range map[string]struct {
		at   spot
		want string
	}{
		"channel":                {spot{guild: guildA, channel: room}, "Potters / #general"},
		"channel, guild unknown": {spot{channel: room}, "general"},
		"hidden channel":         {spot{guild: guildA, channel: guilds.Channel{ID: 5, Guild: 1}}, "Potters / #5"},
		"thread":                 {spot{guildA, thread, room}, "Potters / #general / Lathe"},
		"post":                   {spot{guildA, thread, forum}, "Potters / firings / Lathe"},
		"thread, guild unknown":  {spot{channel: thread, parent: room}, "general / Lathe"},
		"thread, parent unknown": {spot{guild: guildA, channel: thread}, "Lathe"},
		"nothing known":          {spot{channel: guilds.Channel{ID: 5}}, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.at.name(); got != tc.want {
				t.Errorf("name = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestKindOfAttachment(t *testing.T) {
	for name, tc := range map[string]struct {
		a     attachmentData
		voice bool
		want  relay.MessageType
	}{
		"image":                    {a: attachmentData{ContentType: "image/webp"}, want: relay.TypePhoto},
		"the type beats the name":  {a: attachmentData{ContentType: "text/plain", Filename: "x.png"}, want: relay.TypeDocument},
		"image by name":            {a: attachmentData{Filename: "x.y.PNG"}, want: relay.TypePhoto},
		"film by name":             {a: attachmentData{Filename: "x.mov"}, want: relay.TypeVideo},
		"sound by name":            {a: attachmentData{Filename: "x.mp3"}, want: relay.TypeAudio},
		"voice by flag":            {a: attachmentData{ContentType: "audio/ogg"}, voice: true, want: relay.TypeVoice},
		"voice by waveform":        {a: attachmentData{ContentType: "audio/ogg", Waveform: "AA=="}, want: relay.TypeVoice},
		"a picture is not a voice": {a: attachmentData{ContentType: "image/png"}, voice: true, want: relay.TypePhoto},
		"no name at all":           {want: relay.TypeDocument},
		"a type without a slash":   {a: attachmentData{ContentType: "image"}, want: relay.TypePhoto},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kindOf(&tc.a, tc.voice); got != tc.want {
				t.Errorf("kind = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWithoutToken(t *testing.T) {
	for _, name := range payloadNames(t) {
		d := payload(t, name)
		if d.Kind != "INTERACTION_CREATE" {
			continue
		}
		kept := withoutToken(d.Data)
		if !bytes.Contains(kept, []byte(`"channel_id"`)) || bytes.Contains(kept, []byte("CANARY")) {
			t.Errorf("%s: kept %s", name, kept)
		}
	}
	for _, raw := range []string{`"CANARY"`, `["CANARY"]`, `{"token":"CANARY"`, ``, `{"TOKEN":"CANARY","Token":"CANARY"}`, `{"\u0074oken":"CANARY"}`} {
		if kept := withoutToken([]byte(raw)); bytes.Contains(kept, []byte("CANARY")) {
			t.Errorf("of %s is kept %s", raw, kept)
		}
	}
}

// wellFormed checks what must hold of every event.
func wellFormed(t *testing.T, ev *relay.Event) {
	t.Helper()
	s := ev.Source
	switch {
	case ev.ID == "" || ev.MessageID == "" || s.MessageID != ev.MessageID || s.UserID == "" || s.ChatID == "" || s.ChatName == "" && s.ChatType != relay.ChatDM,
		string(ev.ID) != string(s.ChatID)+":"+string(ev.MessageID):
		t.Fatalf("an event without an identity: %+v", ev)
	case !slices.Contains([]relay.ChatType{relay.ChatDM, relay.ChatGroup, relay.ChatThread}, s.ChatType):
		t.Fatalf("chat type %q", s.ChatType)
	case s.ChatType == relay.ChatThread && string(s.ThreadID) != string(s.ChatID), s.ChatType != relay.ChatThread && (s.ThreadID != "" || s.ParentChatID != ""):
		t.Fatalf("thread %q of chat %q, a %s", s.ThreadID, s.ChatID, s.ChatType)
	case strings.TrimSpace(ev.Text) == "" && len(ev.Attachments) == 0, len(ev.Attachments) > relay.MaxAttachments:
		t.Fatal("an event that says nothing")
	}
}

func FuzzNormalise(f *testing.F) {
	for _, name := range payloadNames(f) {
		f.Add(strings.HasPrefix(payload(f, name).Kind, "INTER"), []byte(payload(f, name).Data))
	}
	f.Add(false, []byte(`{"id":1,"channel_id":2,"author":{"id":3},"message_snapshots":[{}],"referenced_message":{}}`))
	f.Add(true, []byte(`{"id":1,"channel_id":2,"type":3,"token":"t","user":{"id":3},"data":{"custom_id":"hp1:a:b"},"message":{"components":[{"component":{}}]}}`))
	f.Add(true, []byte(`{"id":1,"channel_id":2,"type":5,"token":"t","user":{"id":3},"data":{"components":[{"custom_id":"a","value":{"b":1}}]}}`))
	bot := relay.Bot{Platform: Name, ID: worldBot}
	world := payload(f, "world").Data
	f.Fuzz(func(t *testing.T, isInteraction bool, raw []byte) {
		known := guilds.New(bot, answers{})
		if _, err := known.Apply("GUILD_CREATE", world); err != nil {
			t.Fatal(err)
		}
		d := dispatch{"MESSAGE_CREATE", raw}
		if isInteraction {
			d.Kind = "INTERACTION_CREATE"
		}
		g, err := read(t.Context(), newReader(bot, known), d)
		if err != nil {
			if g.Event != nil || g.Capability != nil {
				t.Fatalf("a value and an error: %+v, %v", g, err)
			}
			return
		}
		if (g.Capability != nil) != (isInteraction && g.Event != nil) {
			t.Fatalf("event %v, capability %v", g.Event != nil, g.Capability != nil)
		}
		if g.Event == nil {
			return
		}
		wellFormed(t, g.Event)
		if _, err := json.Marshal(g); err != nil {
			t.Fatalf("event does not encode: %v", err)
		}
		again, err := read(t.Context(), newReader(bot, known), d)
		if err != nil || !cmp.Equal(*again.Event, *g.Event) {
			t.Fatalf("not the same a second time: %v", err)
		}
	})
}
