package boltfile

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Every commit writes the root page. It lists the buckets, and contains the small ones. When the root has outgrown one
// page, bbolt splits it, and every commit writes three pages. The root stays split even when it has become small again,
// because bbolt merges only pages from which a bucket was deleted. So each start merges a split root.

// isSplit reports whether the root is more than one page.
func (f *File) isSplit() (split bool, err error) {
	err = f.bolt.View(func(t *bolt.Tx) error {
		p, err := t.Page(int(t.Cursor().Bucket().Root()))
		split = err == nil && p.Type == "branch"
		return err
	})
	return split, err
}

// gather merges the pages of the root. Right behind each bucket it makes an empty one and deletes it again, so that
// bbolt looks at every page of the root.
func gather(t *bolt.Tx) error {
	t.Cursor().Bucket().FillPercent = 1 // with this bbolt merges pages that are less than half full
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
