package manage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// buffers manages the messages that wait for gateways, and those that were given up.
type buffers struct {
	directory
	bus bus.Bus
}

// Entry is one message that waits for its gateway, with its origin but without its content.
type Entry struct {
	Buffer   string           `json:"bufferId"`
	At       time.Time        `json:"at"` // when it was accepted
	Platform relay.PlatformID `json:"platform"`
	Chat     relay.ChatID     `json:"chatId"`
	Event    relay.EventID    `json:"eventId"`
	Bytes    int              `json:"bytes"`  // of the stored record
	Deaths   int              `json:"deaths"` // sockets that died while it was in flight
}

// DeadEntry is a message that left the buffer without being acknowledged.
type DeadEntry struct {
	Entry
	Reason store.DeadReason `json:"reason"`
	DiedAt time.Time        `json:"diedAt,omitzero"`
}

// Entries lists an instance's buffer, oldest first. Refused with NotFound.
func (s *buffers) Entries(ctx context.Context, n Named) ([]Entry, error) {
	i, err := s.instance(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	all, err := s.db.Lanes.Entries(ctx, i.ID, store.EntryFilter{})
	return each(all, entry), err
}

// Dead lists an instance's dead letters, oldest first. Refused with NotFound.
func (s *buffers) Dead(ctx context.Context, n Named) ([]DeadEntry, error) {
	i, err := s.instance(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	all, err := s.db.Lanes.Entries(ctx, i.ID, store.EntryFilter{Dead: true})
	return each(all, func(d store.Entry) DeadEntry {
		return DeadEntry{Entry: entry(d), Reason: d.Reason, DiedAt: d.DiedAt.UTC()}
	}), err
}

func entry(e store.Entry) Entry {
	return Entry{
		Buffer: e.Buffer.String(), At: e.At.UTC(), Platform: e.About.Bot.Platform,
		Chat: e.About.Chat, Event: e.About.ID, Bytes: e.Bytes, Deaths: e.Deaths,
	}
}

// Quarantined is a payload of a platform that could not be decoded, or a damaged record of our own, which names no bot.
type Quarantined struct {
	Platform relay.PlatformID `json:"platform,omitempty"`
	Bot      relay.BotID      `json:"botId,omitempty"`
	At       time.Time        `json:"at"`
	Reason   string           `json:"reason"`
	Bytes    int              `json:"bytes"`
}

// Quarantine lists the payloads that were put aside, oldest first, without their content; 1,000 are kept.
func (s *buffers) Quarantine(ctx context.Context, _ struct{}) ([]Quarantined, error) {
	all, err := s.db.Lanes.Quarantine(ctx)
	return each(all, func(q store.Quarantined) Quarantined {
		return Quarantined{Platform: q.Bot.Platform, Bot: q.Bot.ID, At: q.At.UTC(), Reason: q.Err, Bytes: len(q.Raw)}
	}), err
}

// Letters names dead letters of an instance; none means all.
type Letters struct {
	Name    string   `json:"name"`
	Buffers []string `json:"bufferIds,omitempty"`
}

// Moved says how many entries an operation moved or deleted.
type Moved struct {
	Instance relay.InstanceID `json:"instanceId"`
	Count    int              `json:"count"`
	// Left is how many dead letters were to be moved and stay, because the buffer is full.
	Left int `json:"left,omitempty"`
	// Oversize is how many dead letters stay because they are too large for any gateway.
	Oversize int `json:"oversize,omitempty"`
}

// Replay puts dead letters back at the end of the buffer, as many as fit, except those that are too large for any
// gateway. Refused with NotFound or Usage.
func (s *buffers) Replay(ctx context.Context, by audit.Actor, l Letters) (Moved, error) {
	i, err := s.served(ctx, l.Name)
	if err != nil {
		return Moved{}, err
	}
	oversize := 0
	out, err := s.move(ctx, row(by, "replay", i, ""), l, func(ctx context.Context, row *audit.Entry, i relay.InstanceID, ids ...relay.BufferID) (int, error) {
		n, err := s.db.Lanes.Replay(ctx, row, i, ids...)
		oversize = n.Oversize
		return n.Moved, err
	})
	out.Oversize, out.Left = oversize, max(0, out.Left-oversize)
	if err == nil && out.Count > 0 {
		s.bus.Publish(bus.LaneGrew{Instance: i.ID})
	}
	return out, err
}

// Drop deletes dead letters, or the waiting entries that are named. If none is named, it deletes all dead letters and
// no waiting entry. Refused with NotFound or Usage.
func (s *buffers) Drop(ctx context.Context, by audit.Actor, l Letters) (Moved, error) {
	i, err := s.instance(ctx, l.Name)
	if err != nil {
		return Moved{}, err
	}
	return s.move(ctx, row(by, "drop", i, ""), l, s.db.Lanes.Drop)
}

// move applies do to the letters l of the instance that the row is about.
func (s *buffers) move(ctx context.Context, row *audit.Entry, l Letters,
	do func(context.Context, *audit.Entry, relay.InstanceID, ...relay.BufferID) (int, error),
) (Moved, error) {
	var ids []relay.BufferID
	for _, raw := range l.Buffers {
		id, err := relay.ParseBufferID(raw)
		if err != nil {
			return Moved{}, unfit("bufferIds", "%v", err)
		}
		if !slices.Contains(ids, id) { // an id that is named twice counts once
			ids = append(ids, id)
		}
	}
	lane, err := s.db.Lanes.State(ctx, row.Instance)
	if err != nil {
		return Moved{}, err
	}
	meant := len(ids)
	if meant == 0 {
		meant = lane.Dead
	}
	n, err := do(ctx, row, row.Instance, ids...)
	if errors.Is(err, store.ErrNotFound) {
		return Moved{}, refuse(NotFound, "%q has no such entry", l.Name).try("dead", l.Name)
	}
	return Moved{Instance: row.Instance, Count: n, Left: max(0, meant-n)}, err
}
