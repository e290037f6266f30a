package gate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestDecisionJSON(t *testing.T) {
	at := time.Date(2026, 10, 1, 14, 0, 0, 5e8, time.FixedZone("", 2*3600))
	for name, tc := range map[string]struct {
		d    Decision
		want string
	}{
		"about an instance": {
			Decision{
				At: at, Platform: "telegram", BotID: "7", Event: "u1", Chat: "-100", User: "42", Instance: "home", Reason: Delivered,
				ChatType: relay.ChatDM, State: Taken, DeliveredAt: at, Says: "delivered", Change: "nothing", Hint: "waits",
				Media: []File{{relay.TypeVoice, 8123, relay.MediaHeld}, {relay.TypePhoto, 0, relay.MediaGone}},
			},
			`{"at":"2026-10-01T12:00:00.5Z","platform":"telegram","botId":"7","eventId":"u1","chatId":"-100","userId":"42","instanceId":"home","reason":"delivered","chatType":"dm","state":"delivered","deliveredAt":"2026-10-01T12:00:00.5Z","says":"delivered","change":"nothing","hint":"waits","media":[{"kind":"voice","size":8123,"state":"held"},{"kind":"photo","state":"gone"}]}`,
		},
		"about the event": {
			Decision{At: at, Platform: "telegram", BotID: "7", Event: "u1", Chat: "-100", Reason: NoBinding},
			`{"at":"2026-10-01T12:00:00.5Z","platform":"telegram","botId":"7","eventId":"u1","chatId":"-100","userId":"","reason":"no_binding"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.d)
			if err != nil || string(got) != tc.want {
				t.Fatalf("Marshal = %s, %v; want %s", got, err, tc.want)
			}
			var back Decision
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			want := tc.d
			want.At, want.DeliveredAt = want.At.UTC(), want.DeliveredAt.UTC()
			if d := cmp.Diff(want, back); d != "" {
				t.Errorf("read back (-want +got):\n%s", d)
			}
		})
	}
	var d Decision
	if err := json.Unmarshal([]byte(`{"at":7}`), &d); err == nil {
		t.Error("a time that is none was read")
	}
}
