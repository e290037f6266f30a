package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// forceSQL notes the former leader. That node stops serving the shard, and then removes its name from the column
	// former (giveUp). Nobody else leads before that, or before the end of its lease.
	forceSQL = `UPDATE hermes_connector.shard SET leader = $2, term = term + $4::bigint, since = clock_timestamp(), why = 'a ' || $5 || ' took the lead', former = leader
	WHERE shard = $1 AND term = $3::bigint AND NOT EXISTS (SELECT FROM hermes_connector.node WHERE node || '/' || run = former AND ` + lives + `) RETURNING term::text, top::text, chain`
	formerSQL = `SELECT EXISTS (SELECT FROM hermes_connector.node WHERE node || '/' || run = former AND ` + lives + `)::text FROM hermes_connector.shard WHERE shard = $1`
)

// Force takes the lead of s from the present leader, without asking for Opens and Run of s, and makes the file of s,
// which must not exist yet, as the newest entry left it. It waits until the former leader has stopped serving. The file
// that is then opened with the lead's log becomes the shard's database. what is a word for the operator, such as
// restore.
func (n *Node) Force(ctx context.Context, s Shard, what string) (l *Lead, err error) {
	for !n.Alive() { // Run reports why
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	row, err := n.seen(ctx, s.Name)
	if err == nil && row.schema > uint64(s.File.Format.Schema) {
		err = newerSchema(row, s)
	}
	if err != nil {
		return nil, err
	}
	n.leading.Add(1)
	a, err := n.look.exec(ctx, forceSQL, s.Name, n.me(), row.term, 1+rand.Uint32N(1<<31), what)
	if err == nil && len(a.cells) == 0 {
		err = errors.New("another node has just taken the lead: try again")
	}
	if err != nil {
		return nil, err
	}
	for {
		former, err := n.look.exec(ctx, formerSQL, s.Name)
		if err != nil {
			return nil, err
		}
		if string(former.cells[0][0]) != "true" {
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if l, err = n.begin(ctx, s, row.schema, a.cells[0]); err != nil {
		return nil, fmt.Errorf("the newest database: %w", err)
	}
	l.forced = true
	return l, nil
}

// GiveUp lets another node lead the shard that Force took. The reason that Force stored for the change of leader stays.
func (l *Lead) GiveUp(ctx context.Context) error {
	err := l.node.giveUp(ctx, l.shard, "")
	l.node.leading.Add(-1)
	return err
}
