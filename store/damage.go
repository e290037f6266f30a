package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/sent"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
	bolt "go.etcd.io/bbolt"
)

// What is found damaged when the file is opened is either set aside or refuses the start. Set aside, raw, in
// the quarantine, and named in the log is what can be missing without harm to others: a message, what is
// remembered of a chat, a code. It would block those behind it, or be refused whenever it is read. The
// rest says who is who and who may see what: without such a record a name would be free for another
// tenant, a person reach nobody, or a credential be worth nothing. Nothing makes it anew; the operator
// restores a backup, or salvages what can be read.

// isSetAside reports whether damaged records of b are moved to the quarantine.
func isSetAside(b string) bool {
	switch b {
	case entry.Bucket, entry.DeadBucket, undecided.Bucket, capability.Bucket, media.Bucket, prompt.Bucket, bucketConversations, BucketCursors, bucketCodes, bucketTokens, bucketIdentity,
		audit.Rows, audit.Counts, bucketCommands, bucketQuarantine, sent.Bucket, moved.Bucket, seen.Newest, seen.Runs:
		return true
	}
	return false
}

// Refusal is nil, or why a database with the damaged records bad is not used.
func Refusal(bad []boltfile.Damaged) error {
	var worst []boltfile.Damaged
	for _, r := range bad {
		if !isSetAside(r.Bucket) && string(r.Key) != table.Filler {
			worst = append(worst, r)
		}
	}
	return boltfile.Named(worst)
}

// maxNamed is how many damaged records are named one by one; the others are counted.
const maxNamed = 20

// setAside moves the damaged records bad to the quarantine. A sound database is not written to.
func setAside(b *bolt.DB, bad []boltfile.Damaged, now time.Time, log *slog.Logger) error {
	if len(bad) == 0 {
		return nil
	}
	for _, r := range bad[:min(len(bad), maxNamed)] {
		log.Error("a damaged record was set aside", "err", r.Err) // or made again, if it is a filler
	}
	if more := len(bad) - maxNamed; more > 0 {
		log.Error("more damaged records were set aside", "records", more)
	}
	err := boltfile.Update(b, func(x *bolt.Tx) error {
		t := edit(x)
		for _, r := range bad {
			if string(r.Key) == table.Filler { // it is made below
				continue
			}
			value := bytes.Clone(x.Bucket([]byte(r.Bucket)).Get(r.Key))
			if b := r.Bucket; b == seen.Newest || b == seen.Runs { // those that can be believed stay
				if err := seen.Believe(t.Writer, []seen.Bad{seen.Damaged(b, r.Key, value, r.Err)}); err != nil {
					return err
				}
				continue
			}
			if err := t.Delete(r.Bucket, r.Key); err != nil {
				return err
			}
			if err := t.quarantine(Quarantined{At: now, Err: r.Err.Error(), Raw: value}); err != nil {
				return err
			}
		}
		return errors.Join(t.recountLanes(), audit.Recount(t.Writer), t.reindex(), table.Fill(x, cold()), t.recountFiles(now))
	})
	if err != nil {
		return fmt.Errorf("set aside what is damaged: %w", err)
	}
	return nil
}

// recountLanes makes the lanes agree with what is in them. One that is not there and holds something is
// made, under a new epoch, for nobody knows which numbers it has given out.
func (t *tx) recountLanes() error {
	lanes := make(map[string]*lane)
	for k, v := range table.Under(t.Tx, bucketLanes, nil) {
		l, err := table.Decode[lane](k, v)
		if err != nil {
			return boltfile.DamagedRecord(bucketLanes, k, err)
		}
		l.Entries, l.Bytes, l.Dead = 0, 0, 0
		lanes[string(k)] = &l
	}
	strays := make(map[string][][]byte) // by bucket: keys that damage put there, for they begin with no instance
	of := func(b string, k []byte, tail int) *lane {
		name := string(instanceOf(k, tail))
		if name == "" || strings.Contains(name, "\x00") {
			strays[b] = append(strays[b], bytes.Clone(k))
			return &lane{}
		}
		if lanes[name] == nil {
			lanes[name] = &lane{Epoch: newEpoch()}
		}
		return lanes[name]
	}
	for k, v := range table.Under(t.Tx, entry.Bucket, nil) {
		l := of(entry.Bucket, k, 8)
		l.Entries++
		l.Bytes += int64(len(v))
		l.Last = max(l.Last, table.Number(k))
	}
	for k := range table.Under(t.Tx, entry.DeadBucket, nil) {
		l := of(entry.DeadBucket, k, 24)
		l.Dead++
		if len(k) > 24 {
			l.Deaths = max(l.Deaths, binary.BigEndian.Uint64(k[len(k)-24:]))
		}
	}
	for b, keys := range strays {
		for _, k := range keys {
			if err := t.Delete(b, k); err != nil {
				return err
			}
		}
	}
	for name, l := range lanes {
		if err := t.PutChanged(bucketLanes, []byte(name), l); err != nil {
			return err
		}
	}
	return nil
}
