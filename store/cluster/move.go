package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// moveTries is how often Move asks: another node may be quicker, and a node whose file lacks much catches up further
// with each try.
const moveTries = 3

const (
	moveSQL = `UPDATE hermes_connector.shard SET wanted = $2 WHERE shard = $1 AND wanted <> $2`
	// drainSQL holds for the node's run: when it starts again, it may lead again.
	drainSQL = `UPDATE hermes_connector.node SET drained = run WHERE node = $1`
)

// ErrNobody: there is no such shard, or no living node that may lead.
var ErrNobody = errors.New("nothing was changed")

// Move makes node lead the shard, and returns when node leads it, or has failed to. Nobody serves the shard while node
// takes the lead. ErrNobody: no node was asked.
func (n *Node) Move(ctx context.Context, shard, node string) error {
	nodes, led, err := whoLeads(ctx, n.look)
	if err != nil {
		return err
	}
	switch l, known := led[shard]; {
	case !known:
		return fmt.Errorf("%w: there is no shard %q", ErrNobody, shard)
	case !slices.Contains(nodes, node):
		return noNode(node, nodes)
	case l.name == node:
		return nil
	}
	asked := 0
	var failed error
	err = awaits(ctx, n.look, func(led map[string]leader) bool {
		switch l, known := led[shard]; {
		case !known: // the engine has lost the shard
		case l.name == node:
			return true
		case l.wanted == node: // node is still asked
		case asked == moveTries:
			failed = fmt.Errorf("node %s did not take %s in %d tries: its log says why", node, shard, asked)
			return true
		default: // at first, and again if another node was quicker, which clears the request
			if _, err := n.look.exec(ctx, moveSQL, shard, node); err == nil {
				asked++
			}
		}
		return false
	})
	return errors.Join(err, failed)
}

// Drain makes node lead nothing until it is started again, and returns when others lead its shards. ErrNobody: nothing
// was changed, because the node is not alive, or no other node may lead.
func (n *Node) Drain(ctx context.Context, node string) error {
	nodes, err := mayLead(ctx, n.look)
	switch {
	case err != nil:
		return err
	case !slices.Contains(nodes, node):
		return noNode(node, nodes)
	case len(nodes) == 1:
		return fmt.Errorf("%w: no other node is alive and may lead", ErrNobody)
	}
	if _, err := n.look.exec(ctx, drainSQL, node); err != nil {
		return err
	}
	return awaits(ctx, n.look, func(led map[string]leader) bool {
		for _, l := range led {
			if l.name == node || l.name == "" {
				return false
			}
		}
		return true
	})
}

func noNode(node string, nodes []string) error {
	return fmt.Errorf("%w: no node %q is alive and may lead; those that are: %s", ErrNobody, node, strings.Join(nodes, ", "))
}

// awaits reads who leads what until holds returns true, or ctx ends.
func awaits(ctx context.Context, e *engine, holds func(led map[string]leader) bool) error {
	for {
		_, led, err := whoLeads(ctx, e)
		if err == nil && holds(led) {
			return nil
		}
		if sleep(ctx, 500*time.Millisecond) != nil {
			return fmt.Errorf("it was asked for, and is not done yet: %w", errors.Join(err, ctx.Err()))
		}
	}
}
