package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// handoverTime is how long a command waits until another node leads.
const handoverTime = time.Minute

func newClusterCmd(a *app) *cobra.Command {
	move := &cobra.Command{
		Use:   "move SHARD NODE",
		Short: "Have another node lead a shard",
		Long: `Has another node lead a shard, and waits until it does. Without [[shard]] tables there is one shard, main. Gateways dial
again, and nothing is lost, as when the server restarts.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asNode(cmd.Context(), func(ctx context.Context, n *cluster.Node) error {
				if err := n.Move(ctx, args[0], args[1]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "✓ %s leads %s now\n", args[1], args[0])
				return err
			})
		},
	}
	drain := &cobra.Command{
		Use:   "drain NODE",
		Short: "Have a node lead nothing until it is started again",
		Long: `Has other nodes lead all that a node leads, and waits until they do. It leads nothing until its server is started again:
do this before you update or restart its machine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asNode(cmd.Context(), func(ctx context.Context, n *cluster.Node) error {
				if err := n.Drain(ctx, args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "✓ %s leads nothing now, until its server is started again\n", args[0])
				return err
			})
		},
	}
	return group("cluster", "Say which machine of a cluster leads", move, drain)
}

// asNode calls do with what reaches the engine of the configured cluster, without being one of its nodes.
func (a *app) asNode(ctx context.Context, do func(context.Context, *cluster.Node) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if !cfg.Cluster.On() {
		return errors.New("this machine belongs to no cluster: see hermes-connector help cluster")
	}
	n, err := cluster.Join(clusterOptions(cfg, a.warnings()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handoverTime)
	defer cancel()
	defer n.Close(ctx)
	return do(ctx, n)
}
