package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
)

// An engine goes back in time when a copy of it takes over that lacks its newest commits. The commits that it had
// confirmed and then lost are only in the files of the nodes. If a file's history contains the log's newest entry, the
// file has everything that the log has, and more: its node leads, and appends the whole file behind that entry. If
// several nodes have more, the one with the most leads. If another leader stored something after the engine went back,
// the log stays as it is: then a file with other entries is set aside, and the node reports how many those were
// (nameLost).
//
// After a crash a leader's file may have one entry more than the log. Nobody was told that this entry was stored, nor
// that it failed, so it is brought back in the same way.

// verdict is what happens to a file.
type verdict string

const (
	follows   verdict = "" // the log continues it
	hasMore   verdict = "it has more than the log"
	foreign   verdict = "it never was in this cluster"
	elsewhere verdict = "the log went on without what it has"
	tooOld    verdict = "the log no longer has its entry" // such a file is either only behind, which its history shows, or foreign
)

// newest is what is known about a log in order to judge a file that is at entry n.
type newest struct {
	top, term uint64          // of its newest entry
	chain     []byte          // of the newest entry
	entry     *boltfile.Entry // entry n or, if the log lacks it, the first after n; nil: none, or unreadable
}

// judge decides what happens to a file with that history.
func judge(had boltfile.History, log newest) verdict {
	switch {
	case had.N == 0:
		return foreign
	case had.N > log.top && had.Has(log.term, log.top):
		return hasMore
	case had.N > log.top, had.N == log.top && !bytes.Equal(had.Chain[:], log.chain):
		return elsewhere
	case had.N == log.top, log.entry == nil, log.entry.Place == had.Place: // applying the next entry checks the chain
		return follows
	case log.entry.Place.N > had.N && log.entry.Base: // the base has what was between, or that was dropped
		if now, err := log.entry.History(); err == nil && had.Misses(now) == 0 {
			return follows
		}
	case log.entry.Place.N > had.N:
		return tooOld
	}
	return elsewhere
}

// strange says why the log does not continue the file; empty: it does, or the file has more than the log.
func (n *Node) strange(ctx context.Context, of Shard, s shard) (had boltfile.History, why verdict, err error) {
	had, err = boltfile.HistoryAt(of.Path, of.File)
	if errors.Is(err, boltfile.ErrDamaged) {
		return had, verdict(err.Error()), nil
	}
	if err != nil {
		return had, "", err
	}
	log := newest{top: s.top, chain: s.chain}
	a, err := n.look.exec(ctx, `SELECT entry, (SELECT term::text FROM hermes_connector.log WHERE shard = $1 AND n = $3::bigint)
		FROM hermes_connector.log WHERE shard = $1 AND n >= least($2::bigint, $3::bigint) ORDER BY n LIMIT 1`, of.Name, had.N, s.top)
	if err == nil && len(a.cells) == 1 {
		log.term, err = number(a.cells[0][1])
		if e, wrong := boltfile.ParseEntry(a.cells[0][0]); wrong == nil {
			log.entry = &e
		}
	}
	if err != nil {
		return had, "", err
	}
	v := judge(had, log)
	switch v {
	case hasMore:
		n.o.Log.Warn("this node has more than the engine, which went back, or was not told of the last commit", "shard", of.Name, "entry", had.N, "engine", s.top)
		return had, "", nil
	case elsewhere:
		return had, verdict(fmt.Sprintf("%s: it ends with entry %d", v, had.N)), nil
	}
	return had, v, nil
}

// errWaits: another node has more of the lost entries.
var errWaits = errors.New("another node has more than this one")

// patience is for how many leases a node waits for another one that has more.
const patience = 3

// mostKept returns nil if no other node is known to have more of the shard than this one, which is at entry at, and
// more than the log. Such a node can exist only if the log went back. If there is one, mostKept returns errWaits, until
// this node has waited for patience leases; then it returns nil.
func (n *Node) mostKept(ctx context.Context, shard string, at, top uint64) error {
	a, err := n.look.exec(ctx, `SELECT node, places FROM hermes_connector.node WHERE node <> $1 AND (places::jsonb ->> $2::text)::bigint > $3::bigint LIMIT 1`, n.o.Node, shard, max(at, top))
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	until, waits := n.waits[shard]
	switch {
	case len(a.cells) == 0:
		delete(n.waits, shard)
		return nil
	case !waits, time.Since(until) > time.Minute: // a wait that ended longer ago was for an earlier loss
		n.waits[shard] = time.Now().Add(patience * n.o.Lease)
	case time.Now().After(until):
		return nil
	}
	return fmt.Errorf("%w of what the engine has lost: this one waits for %s, %s at most", errWaits, a.cells[0][0], patience*n.o.Lease)
}

// nameLost logs how many commits a new file of the shard lacks that the former one had; if they are more than the one
// that a crash can leave, it also stores the number in the engine for the other nodes.
func (n *Node) nameLost(ctx context.Context, had boltfile.History, lost uint64, of Shard) {
	switch lost {
	case 0:
		return
	case 1: // a crash can leave one
		n.o.Log.Warn("the last commit of this node is not in the log: nobody was told of it, or the engine has lost it", "shard", of.Name, "entry", had.N)
		return
	}
	n.o.Log.Error("the engine has lost commits that it had confirmed, and the log went on without them; the file that was set aside has them", "shard", of.Name, "lost", lost, "newest", had.N)
	if _, err := n.look.exec(ctx, `UPDATE hermes_connector.node SET gone = $2::bigint, gone_at = clock_timestamp() WHERE node = $1`, n.o.Node, lost); err != nil {
		n.o.Log.Warn("the other nodes do not know of it", "err", err)
	}
}
