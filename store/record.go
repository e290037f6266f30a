package store

import (
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/seen"
)

// checkFile looks at the checksum of a record, as boltfile asks for it.
func checkFile(b string, k, value []byte) error {
	if seen.IsOld(b) {
		return seen.CheckOld(k, value)
	}
	_, err := boltfile.Unseal(k, value)
	return err
}
