package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

// handoverTime is how long a command waits for another node to lead.
const handoverTime = time.Minute

// checkTime bounds cluster check, which reads all that PostgreSQL has of the database.
const checkTime = 2 * time.Hour

func newClusterCmd(a *app) *cobra.Command {
	move := &cobra.Command{
		Use:   "move SHARD NODE",
		Short: "Have another node lead a shard",
		Long: `Has another node lead a shard, and waits until it does. Without [[shard]] tables there is one shard, main. Gateways dial
again, and nothing is lost, as when the server restarts.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			one := slices.IndexFunc(cfg.Led(), func(s config.Shard) bool { return s.Config.Shard == args[0] })
			if one < 0 {
				return fmt.Errorf("there is no shard %q here", args[0])
			}
			return a.asNode(cmd.Context(), cfg.Led()[one].Config, handoverTime, func(ctx context.Context, n *cluster.Node) error {
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
			if err := a.asNodes(cmd.Context(), handoverTime, func(ctx context.Context, n *cluster.Node, _ []config.Shard) error { return n.Drain(ctx, args[0]) }); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.stdout, "✓ %s leads nothing now, until its server is started again\n", args[0])
			return err
		},
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Read all that PostgreSQL has, and compare this machine's file",
		Long: `Reads all that PostgreSQL has of the cluster's database: whether its log is unbroken, whether its snapshots can be used, and
whether a new machine could be filled with them. It compares this machine's file with that, unless its server has it
open. It changes nothing, and takes as long as reading all of it. Exits with 1 if something is wrong.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(check)
	check.RunE = func(cmd *cobra.Command, _ []string) error {
		wrong := false
		err := a.asNodes(cmd.Context(), checkTime, func(ctx context.Context, n *cluster.Node, shards []config.Shard) error {
			for _, s := range shards {
				got, err := n.Check(ctx, clusterShard(s.Config, s.Weight, a.warnings()))
				if err == nil {
					err = a.print(*asJSON, got, func(w io.Writer) { tellChecked(w, s.Config, got) })
				}
				if err != nil {
					return err
				}
				wrong = wrong || len(got.Wrong) > 0
			}
			return nil
		})
		if err == nil && wrong {
			err = errFinding
		}
		return err
	}
	return group("cluster", "Say which machine of a cluster leads, and check what they share", move, drain, check)
}

// asNode calls do with a Node, through which do can read and change what the PostgreSQL of cfg's shard has about the
// cluster. Nobody runs the Node, so this process gives no sign of life and does not appear among the nodes.
func (a *app) asNode(ctx context.Context, cfg *config.Config, within time.Duration, do func(context.Context, *cluster.Node) error) error {
	if !cfg.Cluster.On() {
		return errors.New("this machine belongs to no cluster: see hermes-connector help cluster")
	}
	n, err := cluster.Join(clusterOptions(cfg, a.warnings()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	defer n.Close(ctx)
	return do(ctx, n)
}

// asNodes is asNode for each PostgreSQL of the configuration. do also gets the shards whose log that PostgreSQL has.
func (a *app) asNodes(ctx context.Context, within time.Duration, do func(context.Context, *cluster.Node, []config.Shard) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, shards := range engines(cfg) {
		err := a.asNode(ctx, shards[0].Config, within, func(ctx context.Context, n *cluster.Node) error { return do(ctx, n, shards) })
		if err != nil {
			return err
		}
	}
	return nil
}

func tellChecked(w io.Writer, cfg *config.Config, c cluster.Checked) {
	if cfg.Prefix != "" {
		_, _ = fmt.Fprintf(w, "%s:\n", cfg.Shard)
	}
	for _, wrong := range c.Wrong {
		_, _ = fmt.Fprintf(w, "✗ %s\n", terminal.Plain(wrong))
	}
	if len(c.Wrong) == 0 {
		_, _ = fmt.Fprintln(w, "✓ Everything fits.")
	}
	_, _ = fmt.Fprintf(w, "Read: %s of the log, %s\n", manage.Counted(c.Entries, "entry", "entries"), manage.Counted(c.Snapshots, "snapshot", "snapshots"))
	if c.File != "" {
		_, _ = fmt.Fprintln(w, c.File)
	}
}

// overview asks the PostgreSQL of cfg's shard for an overview of its nodes and shards.
func (a *app) overview(ctx context.Context, cfg *config.Config) (o cluster.Overview, err error) {
	err = a.asNode(ctx, cfg, 3*time.Second, func(ctx context.Context, n *cluster.Node) (err error) {
		o, err = n.Overview(ctx)
		return err
	})
	return o, err
}

// shardsStatus prints which node leads which of several shards. Its error is errFinding if a shard has no leader.
func (a *app) shardsStatus(ctx context.Context, cfg *config.Config, asJSON bool) error {
	var all []cluster.Overview
	var heavy []string
	led := true
	for _, shards := range engines(cfg) {
		o, err := a.overview(ctx, shards[0].Config)
		if err != nil {
			return fmt.Errorf("PostgreSQL cannot be asked: %w", err)
		}
		for _, s := range shards {
			led = led && slices.ContainsFunc(o.Shards, func(is cluster.ShardState) bool { return is.Name == s.Config.Shard && is.Leader != "" })
		}
		all = append(all, o)
		heavy = append(heavy, tooHeavy(shards, o)...)
	}
	err := a.print(asJSON, all, func(w io.Writer) {
		for _, o := range all {
			nodesTable(w, o)
		}
		for _, shard := range heavy {
			_, _ = fmt.Fprintf(w, "! %s alone weighs more than a node's share: other nodes have less to do, wherever it is led\n", shard)
		}
		_, _ = fmt.Fprintln(w, "Bots, gateways and messages of one shard: hermes-connector status --shard NAME")
	})
	if err == nil && !led {
		err = errFinding
	}
	return err
}

// tooHeavy returns the shards of one PostgreSQL that alone weigh more than the most that a node is meant to lead
// (cluster.Bound). It returns none if there are no more shards than nodes: then no node needs to lead two.
func tooHeavy(shards []config.Shard, o cluster.Overview) (names []string) {
	nodes, sum := 0, 0.0
	for _, n := range o.Nodes {
		if n.Alive && !strings.Contains(n.Name, "/") {
			nodes++
		}
	}
	for _, s := range shards {
		sum += s.Weight
	}
	for _, s := range shards {
		if len(shards) > nodes && s.Weight*float64(nodes) > cluster.Bound*sum {
			names = append(names, s.Config.Shard)
		}
	}
	return names
}

// nodesTable writes the nodes, which of them leads which shard since when and why, and how many commits the copy of the
// next leader lacks.
func nodesTable(w io.Writer, o cluster.Overview) {
	rows := [][]any{{" ", "NODE", "VERSION", "STATE", "LEADS", "BEHIND", "APPENDS TAKE"}}
	for _, n := range o.Nodes {
		glyph, state := "✓", "alive"
		switch {
		case n.Alive:
		case strings.Contains(n.Name, "/"): // a command like restore, which is a node of its own for a while
			continue
		default:
			glyph, state = "!", "gone since "+finding.Clock(n.Until)
		}
		var leads []string
		var copies, behind uint64
		for _, s := range o.Shards {
			switch n.Name {
			case s.Leader:
				leads = append(leads, s.Name)
			case s.Next:
				copies++
				behind += s.Top - min(s.Top, n.Places[s.Name])
			}
		}
		copied := "" // the node keeps no copy as the next leader: its file is filled when it begins to lead
		if copies > 0 {
			copied = strconv.FormatUint(behind, 10)
		}
		took := ""
		if n.AppendP99 > 0 {
			took = n.AppendP99.Round(100*time.Microsecond).String() + " (p99)"
		}
		rows = append(rows, []any{glyph, n.Name, n.Version, state, strings.Join(leads, " "), copied, took})
	}
	table(w, rows)
	for _, n := range o.Nodes {
		for _, shard := range slices.Sorted(maps.Keys(n.Troubles)) {
			_, _ = fmt.Fprintf(w, "! %s cannot lead %s: %s\n", terminal.Plain(n.Name), terminal.Plain(shard), terminal.Plain(n.Troubles[shard]))
		}
	}
	for _, s := range o.Shards {
		if s.Leader == "" {
			_, _ = fmt.Fprintf(w, "✗ nobody leads %s\n", s.Name)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s leads %s since %s: %s\n", terminal.Plain(s.Leader), terminal.Plain(s.Name), finding.Clock(s.Since), terminal.Plain(s.Why))
	}
	_, _ = fmt.Fprintln(w)
}
