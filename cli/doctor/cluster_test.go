package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

func TestOfCluster(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	sound := func() cluster.Overview {
		return cluster.Overview{
			Engine: cluster.EngineState{Version: 150018, Fsync: true, FullPages: true, Commit: "on", Standbys: "b"},
			Nodes:  []cluster.NodeState{{Name: "a", Version: "1", Alive: true}, {Name: "b", Version: "1", Alive: true}, {Name: "old", Version: "0"}, {Name: "a/restore", Version: "0", Alive: true}},
			Shards: []cluster.ShardState{{Name: "main", Leader: "a"}},
		}
	}
	for name, c := range map[string]struct {
		change func(*cluster.Overview)
		want   string // code and a part of what was seen
		kind   *finding.Kind
	}{
		"all is well":         {func(*cluster.Overview) {}, "", nil},
		"no fsync":            {func(o *cluster.Overview) { o.Engine.Fsync = false }, "fsync is off", finding.EngineUnsafe},
		"no whole pages":      {func(o *cluster.Overview) { o.Engine.FullPages = false }, "full_page_writes is off", finding.EngineUnsafe},
		"commits do not wait": {func(o *cluster.Overview) { o.Engine.Commit = "off" }, "synchronous_commit is off", finding.EngineUnsafe},
		"not for the copy":    {func(o *cluster.Overview) { o.Engine.Commit = "local" }, "no commit waits", finding.EngineAlone},
		"there is no copy":    {func(o *cluster.Overview) { o.Engine.Standbys = "" }, "no commit waits", finding.EngineAlone},
		"too old":             {func(o *cluster.Overview) { o.Engine.Version = 120022 }, "version is 12", finding.EngineOld},
		"the clock is behind": {func(o *cluster.Overview) { o.Engine.ClockAhead = -9 * time.Second }, "9s apart", finding.ClocksApart},
		"two versions":        {func(o *cluster.Overview) { o.Nodes[1].Version = "2" }, "1, 2", finding.VersionsDiffer},
		"nobody leads":        {func(o *cluster.Overview) { o.Shards[0].Leader = "" }, "no node leads: it is looked for", finding.NoLeader},
		"nobody can": {func(o *cluster.Overview) {
			o.Shards[0].Leader = ""
			o.Nodes[1].Troubles = map[string]string{"main": "no key"}
		}, "no node leads: b: no key", finding.NoLeader},
		"nobody is there":   {func(o *cluster.Overview) { o.Shards[0].Leader, o.Nodes = "", nil }, "no node is alive", finding.NoLeader},
		"something is lost": {func(o *cluster.Overview) { o.Nodes[2].Gone, o.Nodes[2].GoneAt = 7, now.Add(-time.Hour) }, "lost 7 commits", finding.CommitsLost},
		"it was long ago":   {func(o *cluster.Overview) { o.Nodes[2].Gone, o.Nodes[2].GoneAt = 7, now.Add(-40*24*time.Hour) }, "", nil},
	} {
		seen := sound()
		c.change(&seen)
		got := ofCluster(seen, now)
		if c.kind == nil {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Code != c.kind.Code || !strings.Contains(got[0].What, c.want) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.kind.Code, c.want)
		}
	}
	away := Options{Cluster: func(context.Context) (o cluster.Overview, err error) { return o, errors.New("refused") }}
	if got := away.cluster(t.Context()); len(got) != 1 || got[0].Code != finding.EngineAway.Code {
		t.Errorf("an engine that is away: %+v", got)
	}
}

// TestAFullDiskOfANode: another node can lead meanwhile, of which a machine that is alone has none.
func TestAFullDiskOfANode(t *testing.T) {
	m := machine{disk: func(string) (disk, error) { return disk{free: 1 << 20}, nil }}
	cfg := &config.Config{DataDir: "/data", Shard: "team-a"}
	const move = "hermes-connector cluster move team-a NODE"
	if got := space(cfg, m); len(got) != 1 || strings.Contains(got[0].Fix, "cluster") {
		t.Errorf("alone: %+v", got)
	}
	cfg.Cluster.DSN = relay.NewSecret([]byte("postgres://nas/one"))
	if got := space(cfg, m); len(got) != 1 || !strings.Contains(got[0].Fix, move) {
		t.Errorf("in a cluster: %+v", got)
	}
}
