package sessionkey_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

// vector is one key as a gateway's own code computed it.
type vector struct {
	Source struct {
		Platform  relay.PlatformID `json:"platform"`
		ChatType  relay.ChatType   `json:"chat_type"`
		ChatID    relay.ChatID     `json:"chat_id"`
		UserID    relay.UserID     `json:"user_id"`
		UserIDAlt relay.UserID     `json:"user_id_alt"`
		ThreadID  relay.ThreadID   `json:"thread_id"`
		Scope     relay.ScopeID    `json:"scope_id"`
	} `json:"source"`
	Options struct {
		Profile       string `json:"profile"`
		GroupPerUser  *bool  `json:"group_sessions_per_user"`
		ThreadPerUser bool   `json:"thread_sessions_per_user"`
	} `json:"options"`
	Key  relay.SessionKey `json:"key"`
	June relay.SessionKey `json:"june_key"` // of gateways of June, where theirs is another
}

func (v vector) source() relay.Source {
	return relay.Source{
		Platform: v.Source.Platform, ChatType: v.Source.ChatType, ChatID: v.Source.ChatID, UserID: v.Source.UserID,
		UserIDAlt: v.Source.UserIDAlt, ThreadID: v.Source.ThreadID, Scope: v.Source.Scope,
	}
}

func (v vector) options() sessionkey.Options {
	return sessionkey.Options{
		Profile:       v.Options.Profile,
		SharedGroups:  v.Options.GroupPerUser != nil && !*v.Options.GroupPerUser,
		ThreadPerUser: v.Options.ThreadPerUser,
	}
}

// readVectors reads at least that many vectors.
func readVectors(t *testing.T, name string, least int) []vector {
	f, err := os.Open("../../testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields() // a field nobody looks at would be a case nobody tests
	var vectors []vector
	if err := dec.Decode(&vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < least {
		t.Fatalf("%d vectors, want %d", len(vectors), least)
	}
	return vectors
}

func TestVectors(t *testing.T) {
	for name, least := range map[string]int{"session_keys.json": 360, "session_keys_more.json": 150} {
		for i, v := range readVectors(t, name, least) {
			if got := sessionkey.Build(v.source(), v.options()); got != v.Key {
				t.Errorf("%s, vector %d, %+v: got %s, want %s", name, i, v.Source, got, v.Key)
			}
		}
	}
}

// The cases of reference/wire.md 6.2 that need no prospective thread, which never leaves this
// connector. Where the ages differ the newest that is known counts, except for the profile
// named "main".
func TestBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		src  relay.Source
		opts sessionkey.Options
		want relay.SessionKey
	}{
		"Discord direct message": {
			relay.Source{Platform: "discord", ChatType: "dm", ChatID: "D1", UserID: "u1"},
			sessionkey.Options{}, "agent:main:discord:dm:D1",
		},
		"Telegram direct message, in a topic": {
			relay.Source{Platform: "telegram", ChatType: "dm", ChatID: "4242", ThreadID: "17"},
			sessionkey.Options{}, "agent:main:telegram:dm:4242:17",
		},
		"direct message without a chat": {
			relay.Source{Platform: "telegram", ChatType: "dm", UserID: "u9"},
			sessionkey.Options{}, "agent:main:telegram:dm:u9",
		},
		"direct message without a chat, by the other id": {
			relay.Source{Platform: "signal", ChatType: "dm", UserID: "u9", UserIDAlt: "uuid-1"},
			sessionkey.Options{}, "agent:main:signal:dm:uuid-1",
		},
		"direct message without a chat, in a thread": {
			relay.Source{Platform: "discord", ChatType: "dm", UserID: "u9", ThreadID: "t1"},
			sessionkey.Options{}, "agent:main:discord:dm:u9:t1",
		},
		"direct message of a thread and nothing else": {
			relay.Source{Platform: "discord", ChatType: "dm", ThreadID: "t1"},
			sessionkey.Options{}, "agent:main:discord:dm:t1",
		},
		"direct message of nothing": {
			relay.Source{Platform: "discord", ChatType: "dm"},
			sessionkey.Options{}, "agent:main:discord:dm",
		},
		"Discord channel; its guild is not in it": {
			relay.Source{Platform: "discord", ChatType: "group", ChatID: "C1", UserID: "u1", Scope: "G1"},
			sessionkey.Options{}, "agent:main:discord:group:C1:u1",
		},
		"shared group": {
			relay.Source{Platform: "discord", ChatType: "group", ChatID: "C1", UserID: "u1"},
			sessionkey.Options{SharedGroups: true}, "agent:main:discord:group:C1",
		},
		"Discord thread": {
			relay.Source{Platform: "discord", ChatType: "thread", ChatID: "T9", ThreadID: "T9", ParentChatID: "C1", UserID: "u1"},
			sessionkey.Options{}, "agent:main:discord:thread:T9:T9",
		},
		"Discord thread, a session per member": {
			relay.Source{Platform: "discord", ChatType: "thread", ChatID: "T9", ThreadID: "T9", UserID: "u1"},
			sessionkey.Options{ThreadPerUser: true}, "agent:main:discord:thread:T9:T9:u1",
		},
		"a session per member of a thread, but not of a group": {
			relay.Source{Platform: "discord", ChatType: "thread", ChatID: "T9", ThreadID: "T9", UserID: "u1"},
			sessionkey.Options{ThreadPerUser: true, SharedGroups: true}, "agent:main:discord:thread:T9:T9",
		},
		"Telegram group": {
			relay.Source{Platform: "telegram", ChatType: "group", ChatID: "-100500", UserID: "77"},
			sessionkey.Options{}, "agent:main:telegram:group:-100500:77",
		},
		"Telegram topic": {
			relay.Source{Platform: "telegram", ChatType: "group", ChatID: "-100500", ThreadID: "12", UserID: "77"},
			sessionkey.Options{}, "agent:main:telegram:group:-100500:12",
		},
		"Telegram General topic": {
			relay.Source{Platform: "telegram", ChatType: "group", ChatID: "-100500", ThreadID: "1", UserID: "77"},
			sessionkey.Options{}, "agent:main:telegram:group:-100500:1",
		},
		"Telegram channel": {
			relay.Source{Platform: "telegram", ChatType: "channel", ChatID: "-100900", UserID: "-100900"},
			sessionkey.Options{}, "agent:main:telegram:channel:-100900:-100900",
		},
		"group without an author": {
			relay.Source{Platform: "telegram", ChatType: "group", ChatID: "-100500"},
			sessionkey.Options{}, "agent:main:telegram:group:-100500",
		},
		"profile": {
			relay.Source{Platform: "discord", ChatType: "group", ChatID: "C1", UserID: "u1"},
			sessionkey.Options{Profile: "coder"}, "agent:coder:discord:group:C1:u1",
		},
		"profile main": {
			relay.Source{Platform: "discord", ChatType: "group", ChatID: "C1", UserID: "u1"},
			sessionkey.Options{Profile: "main"}, "agent:main:discord:group:C1:u1",
		},
		"the event's own profile is the gateway's business": {
			relay.Source{Platform: "discord", ChatType: "group", ChatID: "C1", UserID: "u1", Profile: "coder"},
			sessionkey.Options{Profile: "default"}, "agent:main:discord:group:C1:u1",
		},
		"Slack direct message": {
			relay.Source{Platform: "slack", ChatType: "dm", ChatID: "D0", Scope: "T0"},
			sessionkey.Options{}, "agent:main:slack:dm:T0:D0",
		},
		"Slack channel": {
			relay.Source{Platform: "slack", ChatType: "group", ChatID: "C0", UserID: "U1", Scope: "T0"},
			sessionkey.Options{}, "agent:main:slack:group:T0:C0:U1",
		},
		"Slack thread without a workspace": {
			relay.Source{Platform: "slack", ChatType: "group", ChatID: "C0", ThreadID: "1712.1", UserID: "U1"},
			sessionkey.Options{}, "agent:main:slack:group:C0:1712.1",
		},
		"WhatsApp direct message": {
			relay.Source{Platform: "whatsapp", ChatType: "dm", ChatID: "15551234567@s.whatsapp.net"},
			sessionkey.Options{}, "agent:main:whatsapp:dm:15551234567",
		},
		"WhatsApp direct message without a chat": {
			relay.Source{Platform: "whatsapp", ChatType: "dm", UserID: " +15551234567:7@s.whatsapp.net"},
			sessionkey.Options{}, "agent:main:whatsapp:dm:15551234567",
		},
		"WhatsApp group: the member is a number, the group is not": {
			relay.Source{Platform: "whatsapp", ChatType: "group", ChatID: "1203@g.us", UserID: "15551234567@lid"},
			sessionkey.Options{}, "agent:main:whatsapp:group:1203@g.us:15551234567",
		},
		"WhatsApp id without a number": {
			relay.Source{Platform: "whatsapp", ChatType: "group", ChatID: "1203@g.us", UserID: "@lid"},
			sessionkey.Options{}, "agent:main:whatsapp:group:1203@g.us:@lid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sessionkey.Build(tc.src, tc.opts); got != tc.want {
				t.Errorf("Build = %s, want %s", got, tc.want)
			}
		})
	}
}

// Invariants 1 and 2, and what the options may change.
func FuzzBuild(f *testing.F) {
	f.Add("telegram", "group", "-100500", "77", "", "12", "coder")
	f.Add("discord", "dm", "", "u9", "alt", "", "")
	f.Add("whatsapp", "dm", "+1:2@lid", "@", "", "", "default")
	f.Add("slack", "thread", "C0", "U1", "", "1712.1", "main")
	f.Fuzz(func(t *testing.T, platform, kind, chat, user, alt, thread, profile string) {
		src := relay.Source{
			Platform: relay.PlatformID(platform), ChatType: relay.ChatType(kind), ChatID: relay.ChatID(chat),
			UserID: relay.UserID(user), UserIDAlt: relay.UserID(alt), ThreadID: relay.ThreadID(thread),
		}
		key := string(sessionkey.Build(src, sessionkey.Options{Profile: profile}))
		shared := string(sessionkey.Build(src, sessionkey.Options{Profile: profile, SharedGroups: true}))
		each := string(sessionkey.Build(src, sessionkey.Options{Profile: profile, ThreadPerUser: true}))
		if !strings.HasPrefix(key, "agent:") || !strings.HasPrefix(key, shared) || !strings.HasPrefix(each, key) {
			t.Errorf("keys %q, shared %q, per user %q: each should begin with the one before", key, shared, each)
		}
		if kind == "dm" && (shared != key || each != key) {
			t.Errorf("a direct message has keys %q, %q, %q", key, shared, each)
		}
		named := src
		named.ChatName, named.ChatTopic, named.UserName, named.UserDisplayName, named.UserHandle = "a", "b", "c", "d", "e"
		named.ParentChatID, named.MessageID, named.ChatIDAlt = "f", "g", "h"
		if platform != "slack" {
			named.Scope = "i"
		}
		if got := string(sessionkey.Build(named, sessionkey.Options{Profile: profile})); got != key {
			t.Errorf("key %q depends on a name: %q", key, got)
		}
	})
}
