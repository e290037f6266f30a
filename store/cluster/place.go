package cluster

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
)

// Bound times the average weight of a node is how much weight a node leads at most.
const Bound = 1.25

// piece is a shard, as all nodes see it.
type piece struct {
	shard  string
	weight float64 // above 0
	leader string  // a living node; empty: nobody leads it
	wanted string  // the node that an operator wants to lead it; empty: any
}

// order returns nodes in the shard's own order (rendezvous hashing): the shards of a node that dies fall to several
// others, and no other shard moves.
func order(shard string, nodes []string) []string {
	rank := make(map[string]string, len(nodes))
	for _, node := range nodes {
		sum := sha256.Sum256([]byte(shard + "\x00" + node))
		rank[node] = string(sum[:])
	}
	return slices.SortedFunc(slices.Values(nodes), func(a, b string) int { return strings.Compare(rank[a], rank[b]) })
}

// next returns the node that would take the shard if its leader died, and that keeps a copy of it until then. Empty:
// there is none, or nobody leads the shard.
func next(shard, leader string, nodes []string) string {
	others := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return node == leader })
	if leader == "" || len(others) == 0 {
		return ""
	}
	return order(shard, others)[0]
}

// place returns, for each piece that nobody leads, the order in which the living nodes try to lead it: the first at
// once, each further node one look later. All nodes with the same view compute the same. Nodes that would lead more
// than Bound come last.
func place(nodes []string, pieces []piece) map[string][]string {
	turns := make(map[string][]string)
	if len(nodes) == 0 {
		return turns
	}
	most, load := share(nodes, pieces), loads(pieces)
	free := slices.DeleteFunc(slices.Clone(pieces), func(p piece) bool { return p.leader != "" })
	slices.SortFunc(free, func(a, b piece) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.shard, b.shard))
	})
	for _, p := range free {
		of := order(p.shard, nodes)
		slices.SortStableFunc(of, func(a, b string) int {
			return cmp.Compare(over(load[a], p.weight, most), over(load[b], p.weight, most))
		})
		if at := slices.Index(of, p.wanted); at > 0 {
			of = slices.Insert(slices.Delete(of, at, at+1), 0, p.wanted)
		}
		turns[p.shard] = of
		load[of[0]] += p.weight
	}
	return turns
}

// over returns by how much a node with that load would exceed most if it led a further weight. For a node that leads
// nothing it returns 0.
func over(load, weight, most float64) float64 {
	if load == 0 {
		return 0
	}
	return max(0, load+weight-most)
}

// share returns how much weight a node leads at most.
func share(nodes []string, pieces []piece) (sum float64) {
	for _, p := range pieces {
		sum += p.weight
	}
	return Bound * sum / float64(len(nodes))
}

// loads returns how much weight each node leads.
func loads(pieces []piece) map[string]float64 {
	load := make(map[string]float64)
	for _, p := range pieces {
		if p.leader != "" {
			load[p.leader] += p.weight
		}
	}
	return load
}

// surplus returns the shards that node must give up to be within Bound: first those in whose order other nodes come
// before it. It always leaves the node one shard.
func surplus(node string, nodes []string, pieces []piece) (shards []string) {
	var led []piece
	for _, p := range pieces {
		if p.leader == node {
			led = append(led, p)
		}
	}
	most, load := share(nodes, pieces), loads(pieces)[node]
	turn := func(p piece) int { return slices.Index(order(p.shard, nodes), node) }
	slices.SortStableFunc(led, func(a, b piece) int { return cmp.Compare(turn(b), turn(a)) })
	for _, p := range led {
		if load <= most || load == p.weight {
			break
		}
		shards = append(shards, p.shard)
		load -= p.weight
	}
	return shards
}
