package table

import (
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Filler is the key of a filler. Key makes none that begins like that.
const Filler = "\x01filler"

// Fill gives every bucket a filler: a record that nobody is to see. bbolt keeps a bucket of less than a quarter page
// inside the root page, which every commit writes. With many of them the root needs pages of its own for
// them, and every commit writes two or three more. A bucket with a filler is too large to be kept there.
func Fill(t *bolt.Tx, buckets []string) error {
	k := []byte(Filler)
	for _, b := range buckets {
		if err := boltfile.Edit(t).PutSealed(b, k, boltfile.Seal(k, make([]byte, boltfile.PageSize/4))); err != nil {
			return err
		}
	}
	return nil
}
