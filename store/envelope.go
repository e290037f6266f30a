package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// Every value rests in an envelope, so that a flipped bit is noticed when it is read:
//
//	1 byte   version of the envelope
//	4 bytes  CRC-32C over the key and the payload, big endian
//	…        payload
//
// Seen marks have no payload and no envelope, only the checksum: they are all key.
const (
	envelopeVersion = 1
	envelopeSize    = 5
)

func checksum(key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, key), table, payload)
}

// storedSum is the checksum that stands in an envelope, whether or not it fits.
func storedSum(value []byte) uint32 {
	if len(value) < envelopeSize {
		return 0
	}
	return binary.BigEndian.Uint32(value[1:])
}

// seal puts payload into an envelope for key.
func seal(key, payload []byte) []byte {
	out := make([]byte, envelopeSize, envelopeSize+len(payload))
	out[0] = envelopeVersion
	binary.BigEndian.PutUint32(out[1:], checksum(key, payload))
	return append(out, payload...)
}

// unseal is the inverse of seal. The payload it returns is part of value: it dies with the transaction.
func unseal(key, value []byte) ([]byte, error) {
	switch {
	case len(value) < envelopeSize:
		return nil, errors.New("the record is cut off")
	case value[0] != envelopeVersion:
		return nil, fmt.Errorf("record version %d is unknown", value[0])
	case binary.BigEndian.Uint32(value[1:]) != checksum(key, value[envelopeSize:]):
		return nil, errors.New("the checksum does not fit")
	}
	return value[envelopeSize:], nil
}

// encode renders a record as compact JSON.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false) // nobody shows these bytes in a browser
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decode reads the record under key. It copies everything out of value. What it returns says
// what is wrong, and quotes nothing.
func decode[T any](key, value []byte) (v T, err error) {
	payload, err := unseal(key, value)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(payload, &v); err != nil {
		// The error of encoding/json may quote what people wrote.
		return v, errors.New("the record is no valid JSON of its kind")
	}
	return v, nil
}

// damaged names the record that is not what was once written.
func damaged(b bucket, key []byte, why error) error {
	return fmt.Errorf("%w: bucket %s, key %q: %w", ErrDamaged, b, key, why)
}
