package bus

import (
	"slices"
	"testing"
)

func TestEverySubscriberHearsEveryNoteUntilItCancels(t *testing.T) {
	var b Bus
	var first, second []Note
	cancelFirst := b.Subscribe(func(n Note) { first = append(first, n) })
	b.Subscribe(func(n Note) { second = append(second, n) })
	b.Publish(LaneGrew{"home"})
	cancelFirst()
	cancelFirst() // harmless
	b.Publish(Revoked{"home"})
	if want := []Note{LaneGrew{"home"}}; !slices.Equal(first, want) {
		t.Errorf("the first heard %v, want %v", first, want)
	}
	if want := []Note{LaneGrew{"home"}, Revoked{"home"}}; !slices.Equal(second, want) {
		t.Errorf("the second heard %v, want %v", second, want)
	}
}

func TestASubscriberMayPublish(t *testing.T) {
	var b Bus
	heard := 0
	b.Subscribe(func(n Note) {
		heard++
		if _, ok := n.(LaneGrew); ok {
			b.Publish(Revoked{"home"})
		}
	})
	b.Publish(LaneGrew{"home"})
	if heard != 2 {
		t.Errorf("heard %d notes, want 2", heard)
	}
}
