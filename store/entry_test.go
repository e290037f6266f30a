package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestADamagedForward: a head that says more than is there makes the entry a damaged one.
func TestADamagedForward(t *testing.T) {
	for _, size := range []int{-1, 6} {
		payload, err := encodeEntry(entryHead{Forward: &forwardHead{Size: size}}, []byte("frame"))
		must.Succeed(t, err)
		if h, frame, err := decodeEntry([]byte("k"), boltfile.Seal([]byte("k"), payload)); err == nil || h.Forward != nil || frame != nil {
			t.Errorf("size %d: %+v, %q, %v", size, h, frame, err)
		}
	}
}

// TestHeadsComeBack: what is encoded of an entry is what is read, and cut off anywhere in its head it is no entry.
func TestHeadsComeBack(t *testing.T) {
	text := rapid.String()
	at := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "never") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		frame := []byte(text.Draw(t, "frame"))
		h := entryHead{At: at.Draw(t, "at"), Deaths: rapid.IntRange(0, 1<<20).Draw(t, "deaths"), About: About{
			ID: relay.EventID(text.Draw(t, "id")), Bot: relay.Bot{Platform: relay.PlatformID(text.Draw(t, "platform")), ID: relay.BotID(text.Draw(t, "bot"))},
			At: at.Draw(t, "said at"), Chat: relay.ChatID(text.Draw(t, "chat")), User: relay.UserID(text.Draw(t, "user")),
		}}
		if rapid.Bool().Draw(t, "forward") {
			h.Forward = &forwardHead{Until: at.Draw(t, "until"), Run: rapid.Uint64().Draw(t, "run"), Size: rapid.IntRange(0, len(frame)).Draw(t, "size")}
		}
		whole := rapid.Bool().Draw(t, "whole")
		if whole {
			h.Event = &relay.Event{ID: h.About.ID, Bot: h.About.Bot, At: h.About.At, Source: relay.Source{ChatID: h.About.Chat, UserID: h.About.User}}
		}
		payload, err := encodeEntry(h, frame)
		must.Succeed(t, err)
		head := len(payload) - len(frame)
		got, behind, err := parseEntry(payload)
		must.Succeed(t, err)
		if whole && h.Forward == nil {
			frame = nil
		}
		if diff := cmp.Diff(h, got); diff != "" || !bytes.Equal(behind, frame) {
			t.Fatalf("%s, %q behind it, want %q", diff, behind, frame)
		}
		if _, _, err := parseEntry(payload[:rapid.IntRange(0, head-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a head that is cut off is one")
		}
	})
}

// FuzzEntry: whatever stands there, reading it ends with an entry or an error.
func FuzzEntry(f *testing.F) {
	payload, _ := encodeEntry(entryHead{At: time.Unix(1, 0), Forward: &forwardHead{Size: 2}, Event: &relay.Event{ID: "e"}}, []byte("frame"))
	f.Add(payload)
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, frame, err := parseEntry(payload)
		if err == nil && h.Forward != nil && h.Forward.Size > len(frame) {
			t.Errorf("a forward of %d bytes in %d", h.Forward.Size, len(frame))
		}
	})
}
