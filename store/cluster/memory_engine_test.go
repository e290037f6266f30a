package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// memoryEngine answers what a node asks of one shard's engine, as PostgreSQL with a synchronous standby would, in the time of a
// synctest bubble. Statements are late, hang, and are carried out long after whoever sent them has gone; connections break
// before and after that; waits for the standby are cancelled; and the standby takes over.
type memoryEngine struct {
	t       *testing.T
	serving sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	rand     *rand.Rand
	state    engineState
	standby  engineState   // what certainly is on the standby
	ahead    time.Duration // of the clock
	frozen   time.Time     // nothing is carried out before
	frozenOf *bool         // of this process; nil: of any
	cancels  time.Time     // nobody waits for the standby before
	conns    map[net.Conn]*bool
	broken   int
}

type engineState struct {
	nodes map[string]nodeRow
	shard shard
	log   []logRow // number 1 is the first
}

type nodeRow struct {
	run, places string
	until       time.Time
	lease       time.Duration
}

type logRow struct {
	term  uint64
	entry []byte // nil: a base left that number out
}

func (s engineState) clone() engineState {
	s.nodes, s.log = maps.Clone(s.nodes), slices.Clone(s.log)
	return s
}

func newMemoryEngine(t *testing.T, seed uint64) *memoryEngine {
	m := &memoryEngine{t: t, rand: rand.New(rand.NewPCG(seed, 1)), conns: make(map[net.Conn]*bool)}
	m.state.nodes = make(map[string]nodeRow)
	m.standby = m.state.clone()
	return m
}

// dial is a connection to it, which it may break. It is refused once dead.
func (m *memoryEngine) dial(dead *bool) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *dead {
		return nil, errors.New("dead")
	}
	ours, theirs := net.Pipe()
	m.conns[ours] = dead
	m.serving.Go(func() { m.serve(ours) })
	return theirs, nil
}

// breaks breaks the connections of the process whose that is; nil: of all.
func (m *memoryEngine) breaks(of *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken++
	for c, dead := range m.conns {
		if of == nil || of == dead {
			_ = c.Close()
			delete(m.conns, c)
		}
	}
}

// promotes has the standby take over.
func (m *memoryEngine) promotes() {
	m.breaks(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = m.standby.clone()
}

func (m *memoryEngine) clock() time.Time { return time.Now().Add(m.ahead) }

func (m *memoryEngine) serve(c net.Conn) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if b.Flush() != nil {
		return
	}
	sql, args := "", [][]byte(nil)
	for {
		message, err := b.Receive()
		if err != nil {
			return
		}
		switch message := message.(type) {
		case *pgproto3.Parse:
			sql = message.Query
		case *pgproto3.Bind:
			args = nil
			for _, p := range message.Parameters {
				args = append(args, slices.Clone(p))
			}
		case *pgproto3.Sync:
			if !m.answer(c, b, sql, args) || b.Flush() != nil {
				return
			}
		case *pgproto3.Terminate:
			return
		}
	}
}

// answer carries a statement out, and says so on b unless ok is false.
func (m *memoryEngine) answer(c net.Conn, b *pgproto3.Backend, sql string, args [][]byte) (ok bool) {
	before, after, chance, warned := m.chances()
	time.Sleep(before)
	m.mu.Lock()
	dead := m.conns[c]
	for until := time.Until(m.frozen); until > 0 && (m.frozenOf == nil || m.frozenOf == dead); until = time.Until(m.frozen) {
		m.mu.Unlock()
		time.Sleep(until)
		m.mu.Lock()
	}
	if _, there := m.conns[c]; !there && chance < 50 { // else it had arrived before
		m.mu.Unlock()
		return false
	}
	if chance == 0 { // broken before
		m.mu.Unlock()
		return false
	}
	rows, tag, wrote := m.carryOut(sql, args)
	warned = wrote && (warned || time.Now().Before(m.cancels))
	m.mu.Unlock()
	time.Sleep(after)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, there := m.conns[c] // else it may have been promoted since
	if wrote && there && !warned && chance != 1 {
		m.standby = m.state.clone() // all before it is there, too
	}
	if !there || chance <= 1 { // broken afterwards
		return false
	}
	b.Send(&pgproto3.ParseComplete{})
	b.Send(&pgproto3.BindComplete{})
	b.Send(&pgproto3.RowDescription{})
	for _, row := range rows {
		b.Send(&pgproto3.DataRow{Values: row})
	}
	if warned {
		b.Send(&pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Message: "canceling wait for synchronous replication due to user request"})
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return true
}

// chances draw what becomes of a statement.
func (m *memoryEngine) chances() (before, after time.Duration, chance int, warned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	some := func(seldom int) time.Duration {
		if m.rand.IntN(seldom) == 0 {
			return time.Duration(m.rand.IntN(6000)) * time.Millisecond
		}
		return time.Duration(m.rand.IntN(20)) * time.Millisecond
	}
	return some(100), some(30), m.rand.IntN(100), m.rand.IntN(100) == 0
}

// lives reports whether the leader's lease holds. m.mu must be held.
func (m *memoryEngine) lives() bool {
	name, run, _ := strings.Cut(m.state.shard.leader, "/")
	n, there := m.state.nodes[name]
	return there && n.run == run && n.until.After(m.clock()) && n.until.Before(m.clock().Add(2*n.lease))
}

// ledBy reports whether n leads the shard.
func (m *memoryEngine) ledBy(n *Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.shard.leader == n.me()
}

// carryOut carries a statement out. m.mu must be held.
func (m *memoryEngine) carryOut(sql string, args [][]byte) (rows [][][]byte, tag string, wrote bool) {
	text := func(n int) string { return string(args[n-1]) }
	num := func(n int) uint64 {
		v, err := strconv.ParseUint(text(n), 10, 64)
		if err != nil {
			m.t.Errorf("%s: %v", sql, err)
		}
		return v
	}
	cells := func(values ...any) {
		var row [][]byte
		for _, v := range values {
			if b, ok := v.([]byte); ok {
				row = append(row, b)
			} else {
				row = append(row, fmt.Append(nil, v))
			}
		}
		rows = append(rows, row)
	}
	s := &m.state.shard
	lives := m.lives()
	switch {
	case strings.Contains(sql, "to_regclass"):
		cells("there")
	case sql == renewSQL:
		name, run := text(1), text(2)
		was, there := m.state.nodes[name]
		lease := time.Duration(num(4)) * time.Millisecond
		if there && was.run != run && was.until.After(m.clock()) && was.until.Before(m.clock().Add(2*was.lease)) {
			return nil, "INSERT 0 0", false
		}
		m.state.nodes[name] = nodeRow{run: run, places: text(5), until: m.clock().Add(lease), lease: lease}
		return nil, "INSERT 0 1", true
	case sql == nodesSQL:
		for name, n := range m.state.nodes {
			if n.until.After(m.clock()) {
				cells(name)
			}
		}
	case sql == shardsSQL:
		leader := s.leader
		if !lives {
			leader = ""
		}
		name, run, _ := strings.Cut(leader, "/")
		cells("main", name, "", run, "", s.leader, "")
	case sql == lookSQL:
		cells(s.term, s.top, s.leader, s.chain, []byte{}, s.schema, lives)
	case strings.HasPrefix(sql, "SELECT node, places"):
		for name, n := range m.state.nodes {
			var places map[string]uint64
			if err := json.Unmarshal([]byte(n.places), &places); err != nil {
				m.t.Error(err)
			}
			if name != text(1) && places["main"] > num(3) && len(rows) == 0 {
				cells(name, n.places)
			}
		}
	case sql == leadSQL:
		if s.term != num(3) || s.leader != "" && s.leader != text(2) && lives {
			return nil, "UPDATE 0", false
		}
		s.leader, s.term = text(2), s.term+num(4)
		cells(s.term, s.top, s.chain)
		return rows, "UPDATE 1", true
	case sql == appendSQL:
		n := num(2)
		if s.term != num(3) || s.top != num(6) {
			return nil, "INSERT 0 0", false
		}
		s.top, s.chain, s.schema = n, args[4], num(7)
		for uint64(len(m.state.log)) < n-1 {
			m.state.log = append(m.state.log, logRow{})
		}
		m.state.log = append(m.state.log, logRow{term: s.term, entry: args[3]})
		return nil, "INSERT 0 1", true
	case sql == storedSQL:
		if s.term != num(2) || s.top != num(3) {
			return nil, "UPDATE 0", false
		}
		return nil, "UPDATE 1", true
	case strings.HasPrefix(sql, "SELECT entry, (SELECT term"): // strange
		for n := min(num(2), num(3)); n >= 1 && n <= uint64(len(m.state.log)) && len(rows) == 0; n++ {
			if row := m.state.log[n-1]; row.entry != nil {
				cells(row.entry, m.state.log[num(3)-1].term)
			}
		}
	case sql == newsSQL:
		var wants []want
		if err := json.Unmarshal(args[0], &wants); err != nil || len(wants) != 1 {
			m.t.Error(err, wants)
			return nil, "SELECT 0", false
		}
		for n := wants[0].At + 1; n <= min(wants[0].Upto, s.top); n++ {
			if row := m.state.log[n-1]; row.entry != nil {
				cells("main", s.top, s.chain, 1, n, row.entry)
			}
		}
		if len(rows) == 0 {
			rows = append(rows, [][]byte{[]byte("main"), fmt.Append(nil, s.top), s.chain, []byte("1"), nil, nil})
		}
	case strings.HasPrefix(sql, "SELECT id::text, part::text FROM hermes_connector.part"): // no snapshots
	case strings.HasPrefix(sql, "UPDATE hermes_connector.node SET gone"):
		m.t.Errorf("node %s names commits that the engine has lost, and it never did: %s", text(1), text(2))
		return nil, "UPDATE 1", true
	case sql == giveUpSQL:
		if s.leader != text(2) {
			return nil, "UPDATE 0", false
		}
		s.leader = ""
		return nil, "UPDATE 1", true
	case strings.HasPrefix(sql, "UPDATE hermes_connector.node SET until"):
		if n := m.state.nodes[text(1)]; n.run == text(2) {
			n.until = m.clock()
			m.state.nodes[text(1)] = n
		}
		return nil, "UPDATE 1", true
	default:
		m.t.Errorf("nobody knows what this is: %s", sql)
	}
	return rows, "SELECT " + strconv.Itoa(len(rows)), false
}

// check replays the log, and returns what is in it.
func (m *memoryEngine) logEntries() (all []boltfile.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range m.state.log[:m.state.shard.top] {
		if row.entry == nil {
			continue
		}
		e, err := boltfile.ParseEntry(row.entry)
		must.Succeed(m.t, err)
		all = append(all, e)
	}
	return all
}

// reaches has all of n's connections lead to m, until dead.
func (m *memoryEngine) reaches(n *Node, dead *bool) {
	engines := append(slices.Concat(n.logs.idle, n.file.idle), n.beat, n.look)
	for _, e := range engines {
		e.config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return m.dial(dead) }
	}
}
