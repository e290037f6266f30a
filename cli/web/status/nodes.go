package status

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// clusterWithin is how long a page waits for the cluster's engine.
const clusterWithin = 2 * time.Second

// nodes are the nodes of a cluster, and the state of this page's shard: its leader and the copies of its data.
type nodes struct {
	Fault string // why the engine did not answer; empty: it did
	cluster.ShardState
	All []node
}

// node is a node as the page shows it.
type node struct {
	cluster.NodeState
	Leads   bool
	Copies  bool   // it keeps a copy, and leads next
	Behind  int    // how far the copy is behind, in commits
	Trouble string // why the node cannot lead; empty: it can
}

// nodes asks the engine; nil: there is no cluster.
func (s *Section) nodes(ctx context.Context) *nodes {
	if s.o.Cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clusterWithin)
	defer cancel()
	seen, err := s.o.Cluster(ctx)
	if err != nil {
		return &nodes{Fault: err.Error()}
	}
	all := &nodes{}
	for _, shard := range seen.Shards { // there is only this page's
		all.ShardState = shard
	}
	for _, n := range seen.Nodes {
		if strings.Contains(n.Name, "/") { // a command that has joined the cluster while it runs
			continue
		}
		one := node{NodeState: n, Leads: n.Name == all.Leader, Copies: n.Name == all.Next, Trouble: n.Troubles[all.Name]}
		if at := n.Places[all.Name]; one.Copies && at < all.Top {
			one.Behind = int(all.Top - at)
		}
		all.All = append(all.All, one)
	}
	return all
}

// Look returns a node's state.
func (n node) Look() look {
	switch {
	case !n.Alive:
		return look{"!", "warn", "gone"}
	case n.Leads:
		return look{"✓", "good", "leads"}
	case n.Trouble != "":
		return look{"!", "warn", "cannot lead"}
	}
	return look{"✓", "good", "stands by"}
}

// Slow returns the time within which 99 of 100 commits end in the engine; empty: there were none.
func (n node) Slow() string {
	if n.AppendP99 == 0 {
		return ""
	}
	return n.AppendP99.Round(100 * time.Microsecond).String()
}
