package sessionkey_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

const (
	channel = "290926798626357999"
	thread  = "290926798626358001"
	user    = "53908232506183680"
)

// TestForms: the keys below were computed by gateways' own code, of several ages and settings.
func TestForms(t *testing.T) {
	for name, tc := range map[string]struct {
		src               relay.Source
		native, forwarded []relay.SessionKey
	}{
		"a channel": {
			relay.Source{Platform: "discord", ChatType: relay.ChatGroup, ChatID: channel, UserID: user},
			[]relay.SessionKey{"agent:main:discord:group:" + channel + ":" + user, "agent:main:discord:group:" + channel},
			[]relay.SessionKey{"agent:main:relay:channel:" + channel + ":" + user, "agent:main:relay:channel:" + channel},
		},
		"a thread": {
			relay.Source{Platform: "discord", ChatType: relay.ChatThread, ChatID: thread, ThreadID: thread, ParentChatID: channel, UserID: user},
			[]relay.SessionKey{
				"agent:main:discord:thread:" + thread + ":" + thread,
				"agent:main:discord:thread:" + thread + ":" + thread + ":" + user,
			},
			[]relay.SessionKey{
				"agent:main:discord:group:" + thread + ":" + user, "agent:main:discord:group:" + thread,
				"agent:main:relay:channel:" + thread + ":" + user, "agent:main:relay:channel:" + thread,
			},
		},
		"direct messages": {
			relay.Source{Platform: "discord", ChatType: relay.ChatDM, ChatID: channel, UserID: user},
			[]relay.SessionKey{"agent:main:discord:dm:" + channel},
			[]relay.SessionKey{"agent:main:relay:dm:" + channel},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.native, sessionkey.Forms(tc.src)); diff != "" {
				t.Errorf("Forms (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.forwarded, sessionkey.Forwarded(tc.src)); diff != "" {
				t.Errorf("Forwarded (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFormsOfFurtherNetworks: keys of Slack, Matrix, Signal and others that gateways' own code computed, those of June too.
func TestFormsOfFurtherNetworks(t *testing.T) {
	for i, v := range readVectors(t, "session_keys_more.json", 150) {
		src := v.source()
		src.Profile = v.Options.Profile
		for _, key := range []relay.SessionKey{v.Key, v.June} {
			if key != "" && !slices.Contains(sessionkey.Forms(src), key) {
				t.Errorf("vector %d, %+v: %s is not in %q", i, v.Source, key, sessionkey.Forms(src))
			}
		}
	}
}

// TestFormsOfSlack: the newest gateways make a thread of a message at the top, if their operator wants it, and leave a real one.
func TestFormsOfSlack(t *testing.T) {
	top := relay.Source{Platform: "slack", ChatType: relay.ChatGroup, ChatID: "C0", UserID: "U1", Scope: "T0", MessageID: "1712.1"}
	want := []relay.SessionKey{
		"agent:main:slack:group:T0:C0:U1", "agent:main:slack:group:T0:C0",
		"agent:main:slack:group:T0:C0:1712.1", "agent:main:slack:group:T0:C0:1712.1:U1",
		"agent:main:slack:group:C0:U1", "agent:main:slack:group:C0",
		"agent:main:slack:group:C0:1712.1", "agent:main:slack:group:C0:1712.1:U1",
	}
	if diff := cmp.Diff(want, sessionkey.Forms(top)); diff != "" {
		t.Errorf("at the top (-want +got):\n%s", diff)
	}
	inside := top
	inside.ThreadID, inside.MessageID = "1712.1", "1713.2"
	want = []relay.SessionKey{want[2], want[3], want[6], want[7]}
	if diff := cmp.Diff(want, sessionkey.Forms(inside)); diff != "" {
		t.Errorf("in a thread (-want +got):\n%s", diff)
	}
}

// TestFormsHoldEverySetting: whatever a gateway's settings are, its key is among the forms, and the default is the first.
func TestFormsHoldEverySetting(t *testing.T) {
	for _, typ := range []relay.ChatType{relay.ChatDM, relay.ChatGroup, relay.ChatChannel, relay.ChatThread} {
		for _, in := range []relay.ThreadID{"", thread} {
			src := relay.Source{Platform: "discord", ChatType: typ, ChatID: channel, ThreadID: in, UserID: user}
			got := sessionkey.Forms(src)
			if got[0] != sessionkey.Build(src, sessionkey.Options{}) {
				t.Errorf("%+v: the first is %s", src, got[0])
			}
			for _, o := range []sessionkey.Options{{}, {SharedGroups: true}, {ThreadPerUser: true}, {SharedGroups: true, ThreadPerUser: true}} {
				if k := sessionkey.Build(src, o); !slices.Contains(got, k) {
					t.Errorf("%+v with %+v: %s is not in %q", src, o, k, got)
				}
			}
		}
	}
}
