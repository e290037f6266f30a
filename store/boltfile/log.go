package boltfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/files"
	bolt "go.etcd.io/bbolt"
)

// A file may have a log: every commit is stored there, too, before anybody is told of it. Replaying the log into an
// empty file gives the same records and running numbers. An entry of the log is
//
//	1 byte    version of the form
//	1 byte    1: it is a base, the whole file, and replaces everything before it; else 0
//	4 bytes   Format.Schema
//	56 bytes  the place: term, n, chain, and the digest of all records but this one
//	…         the changes, in order
//	4 bytes   CRC-32C over all of that
//
// The place is also a record of the file. So the file alone shows which entry it ends with, and whether it was changed
// since without the log: by a migration, by setting damage aside, or by a restore. Then its next entry is a base.
const (
	entryVersion = 1
	entryHead    = 6
	placeSize    = 8 + 8 + sha256.Size/2 + 8 + 8 // half of a SHA-256 is chain enough between nodes that trust each other
	placeKey     = "applied"
)

// CommitLog stores commits beside the file.
type CommitLog interface {
	// Append stores entry as number at.N, and returns nil when it is as safe as the log can make it. After an error
	// nobody knows whether it is stored. Append must not keep or change the entry.
	Append(at Place, entry []byte) error
}

// Log is a file's log, as its leader knows it.
type Log struct {
	To     CommitLog
	Term   uint64 // grows with every change of leader; no two leaders ever have the same, whatever the log forgot between them
	Top    uint64 // the number of its newest entry when the file is opened; 0: it is empty
	Forced bool   // the operator gave the log another file; entries that this file lacks do not count as lost
}

// Place is the position of a file in a log.
type Place struct {
	Term, N uint64                // the leader's term, and the number, of the entry the file ends with; numbers begin with 1
	Chain   [sha256.Size / 2]byte // over that entry's changes, and all before it
	Records int                   // how many records the file has after that entry, without the place itself
	Sum     uint64                // of their hashes
}

func (p Place) append(b []byte) []byte {
	n := binary.BigEndian
	b = append(n.AppendUint64(n.AppendUint64(b, p.Term), p.N), p.Chain[:]...)
	return n.AppendUint64(n.AppendUint64(b, uint64(p.Records)), p.Sum)
}

func parsePlace(b []byte) (p Place) {
	n := binary.BigEndian
	p.Term, p.N = n.Uint64(b), n.Uint64(b[8:])
	b = b[16+copy(p.Chain[:], b[16:]):]
	p.Records, p.Sum = int(n.Uint64(b)), n.Uint64(b[8:])
	return p
}

// PlaceOf returns the place of the file of t; the zero Place if it never had a log.
func PlaceOf(t *bolt.Tx) (p Place, err error) {
	value := metaValue(t, placeKey)
	if value == nil {
		return p, nil
	}
	payload, err := Unseal([]byte(placeKey), value)
	if err == nil && len(payload) != placeSize {
		err = errors.New("it has another size")
	}
	if err != nil {
		return p, DamagedRecord(MetaBucket, []byte(placeKey), err)
	}
	return parsePlace(payload), nil
}

// metaValue returns the stored value under key in MetaBucket. It returns nil also for a file without that bucket, in
// which nothing was ever stored.
func metaValue(t *bolt.Tx, key string) []byte {
	if meta := t.Bucket([]byte(MetaBucket)); meta != nil {
		return meta.Get([]byte(key))
	}
	return nil
}

// besidesPlace returns d, the digest of t, without the record of its place.
func besidesPlace(d Digest, t *bolt.Tx) Digest {
	if value := metaValue(t, placeKey); value != nil {
		return d.without([]byte(placeKey), value)
	}
	return d
}

// next returns the place after a commit with these changes, which leaves records with the digest d.
func (p Place) next(term uint64, changes []byte, d Digest) Place {
	h := sha256.New()
	_, _ = h.Write(p.Chain[:])
	_, _ = h.Write(changes)
	next := Place{Term: term, N: p.N + 1, Records: d.N, Sum: d.Sum}
	copy(next.Chain[:], h.Sum(nil))
	return next
}

// entry ends the transaction w for the log, and returns the place and the entry to append. base: w.recorded is the
// whole file.
func (f *File) entry(w *Writer, base bool) (Place, []byte, error) {
	l := f.o.CommitLog
	was, err := PlaceOf(w.Tx)
	if err == nil && was.Term != l.Term {
		err = w.beginTerm(*l, was.N, base)
	}
	if err != nil {
		return was, nil, err
	}
	if base { // no number may come twice: neither one of the log's nor, where the log has lost entries, the file's
		was.N = max(l.Top, was.N)
	}
	p := was.next(l.Term, w.recorded, besidesPlace(f.digest.plus(w.delta), w.Tx))
	e := make([]byte, 0, entryHead+placeSize+len(w.recorded)+4)
	e = append(e, entryVersion, 0)
	if base {
		e[1] = 1
	}
	e = append(p.append(binary.BigEndian.AppendUint32(e, f.o.Format.Schema)), w.recorded...)
	e = binary.BigEndian.AppendUint32(e, Checksum(e, nil))
	return p, e, w.putPlace(p)
}

// putPlace stores p in the file. It is not recorded, because an entry has its place in its head and not among its
// changes.
func (w *Writer) putPlace(p Place) error {
	w.recording = false
	k := []byte(placeKey)
	return w.PutSealed(MetaBucket, k, Seal(k, p.append(nil)))
}

// The bits of the first byte of a recorded change: they say which parts it has besides its bucket.
const (
	hasKey = 1 << iota
	hasValue
	inOrder
	hasNumber
	onlyMade // the change only makes the bucket
)

// record appends c to the changes that w has recorded.
func (w *Writer) record(c change) {
	flags, u := byte(0), binary.AppendUvarint
	for bit, is := range map[byte]bool{hasKey: c.key != nil, hasValue: c.value != nil, inOrder: c.append, hasNumber: c.number != 0, onlyMade: c.made} {
		if is {
			flags |= bit
		}
	}
	b := append(w.recorded, flags)
	b = append(u(b, uint64(len(c.bucket))), c.bucket...)
	if c.key != nil {
		b = append(u(b, uint64(len(c.key))), c.key...)
	}
	if c.value != nil {
		b = append(u(b, uint64(len(c.value))), c.value...)
	}
	if c.number != 0 {
		b = u(b, c.number)
	}
	w.recorded = b
}

// errEntry is the error for an inconsistent entry.
var errEntry = fmt.Errorf("%w: an entry of the log is not what was appended", ErrDamaged)

// changes calls each for the recorded changes in b, until it fails.
func changes(b []byte, each func(change) error) error {
	for len(b) > 0 {
		flags, c, ok := b[0], change{}, true
		b = b[1:]
		field := func() []byte {
			n, size := binary.Uvarint(b)
			if ok = ok && size > 0 && n <= uint64(len(b)-size); !ok {
				return nil
			}
			v := b[size : size+int(n) : size+int(n)]
			b = b[size+int(n):]
			return v
		}
		c.bucket = string(field())
		c.append, c.made = flags&inOrder != 0, flags&onlyMade != 0
		if flags&hasKey != 0 {
			c.key = field()
		}
		if flags&hasValue != 0 {
			c.value = field()
		}
		if flags&hasNumber != 0 {
			n, size := binary.Uvarint(b)
			if ok = ok && size > 0; ok {
				c.number, b = n, b[size:]
			}
		}
		if !ok || c.bucket == "" || flags >= onlyMade<<1 {
			return errEntry
		}
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

// Entry is an entry of a log, read.
type Entry struct {
	Place   Place // of a file that ends with this entry
	Schema  uint32
	Base    bool // it is the whole file: the content before it does not matter
	changes []byte
}

// ParseEntry reads an entry that Append was given. ErrDamaged: b is no such entry.
func ParseEntry(b []byte) (e Entry, err error) {
	if len(b) < entryHead+placeSize+4 || b[0] != entryVersion || b[1] > 1 {
		return e, errEntry
	}
	body := b[:len(b)-4]
	if Checksum(body, nil) != binary.BigEndian.Uint32(b[len(body):]) {
		return e, errEntry
	}
	return Entry{
		Place: parsePlace(b[entryHead:]), Schema: binary.BigEndian.Uint32(b[2:]), Base: b[1] == 1, changes: body[entryHead+placeSize:],
	}, nil
}

// Follows reports whether e was made as the next entry of a file at p.
func (e Entry) Follows(p Place) bool {
	return e.Place.N == p.N+1 && p.next(e.Place.Term, e.changes, Digest{}).Chain == e.Place.Chain
}

// ErrNotNext: the entry does not continue the file. Either the file belongs to another log, or entries are missing.
var ErrNotNext = errors.New("the entry does not continue this file")

// Replay applies e to the file b, which nobody else uses, in a transaction of its own. After an error b is unchanged:
// ErrNotNext, ErrDamaged, or bbolt's.
func Replay(b *bolt.DB, e Entry) error {
	return b.Update(func(t *bolt.Tx) error { return replay(t, e) })
}

// replay applies e in the transaction t, which must be rolled back after an error.
func replay(t *bolt.Tx, e Entry) error {
	was, err := PlaceOf(t)
	if err != nil && !e.Base {
		return err
	}
	var d Digest
	switch {
	case e.Base:
		was.Chain = e.Place.Chain // the entries before a base are not known, so its chain cannot be checked
		err = dropAll(t)
	case e.Place.N != was.N+1:
		err = fmt.Errorf("%w: the file ends with entry %d, and this is %d", ErrNotNext, was.N, e.Place.N)
	default:
		d, err = storedDigest(t)
	}
	if err != nil {
		return err
	}
	w := Edit(t)
	if err := changes(e.changes, w.change); err != nil {
		return err
	}
	d = d.plus(w.delta)
	besides := besidesPlace(d, t)
	if next := was.next(e.Place.Term, e.changes, besides); !e.Base && next.Chain != e.Place.Chain {
		return fmt.Errorf("%w: entry %d was made of another file", ErrNotNext, e.Place.N)
	}
	if besides.N != e.Place.Records || besides.Sum != e.Place.Sum {
		return fmt.Errorf("%w: entry %d leaves other records than where it was made", ErrDamaged, e.Place.N)
	}
	w.delta = Digest{}
	if err := w.putPlace(e.Place); err != nil {
		return err
	}
	return putDigest(t, d.plus(w.delta))
}

// Follower is a file that is brought from one entry of a log to the next, and that nobody else uses. It is for one
// goroutine.
type Follower struct {
	b      *bolt.DB
	at     Place
	schema uint32
}

// Follow opens the file at path, or makes it. ErrDamaged: it cannot be used, and must be made anew.
func Follow(path string, o Options) (*Follower, error) {
	var got Found
	if files.Exists(path) {
		var err error
		if got, err = Adopt(path); err == nil {
			err = Named(got.Bad)
		}
		if err != nil {
			return nil, err
		}
	}
	b, err := OpenBolt(path, o)
	if err != nil {
		return nil, err
	}
	f := &Follower{b: b, schema: o.Format.Schema}
	if err := b.View(func(t *bolt.Tx) (err error) { f.at, err = PlaceOf(t); return err }); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if got.FellBack && f.at.N > 0 {
		// A commit without changes replaces the unfinished one, or the next start would report a lost commit.
		o.Log.Warn("the newest commit of the database did not end; the log has all that anybody was told of")
		err := b.Update(func(t *bolt.Tx) error {
			d, err := storedDigest(t)
			if err != nil {
				return err
			}
			return putDigest(t, d)
		})
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return f, nil
}

// At returns the file's place.
func (f *Follower) At() Place { return f.at }

// Apply applies entries, in order, all or none; they are on the disk when it returns. ErrNotNext, ErrDamaged: the file
// can only be made anew. ErrNewer: this version does not know the schema of one of the entries.
func (f *Follower) Apply(entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	err := f.b.Update(func(t *bolt.Tx) error {
		for _, e := range entries {
			if e.Schema > f.schema {
				return fmt.Errorf("entry %d: %w (schema %d, this one knows %d)", e.Place.N, ErrNewer, e.Schema, f.schema)
			}
			if err := replay(t, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.at = entries[len(entries)-1].Place
	}
	return err
}

// History returns the file's history.
func (f *Follower) History() (h History, err error) {
	err = f.b.View(func(t *bolt.Tx) error { h, err = historyOf(t); return err })
	return h, err
}

// Close closes the file.
func (f *Follower) Close() error { return f.b.Close() }

// dropAll deletes all buckets.
func dropAll(t *bolt.Tx) error {
	var names [][]byte
	err := t.ForEach(func(name []byte, _ *bolt.Bucket) error {
		names = append(names, bytes.Clone(name))
		return nil
	})
	for _, name := range names {
		err = errors.Join(err, t.DeleteBucket(name))
	}
	return err
}

// recordAll makes w record all buckets and records of the file, except the digest and the place.
func (w *Writer) recordAll() error {
	return w.ForEach(func(name []byte, b *bolt.Bucket) error {
		bucket := string(name)
		w.record(change{bucket: bucket, made: true})
		if n := b.Sequence(); n != 0 {
			w.record(change{bucket: bucket, number: n})
		}
		return b.ForEach(func(k, v []byte) error {
			if !isDigest(bucket, k) && !(bucket == MetaBucket && string(k) == placeKey) {
				w.record(change{bucket: bucket, key: k, value: v, append: true})
			}
			return nil
		})
	})
}

// enterLog appends the whole file to its log, as a base, unless the file is as the log's newest entry left it. So a
// file that is ahead of the log, or that belonged to another log, can be used: whoever opened it has decided that it
// may. Before a base the numbers of the entries may have a gap.
func (f *File) enterLog() error {
	b, err := f.begin(true)
	if err != nil {
		return err
	}
	defer b.Rollback() // does nothing after a commit
	p, err := PlaceOf(b)
	if err != nil {
		return err
	}
	if is := besidesPlace(f.digest, b); p.N > 0 && p.N == f.o.CommitLog.Top && is.N == p.Records && is.Sum == p.Sum {
		f.place = p
		return nil
	}
	w := &Writer{Tx: b}
	if err := w.recordAll(); err != nil {
		return err
	}
	return f.finish(w, true)
}
