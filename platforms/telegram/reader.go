package telegram

import (
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxTopics bounds the topic names remembered.
const maxTopics = 10_000

// reader turns answers of getUpdates into batches, and remembers the names of topics between them.
// It is not for use by several goroutines.
type reader struct {
	normaliser
	log *slog.Logger
}

func newReader(bot relay.Bot, me identity, edits bool, log *slog.Logger) *reader {
	return &reader{
		normaliser: normaliser{bot: bot, me: me, edits: edits, topics: map[topicKey]string{}},
		log:        log,
	}
}

// batch reads each update on its own: one that makes no sense goes into quarantine, the others
// go on.
func (r *reader) batch(raws []json.RawMessage) platforms.Batch {
	var b platforms.Batch
	for _, raw := range raws {
		o, err := r.read(raw)
		if err != nil {
			b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: raw, Err: err})
			r.log.Warn("telegram update makes no sense; kept in quarantine", "update", updateID(raw), "err", err)
			continue
		}
		if o.event != nil {
			b.Events = append(b.Events, *o.event)
		}
		b.Moves = append(b.Moves, o.moves...)
		b.Roster = append(b.Roster, o.roster...)
		if o.named != "" {
			r.learn(o.topic, o.named)
		}
	}
	return b
}

// read decodes and normalises one update.
func (r *reader) read(raw json.RawMessage) (reading, error) {
	return guarded(func() (reading, error) {
		var u update
		if err := call.Decode(raw, &u); err != nil {
			return reading{}, err
		}
		return r.normalise(&u)
	})
}

// guarded runs f; a panic counts as its error.
func guarded(f func() (reading, error)) (o reading, err error) {
	defer func() {
		if v := recover(); v != nil {
			o, err = reading{}, errors.New("panic: "+relay.PanicWords(v))
		}
	}()
	return f()
}

// learn remembers a topic's name. When the memory is full, some other name is forgotten.
func (r *reader) learn(k topicKey, name string) {
	if _, known := r.topics[k]; !known && len(r.topics) >= maxTopics {
		for other := range r.topics {
			delete(r.topics, other)
			break
		}
	}
	r.topics[k] = name
}

// updateID is an update's number, even if nothing else of it makes sense; 0 when it has none.
func updateID(raw json.RawMessage) int64 {
	var u struct {
		ID int64 `json:"update_id"`
	}
	// A field of the wrong type elsewhere cannot fail this: only update_id is decoded.
	if json.Unmarshal(raw, &u) != nil {
		return 0
	}
	return u.ID
}
