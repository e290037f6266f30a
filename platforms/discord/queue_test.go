package discord

import (
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsASlice: whatever comes and goes, the queue hands out what was put in, in order; idle
// items may be merged, and the beginning of a session comes alone.
func TestQueueIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		var put, got []int64
		seq, newest := int64(0), int64(0)
		drain := func(n int) {
			items := q.take(n)
			if len(items) > n {
				t.Fatalf("took %d items, asked for %d", len(items), n)
			}
			for _, i := range items {
				if i.begun != nil && len(items) > 1 {
					t.Fatal("a session's beginning did not come alone")
				}
				if i.seq <= newest {
					t.Fatalf("sequence %d after %d", i.seq, newest)
				}
				newest = i.seq
				if !i.idle() {
					got = append(got, i.seq)
				}
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			seq++
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				q.put(item{seq: seq})
			case 1, 2:
				q.put(item{seq: seq, kind: kindMessage, data: make([]byte, 10)})
				put = append(put, seq)
			case 3:
				q.put(item{seq: seq, begun: &gateway.Session{}})
				put = append(put, seq)
			case 4:
				drain(rapid.IntRange(1, 10).Draw(t, "n"))
			}
		}
		for n, _, _ := q.look(); n > 0; n, _, _ = q.look() {
			drain(maxBatch)
		}
		if len(got) != len(put) {
			t.Fatalf("%d items came out, %d went in", len(got), len(put))
		}
		for k := range put {
			if got[k] != put[k] {
				t.Fatalf("came out %v, went in %v", got, put)
			}
		}
		if q.bytes != 0 {
			t.Fatalf("%d bytes in an empty queue", q.bytes)
		}
	})
}

func TestQueueSaysWhenItIsFull(t *testing.T) {
	q := newQueue()
	for i := range maxQueued - 1 {
		if !q.put(item{seq: int64(i + 1), kind: kindMessage}) {
			t.Fatalf("full after %d items", i+1)
		}
	}
	if q.put(item{seq: maxQueued, kind: kindMessage}) {
		t.Error("not full")
	}
	q.take(maxQueued / 2)
	if _, relaxed, _ := q.look(); relaxed {
		t.Error("half full counts as relaxed")
	}
	q.take(1)
	if _, relaxed, _ := q.look(); !relaxed {
		t.Error("less than half full does not count as relaxed")
	}
	q = newQueue()
	if q.put(item{seq: 1, kind: kindMessage, data: make([]byte, maxQueuedBytes)}) {
		t.Error("bytes do not count")
	}
	for range 100_000 { // idle items cost nothing
		q.put(item{seq: 2})
	}
	if n, _, _ := q.look(); n != 2 {
		t.Errorf("%d items, want 2", n)
	}
}
