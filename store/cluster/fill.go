package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	partSize    = 256 << 10
	kindSnap    = "snapshot"
	fetchAtOnce = 64 // entries a query
	// A snapshot is due after this much log, or time.
	snapshotBytes = 64 << 20
	snapshotAge   = 24 * time.Hour
)

// fill brings the shard's file to entry s.top, and returns which it is at then. A file that is not on the log's chain is set
// aside. One that has more than the log, or that comes before there is a log, stays as it is: its next entry will be the whole
// of it.
func (n *Node) fill(ctx context.Context, of Shard, s shard) (at uint64, err error) {
	if s.schema > uint64(of.File.Format.Schema) {
		return 0, newerSchema(s, of)
	}
	defer func() {
		if err == nil {
			n.isAt(of.Name, at)
		}
	}()
	name, path, o := of.Name, of.Path, of.File
	made := !files.Exists(path)
	var had boltfile.History
	if s.top == 0 {
		if !made {
			had, _ = boltfile.HistoryAt(path, o) // whatever is wrong with it, its start says
		}
		return had.N, nil
	}
	if !made {
		var why string
		had, why, err = n.strange(ctx, of, s)
		switch {
		case err != nil:
			return 0, err
		case why != "":
			if err := n.setAside(path, why); err != nil {
				return 0, err
			}
			made = true
		case had.N > s.top:
			return had.N, nil
		}
	}
	if made {
		if err := n.restoreSnapshot(ctx, name, path); err != nil {
			return 0, fmt.Errorf("snapshot: %w", err)
		}
	}
	is, err := boltfile.CatchUp(path, o, func(from uint64) iter.Seq2[[]byte, error] { return n.entries(ctx, name, from, s.top) })
	switch {
	case made && err != nil: // it has nothing that the log has not
		return 0, errors.Join(fmt.Errorf("catch up: %w", err), os.Remove(path))
	case errors.Is(err, boltfile.ErrNotNext), errors.Is(err, boltfile.ErrDamaged): // somebody changed it besides the log
		return 0, errors.Join(err, n.setAside(path, err.Error())) // the next try fills it anew
	case err != nil:
		return 0, fmt.Errorf("catch up: %w", err)
	case is.N != s.top || !bytes.Equal(is.Chain[:], s.chain):
		return 0, fmt.Errorf("catch up: the file is at entry %d, the log at %d", is.N, s.top)
	case had.N > 0 && made:
		err = n.nameLost(ctx, had, of)
	}
	return is.N, err
}

func newerSchema(s shard, of Shard) error {
	return fmt.Errorf("%w (schema %d, this one knows %d): this node neither copies nor leads until it has that version", boltfile.ErrNewer, s.schema, of.File.Format.Schema)
}

// setAside gives the file at path another name.
func (n *Node) setAside(path, why string) error {
	kept := path + ".set-aside-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, kept); err != nil {
		return err
	}
	n.o.Log.Error("the database of this node is not what the log says: it is set aside, and filled anew", "why", why, "kept", kept)
	return nil
}

// entries are those from one to another, both included.
func (n *Node) entries(ctx context.Context, name string, from, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from <= to {
			a, err := n.look.exec(ctx, `SELECT entry, n::text FROM hermes_connector.log WHERE shard = $1 AND n >= $2::bigint AND n <= $3::bigint ORDER BY log.n LIMIT $4::bigint`, name, from, to, fetchAtOnce)
			if err == nil && len(a.cells) == 0 {
				err = fmt.Errorf("entry %d is missing", from)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range a.cells {
				at, err := number(row[1])
				if _, wrong := boltfile.ParseEntry(row[0]); err == nil && wrong != nil {
					err = fmt.Errorf("entry %d of the log is damaged in the engine", at) // not in a file, which nobody sets aside for it
				}
				if !yield(row[0], err) {
					return
				}
				from = at + 1
			}
		}
	}
}

// restoreSnapshot makes the file at path of the newest whole snapshot, if there is one.
func (n *Node) restoreSnapshot(ctx context.Context, name, path string) error {
	a, err := n.look.exec(ctx, `SELECT id::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' ORDER BY part.id DESC LIMIT 1`, name, kindSnap)
	if err != nil || len(a.cells) == 0 {
		return err
	}
	id, err := number(a.cells[0][0])
	if err != nil {
		return err
	}
	return n.restoreSnapshotAt(ctx, name, path, id)
}

// restoreSnapshotAt makes the file at path of one whole snapshot.
func (n *Node) restoreSnapshotAt(ctx context.Context, name, path string, id uint64) error {
	return files.Aside(path, boltfile.Leftovers(path), func(f *os.File) error {
		for part := 0; ; part++ {
			a, err := n.look.exec(ctx, `SELECT bytes FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND id = $3::bigint AND part = $4::bigint`, name, kindSnap, id, part)
			if err == nil && len(a.cells) == 0 {
				err = fmt.Errorf("part %d is missing", part)
			}
			if err != nil || len(a.cells[0][0]) == 0 { // the empty one is the last
				return err
			}
			if _, err := f.Write(a.cells[0][0]); err != nil {
				return err
			}
		}
	}, func(made string) error { return files.Replace(made, path, "") })
}

// Snapshots stores a snapshot of the shard whenever one is due, until ctx ends. copied writes the shard's file to w, and
// says where in the log that is.
func (l *Lead) Snapshots(ctx context.Context, copied func(ctx context.Context, w io.Writer) (boltfile.Place, error)) error {
	began := time.Now()
	for tick := time.Tick(time.Minute); ; {
		a, err := l.node.look.exec(ctx, `SELECT coalesce(sum(length(entry)), 0)::text, coalesce(max(n), 0)::text FROM hermes_connector.log
			WHERE shard = $1 AND n > (SELECT coalesce(max(id), 0) FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '')`, l.shard, kindSnap)
		if err == nil {
			var size, newest uint64
			size, err = number(a.cells[0][0])
			if err == nil {
				newest, err = number(a.cells[0][1])
			}
			if err == nil && newest > 0 && (size >= snapshotBytes || time.Since(began) >= snapshotAge) {
				err = l.snapshot(ctx, copied)
				began = time.Now()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			l.node.o.Log.Warn("no snapshot was stored in the engine", "shard", l.shard, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// snapshot stores one, and then drops the log before the last but one. It is whole when its last part is there, which is
// empty: a snapshot that was begun and not ended is dropped with the next.
func (l *Lead) snapshot(ctx context.Context, copied func(ctx context.Context, w io.Writer) (boltfile.Place, error)) error {
	to, err := newEngine(l.node.o.DSN, l.node.o.Lease) // it takes long
	if err != nil {
		return err
	}
	defer to.close(ctx)
	draft := -int64(l.term) // no snapshot has that number
	if _, err := to.exec(ctx, `DELETE FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND id < 0`, l.shard, kindSnap); err != nil {
		return err
	}
	w := &parts{put: func(part int, b []byte) error {
		_, err := to.exec(ctx, `INSERT INTO hermes_connector.part (shard, kind, id, part, bytes) VALUES ($1, $2, $3::bigint, $4::bigint, $5::bytea)`, l.shard, kindSnap, draft, part, b)
		return err
	}}
	at, err := copied(ctx, w)
	if err == nil {
		err = w.end()
	}
	if err == nil {
		_, err = to.exec(ctx, `UPDATE hermes_connector.part SET id = $4::bigint WHERE shard = $1 AND kind = $2 AND id = $3::bigint`, l.shard, kindSnap, draft, at.N)
	}
	if err == nil {
		_, err = to.exec(ctx, `WITH kept AS (SELECT id FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' ORDER BY id DESC LIMIT 2),
			gone AS (DELETE FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND id < (SELECT min(id) FROM kept))
			DELETE FROM hermes_connector.log WHERE shard = $1 AND (SELECT count(*) FROM kept) = 2 AND n < (SELECT min(id) FROM kept)`, l.shard, kindSnap)
	}
	if err == nil {
		l.node.o.Log.Info("a snapshot is in the engine", "shard", l.shard, "entry", at.N, "parts", w.n)
	}
	return err
}

// parts cuts what is written into parts.
type parts struct {
	put  func(part int, b []byte) error
	n    int
	rest []byte
}

func (p *parts) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for len(p.rest) >= partSize {
		if err := p.put(p.n, p.rest[:partSize]); err != nil {
			return 0, err
		}
		p.n++
		p.rest = slices.Delete(p.rest, 0, partSize)
	}
	return len(b), nil
}

// end writes what is left, and the empty part that says it is whole.
func (p *parts) end() error {
	if len(p.rest) > 0 {
		if err := p.put(p.n, p.rest); err != nil {
			return err
		}
		p.n++
	}
	return p.put(p.n, []byte{})
}
