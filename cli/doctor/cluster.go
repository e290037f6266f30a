package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

const (
	oldestEngine = 130000              // PostgreSQL 13, as server_version_num
	apart        = 5 * time.Second     // how far two clocks may be from each other
	lostFor      = 30 * 24 * time.Hour // how long a loss of commits is reported
)

// cluster returns the findings about the PostgreSQL that the nodes share, the nodes, and the leaders.
func (o *Options) cluster(ctx context.Context) finding.List {
	seen, err := o.Cluster(ctx)
	if err != nil {
		return finding.EngineAway.Alone("PostgreSQL", "it cannot be asked: "+err.Error(), "look whether it runs, and at the address in dsn_file under [cluster]")
	}
	return ofCluster(seen, o.Now())
}

// ofCluster returns the findings in an overview.
func ofCluster(seen cluster.Overview, now time.Time) (out finding.List) {
	const about = "PostgreSQL"
	e := seen.Engine
	for _, off := range []struct {
		is  bool
		key string
	}{{!e.Fsync, "fsync"}, {!e.FullPages, "full_page_writes"}, {e.Commit == "off", "synchronous_commit"}} {
		if off.is {
			out.Add(finding.EngineUnsafe, about, off.key+" is off", "`ALTER SYSTEM SET "+off.key+" = on`, and reload it; synchronous_commit can also be set for a role or a database")
		}
	}
	if e.Version < oldestEngine {
		out.Add(finding.EngineOld, about, fmt.Sprintf("its version is %d, and 13 is the oldest that will do", e.Version/10000), "update it")
	}
	if e.Standbys == "" || e.Commit == "local" {
		out.Add(finding.EngineAlone, about, "no commit waits for a copy", "set synchronous_standby_names if you have a standby; a managed PostgreSQL may copy its disk by itself")
	}
	if ahead := e.ClockAhead.Abs(); ahead > apart {
		out.Add(finding.ClocksApart, about, fmt.Sprintf("its clock and this machine's are %s apart", ahead.Round(time.Second)), "have both set their clocks by NTP")
	}
	var versions, living []string
	var troubles []string
	for _, n := range seen.Nodes {
		if n.Gone > 0 && now.Sub(n.GoneAt) < lostFor {
			out.Add(finding.CommitsLost, "node "+n.Name, fmt.Sprintf("PostgreSQL lost %d commits that it had confirmed to this node, seen at %s", n.Gone, finding.Stamp(n.GoneAt)),
				"look at that node's log: it names the file that has them")
		}
		if !n.Alive || strings.Contains(n.Name, "/") { // a command such as restore, which is a node of its own while it runs
			continue
		}
		living = append(living, n.Name)
		if !slices.Contains(versions, n.Version) {
			versions = append(versions, n.Version)
		}
		for _, t := range n.Troubles {
			troubles = append(troubles, n.Name+": "+t)
		}
	}
	if len(versions) > 1 {
		out.Add(finding.VersionsDiffer, "", "the nodes have different versions: "+strings.Join(versions, ", "), "update the others, too")
	}
	for _, s := range seen.Shards {
		why := "it is looked for; this takes about the lease"
		switch {
		case s.Leader != "":
			continue
		case len(living) == 0:
			why = "no node is alive"
		case len(troubles) > 0:
			why = strings.Join(troubles, "; ")
		}
		out.Add(finding.NoLeader, "shard "+s.Name, "no node leads: "+why, "start a node, or look at the logs of those that run")
	}
	return out
}
