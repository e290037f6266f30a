package table

import (
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Filler is the key of a filler. Key never returns a key that begins like that.
const Filler = "\x01filler"

// Fill puts a filler into each bucket: a record that no reader sees. bbolt keeps a bucket of less than a quarter
// page inside the root page, which every commit writes. Many small buckets would split the root page, and every
// commit would write two or three pages more. A bucket with a filler is too large for the root page.
func Fill(t *bolt.Tx, buckets []string) error {
	k := []byte(Filler)
	for _, b := range buckets {
		if err := boltfile.Edit(t).PutSealed(b, k, boltfile.Seal(k, make([]byte, boltfile.PageSize/4))); err != nil {
			return err
		}
	}
	return nil
}
