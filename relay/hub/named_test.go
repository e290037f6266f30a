package hub

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// kept notes what it is to fetch. It has no file.
type kept struct {
	Files
	mu  sync.Mutex
	ids []relay.MediaID
}

func (k *kept) Fetch(as ...relay.Attachment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range as {
		k.ids = append(k.ids, a.ID)
	}
}

// Settle says of each file that it is gone.
func (k *kept) Settle(_ context.Context, as []relay.Attachment) (out []relay.Held) {
	for _, a := range as {
		out = append(out, relay.Held{Attachment: a, State: relay.MediaGone})
	}
	return out
}

func (k *kept) fetched() []relay.MediaID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ids)
}

// TestFilesGetIDs: each file of an event that somebody gets has an id of its own from the start, ten at most; they are
// recorded in the event's transaction, and fetched after it. Of an event that nobody gets no file is fetched.
func TestFilesGetIDs(t *testing.T) {
	files := &kept{}
	r := newRig(t, with(files))
	i := r.enroll("home", "ann")
	in := r.hub.in.Inbox(r.bot)
	for n, user := range []relay.UserID{"stranger", "ann"} {
		id := string(rune('a' + n))
		ev := relay.Event{
			ID: relay.EventID(id), Bot: r.bot, At: time.Now(), Type: relay.TypePhoto, MessageID: relay.MessageID(id),
			Source:      relay.Source{Platform: r.bot.Platform, ChatID: relay.ChatID(user), ChatType: relay.ChatDM, UserID: user},
			Attachments: slices.Repeat([]relay.Attachment{{Ref: "r", Kind: relay.TypePhoto}}, 12),
		}
		must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	}
	all, err := r.db.Media.List(t.Context())
	if err != nil || len(all) != relay.MaxAttachments {
		t.Fatalf("%d records, %v", len(all), err)
	}
	var ids []relay.MediaID
	for _, m := range all {
		if !slices.Equal(m.For, []relay.InstanceID{i}) || m.Ref != "r" || len(m.ID) != 32 {
			t.Errorf("%+v", m)
		}
		ids = append(ids, m.ID)
	}
	fetched := files.fetched()
	slices.Sort(ids)
	slices.Sort(fetched)
	if len(slices.Compact(ids)) != relay.MaxAttachments || !slices.Equal(ids, fetched) {
		t.Errorf("recorded %v, fetched %v", ids, fetched)
	}
}
