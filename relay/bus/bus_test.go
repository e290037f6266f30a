package bus

import (
	"slices"
	"testing"
)

func TestEverySubscriberHearsEveryNoteUntilItCancels(t *testing.T) {
	var b Local
	var first, second []Note
	cancelFirst := b.Subscribe(func(n Note) { first = append(first, n) })
	b.Subscribe(func(n Note) { second = append(second, n) })
	b.Publish(LaneGrew{"home", 7})
	cancelFirst()
	cancelFirst() // harmless
	b.Publish(Revoked{"home"})
	if want := []Note{LaneGrew{"home", 7}}; !slices.Equal(first, want) {
		t.Errorf("the first heard %v, want %v", first, want)
	}
	if want := []Note{LaneGrew{"home", 7}, Revoked{"home"}}; !slices.Equal(second, want) {
		t.Errorf("the second heard %v, want %v", second, want)
	}
}

func TestASubscriberMayPublish(t *testing.T) {
	var b Local
	heard := 0
	b.Subscribe(func(n Note) {
		heard++
		if _, ok := n.(LaneGrew); ok {
			b.Publish(Revoked{"home"})
		}
	})
	b.Publish(LaneGrew{"home", 7})
	if heard != 2 {
		t.Errorf("heard %d notes, want 2", heard)
	}
}
