package discord

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// sentOpus and sentText are files as the hub finds them.
func sentOpus() relay.File {
	return relay.File{Name: "answer.ogg", Content: strings.NewReader("OggS…"), FileFacts: relay.FileFacts{
		Format: relay.FormatOpus, Mime: "audio/ogg", Ext: ".ogg", Kind: relay.TypeAudio, Size: 7, Duration: 2500 * time.Millisecond,
	}}
}

func sentText() relay.File {
	return relay.File{Name: `gl"a\ze ü.txt`, Content: strings.NewReader("cobalt"), FileFacts: relay.FileFacts{
		Format: relay.FormatOther, Mime: "text/plain", Ext: ".txt", Kind: relay.TypeDocument, Size: 6,
	}}
}

func sentPicture() relay.File {
	return relay.File{Name: "bowl.png", Content: strings.NewReader("\x89PNG"), FileFacts: relay.FileFacts{
		Format: relay.FormatPNG, Mime: "image/png", Ext: ".png", Kind: relay.TypePhoto, Size: 4,
	}}
}

// saw is what Discord saw of one request of a file's action.
type saw struct {
	Content    any
	File, Kind string
	Voice      bool
	Reply      any
}

func sawOf(calls []restCall) (out []saw) {
	for _, c := range calls {
		if c.Failed {
			continue
		}
		s := saw{Content: c.Body["content"], Voice: c.Body["flags"] == float64(8192)}
		if r, ok := c.Body["message_reference"].(obj); ok {
			s.Reply = r["message_id"]
		}
		if c.File != nil {
			s.File, s.Kind = string(c.File.Content), c.File.Type
		}
		out = append(out, s)
	}
	return out
}

func TestSendMedia(t *testing.T) {
	long, parts := paragraphs(2)
	for name, tc := range map[string]struct {
		send   relay.SendMedia
		faults []restFault
		want   relay.Result
		saw    []saw
	}{
		"a picture": {
			send: relay.SendMedia{Kind: "image", File: sentPicture(), Caption: "#### my *bowl*", ReplyTo: "7"},
			want: relay.Result{MessageID: "501"}, saw: []saw{{"__my *bowl*__", "\x89PNG", "image/png", false, "7"}},
		},
		"without a caption": {
			send: relay.SendMedia{Kind: "document", File: sentText(), Caption: " \n"},
			want: relay.Result{MessageID: "501"}, saw: []saw{{nil, "cobalt", "text/plain", false, nil}},
		},
		"a long caption follows": {
			send: relay.SendMedia{Kind: "document", File: sentText(), Caption: long, ReplyTo: "7"},
			want: relay.Result{MessageID: "501", MessageIDs: ids("501", "502", "503")},
			saw:  []saw{{nil, "cobalt", "text/plain", false, "7"}, {Content: parts[0]}, {Content: parts[1]}},
		},
		"a caption of exactly the limit does not": {
			send: relay.SendMedia{Kind: "document", File: sentText(), Caption: strings.Repeat("ü", dialect.MaxText)},
			want: relay.Result{MessageID: "501"}, saw: []saw{{strings.Repeat("ü", dialect.MaxText), "cobalt", "text/plain", false, nil}},
		},
		"a voice message, and its caption": {
			send: relay.SendMedia{Kind: "voice", File: sentOpus(), Caption: "listen", ReplyTo: "7"},
			want: relay.Result{MessageID: "501", MessageIDs: ids("501", "502")},
			saw:  []saw{{nil, "OggS…", "audio/ogg", true, "7"}, {Content: "listen"}},
		},
		"Opus as audio is an attachment": {
			send: relay.SendMedia{Kind: "audio", File: sentOpus(), Caption: "listen"},
			want: relay.Result{MessageID: "501"}, saw: []saw{{"listen", "OggS…", "audio/ogg", false, nil}},
		},
		"so is what is no Opus as voice": {
			send: relay.SendMedia{Kind: "voice", File: sentText()},
			want: relay.Result{MessageID: "501"}, saw: []saw{{nil, "cobalt", "text/plain", false, nil}},
		},
		"and what nobody knows the length of": {
			send: relay.SendMedia{Kind: "voice", File: func() relay.File { f := sentOpus(); f.Duration = 0; return f }()},
			want: relay.Result{MessageID: "501"}, saw: []saw{{nil, "OggS…", "audio/ogg", false, nil}},
		},
		"a voice message that is refused is an attachment": {
			send:   relay.SendMedia{Kind: "voice", File: sentOpus(), Caption: "listen", ReplyTo: "7"},
			faults: []restFault{{status: 403, code: 50173, words: "Cannot send voice messages in this channel"}},
			want:   relay.Result{MessageID: "501"}, saw: []saw{{"listen", "OggS…", "audio/ogg", false, "7"}},
		},
		"nobody can reply to the target": {
			send:   relay.SendMedia{Kind: "image", File: sentPicture(), ReplyTo: "7"},
			faults: []restFault{{status: 400, code: discordgo.ErrCodeInvalidFormBody, words: "Invalid Form Body"}},
			want:   relay.Result{MessageID: "501"}, saw: []saw{{nil, "\x89PNG", "image/png", false, nil}},
		},
		"unclear, and repeated under its nonce": {
			send:   relay.SendMedia{Kind: "image", File: sentPicture()},
			faults: []restFault{{cut: true}, {status: 502}, {half: true}, {never: true}},
			want:   relay.Result{MessageID: "501"}, saw: []saw{{nil, "\x89PNG", "image/png", false, nil}, {nil, "\x89PNG", "image/png", false, nil}},
		},
		"a short penalty is waited out": {
			send: relay.SendMedia{Kind: "image", File: sentPicture()}, faults: []restFault{{status: 429, after: 2, scope: "user"}},
			want: relay.Result{MessageID: "501"}, saw: []saw{{nil, "\x89PNG", "image/png", false, nil}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/channels/42", obj{"id": "42", "type": 0, "guild_id": "9"})
				f.fail(toChat, tc.faults...)
				tc.send.Chat = chat
				got, err := p.SendMedia(ctx, tc.send)
				if err != nil {
					t.Fatalf("SendMedia: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				calls := f.callsTo("POST", "/channels/42/messages")
				if diff := cmp.Diff(tc.saw, sawOf(calls)); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				nonces := map[any]bool{}
				for _, c := range calls {
					nonces[c.Body["nonce"]] = true
					if nonce, _ := c.Body["nonce"].(string); nonce == "" || c.Body["enforce_nonce"] != true {
						t.Errorf("nonce %q, enforced: %v", nonce, c.Body["enforce_nonce"])
					}
					if diff := cmp.Diff(obj{"parse": []any{"users"}, "replied_user": true}, c.Body["allowed_mentions"]); diff != "" {
						t.Errorf("mentions (-want +got):\n%s", diff)
					}
				}
				if _, again := tc.want, name == "unclear, and repeated under its nonce"; again && len(nonces) != 1 {
					t.Errorf("nonces are %v, want one", nonces)
				}
			})
		})
	}
}

func TestVoiceMessageAsItIsSent(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		if _, err := p.SendMedia(ctx, relay.SendMedia{Chat: chat, Kind: "voice", File: sentOpus()}); err != nil {
			t.Fatal(err)
		}
		c := f.callsTo("POST", "")[0]
		wave := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("@", 25)))
		want := []any{obj{"id": 0.0, "filename": "answer.ogg", "duration_secs": 2.5, "waveform": wave}}
		if diff := cmp.Diff(any(want), c.Body["attachments"]); diff != "" {
			t.Errorf("attachments (-want +got):\n%s", diff)
		}
		if _, has := c.Body["content"]; has {
			t.Error("a voice message with content")
		}
		if diff := cmp.Diff(&uploaded{"files[0]", "answer.ogg", "audio/ogg", []byte("OggS…")}, c.File); diff != "" {
			t.Errorf("file (-want +got):\n%s", diff)
		}
	})
	for d, want := range map[time.Duration]int{time.Millisecond: 1, time.Second: 10, time.Hour: 256, 300 * time.Hour: 256} {
		if got := len(flatWave(d)); got != want {
			t.Errorf("%v has %d points, want %d", d, got, want)
		}
	}
}

func TestSendMediaFails(t *testing.T) {
	long, _ := paragraphs(2)
	const unclear = "timed out: Discord's answer did not come, the outcome is unknown"
	for name, tc := range map[string]struct {
		send    relay.SendMedia
		faults  []restFault
		outcome relay.Outcome
		public  string
		ids     []relay.MessageID
	}{
		"too large": {
			faults: []restFault{{status: 413, code: 40005, words: "Request entity too large"}}, outcome: relay.NotSent, public: "Request entity too large",
		},
		"too large for what stands before Discord": {faults: []restFault{{status: 413}}, outcome: relay.NotSent, public: "Request entity too large"},
		"too large a voice message": {
			send:   relay.SendMedia{Kind: "voice", File: sentOpus()},
			faults: []restFault{{status: 413, code: 40005, words: "Request entity too large"}}, outcome: relay.NotSent, public: "Request entity too large",
		},
		"no access": {
			faults: []restFault{{status: 403, code: 50001, words: "Missing Access"}}, outcome: relay.NotSent, public: "403 Forbidden (error code: 50001): Missing Access",
		},
		"no chat": {send: relay.SendMedia{Chat: "../guilds/1"}, outcome: relay.NotSent, public: "chat not found: 404 Not Found (error code: 10003): Unknown Channel"},
		"before the last byte": {
			faults: repeated(restFault{half: true}, 20), outcome: relay.NotSent, public: "network: Discord cannot be reached",
		},
		"behind it": {
			faults: append([]restFault{{lose: true}}, repeated(restFault{half: true}, 20)...), outcome: relay.MaybeSent, public: unclear,
		},
		"no answer": {faults: []restFault{{hang: true}}, outcome: relay.MaybeSent, public: unclear},
		"a caption that is refused": {
			send:   relay.SendMedia{Caption: long},
			faults: []restFault{{}, {status: 403, code: 50013, words: "Missing Permissions"}}, outcome: relay.MaybeSent,
			public: "timed out: only the first 1 of 3 parts are delivered for certain", ids: ids("501"),
		},
		"a caption that nobody could read": {
			send: relay.SendMedia{Caption: strings.Repeat("x", 200_000)}, outcome: relay.NotSent,
			public: "400 Bad Request (error code: 50035): Invalid Form Body: the text is too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				if tc.send.Chat == "" {
					tc.send.Chat = chat
				}
				if tc.send.Kind == "" {
					tc.send.Kind, tc.send.File = "image", sentPicture()
				}
				f.has("/channels/42", obj{"id": "42", "type": 0, "guild_id": "9"})
				f.fail(toChat, tc.faults...)
				_, err := p.SendMedia(ctx, tc.send)
				ae := failure(t, err)
				if ae.Outcome != tc.outcome || ae.Public != tc.public || !cmp.Equal(tc.ids, ae.MessageIDs) {
					t.Errorf("error is %+v", ae)
				}
			})
		})
	}
}

func TestMediaInAForum(t *testing.T) {
	const toForum = "POST /channels/42/threads"
	long, parts := paragraphs(2)
	forum := obj{"id": "42", "type": 15, "guild_id": "9"}
	for name, tc := range map[string]struct {
		send   relay.SendMedia
		faults []restFault
		found  []obj // Discord's threads
		want   relay.Result
		post   string
		made   []saw // the first message, then those behind it
		posts  int
	}{
		"a post": {
			send: relay.SendMedia{Kind: "image", File: sentPicture(), Caption: "## My bowl\nfired", ReplyTo: "7"},
			want: relay.Result{MessageID: "501", ThreadID: "501"}, post: "My bowl",
			made: []saw{{"## My bowl\nfired", "\x89PNG", "image/png", false, nil}}, posts: 1,
		},
		"named like the file": {
			send: relay.SendMedia{Kind: "voice", File: sentOpus()},
			want: relay.Result{MessageID: "501", ThreadID: "501"}, post: "answer.ogg",
			made: []saw{{nil, "OggS…", "audio/ogg", false, nil}}, posts: 1,
		},
		"a long caption": {
			send: relay.SendMedia{Kind: "image", File: sentPicture(), Caption: long},
			want: relay.Result{MessageID: "501", MessageIDs: ids("501", "502", "503"), ThreadID: "501"}, post: strings.Repeat("a", 100),
			made: []saw{{nil, "\x89PNG", "image/png", false, nil}, {Content: parts[0]}, {Content: parts[1]}}, posts: 1,
		},
		"unclear, and it stands": {
			send: relay.SendMedia{Kind: "image", File: sentPicture(), Caption: "bowl"}, faults: []restFault{{lose: true}},
			found: []obj{{"id": "77", "name": "bowl", "parent_id": "42", "owner_id": testBotID, "thread_metadata": obj{"create_timestamp": "2099-01-01T00:00:00Z"}}},
			want:  relay.Result{MessageID: "77", ThreadID: "77"}, post: "bowl", posts: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/channels/42", forum)
				f.has("/guilds/9/threads/active", obj{"threads": tc.found})
				f.fail(toForum, tc.faults...)
				tc.send.Chat = chat
				got, err := p.SendMedia(ctx, tc.send)
				if err != nil {
					t.Fatalf("SendMedia: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				posts := f.callsTo("POST", "/channels/42/threads")
				if len(posts) != tc.posts || posts[0].Body["name"] != tc.post {
					t.Fatalf("posts are %+v", posts)
				}
				first := posts[0]
				first.Body = posts[0].Body["message"].(obj)
				all := sawOf(append([]restCall{first}, f.callsTo("POST", "/channels/501/messages")...))
				if diff := cmp.Diff(tc.made, all); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
			})
		})
	}
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/channels/42", forum)
		f.fail(toForum, restFault{status: 413, code: 40005, words: "Request entity too large"})
		_, err := p.SendMedia(ctx, relay.SendMedia{Chat: chat, Kind: "image", File: sentPicture()})
		if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != "Request entity too large" {
			t.Errorf("error is %+v", ae)
		}
	})
}

func TestRespondMedia(t *testing.T) {
	long, parts := paragraphs(2)
	picture := saw{nil, "\x89PNG", "image/png", false, nil}
	for name, tc := range map[string]struct {
		send   relay.SendMedia
		first  bool
		faults map[string][]restFault
		want   relay.Result
		paths  []string
		saw    []saw
	}{
		"the first answer": {
			relay.SendMedia{Kind: "image", File: sentPicture(), Caption: "bowl", ReplyTo: "7"}, true, nil, relay.Result{MessageID: "501"},
			[]string{"PATCH " + original}, []saw{{"bowl", "\x89PNG", "image/png", false, nil}},
		},
		"a later one": {
			relay.SendMedia{Kind: "image", File: sentPicture()}, false, nil, relay.Result{MessageID: "501"}, []string{"POST " + hookURL}, []saw{picture},
		},
		"a long caption": {
			relay.SendMedia{Kind: "image", File: sentPicture(), Caption: long}, true, nil,
			relay.Result{MessageID: "501", MessageIDs: ids("501", "502", "503")},
			[]string{"PATCH " + original, "POST " + hookURL, "POST " + hookURL}, []saw{picture, {Content: parts[0]}, {Content: parts[1]}},
		},
		"a placeholder becomes no voice message": {
			relay.SendMedia{Kind: "voice", File: sentOpus(), Caption: "listen"}, true, nil, relay.Result{MessageID: "501"},
			[]string{"PATCH " + original}, []saw{{"listen", "OggS…", "audio/ogg", false, nil}},
		},
		"a later voice message": {
			relay.SendMedia{Kind: "voice", File: sentOpus()}, false, map[string][]restFault{toHook: {{status: 400, code: 50035}}},
			relay.Result{MessageID: "501"}, []string{"POST " + hookURL, "POST " + hookURL}, []saw{{nil, "OggS…", "audio/ogg", false, nil}},
		},
		"a removed original": {
			relay.SendMedia{Kind: "image", File: sentPicture()}, true, map[string][]restFault{toOrigin: {{status: 404, code: discordgo.ErrCodeUnknownMessage}}},
			relay.Result{MessageID: "501"}, []string{"PATCH " + original, "POST " + hookURL}, []saw{picture},
		},
		"unclear at first": {
			relay.SendMedia{Kind: "image", File: sentPicture()}, true, map[string][]restFault{toOrigin: {{lose: true}}},
			relay.Result{MessageID: "501"}, []string{"PATCH " + original, "PATCH " + original}, []saw{picture},
		},
		"a token that ends behind the file": {
			relay.SendMedia{Kind: "image", File: sentPicture(), Caption: long}, true,
			map[string][]restFault{toHook: {{status: 404, code: discordgo.ErrCodeUnknownWebhook}}},
			relay.Result{MessageID: "501", MessageIDs: ids("501", "502", "503")},
			[]string{"PATCH " + original, "POST " + hookURL, "POST /channels/42/messages", "POST /channels/42/messages"},
			[]saw{picture, {Content: parts[0]}, {Content: parts[1]}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				for route, faults := range tc.faults {
					f.fail(route, faults...)
				}
				tc.send.Chat = chat
				got, err := p.RespondMedia(ctx, slashCapability(), tc.send, tc.first)
				if err != nil {
					t.Fatalf("RespondMedia: %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.paths, f.paths()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if diff := cmp.Diff(tc.saw, sawOf(f.calls)); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRespondMediaFails(t *testing.T) {
	for name, tc := range map[string]struct {
		first  bool
		route  string
		faults []restFault
		gone   bool
		public string
		calls  int
	}{
		"gone":                        {true, toOrigin, []restFault{{status: 404, code: discordgo.ErrCodeUnknownWebhook}}, true, "the interaction has expired", 1},
		"too large":                   {true, toOrigin, []restFault{{status: 413, code: 40005}}, false, "Request entity too large", 1},
		"a later one is not repeated": {false, toHook, []restFault{{lose: true}}, false, "timed out: Discord's answer did not come, the outcome is unknown", 1},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.fail(tc.route, tc.faults...)
				_, err := p.RespondMedia(ctx, slashCapability(), relay.SendMedia{Chat: chat, Kind: "image", File: sentPicture()}, tc.first)
				ae := failure(t, err)
				if ae.Public != tc.public || errors.Is(err, platforms.ErrCapabilityGone) != tc.gone || len(f.paths()) != tc.calls {
					t.Errorf("error is %+v after %q", ae, f.paths())
				}
			})
		})
	}
}
