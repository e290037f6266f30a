package store

import (
	"encoding/binary"

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

// storedSum is the checksum that stands in an envelope, whether or not it fits.
func storedSum(value []byte) uint32 {
	if len(value) < boltfile.EnvelopeSize {
		return 0
	}
	return binary.BigEndian.Uint32(value[1:])
}
