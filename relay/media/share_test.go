package media

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
)

// Owners by a letter of their tenant and a number of their instance.
var (
	a1, a2   = fair.Owner{Tenant: "a", Instance: "a1"}, fair.Owner{Tenant: "a", Instance: "a2"}
	b1, b2   = fair.Owner{Tenant: "b", Instance: "b1"}, fair.Owner{Tenant: "b", Instance: "b2"}
	c1       = fair.Owner{Tenant: "c", Instance: "c1"}
	byLetter = map[string]fair.Owner{"a1": a1, "a2": a2, "b1": b1, "b2": b2, "c1": c1}
)

// lying reads "x 40 a1 needed, y 10 a1+b1 sent": each with its name, bytes, owners and state. Those further left are older.
func lying(s string) (out []share) {
	for n, f := range strings.Split(s, ", ") {
		var sh share
		var of, state string
		if _, err := fmt.Sscan(f, &sh.id, &sh.size, &of, &state); err != nil {
			panic(f)
		}
		for _, o := range strings.Split(of, "+") {
			if o != "nobody" {
				sh.of = append(sh.of, byLetter[o])
			}
		}
		if state == "needed" {
			sh.needs = sh.of
		}
		sh.unsent, sh.freed = state == "unsent", int64(n)
		out = append(out, sh)
	}
	return out
}

// TestWhoGivesWay is the decision in a room of 100 bytes.
func TestWhoGivesWay(t *testing.T) { // invariant 2
	needs := func(size int64, of ...fair.Owner) claim { return claim{size: size, of: of} }
	uploads := func(size int64, of fair.Owner) claim { return claim{size: size, of: []fair.Owner{of}, upload: true} }
	homelab, one, all := []fair.Owner{a1, a2}, []fair.Owner{a1}, []fair.Owner{a1, a2, b1, b2, c1}
	for name, tc := range map[string]struct {
		held string
		c    claim
		live []fair.Owner
		gone string // "no": it waits
	}{
		"there is room": {"x 60 a1 unsent", needs(40, b1), all, ""},
		"the oldest that nobody needs goes first":                    {"x 30 a1 sent, y 30 a1 sent, z 40 a1 needed", needs(10, a1), one, "x"},
		"as many as must":                                            {"x 30 a1 sent, y 30 a1 sent, z 40 a1 needed", needs(40, a1), one, "x y"},
		"what is needed stays":                                       {"x 40 a1 sent, y 60 a1 needed", needs(50, a1), one, "no"},
		"one alone may need all of it":                               {"x 90 a1 needed", needs(10, a1), one, ""},
		"another's sibling leaves it half":                           {"x 50 a1 needed", needs(1, a1), homelab, "no"},
		"and the sibling has the other half":                         {"x 50 a1 needed, y 20 a2 needed", needs(5, a2), homelab, ""},
		"of which it leaves half again":                              {"x 50 a1 needed, y 20 a2 needed", needs(6, a2), homelab, "no"},
		"one file is anybody's":                                      {"x 50 a1 needed", needs(50, a2), homelab, ""},
		"a tenant leaves half to the others":                         {"x 30 a1 needed, y 20 a2 needed", needs(1, a1), all, "no"},
		"and its instance half of that to its sibling":               {"x 25 a1 needed", needs(1, a1), all, "no"},
		"a first file of its instance, too":                          {"x 50 a1 needed", needs(1, a2), all, "no"},
		"another tenant finds room":                                  {"x 50 a1 needed", needs(30, b1), all, ""},
		"of those that get it, one's share is enough":                {"x 50 a1 needed", needs(1, a1, b1), all, ""},
		"a tenant's unsent uploads go for another's file":            {"x 50 a1 unsent, y 50 a2 unsent", needs(3, b1), all, "x"},
		"and for another's upload":                                   {"x 50 a1 unsent, y 50 a2 unsent", uploads(1, b1), all, "x"},
		"also where it holds most, if an entry needs the file":       {"x 20 a1 unsent, y 40 b1 needed, z 40 b1 sent", needs(41, b2), all, "no"},
		"of a file that an entry needs, one's own go too":            {"x 60 a1 unsent, y 40 a1 needed", needs(10, a1), one, "x"},
		"not for an upload of the same instance":                     {"x 60 a1 unsent, y 40 a1 unsent", uploads(1, a1), one, "no"},
		"but those that were sent":                                   {"x 60 a1 unsent, y 40 a1 sent", uploads(1, a1), one, "y"},
		"what nobody waits for goes before what is not sent":         {"x 40 a1 unsent, y 20 a1 sent, z 40 a1 needed", needs(10, b1), all, "y"},
		"who is over the share, before who is not":                   {"x 40 b1 sent, y 30 a1 unsent, z 30 a2 unsent", needs(10, c1), all, "y"},
		"also against an older one of the one that asks":             {"x 40 b1 sent, y 30 a1 unsent, z 30 a2 unsent", uploads(10, b1), all, "y"},
		"who asks is over the share":                                 {"x 40 b1 sent, y 30 a1 unsent, z 30 a2 unsent", uploads(25, b1), all, "x"},
		"an upload takes nothing from those who have less":           {"x 70 a1 unsent, y 30 b1 sent", uploads(1, a1), all, "no"},
		"nor from those who would have as much":                      {"x 50 a1 unsent, y 50 b1 sent", uploads(1, a1), all, "no"},
		"what an entry needs takes from those at last":               {"x 20 b1 sent, y 40 a1 needed, z 40 a2 sent", needs(10, a2), []fair.Owner{a1, a2}, "z"},
		"of a tenant, the instance that has most":                    {"x 30 a1 sent, y 20 a2 sent, z 50 a2 unsent", needs(10, b1), all, "y"},
		"the largest changes as they go":                             {"x 10 a1 sent, y 35 a1 sent, v 10 b1 sent, w 45 b1 sent", needs(60, c1), all, "v x w"},
		"what is shared is theirs who have less":                     {"x 10 a1+b1 sent, y 50 a1 unsent, z 40 a2 needed", needs(1, c1), all, "y"},
		"what is nobody's goes first":                                {"x 80 a1 sent, y 20 nobody sent", needs(5, b1), all, "y"},
		"all that may go is not enough, so nothing does":             {"x 50 a1 needed, y 30 b1 needed, z 20 a1 sent", needs(30, c1), all, "no"},
		"unequal tenants, one of which may not need more":            {"x 50 a1 needed, y 30 b1 needed, z 20 a1 sent", needs(10, a2), all, "no"},
		"a file larger than the room":                                {"x 1 a1 sent", needs(101, a1), one, "no"},
		"one that is only being written is as good as one of theirs": {"x 50 a1 needed", uploads(1, a1), all, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			held := lying(tc.held)
			ids, ok := giveWay(100, held, tc.c, tc.live)
			var gone []string
			for _, id := range ids {
				gone = append(gone, string(id))
			}
			got := strings.Join(gone, " ")
			if !ok {
				got = "no"
			}
			if got != tc.gone || !ok && len(ids) > 0 {
				t.Errorf("%q goes, want %q", got, tc.gone)
			}
		})
	}
}

// TestWhoGivesWayAgainstAModel: files come, are taken and sent, in a room that is always full; every decision is the model's,
// which judges one file after the other by the sentences of giveWay; and the promises hold.
func TestWhoGivesWayAgainstAModel(t *testing.T) { // invariant 2
	random := rand.New(rand.NewPCG(9, 10))
	const room = 1000
	all := []fair.Owner{a1, a2, b1, b2, c1}
	counts := make(map[string]int)
	for range 20 {
		live := all[:2+random.IntN(4)]
		some := func() fair.Owner { return live[random.IntN(len(live))] }
		var held []share
		for step := range 400 {
			if n := len(held); n > 0 && random.IntN(2) == 0 { // one is taken, or sent
				f := &held[random.IntN(n)]
				f.needs, f.freed, f.unsent = nil, int64(step), f.unsent && random.IntN(2) == 0
			}
			c := claim{size: int64(1 + random.IntN(100)), of: []fair.Owner{some()}, upload: random.IntN(2) == 0}
			if other := some(); !c.upload && other != c.of[0] && random.IntN(4) == 0 {
				c.of = append(c.of, other)
			}
			gone, ok := giveWay(room, held, c, live)
			wantGone, want := model(room, held, c, live)
			if ok != want || !slices.Equal(gone, wantGone) {
				t.Fatalf("step %d: %v %v, the model says %v %v\n%+v in %+v", step, gone, ok, wantGone, want, c, held)
			}
			promises(t, room, held, c, live, gone, ok)
			counts[fmt.Sprintf("upload %v, ok %v, gone %v", c.upload, ok, len(gone) > 0)]++
			if !ok {
				continue
			}
			held = slices.DeleteFunc(held, func(s share) bool { return slices.Contains(gone, s.id) })
			s := share{id: relay.MediaID(fmt.Sprint("f", step)), size: c.size, of: c.of, needs: c.of, freed: int64(step)}
			if c.upload {
				s.needs, s.unsent = nil, true
			}
			held = append(held, s)
		}
	}
	if len(counts) != 6 { // what is refused takes nothing away
		t.Errorf("not all was seen: %v", counts)
	}
}

// bytes are how much of the files those owners have that is finds.
func bytesOf(held []share, is func(fair.Owner) bool, of func(share) []fair.Owner) (n int64) {
	for _, s := range held {
		if slices.ContainsFunc(of(s), is) {
			n += s.size
		}
	}
	return n
}

func readers(s share) []fair.Owner { return s.of }
func needers(s share) []fair.Owner { return s.needs }

func anybody(fair.Owner) bool               { return true }
func is(o fair.Owner) func(fair.Owner) bool { return func(x fair.Owner) bool { return x == o } }
func its(o fair.Owner) func(fair.Owner) bool {
	return func(x fair.Owner) bool { return x.Tenant == o.Tenant }
}

// promises fails the test if a decision breaks one.
func promises(t *testing.T, room int64, held []share, c claim, live []fair.Owner, gone []relay.MediaID, ok bool) {
	t.Helper()
	left := c.size
	for _, s := range held {
		switch isGone := slices.Contains(gone, s.id); {
		case !isGone:
			left += s.size
		case len(s.needs) > 0:
			t.Fatalf("%v went, which is needed", s.id)
		}
	}
	if ok && left > room {
		t.Fatalf("%d bytes in a room of %d", left, room)
	}
	// Of two tenants with one instance each, and files that are small beside the room, a quarter of it is there for what an
	// entry needs, and half for everything, whatever the other does.
	o := c.of[0]
	if len(live) != 3 || len(c.of) > 1 || o != b1 || ok {
		return
	}
	if bytesOf(held, its(o), needers)+c.size <= room/4-100 && (!c.upload || bytesOf(held, its(o), readers)+c.size <= room/2) {
		t.Fatalf("%+v of who has little is refused: %+v", c, held)
	}
}

// model is giveWay, one file at a time.
func model(room int64, held []share, c claim, live []fair.Owner) (gone []relay.MediaID, ok bool) {
	may := func(o fair.Owner) bool {
		left := room - bytesOf(held, anybody, needers) + bytesOf(held, its(o), needers) // of the other tenants
		if bytesOf(held, its(o), needers) > 0 && slices.ContainsFunc(live, func(x fair.Owner) bool { return x.Tenant != o.Tenant }) {
			left /= 2
		}
		left -= bytesOf(held, its(o), needers) - bytesOf(held, is(o), needers) // of its siblings
		if bytesOf(held, is(o), needers) > 0 && slices.ContainsFunc(live, func(x fair.Owner) bool { return x.Tenant == o.Tenant && x != o }) {
			left /= 2
		}
		return bytesOf(held, is(o), needers)+c.size <= left
	}
	if !slices.ContainsFunc(c.of, may) {
		return nil, false
	}
	rest := append(slices.Clone(held), share{id: "claim", size: c.size, of: c.of, needs: c.of})
	for bytesOf(rest, anybody, readers) > room {
		has := func(o fair.Owner) [2]int64 {
			return [2]int64{bytesOf(rest, its(o), readers), bytesOf(rest, is(o), readers)}
		}
		least := func(s share) (o fair.Owner) { // of its owners
			o = s.of[0]
			for _, x := range s.of {
				if h, l := has(x), has(o); h[0] < l[0] || h[0] == l[0] && h[1] < l[1] {
					o = x
				}
			}
			return o
		}
		victim := -1
		for n, s := range rest {
			if len(s.needs) > 0 {
				continue
			}
			if c.upload {
				mine, theirs, o := has(c.of[0]), has(least(s)), least(s)
				more := theirs[0] > mine[0]
				if o.Tenant == c.of[0].Tenant {
					more = theirs[1] > mine[1]
				}
				if own := slices.Contains(s.of, c.of[0]); own && s.unsent || !own && !more {
					continue
				}
			}
			if victim < 0 {
				victim = n
				continue
			}
			v := rest[victim]
			h, l := has(least(s)), has(least(v))
			switch { // whether it goes before the other
			case h[0] != l[0]:
				if h[0] > l[0] {
					victim = n
				}
			case h[1] != l[1]:
				if h[1] > l[1] {
					victim = n
				}
			case s.unsent != v.unsent:
				if v.unsent {
					victim = n
				}
			case s.freed < v.freed || s.freed == v.freed && s.id < v.id:
				victim = n
			}
		}
		if victim < 0 {
			return nil, false
		}
		gone = append(gone, rest[victim].id)
		rest = slices.Delete(rest, victim, victim+1)
	}
	return gone, true
}
