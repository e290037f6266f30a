package callers

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Replies is the bucket of the agents' answers to callers: caller|running number -> Reply.
const Replies = "replies"

// How much is kept for a caller. Beyond that its oldest replies are dropped.
const (
	MaxReplies    = 1000
	MaxReplyBytes = 16 << 20
)

// Reply is an agent's answer to a caller.
type Reply struct {
	Number      uint64           `json:"-"` // of the replies to all callers; it only grows
	Caller      string           `json:"-"`
	Agent       relay.InstanceID `json:"agent"`
	Session     string           `json:"session"`
	Event       relay.EventID    `json:"event,omitempty"`    // the event that it answers, if known
	Dispatch    string           `json:"dispatch,omitempty"` // the caller's name for that event
	Correlation string           `json:"correlation,omitempty"`
	Content     string           `json:"content"`
	Final       bool             `json:"final,omitempty"` // the agent said that it is done
	At          time.Time        `json:"at"`
}

func replyKey(caller string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(caller), n)
}

// Keep stores replies to one caller, at least one, under the next numbers, and drops the caller's oldest surplus ones.
// It sets their numbers and their time. ErrNotFound: the caller does not exist.
func (rs *Records) Keep(ctx context.Context, all []Reply) (dropped int, err error) {
	caller, size := all[0].Caller, 0
	for _, r := range all {
		size += len(r.Content) + Size
	}
	err = rs.db.Change(ctx, "reply", func(w *table.Writer) (err error) {
		if !table.Has(w.Tx, Bucket, table.Key(caller)) {
			return table.ErrNotFound
		}
		for i := range all {
			r := &all[i]
			r.At = rs.db.Now()
			if r.Number, err = w.Next(Replies); err != nil {
				return err
			}
			if err := w.Put(Replies, replyKey(caller, r.Number), *r); err != nil {
				return err
			}
		}
		dropped, err = trim(w, caller)
		return err
	}, size)
	return dropped, err
}

// trim drops the oldest replies to a caller that are too many.
func trim(w *table.Writer, caller string) (dropped int, err error) {
	count, size := 0, 0
	for _, v := range table.Under(w.Tx, Replies, table.Prefix(caller)) {
		count, size = count+1, size+len(v)
	}
	var keys [][]byte
	for k, v := range table.Under(w.Tx, Replies, table.Prefix(caller)) {
		if count <= MaxReplies && size <= MaxReplyBytes {
			break
		}
		count, size = count-1, size-len(v)
		keys = append(keys, bytes.Clone(k))
	}
	return len(keys), table.DropKeys(w, Replies, keys)
}

// ReplyFilter picks replies to a caller, oldest first.
type ReplyFilter struct {
	Caller string
	After  uint64        // those with a greater number
	Event  relay.EventID // replies to that event; empty: to any
	Limit  int           // how many are listed at most; 0: all
}

// Replies lists the replies that f picks. Damaged ones are left out.
func (rs *Records) Replies(ctx context.Context, f ReplyFilter) ([]Reply, error) {
	return table.Get(ctx, rs.db, "replies", func(t *bolt.Tx) (out []Reply, _ error) {
		from := string(binary.BigEndian.AppendUint64(nil, f.After+1))
		for k, v := range table.UnderFrom(t, Replies, table.Prefix(f.Caller), from) {
			r, err := table.Decode[Reply](k, v)
			if err != nil || f.Event != "" && r.Event != f.Event {
				continue
			}
			r.Caller, r.Number = f.Caller, table.Number(k)
			if out = append(out, r); len(out) == f.Limit {
				break
			}
		}
		return out, nil
	})
}

// Read drops the replies to a caller up to the number upTo, because the caller has read them. If that number was not
// given out yet, for example because a backup was restored, it drops nothing and known is false.
func (rs *Records) Read(ctx context.Context, caller string, upTo uint64) (known bool, err error) {
	there := false
	known, err = table.Get(ctx, rs.db, "replies", func(t *bolt.Tx) (bool, error) {
		for k := range table.Under(t, Replies, table.Prefix(caller)) {
			there = table.Number(k) <= upTo
			break
		}
		return upTo <= t.Bucket([]byte(Replies)).Sequence(), nil
	})
	if err != nil || !known || !there {
		return known, err
	}
	return true, rs.db.Change(ctx, "read replies", func(w *table.Writer) error {
		var keys [][]byte
		for k := range table.Under(w.Tx, Replies, table.Prefix(caller)) {
			if table.Number(k) > upTo {
				break
			}
			keys = append(keys, bytes.Clone(k))
		}
		return table.DropKeys(w, Replies, keys)
	})
}
