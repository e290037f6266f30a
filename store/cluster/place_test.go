package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// settled has each free piece led by the node whose turn is first.
func settled(nodes []string, pieces []piece) (free int) {
	turns := place(nodes, pieces)
	for n := range pieces {
		if of := turns[pieces[n].shard]; len(of) > 0 {
			pieces[n].leader = of[0]
			free++
		}
	}
	return free
}

func named(what string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%03d", what, i))
	}
	return names
}

// TestNext: who keeps a copy is who takes the shard if its leader dies.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, nodes := range [][]string{{"a", "b"}, named("node", 5)} {
		for _, shard := range named("shard", 20) {
			for at, leader := range nodes {
				others := slices.Delete(slices.Clone(nodes), at, at+1)
				want := place(others, []piece{{shard: shard, weight: 1}})[shard][0]
				if got := next(shard, leader, nodes); got != want {
					t.Errorf("%s, led by %s of %v: %s, want %s", shard, leader, nodes, got, want)
				}
			}
		}
	}
	if got := next("s", "a", []string{"a"}) + next("s", "", []string{"a", "b"}) + next("s", "a", nil); got != "" {
		t.Errorf("nobody keeps a copy, but %s does", got)
	}
}

// TestPlacement is the simulation on paper, with the real functions: 1,000 shards on 100 nodes, of which some die.
func TestPlacement(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(5, 6))
	for _, die := range []int{1, 10, 50} {
		nodes := named("node", 100)
		var pieces []piece
		for _, s := range named("shard", 1000) {
			pieces = append(pieces, piece{shard: s, weight: 1})
		}
		settled(nodes, pieces)
		if busiest := busiest(pieces); busiest > 12 {
			t.Errorf("%v shards at one of 100 nodes", busiest)
		}
		before := slices.Clone(pieces)
		dice.Shuffle(len(nodes), func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
		dead := nodes[:die]
		nodes = nodes[die:]
		for n, p := range pieces {
			if slices.Contains(dead, p.leader) {
				pieces[n].leader = ""
			}
		}
		free := settled(nodes, pieces)
		moved := 0
		for n, p := range pieces {
			if p.leader != before[n].leader {
				moved++
			}
			if slices.Contains(dead, p.leader) || p.leader == "" {
				t.Fatalf("shard %s is led by %q", p.shard, p.leader)
			}
		}
		if most := Bound * 1000 / float64(len(nodes)); busiest(pieces) > most {
			t.Errorf("%d died: %v shards at one node, want at most %v", die, busiest(pieces), most)
		}
		if moved != free || free < die || free > 12*die {
			t.Errorf("%d died: %d were free, %d moved", die, free, moved)
		}
		t.Logf("%d died: %d shards were free, the busiest of %d nodes leads %v", die, free, len(nodes), busiest(pieces))
	}
}

func busiest(pieces []piece) (most float64) {
	for _, l := range loads(pieces) {
		most = max(most, l)
	}
	return most
}

// TestPlacementByWeight: a shard heavier than a node's share gets a node of its own, and the rest is fair.
func TestPlacementByWeight(t *testing.T) {
	t.Parallel()
	nodes := named("node", 20)
	var pieces []piece
	for n, s := range named("shard", 300) {
		pieces = append(pieces, piece{shard: s, weight: math.Pow(float64(n+1), -0.8)})
	}
	settled(nodes, pieces)
	most, load := share(nodes, pieces), loads(pieces)
	for _, p := range pieces {
		if p.weight > most && load[p.leader] != p.weight {
			t.Errorf("%s weighs %.2f, more than a share of %.2f, and its node leads %.2f", p.shard, p.weight, most, load[p.leader])
		}
	}
}

// TestAllNodesComeToTheSame, in whatever order they see nodes and shards, and a node that comes back moves nothing.
func TestAllNodesComeToTheSame(t *testing.T) {
	t.Parallel()
	nodes := named("n", 7)
	var pieces []piece
	for n, s := range named("s", 40) {
		pieces = append(pieces, piece{shard: s, weight: 1 + float64(n%3)})
	}
	want := place(nodes, pieces)
	dice := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		dice.Shuffle(len(nodes), func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
		dice.Shuffle(len(pieces), func(a, b int) { pieces[a], pieces[b] = pieces[b], pieces[a] })
		if got := place(nodes, pieces); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	settled(nodes, pieces)
	if turns := place(append(nodes, "another"), pieces); len(turns) != 0 {
		t.Errorf("with a further node %v change", turns)
	}
}

// TestWanted: an operator's wish goes before the bound, and only a living node's.
func TestWanted(t *testing.T) {
	t.Parallel()
	pieces := []piece{{"a", 1, "x", ""}, {"b", 1, "x", ""}, {"c", 1, "", "x"}, {"d", 1, "", "dead"}}
	turns := place([]string{"x", "y", "z"}, pieces)
	if turns["c"][0] != "x" || len(turns["c"]) != 3 || turns["d"][0] == "x" || len(turns["d"]) != 3 {
		t.Errorf("%v", turns)
	}
}

// TestSurplus: a node over the bound gives up what others come first for, and no more than that.
func TestSurplus(t *testing.T) {
	t.Parallel()
	nodes := []string{"x", "y", "z"}
	var pieces []piece
	for _, s := range named("s", 9) {
		pieces = append(pieces, piece{shard: s, weight: 1, leader: "x"})
	}
	given := surplus("x", nodes, pieces)
	if len(given) != 6 { // of 9, at most 3.75
		t.Errorf("gives up %v", given)
	}
	first := func(s string) bool { return order(s, nodes)[0] == "x" }
	for _, p := range pieces {
		if !slices.Contains(given, p.shard) && !first(p.shard) && slices.ContainsFunc(given, first) {
			t.Errorf("keeps %s, gives up %v", p.shard, given)
		}
	}
	if given := surplus("x", nodes, []piece{{"only", 10, "x", ""}, {"small", 1, "y", ""}}); len(given) != 0 {
		t.Errorf("the only one it leads goes: %v", given)
	}
}
