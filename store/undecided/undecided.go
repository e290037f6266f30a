// Package undecided is deliveries that wait for the network's word on whether an instance's owner can see the chat.
package undecided

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of undecided deliveries: platform|bot|chat|instance|number -> Record.
const Bucket = "undecided"

// Delivery is one that an instance gets if the network says that its owner can see the chat.
type Delivery struct {
	Number   uint64 // grows from one to the next; unique in the database
	At       time.Time
	Instance relay.InstanceID
	Delivery relay.Delivery
}

// Record is a Delivery as it rests on disk: not as a frame, for it is judged again. Its number is the end of its key.
type Record struct {
	At       time.Time        `json:"at"`
	Instance relay.InstanceID `json:"instance"`
	Event    *relay.Event     `json:"event,omitempty"` // one of the two
	Forward  *relay.Forward   `json:"forward,omitempty"`
}

// About is the event that the record is about, in place; nil when there is none.
func (r *Record) About() *relay.Event {
	if r.Forward != nil {
		return &r.Forward.Event
	}
	return r.Event
}

// Decode reads the record under k.
func Decode(k, value []byte) (r Record, err error) {
	r, err = table.Decode[Record](k, value)
	if err == nil && r.About() == nil {
		err = errors.New("it is about nothing")
	}
	return r, err
}

// under is how the keys of a chat's deliveries begin, of one instance's if i is given.
func under(c relay.Chat, i ...string) []byte {
	return table.Prefix(c.Bot.Platform, append([]string{string(c.Bot.ID), string(c.ID)}, i...)...)
}

// Key is where a delivery stands.
func Key(c relay.Chat, i relay.InstanceID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(under(c, string(i)), number)
}

// Postpone stores d until it is known whether i gets it.
func Postpone(w *table.Writer, b relay.Bot, i relay.InstanceID, d relay.Delivery, now time.Time) error {
	number, err := w.Next(Bucket)
	if err != nil {
		return fmt.Errorf("undecided: %w", err)
	}
	r := Record{At: now, Instance: i}
	switch d := d.(type) {
	case relay.Event:
		r.Event = &d
	case relay.Forward:
		r.Forward = &d
	}
	return w.Put(Bucket, Key(relay.Chat{Bot: b, ID: d.About().Source.ChatID}, i, number), r)
}

// Filter picks undecided deliveries. The zero value picks all.
type Filter struct {
	Chat     relay.Chat
	Instance relay.InstanceID // of that chat's
	Limit    int              // 0 means no limit
}

// under is how the keys begin of what f picks.
func (f Filter) under() []byte {
	switch {
	case f.Instance != "":
		return under(f.Chat, string(f.Instance))
	case f.Chat.ID != "":
		return under(f.Chat)
	}
	return nil
}

// Count is how many there are, up to the limit. It reads keys only.
func Count(t *bolt.Tx, f Filter) (n int) {
	for range table.Under(t, Bucket, f.under()) {
		if n++; n == f.Limit {
			break
		}
	}
	return n
}

// List lists them, chat by chat and instance by instance, the oldest first. Damaged ones are left out: they were named
// when the file was opened.
func List(t *bolt.Tx, f Filter) (out []Delivery) {
	for k, v := range table.Under(t, Bucket, f.under()) {
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
		r, err := Decode(k, v)
		if err != nil {
			continue
		}
		u := Delivery{Number: table.Number(k), At: r.At, Instance: r.Instance}
		if r.Forward != nil {
			u.Delivery = *r.Forward
		} else {
			u.Delivery = *r.Event
		}
		out = append(out, u)
	}
	return out
}

// Move takes the deliveries of a chat along to its new id, behind what waits there.
func Move(w *table.Writer, p relay.PlatformID, from, to relay.ChatID) error {
	for _, k := range table.KeysUnder(w.Tx, Bucket, table.Prefix(p)) {
		r, err := Decode(k, w.Bucket([]byte(Bucket)).Get(k))
		if err != nil {
			continue // damaged
		}
		ev := r.About()
		if ev.Source.ChatID != from {
			continue
		}
		if err := w.Delete(Bucket, k); err != nil {
			return err
		}
		ev.Source.ChatID = to
		if err := w.Put(Bucket, Key(relay.Chat{Bot: ev.Bot, ID: to}, r.Instance, table.Number(k)), r); err != nil {
			return err
		}
	}
	return nil
}
