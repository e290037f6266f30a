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

func TestANoteSurvivesItsWayAsBytes(t *testing.T) {
	for want, spelled := range map[Note]string{
		LaneGrew{"home", 1<<63 + 1}:              `{"kind":"grew","note":{"instance":"home","seq":"9223372036854775809"}}`,
		Interrupt{"home", "agent:main:x", "-10"}: `{"kind":"interrupt","note":{"instance":"home","session":"agent:main:x","chat":"-10"}}`,
		Changed{"home"}:                          `{"kind":"changed","note":{"instance":"home"}}`,
		Revoked{"home"}:                          `{"kind":"revoked","note":{"gateway":"home"}}`,
	} {
		b, err := Encode(want)
		if err != nil || string(b) != spelled {
			t.Errorf("Encode(%#v) = %s, %v, want %s", want, b, err, spelled)
		}
		if got, err := Decode(b); err != nil || got != want {
			t.Errorf("Decode(%s) = %#v, %v, want %#v", b, got, err, want)
		}
	}
	for _, bad := range []string{"", "{}", `{"kind":"sung","note":{}}`, `{"kind":"grew","note":[]}`, `{"kind":"grew","note":{"seq":-1}}`} {
		if n, err := Decode([]byte(bad)); err == nil || n != nil {
			t.Errorf("Decode(%s) = %v, %v, want an error", bad, n, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"grew","note":{"instance":"home","seq":"1"}}`))
	f.Add([]byte(`{"kind":"interrupt","note":{"instance":"home","session":"s","chat":"c"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Decode(b)
		if (n == nil) == (err == nil) {
			t.Fatalf("Decode(%q) = %v, %v, want a note or an error", b, n, err)
		}
		if err != nil {
			return
		}
		again, err := Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(again); err != nil || back != n {
			t.Fatalf("%#v came back as %#v, %v", n, back, err)
		}
	})
}
