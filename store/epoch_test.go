package store

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestBufferIDsBeginWithALetter(t *testing.T) {
	for range 10_000 {
		id := relay.BufferID{Epoch: newEpoch(), Seq: 1}.String()
		if !strings.ContainsAny(id[:1], "abcdef") {
			t.Fatalf("buffer id %q", id)
		}
	}
}
