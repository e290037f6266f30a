package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// shard is the row of a shard, as last read.
type shard struct {
	term, top uint64
	leader    string // NODE/RUN; empty: nobody
	chain     []byte
	vault     []byte // the shard's data key, wrapped; empty: none is stored yet
	alive     bool   // the leader's lease holds, by the engine's clock
	schema    uint64 // of the newest entry
}

const (
	makeSQL = `INSERT INTO hermes_connector.shard (shard, term, leader, top, chain, vault, wanted) VALUES ($1, 0, '', 0, '', '', '') ON CONFLICT DO NOTHING`
	lookSQL = `SELECT term::text, top::text, leader, chain, vault, schema::text, EXISTS (SELECT FROM hermes_connector.node WHERE node || '/' || run = leader AND ` + lives + `)::text
	FROM hermes_connector.shard WHERE shard = $1`
	// leadSQL gives nobody the lead as long as another leader lives, or the former leader from whom Force took the
	// lead. It keeps the reason that the former leader stored when it gave the shard up. It adds a random number to the
	// term: an engine that went back could give another leader the same term otherwise.
	leadSQL = `UPDATE hermes_connector.shard SET leader = $2, term = term + $4::bigint, wanted = '', since = clock_timestamp(),
		why = CASE WHEN leader = '' THEN CASE why WHEN '' THEN 'nobody led before' ELSE why END ELSE 'the lease of ' || split_part(leader, '/', 1) || ' was over' END WHERE shard = $1 AND term = $3::bigint
	AND NOT EXISTS (SELECT FROM hermes_connector.node WHERE (node || '/' || run = leader AND leader <> $2 OR node || '/' || run = former) AND ` + lives + `)
	RETURNING term::text, top::text, chain`
	// nodesSQL leaves commands out, which are nodes for a while and have a slash in their name.
	nodesSQL = `SELECT node FROM hermes_connector.node WHERE ` + lives + ` AND drained <> run AND node NOT LIKE '%/%'`
	// shardsSQL returns the empty text for a leader that no longer lives, except in the last two columns.
	shardsSQL = `SELECT shard, coalesce(node, ''), wanted, coalesce(run, ''), coalesce(url, ''), leader, former FROM hermes_connector.shard
	LEFT JOIN hermes_connector.node ON node || '/' || run = leader AND ` + lives
	// appendSQL stores entry n as the one after $6, the newest, if the term is still the newest one.
	appendSQL = `WITH ok AS (UPDATE hermes_connector.shard SET top = $2::bigint, chain = $5::bytea, schema = $7::bigint WHERE shard = $1 AND term = $3::bigint AND top = $6::bigint RETURNING shard)
	INSERT INTO hermes_connector.log (shard, n, term, entry) SELECT shard, $2::bigint, $3::bigint, $4::bytea FROM ok`
	keepSQL = `UPDATE hermes_connector.shard SET vault = $3::bytea WHERE shard = $1 AND term = $2::bigint`
	// storedSQL writes the row as it is if entry n is the newest of this term: only this leader can have stored it. The
	// engine confirms that write only when all that it wrote before is as safe, the entry too. A read would not do: it
	// also shows an entry that is not copied to a standby yet. Nor would a read and, before or after it, another
	// write: the two may reach different engines.
	storedSQL = `UPDATE hermes_connector.shard SET top = top WHERE shard = $1 AND term = $2::bigint AND top = $3::bigint`
)

// Lead is the lead of one shard: a boltfile.CommitLog of its file.
type Lead struct {
	node  *Node
	shard string
	term  uint64
	top   uint64          // the log's newest entry
	never context.Context // for Append; it never ends

	schema uint32 // of the records
	forced bool   // see boltfile.Log
	lost   context.Context
	lose   context.CancelFunc // ends lost
}

// Alive reports whether this node still leads the shard. Every action on behalf of the shard checks this first.
func (l *Lead) Alive() bool { return l.node.Alive() && l.lost.Err() == nil }

// Lost returns a context that ends when another process is seen to lead: actions under way for the shard must not
// finish then. The context does not end with the node's lease: then the process ends.
func (l *Lead) Lost() context.Context { return l.lost }

// Shard returns the name of the shard.
func (l *Lead) Shard() string { return l.shard }

// KeepVault shows all nodes the shard's data key, wrapped with the operator's key: a node that cannot open it does not
// lead the shard, and a node that can derives from it the key by which nodes recognise each other.
func (l *Lead) KeepVault(ctx context.Context, wrapped []byte) error {
	a, err := l.node.look.exec(ctx, keepSQL, l.shard, l.term, append([]byte{}, wrapped...)) // nil would be NULL
	if err == nil && a.rows != 1 {
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("keep the shard's wrapped key in the engine: %w", err)
	}
	return nil
}

// Vault returns what KeepVault was given last; empty: nothing yet.
func (n *Node) Vault(ctx context.Context, shard string) ([]byte, error) {
	s, err := n.seen(ctx, shard)
	return s.vault, err
}

// leader is the leader of a shard, as this node saw it last.
type leader struct {
	name, run, url string // the leading node, its run, and where others reach it; empty name: no living node leads
	wanted         string // the node that an operator asked for; empty: none
	held, former   string // NODE/RUN of the leader, and of the one from whom Force took the lead, whether they live or not
}

// whoLeads returns the living nodes that may lead shards, and the leader of each shard that the engine knows.
func whoLeads(ctx context.Context, e *engine) (nodes []string, all map[string]leader, err error) {
	if nodes, err = mayLead(ctx, e); err != nil {
		return nil, nil, err
	}
	a, err := e.exec(ctx, shardsSQL)
	if err != nil {
		return nil, nil, err
	}
	all = make(map[string]leader, len(a.cells))
	for _, c := range a.cells {
		all[string(c[0])] = leader{
			name: string(c[1]), wanted: string(c[2]), run: string(c[3]), url: string(c[4]), held: string(c[5]), former: string(c[6]),
		}
	}
	return nodes, all, nil
}

// mayLead returns the living nodes that may lead shards: those that are not drained, and are not commands.
func mayLead(ctx context.Context, e *engine) (nodes []string, err error) {
	a, err := e.exec(ctx, nodesSQL)
	for _, row := range a.cells {
		nodes = append(nodes, string(row[0]))
	}
	return nodes, err
}

// Leader returns the leader of the shard, as the loop in Node.Lead last read it from the engine: the name of the node,
// its run, and where other nodes reach it (empty: nowhere). An empty name: nobody leads. An error says that the leader
// is not known, because that reading is more than 6 s old.
func (n *Node) Leader(shard string) (name, run, url string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if since := n.now() - n.lookedAt; n.leaders == nil || since > 3*lookEvery {
		return "", "", "", errors.New("PostgreSQL does not answer")
	}
	l := n.leaders[shard]
	return l.name, l.run, l.url, nil
}

// Log returns the log of the shard's file.
func (l *Lead) Log() *boltfile.Log {
	return &boltfile.Log{To: l, Term: l.term, Top: l.top, Forced: l.forced}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// take makes this node the leader of s, if no living node is, and brings the file of s to the end of the log. It
// returns nil if another node leads, or was quicker.
func (n *Node) take(ctx context.Context, s Shard) (l *Lead, err error) {
	row, err := n.seen(ctx, s.Name)
	if err != nil || row.alive {
		return nil, err
	}
	if len(row.vault) > 0 {
		if err := s.Opens(ctx, row.vault); err != nil {
			return nil, err
		}
	}
	// The file is brought near before the lead is taken: nobody serves while a leader fills it.
	at, err := n.fill(ctx, s, row)
	if err == nil {
		err = n.mostKept(ctx, s.Name, at, row.top)
	}
	if err != nil {
		return nil, err
	}
	n.leading.Add(1) // from now on the end of the lease ends this process (Run)
	defer func() {
		if l == nil {
			n.leading.Add(-1)
		}
	}()
	a, err := n.look.exec(ctx, leadSQL, s.Name, n.me(), row.term, 1+rand.Uint32N(1<<31))
	if err != nil || len(a.cells) == 0 {
		return nil, err
	}
	if l, err = n.begin(ctx, s, row.schema, a.cells[0]); err != nil {
		return nil, errors.Join(err, n.giveUp(context.WithoutCancel(ctx), s.Name, ""))
	}
	n.o.Log.Info("this node leads", "shard", s.Name, "term", l.term, "entries", l.top)
	return l, nil
}

// begin makes n's lead of s, which the engine has confirmed. confirmed is the engine's row: the term, the number of the
// newest entry, and its chain. begin brings the file of s to that entry, and then closes it, so that the caller can
// open it.
func (n *Node) begin(ctx context.Context, s Shard, schema uint64, confirmed [][]byte) (*Lead, error) {
	term, err1 := number(confirmed[0])
	top, err2 := number(confirmed[1])
	err := errors.Join(err1, err2)
	if err == nil {
		_, err = n.fill(ctx, s, shard{term: term, top: top, chain: confirmed[2], schema: schema})
	}
	if err == nil {
		err = n.copyOf(s.Name).lend()
	}
	if err != nil {
		return nil, err
	}
	l := &Lead{node: n, shard: s.Name, term: term, top: top, never: context.WithoutCancel(ctx), schema: s.File.Format.Schema}
	l.lost, l.lose = context.WithCancel(l.never)
	return l, nil
}

// seen reads the row of a shard; it returns the zero row if there is none yet.
func (n *Node) seen(ctx context.Context, name string) (s shard, err error) {
	a, err := n.look.exec(ctx, lookSQL, name)
	if err != nil || len(a.cells) == 0 {
		return s, err
	}
	c := a.cells[0]
	term, err1 := number(c[0])
	top, err2 := number(c[1])
	schema, err3 := number(c[5])
	return shard{term: term, top: top, leader: string(c[2]), chain: slices.Clone(c[3]), vault: slices.Clone(c[4]), schema: schema, alive: string(c[6]) == "true"}, errors.Join(err1, err2, err3)
}

// Append implements boltfile.CommitLog. It tries again until it knows that the engine has the entry, or cannot get it
// any more, because another node leads or the lease is over. Its statements are never cancelled, because the engine
// would confirm a cancelled wait: if the lease ends meanwhile, the process ends, too.
func (l *Lead) Append(p boltfile.Place, entry []byte) (err error) {
	ctx, began := l.never, time.Now()
	defer func() {
		if err == nil {
			l.top = p.N
			l.node.report.stored(l.shard, p.N, time.Since(began))
		}
	}()
	for try := 1; ; try++ {
		if !l.node.Alive() {
			return ErrFenced
		}
		a, err := l.node.logs.exec(ctx, appendSQL, l.shard, p.N, l.term, entry, p.Chain[:], l.top, l.schema)
		if err == nil && a.rows == 1 {
			return nil
		}
		if err != nil && try == 1 {
			l.node.o.Log.Warn("whether the engine has an entry is not known; it is asked", "shard", l.shard, "n", p.N, "err", err)
		}
		has, lookErr := l.has(ctx, p.N)
		switch {
		case lookErr != nil:
			_ = sleep(ctx, 200*time.Millisecond)
		case has:
			return nil
		case err == nil:
			l.lose()
			return fmt.Errorf("shard %s: %w", l.shard, ErrFenced)
		default:
			_ = sleep(ctx, 200*time.Millisecond)
		}
	}
}

// has reports whether the log has this leader's entry n, for good.
func (l *Lead) has(ctx context.Context, n uint64) (bool, error) {
	a, err := l.node.logs.exec(ctx, storedSQL, l.shard, l.term, n)
	return a.rows == 1, err
}
