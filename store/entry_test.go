package store

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// TestADamagedForward: a head that says more than is there makes the entry a damaged one.
func TestADamagedForward(t *testing.T) {
	for _, size := range []int{-1, 6} {
		payload, err := encodeEntry(entryHead{Forward: &forwardHead{Size: size}}, []byte("frame"))
		if err != nil {
			t.Fatal(err)
		}
		if h, frame, err := decodeEntry([]byte("k"), boltfile.Seal([]byte("k"), payload)); err == nil || h.Forward != nil || frame != nil {
			t.Errorf("size %d: %+v, %q, %v", size, h, frame, err)
		}
	}
}
