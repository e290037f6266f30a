package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// envelopeSize is what a record takes beside its payload.
const envelopeSize = boltfile.EnvelopeSize

func seal(key, payload []byte) []byte { return boltfile.Seal(key, payload) }

func unseal(key, value []byte) ([]byte, error) { return boltfile.Unseal(key, value) }

// storedSum is the checksum that stands in an envelope, whether or not it fits.
func storedSum(value []byte) uint32 {
	if len(value) < envelopeSize {
		return 0
	}
	return binary.BigEndian.Uint32(value[1:])
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
	return boltfile.DamagedRecord(string(b), key, why)
}

// checkRecord looks at the checksum of a record of bucket b.
func checkRecord(b bucket, k, value []byte) error {
	if !isMarkDay(b) {
		_, err := unseal(k, value)
		return err
	}
	return checkMark(k, value)
}

// checkFile is checkRecord as boltfile asks for it.
func checkFile(b string, k, value []byte) error { return checkRecord(bucket(b), k, value) }
