package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Overview is the engine's report about itself, the nodes and the leaders.
type Overview struct {
	Engine EngineState  `json:"engine"`
	Nodes  []NodeState  `json:"nodes"`
	Shards []ShardState `json:"shards"`
}

// EngineState is the engine's configuration, as a node's connection sees it.
type EngineState struct {
	Version    int           `json:"version"`    // as server_version_num: 150018 is 15.18
	Fsync      bool          `json:"fsync"`      // false: a power cut loses confirmed commits
	FullPages  bool          `json:"fullPages"`  // full_page_writes; false: a power cut may damage the engine's data
	Commit     string        `json:"commit"`     // synchronous_commit
	Standbys   string        `json:"standbys"`   // synchronous_standby_names; empty: a commit waits for no copy
	ClockAhead time.Duration `json:"clockAhead"` // of this machine's, in nanoseconds; below 0: behind it
}

// NodeState is a node as the others see it.
type NodeState struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Alive     bool              `json:"alive"`
	Until     time.Time         `json:"until"`               // the end of its lease, by the engine's clock
	URL       string            `json:"url,omitempty"`       // where the others reach it
	Places    map[string]uint64 `json:"places"`              // the entry its file is at, by shard, when it renewed the lease
	Troubles  map[string]string `json:"troubles,omitempty"`  // why it cannot lead a shard that falls to it
	AppendP99 time.Duration     `json:"appendP99,omitempty"` // of its appends to the engine in the last minutes, in nanoseconds; 0: there were none
	Gone      uint64            `json:"gone,omitempty"`      // commits that it had, and that the engine lost
	GoneAt    time.Time         `json:"goneAt,omitzero"`
}

// ShardState is a shard and who leads it.
type ShardState struct {
	Name   string    `json:"name"`
	Leader string    `json:"leader"` // a node; empty: no living node leads
	Next   string    `json:"next"`   // the node that keeps a copy, and leads next; empty: none
	Since  time.Time `json:"since"`  // of the last change of leader
	Why    string    `json:"why"`    // the reason of that change
	Top    uint64    `json:"top"`    // the newest entry
	Schema uint64    `json:"schema"` // of that entry
}

const (
	engineSQL = `SELECT current_setting('server_version_num'), current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, to_regclass('hermes_connector.part')::text`
	nodeStatesSQL = `SELECT node, version, (` + lives + `)::text, (extract(epoch FROM until) * 1000000)::bigint::text, places, troubles, p99::text, gone::text, url,
	(extract(epoch FROM coalesce(gone_at, 'epoch')) * 1000000)::bigint::text FROM hermes_connector.node ORDER BY node.node`
	shardStatesSQL = `SELECT shard, coalesce((SELECT node FROM hermes_connector.node WHERE node || '/' || run = leader AND ` + lives + `), ''),
	(extract(epoch FROM since) * 1000000)::bigint::text, why, top::text, schema::text FROM hermes_connector.shard ORDER BY shard.shard`
)

// Overview reads the state of the engine, the nodes and the shards; n need not run.
func (n *Node) Overview(ctx context.Context) (o Overview, err error) {
	before := time.Now()
	a, err := n.look.exec(ctx, engineSQL)
	if err != nil {
		return o, err
	}
	now := before.Add(time.Since(before) / 2)
	c := a.cells[0]
	version, err1 := strconv.Atoi(string(c[0]))
	clock, err2 := moment(c[5])
	o.Engine = EngineState{
		Version: version, Fsync: string(c[1]) == "on", FullPages: string(c[2]) == "on", Commit: string(c[3]), Standbys: string(c[4]), ClockAhead: clock.Sub(now).Round(time.Millisecond),
	}
	if err := errors.Join(err1, err2); err != nil || c[6] == nil {
		return o, err
	}
	if a, err = n.look.exec(ctx, nodeStatesSQL); err != nil {
		return o, err
	}
	for _, c := range a.cells {
		s := NodeState{Name: string(c[0]), Version: string(c[1]), Alive: string(c[2]) == "true"}
		var gone time.Time
		var p99 uint64
		var errs [6]error
		s.Until, errs[0] = moment(c[3])
		errs[1] = json.Unmarshal(c[4], &s.Places)
		errs[2] = json.Unmarshal(c[5], &s.Troubles)
		p99, errs[3] = number(c[6])
		s.Gone, errs[4] = number(c[7])
		s.URL = string(c[8])
		gone, errs[5] = moment(c[9])
		if err := errors.Join(errs[:]...); err != nil {
			return o, err
		}
		s.AppendP99 = time.Duration(p99) * time.Microsecond
		if s.Gone > 0 {
			s.GoneAt = gone
		}
		o.Nodes = append(o.Nodes, s)
	}
	nodes, err := mayLead(ctx, n.look)
	if err != nil {
		return o, err
	}
	if a, err = n.look.exec(ctx, shardStatesSQL); err != nil {
		return o, err
	}
	for _, c := range a.cells {
		since, err1 := moment(c[2])
		top, err2 := number(c[4])
		schema, err3 := number(c[5])
		if err := errors.Join(err1, err2, err3); err != nil {
			return o, err
		}
		name, leads := string(c[0]), string(c[1])
		o.Shards = append(o.Shards, ShardState{Name: name, Leader: leads, Next: next(name, leads, nodes), Since: since, Why: string(c[3]), Top: top, Schema: schema})
	}
	return o, nil
}

// moment parses a cell that holds microseconds since 1970.
func moment(cell []byte) (time.Time, error) {
	us, err := strconv.ParseInt(string(cell), 10, 64)
	return time.UnixMicro(us), err
}
