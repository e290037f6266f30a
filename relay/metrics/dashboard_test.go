package metrics_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/metrics"
)

// series are the labels and their values of every metric that a connector with something of everything shows.
func series(t *testing.T) map[string]map[string][]string {
	t.Helper()
	source := full()
	source.counters = new(count.Totals).Snapshot()
	source.status.Media = &media.Stats{}
	values, _ := read(t, metrics.New(source, source, source, nil))
	// What Prometheus adds itself.
	all := map[string]map[string][]string{"up": {}}
	for key := range values {
		name, labels, _ := strings.Cut(strings.TrimSuffix(key, "}"), "{")
		if all[name] == nil {
			all[name] = make(map[string][]string)
		}
		for _, m := range label.FindAllStringSubmatch(labels, -1) {
			all[name][m[1]] = append(all[name][m[1]], m[3])
		}
	}
	for name := range all {
		for _, added := range []string{"job", "instance"} {
			all[name][added] = []string{"hermes-connector"}
		}
	}
	return all
}

var (
	label    = regexp.MustCompile(`([a-z_]+)(=~|=|!=)"([^"]*)"`)
	selector = regexp.MustCompile(`\b(hermes_connector_[a-z_]+|process_[a-z_]+|go_[a-z_]+|up)\b(\{[^}]*\})?`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}`)
)

// judge are the sentences about what an expression, and the texts beside it, name that does not exist.
func judge(all map[string]map[string][]string, expr string, texts ...string) (wrong []string) {
	labels := make(map[string]bool)
	found := selector.FindAllStringSubmatch(expr, -1)
	for _, m := range found {
		metric, ok := all[m[1]]
		if !ok {
			wrong = append(wrong, "no metric "+m[1])
		}
		for name := range metric {
			labels[name] = true
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			for value := range strings.SplitSeq(l[3], "|") {
				if known := metric[l[1]]; !strings.HasPrefix(value, "$") && ok && !slices.Contains(known, value) {
					wrong = append(wrong, fmt.Sprintf("no %s with %s=%q", m[1], l[1], value))
				}
			}
		}
	}
	if len(found) == 0 {
		wrong = append(wrong, "no metric in "+expr)
	}
	named := []string{}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		named = append(named, strings.Split(m[1], ", ")...)
	}
	for _, m := range shown.FindAllStringSubmatch(strings.Join(texts, " "), -1) {
		named = append(named, m[1])
	}
	for _, l := range named {
		if !labels[l] {
			wrong = append(wrong, "no label "+l)
		}
	}
	return wrong
}

func packaged(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDashboard: the dashboard asks for what exists.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(packaged(t, "grafana-dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	all, seen := series(t), 0
	for _, p := range board.Panels {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q says or asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			seen++
			for _, w := range judge(all, target.Expr, target.LegendFormat) {
				t.Errorf("%s: %s", p.Title, w)
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d queries: the test does not see the dashboard", seen)
	}
}

// TestAlerts: the rules ask for what exists, and say it in full. They are YAML with one line to an expression.
func TestAlerts(t *testing.T) {
	all, seen := series(t), make(map[string]bool)
	for rule := range strings.SplitSeq(packaged(t, "prometheus-alerts.yaml"), "- alert: ") {
		name, rest, _ := strings.Cut(rule, "\n")
		expr := regexp.MustCompile(`(?m)^        expr: (.+)$`).FindStringSubmatch(rest)
		if !strings.HasPrefix(name, "HermesConnector") {
			continue
		}
		if expr == nil {
			t.Errorf("%s has no expression", name)
			continue
		}
		if seen[name] || !strings.Contains(rest, "summary: ") || !strings.Contains(rest, "description: ") || !strings.Contains(rest, "severity: ") {
			t.Errorf("%s stands there twice, or lacks a summary, a description or a severity", name)
		}
		seen[name] = true
		for _, w := range judge(all, expr[1], rest) {
			t.Errorf("%s: %s", name, w)
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d rules: the test does not see them", len(seen))
	}
}

// TestJudge: what does not exist is seen.
func TestJudge(t *testing.T) {
	all := series(t)
	for expr, want := range map[string]string{
		`sum(rate(hermes_connector_ack_total{job=~"$job"}[5m]))`: "",
		`hermes_connector_nothing > 1`:                           "no metric hermes_connector_nothing",
		`hermes_connector_bot_state{state="asleep"}`:             `no hermes_connector_bot_state with state="asleep"`,
		`hermes_connector_bot_state{state=~"degraded|gone"}`:     `no hermes_connector_bot_state with state="gone"`,
		`hermes_connector_bot_state{bot="1"}`:                    `no hermes_connector_bot_state with bot="1"`,
		`sum by (tenant) (hermes_connector_bot_state)`:           "no label tenant",
		`vector(1)`: "no metric in vector(1)",
		`hermes_connector_ready == 0 and on (job, bot_id) hermes_connector_bot_state`: "",
	} {
		if got := strings.Join(judge(all, expr), "; "); got != want {
			t.Errorf("judge(%s) = %q, want %q", expr, got, want)
		}
	}
	if got := judge(all, "hermes_connector_ready", "{{ $labels.reason }}"); len(got) != 1 {
		t.Errorf("a label that a text names and nobody has: %v", got)
	}
	if len(slices.Collect(maps.Keys(all))) < 60 {
		t.Errorf("%d metrics: the test does not see them", len(all))
	}
}
