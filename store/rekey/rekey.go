// Package rekey seals the sealed values of records anew. It does not know the vault: its caller passes the function
// that seals.
package rekey

import (
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Value is a value in a record that a vault sealed for the place (Bucket, Key).
type Value struct {
	Bucket, Key string
	Bytes       *[]byte
}

// Kind is a kind of record with sealed values.
type Kind struct {
	bucket string
	// spare means that a record is dropped if one of its values does not open; otherwise that is an error.
	spare bool
	// anew returns the decoded record with its values sealed anew.
	anew func(k, value []byte, again Sealer) (any, error)
}

// Sealer makes the sealed bytes of a place anew.
type Sealer func(bucket, key string, sealed []byte) ([]byte, error)

// Records returns the kind of the records T in bucket b. values lists the sealed values of a record. With spare,
// records that do not open are dropped.
func Records[T any](b string, spare bool, values func(*T) []Value) Kind {
	return Kind{b, spare, func(k, value []byte, again Sealer) (any, error) {
		r, err := table.Decode[T](k, value)
		if err != nil {
			return nil, boltfile.DamagedRecord(b, k, err)
		}
		for _, v := range values(&r) {
			if *v.Bytes, err = again(v.Bucket, v.Key, *v.Bytes); err != nil {
				return nil, fmt.Errorf("bucket %s, record %q, value %q: %w", b, k, v.Key, err)
			}
		}
		return r, nil
	}}
}

// Count counts the records that were sealed anew, and those that were dropped because they did not open.
type Count struct {
	Records int `json:"records"`
	Dropped int `json:"dropped"`
}

// All seals the values of all records of kinds anew with again. An error of again comes back wrapped, with the record's
// name; then the transaction must not be stored.
func All(w *table.Writer, again Sealer, kinds ...Kind) (n Count, err error) {
	for _, kind := range kinds {
		for _, k := range table.KeysUnder(w.Tx, kind.bucket, nil) {
			r, err := kind.anew(k, w.Bucket([]byte(kind.bucket)).Get(k), again)
			switch {
			case err == nil:
				err = w.Put(kind.bucket, k, r)
				n.Records++
			case kind.spare:
				err = w.Delete(kind.bucket, k)
				n.Dropped++
			}
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
