package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

func TestNodesTable(t *testing.T) {
	t.Parallel()
	o := cluster.Overview{
		Nodes: []cluster.NodeState{
			{Name: "pi1", Version: "1", Alive: true, Places: map[string]uint64{"main": 90}, AppendP99: 12345 * time.Microsecond},
			{Name: "pi2", Version: "1", Alive: true, Places: map[string]uint64{"main": 80}, Troubles: map[string]string{"main": "another key"}},
			{Name: "pi3", Version: "1"},
			{Name: "pi4", Version: "1", Alive: true},
			{Name: "pi1/restore", Version: "1"},
		},
		Shards: []cluster.ShardState{{Name: "main", Leader: "pi1", Next: "pi2", Why: "the lease of pi3 was over", Top: 100}, {Name: "other"}},
	}
	var b strings.Builder
	nodesTable(&b, o)
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"✓ pi1 1 alive main - 12.3ms (p99)", "✓ pi2 1 alive - 20", "! pi3 1 gone since", "✓ pi4 1 alive - - -", "! pi2 cannot lead main: another key", "pi1 leads main since", ": the lease of pi3 was over", "✗ nobody leads other"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "restore") {
		t.Errorf("a command that is over is shown:\n%s", text)
	}
	alone, err := json.Marshal(statusOfNodes{Status: manage.Status{Version: "1"}})
	if err != nil || strings.Contains(string(alone), "cluster") || !strings.Contains(string(alone), `"version":"1"`) {
		t.Errorf("%s, %v", alone, err)
	}
	if all, err := json.Marshal(statusOfNodes{Status: manage.Status{Version: "1"}, Cluster: &o}); err != nil || !strings.Contains(string(all), `"leader":"pi1"`) {
		t.Errorf("%s, %v", all, err)
	}
}

func TestTooHeavy(t *testing.T) {
	shards := func(weights ...float64) (all []config.Shard) {
		for n, w := range weights {
			all = append(all, config.Shard{Config: &config.Config{Shard: string(rune('a' + n))}, Weight: w})
		}
		return all
	}
	three := cluster.Overview{Nodes: []cluster.NodeState{
		{Name: "n1", Alive: true}, {Name: "n2", Alive: true}, {Name: "n3", Alive: true}, {Name: "n4"}, {Name: "n1/restore", Alive: true},
	}}
	for _, tc := range []struct {
		shards []config.Shard
		want   string
	}{
		{shards(1), "[]"}, // not more than nodes
		{shards(1, 1, 5), "[]"},
		{shards(1, 1, 1, 1), "[]"},
		{shards(1, 1, 1, 2), "[]"},    // 2 of a mean of 1.67
		{shards(1, 1, 3, 1), "[c]"},   // 3 of 2
		{shards(9, 9, 1, 1), "[a b]"}, // 9 of 6.67
		{shards(5, 5, 4, 3, 3), "[]"}, // 5 of 6.67
	} {
		if got := fmt.Sprint(tooHeavy(tc.shards, three)); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.shards, got, tc.want)
		}
	}
}
