// Package moved is the chats that got a new id: whoever uses an old one means the chat that has the new one.
package moved

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of moved chats: platform|old chat -> Record.
const Bucket = "moved"

// Record says which id a chat has now. It stands under the platform and an id the chat had
// before, and is there for as long as somebody may still use that one.
type Record struct {
	Platform relay.PlatformID `json:"platform"`
	From     relay.ChatID     `json:"from"`
	To       relay.ChatID     `json:"to"` // never itself the From of another record
	At       time.Time        `json:"at"`
}

// Key is where the record about a chat stands.
func Key(p relay.PlatformID, c relay.ChatID) []byte { return table.Key(p, string(c)) }

// Current is the id that the chat once known as c has now: c itself, unless it has moved.
func Current(t *bolt.Tx, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	if c == "" {
		return c, nil
	}
	r, ok, err := table.Load[Record](t, Bucket, Key(p, c))
	if err != nil || !ok {
		return c, err
	}
	return r.To, nil
}

// Put remembers that r.From is now called r.To, and so is what was called r.From before. The newest
// word counts: r.To is an id in use from now on.
func Put(w *table.Writer, r Record) error {
	if err := w.Delete(Bucket, Key(r.Platform, r.To)); err != nil {
		return err
	}
	for _, k := range table.KeysUnder(w.Tx, Bucket, table.Prefix(r.Platform)) {
		old, _, err := table.Load[Record](w.Tx, Bucket, k)
		if err != nil || old.To != r.From { // a damaged one is refused to whoever asks for it
			continue
		}
		old.To = r.To
		if err := w.Put(Bucket, k, old); err != nil {
			return err
		}
	}
	return w.Put(Bucket, Key(r.Platform, r.From), r)
}
