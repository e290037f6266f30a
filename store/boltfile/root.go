package boltfile

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// Every commit writes the root page, which lists the buckets and holds the small ones. When they do not fit into
// one page, every commit writes three, and bbolt merges only pages out of which a bucket was deleted. So each
// start puts the root together again, if it can.

// isSplit reports whether the root is more than one page.
func (f *File) isSplit() (split bool, err error) {
	err = f.bolt.View(func(t *bolt.Tx) error {
		var flags [2]byte
		_, err := f.file.ReadAt(flags[:], int64(t.Cursor().Bucket().Root())*PageSize+8)
		split = binary.NativeEndian.Uint16(flags[:]) == flagBranch
		return err
	})
	return split, err
}

// gather merges the pages of the root.
func gather(t *bolt.Tx) error {
	t.Cursor().Bucket().FillPercent = 1 // what is not half full is merged
	var beside [][]byte
	err := t.ForEach(func(name []byte, _ *bolt.Bucket) error {
		beside = append(beside, append(bytes.Clone(name), 0))
		return nil
	})
	for _, name := range beside {
		if err == nil {
			_, err = t.CreateBucket(name)
		}
		if err == nil {
			err = t.DeleteBucket(name)
		}
	}
	return err
}
