package status

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// clusterWithin is how long a page waits for what the nodes share.
const clusterWithin = 2 * time.Second

// nodes are those of a cluster, and which of them leads.
type nodes struct {
	Fault string // why that is not known; empty: it is
	cluster.ShardState
	All []node
}

// node is one of them, as the page shows it.
type node struct {
	cluster.NodeState
	Leads   bool
	Copies  bool // it keeps a copy, and leads next
	Behind  int  // the copy, in commits
	Trouble string
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
	for _, shard := range seen.Shards { // one
		all.ShardState = shard
	}
	for _, n := range seen.Nodes {
		if strings.Contains(n.Name, "/") { // a command is a node for a while
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

// Look is a node's state.
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

// Slow is how long all but one of a hundred commits take in the engine; empty: there was none.
func (n node) Slow() string {
	if n.AppendP99 == 0 {
		return ""
	}
	return n.AppendP99.Round(100 * time.Microsecond).String()
}
