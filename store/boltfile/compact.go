package boltfile

import (
	"errors"
	"fmt"
	"os"

	"github.com/hermes-connector/hermes-connector/store/files"
	bolt "go.etcd.io/bbolt"
)

// Compaction pays above worthCompacting bytes, and when the file is compactFrom times its live data.
const (
	worthCompacting = 8 << 20
	compactFrom     = 2
)

// bloated reports whether the file f, which b has open, is worth compacting.
func bloated(b *bolt.DB, f *os.File) (size int64, yes bool) {
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	var used int64
	err = b.View(func(t *bolt.Tx) error {
		used = t.Size()
		return nil
	})
	live := used - int64(b.Stats().FreePageN)*PageSize
	return info.Size(), err == nil && info.Size() > worthCompacting && info.Size() > compactFrom*live
}

// squeezeKey is the record, in the owner's MetaBucket, that says that the free pages contain data that nobody may read
// any more.
const squeezeKey = "squeeze"

// Squeeze makes the next opening of the file remove its free pages, and with them deleted and replaced data. The
// request is stored in this transaction, and deleted only after the free pages were removed: so no crash loses it.
func (w *Writer) Squeeze() error {
	k := []byte(squeezeKey)
	return w.PutSealed(MetaBucket, k, Seal(k, []byte("true")))
}

// squeezeDue reports whether the free pages of b have to be removed.
func squeezeDue(b *bolt.DB) (due bool) {
	_ = b.View(func(t *bolt.Tx) error {
		due = metaValue(t, squeezeKey) != nil
		return nil
	})
	return due
}

func forgetSqueeze(t *bolt.Tx) error { return t.Bucket([]byte(MetaBucket)).Delete([]byte(squeezeKey)) }

// compact puts a copy of the database b without its free pages in the place of the file at path, after it has checked
// that the copy has the records of was.
//
// Only Open compacts, because bbolt reads through a mapping of the one file it opened.
func compact(path string, b *bolt.DB, was Found, o Options) error {
	return files.Aside(path, Leftovers(path), func(f *os.File) error {
		files.Give(f, path)
		if err := compactInto(f.Name(), b, o); err != nil {
			return err
		}
		is, err := look(f)
		if err == nil && is.records != was.records {
			err = fmt.Errorf("%w: the copy holds other records", ErrDamaged)
		}
		return err
	}, func(temp string) error { return files.Replace(temp, path, "") })
}

// compactInto copies all records of b into the empty file temp. It does not sync temp.
func compactInto(temp string, b *bolt.DB, o Options) error {
	o.OpenFile = os.OpenFile // the OpenFile of a test is for the database itself only
	dst, err := OpenBolt(temp, o)
	if err != nil {
		return err
	}
	dst.NoSync = true // the caller syncs the whole file once
	err = bolt.Compact(dst, b, BatchBytes)
	if err == nil {
		// Update makes the digest anew: a digest names its commit, and the copy's commits have other numbers.
		err = Update(dst, func(*bolt.Tx) error { return nil })
	}
	return errors.Join(err, dst.Close())
}

// improve logs the findings, and puts a compacted copy of the file in the place of path if a squeeze is due, or if
// o.Compact is set and the file is bloated. If improve returns true, the caller must begin again with the copy.
func improve(path string, b *bolt.DB, f *os.File, got Found, due bool, o Options) (replaced bool) {
	switch {
	case got.FellBack:
		o.Log.Error("the newest commit is lost", "err", errFellBack)
	case got.broken:
		o.Log.Warn("the meta page of the last but one commit is damaged; nothing is lost, and the next commit replaces it")
	}
	size, worth := bloated(b, f)
	if !due && (!o.Compact || !worth) {
		return false
	}
	err := compact(path, b, got, o)
	switch {
	case err != nil && due:
		o.Log.Warn("what a rekey replaced is still in the free pages of the database; the next start tries again to remove it", "err", err)
	case err != nil:
		o.Log.Warn("the database was not compacted; it is used as it is", "err", err)
	case due:
		o.Log.Info("what a rekey replaced was removed from the free pages of the database", "bytes before", size)
	default:
		o.Log.Info("the database was compacted", "bytes before", size)
	}
	return err == nil
}

// errFellBack is the log's text if the newest commit is gone.
var errFellBack = errors.New("the newest commit is unreadable: what was accepted in that commit is lost, " +
	"and what it deleted is back. After a power cut it is one nobody was told of; otherwise compare with the last snapshot")
