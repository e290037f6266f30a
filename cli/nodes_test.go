package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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
			{Name: "pi1/restore", Version: "1"},
		},
		Shards: []cluster.ShardState{{Name: "main", Leader: "pi1", Why: "the lease of pi3 was over", Top: 100}, {Name: "other"}},
	}
	var b strings.Builder
	nodesTable(&b, o)
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"✓ pi1 1 alive main 0 12.3ms (p99)", "✓ pi2 1 alive - 20", "! pi3 1 gone since", "! pi2 cannot lead main: another key", "pi1 leads main since", ": the lease of pi3 was over", "✗ nobody leads other"} {
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
