package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Every value is stored in an envelope, so that a flipped bit is noticed when it is read:
//
//	1 byte   version of the envelope
//	4 bytes  CRC-32C over the key and the payload, big endian
//	…        payload
const (
	envelopeVersion = 1
	EnvelopeSize    = 5
)

// Checksum returns the CRC-32C of the key and the payload of a record.
func Checksum(key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, key), table, payload)
}

// Seal puts payload into an envelope for key.
func Seal(key, payload []byte) []byte {
	out := make([]byte, EnvelopeSize, EnvelopeSize+len(payload))
	out[0] = envelopeVersion
	binary.BigEndian.PutUint32(out[1:], Checksum(key, payload))
	return append(out, payload...)
}

// Unseal is the inverse of Seal: it checks value and returns its payload. That is a part of value, so it dies with the
// transaction.
func Unseal(key, value []byte) ([]byte, error) {
	switch {
	case len(value) < EnvelopeSize:
		return nil, errors.New("the record is cut off")
	case value[0] != envelopeVersion:
		return nil, fmt.Errorf("record version %d is unknown", value[0])
	case binary.BigEndian.Uint32(value[1:]) != Checksum(key, value[EnvelopeSize:]):
		return nil, errors.New("the checksum does not fit")
	}
	return value[EnvelopeSize:], nil
}

// DamagedRecord returns an error that names a damaged record.
func DamagedRecord(bucket string, key []byte, why error) error {
	return fmt.Errorf("%w: bucket %s, key %q: %w", ErrDamaged, bucket, key, why)
}
