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

const (
	forceSQL = `UPDATE hermes_connector.shard SET leader = $2, term = term + $4::bigint, since = clock_timestamp(), why = 'taken by force: ' || $5
	WHERE shard = $1 AND term = $3::bigint RETURNING term::text, top::text, chain`
	livesSQL = `SELECT EXISTS (SELECT FROM hermes_connector.node WHERE node || '/' || run = $1 AND until > clock_timestamp())::text`
)

// Force takes the lead of a shard from whoever has it, for why, and makes the file at path, which is not there yet, as the
// newest entry left it. The former leader ends by itself, and is waited for. What becomes the shard's database is the file
// that is opened with the lead's log.
func (n *Node) Force(ctx context.Context, name, path, why string, o boltfile.Options) (l *Lead, err error) {
	for !n.Alive() { // Run has its word about why
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	s, err := n.seen(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.schema > uint64(o.Format.Schema) {
		return nil, newerSchema(s, o)
	}
	log, err := newEngine(n.o.DSN, n.o.Lease)
	if err != nil {
		return nil, err
	}
	n.leading.Store(true)
	a, err := n.look.exec(ctx, forceSQL, name, n.me(), s.term, 1+rand.Uint32N(1<<31), why)
	if err == nil && len(a.cells) == 0 {
		err = errors.New("another node has just taken the lead: try again")
	}
	if err != nil {
		return nil, err
	}
	term, err1 := number(a.cells[0][0])
	top, err2 := number(a.cells[0][1])
	led := shard{term: term, top: top, chain: slices.Clone(a.cells[0][2]), schema: s.schema}
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	n.led.Store(true)
	for lives := s.alive; lives; {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
		a, err := n.look.exec(ctx, livesSQL, s.leader)
		if err != nil {
			return nil, err
		}
		lives = string(a.cells[0][0]) == "true"
	}
	if _, err := n.fill(ctx, name, path, o, led); err != nil {
		return nil, fmt.Errorf("the newest database: %w", err)
	}
	return &Lead{node: n, shard: name, term: term, top: top, log: log, never: context.WithoutCancel(ctx), schema: o.Format.Schema, forced: true}, nil
}
