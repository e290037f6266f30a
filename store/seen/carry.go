package seen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Carry copies the marks of another database, without those that are too old at now and those in lost. into returns
// the transaction for the next record.
func Carry(from *bolt.Tx, now time.Time, lost map[Mark]bool, into func() (*table.Writer, error)) error {
	put := func(day uint32, ms []Mark) error {
		if day < Day(now)-Days {
			return nil
		}
		w, err := into()
		if err != nil {
			return err
		}
		ms = slices.DeleteFunc(ms, func(m Mark) bool {
			has, _ := Has(w.Tx, m)
			return has || lost[m]
		})
		if len(ms) == 0 {
			return nil
		}
		return addRun(w, day, 0, ms)
	}
	if from.Bucket([]byte(Runs)) == nil {
		return eachOld(from, recordMarks, put)
	}
	for _, b := range []string{Newest, Runs} {
		for k, v := range table.Under(from, b, nil) {
			ms, err := Decode(k, v)
			if err != nil {
				continue
			}
			if err := put(keyDay(k), ms); err != nil {
				return err
			}
		}
	}
	return nil
}

// Until schema 4 marks had a bucket for each day, and a mark was a key, under which its checksum stood.
const oldPrefix = "hot/seen/"

// FromOld makes runs of the marks of a file from before schema 4. It holds one run in memory at a time.
func FromOld(x *bolt.Tx) error {
	for _, b := range []string{Newest, Runs} {
		if _, err := x.CreateBucketIfNotExists([]byte(b)); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	largest := MaxNewest
	for range topLevel {
		largest *= runFan
	}
	w := table.Edit(x)
	n := uint32(0)
	err := eachOld(x, largest, func(day uint32, ms []Mark) error {
		n++
		return putRun(w, newRunKey(day, topLevel, n), ms)
	})
	for _, b := range OldBuckets(x) {
		err = errors.Join(err, w.Drop(b))
	}
	return err
}

// eachOld calls each for the marks of each day whose checksums fit, at most so many at a time.
func eachOld(x *bolt.Tx, most int, each func(day uint32, ms []Mark) error) error {
	for _, b := range OldBuckets(x) {
		var ms []Mark
		for k, v := range table.Under(x, b, nil) {
			if CheckOld(k, v) != nil {
				continue
			}
			if ms = append(ms, markOfKey(k)); len(ms) < most {
				continue
			}
			if err := each(oldDay(b), ms); err != nil {
				return err
			}
			ms = ms[:0]
		}
		if err := each(oldDay(b), ms); err != nil {
			return err
		}
	}
	return nil
}

// OldBuckets are the buckets of marks from before schema 4, oldest first.
func OldBuckets(t *bolt.Tx) (out []string) {
	c := t.Cursor()
	for k, _ := c.Seek([]byte(oldPrefix)); IsOld(string(k)); k, _ = c.Next() {
		out = append(out, string(k))
	}
	return out
}

// IsOld reports whether b is a bucket of marks from before schema 4.
func IsOld(b string) bool { return oldDay(b) != 0 }

func oldDay(b string) uint32 {
	at, err := time.Parse(oldPrefix+time.DateOnly, b)
	if err != nil {
		return 0
	}
	return Day(at)
}

// CheckOld checks a mark from before schema 4.
func CheckOld(k, value []byte) error {
	if len(value) > 0 && !bytes.Equal(value, OldValue(k)) { // before schema 2 marks had no value
		return errors.New("the checksum does not fit")
	}
	return nil
}

// OldValue is the value of a mark from before schema 4: its checksum.
func OldValue(k []byte) []byte { return binary.BigEndian.AppendUint32(nil, boltfile.Checksum(k, nil)) }
