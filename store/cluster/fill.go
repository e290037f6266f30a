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

// fill brings the file at path to entry s.top. A file that is not on the log's chain is set aside. Where there is no log yet,
// the file stays as it is: its first entry will be the whole of it.
func (n *Node) fill(ctx context.Context, of Shard, s shard) error {
	name, path, o := of.Name, of.Path, of.File
	if s.top == 0 {
		return nil
	}
	made := !files.Exists(path)
	if !made {
		if why, err := n.strange(ctx, name, path, o, s); err != nil {
			return err
		} else if why != "" {
			if err := n.setAside(path, why); err != nil {
				return err
			}
			made = true
		}
	}
	if made {
		if err := n.restoreSnapshot(ctx, name, path); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	at, err := boltfile.CatchUp(path, o, func(from uint64) iter.Seq2[[]byte, error] { return n.entries(ctx, name, from, s.top) })
	switch {
	case made && err != nil: // it has nothing that the log has not
		return errors.Join(fmt.Errorf("catch up: %w", err), os.Remove(path))
	case errors.Is(err, boltfile.ErrNotNext), errors.Is(err, boltfile.ErrDamaged): // somebody changed it besides the log
		return errors.Join(err, n.setAside(path, err.Error())) // the next try fills it anew
	case err != nil:
		return fmt.Errorf("catch up: %w", err)
	case at.N != s.top || !bytes.Equal(at.Chain[:], s.chain):
		return fmt.Errorf("catch up: the file is at entry %d, the log at %d", at.N, s.top)
	}
	return nil
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

// strange says why the file at path is not one that the log continues; empty: it is one.
func (n *Node) strange(ctx context.Context, name, path string, o boltfile.Options, s shard) (string, error) {
	got, err := boltfile.Adopt(path)
	if err == nil {
		err = boltfile.Named(got.Bad)
	}
	var p boltfile.Place
	if err == nil {
		p, err = boltfile.CatchUp(path, o, func(uint64) iter.Seq2[[]byte, error] { return func(func([]byte, error) bool) {} })
	}
	switch {
	case errors.Is(err, boltfile.ErrDamaged):
		return err.Error(), nil
	case err != nil:
		return "", err
	case p.N == 0:
		return "it never was in this cluster", nil
	case p.N > s.top:
		return fmt.Sprintf("the log ends with entry %d, and the file has %d more: the engine has lost what it had confirmed, or nobody was told of them", s.top, p.N-s.top), nil
	}
	a, err := n.look.exec(ctx, `SELECT entry FROM hermes_connector.log WHERE shard = $1 AND n = $2::bigint`, name, p.N)
	if err != nil {
		return "", err
	}
	if len(a.cells) == 0 {
		return fmt.Sprintf("it is at entry %d, which the log no longer has", p.N), nil
	}
	if e, err := boltfile.ParseEntry(a.cells[0][0]); err != nil || e.Place != p {
		return fmt.Sprintf("its entry %d is another one than the log's", p.N), nil
	}
	return "", nil
}

// entries are those from one to another, both included.
func (n *Node) entries(ctx context.Context, name string, from, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from <= to {
			a, err := n.look.exec(ctx, `SELECT entry FROM hermes_connector.log WHERE shard = $1 AND n >= $2::bigint AND n <= $3::bigint ORDER BY n LIMIT $4::bigint`, name, from, min(to, from+fetchAtOnce-1), fetchAtOnce)
			if err == nil && len(a.cells) == 0 {
				err = fmt.Errorf("entry %d is missing", from)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range a.cells {
				if !yield(row[0], nil) {
					return
				}
				from++
			}
		}
	}
}

// restoreSnapshot makes the file at path of the newest whole snapshot, if there is one.
func (n *Node) restoreSnapshot(ctx context.Context, name, path string) error {
	a, err := n.look.exec(ctx, `SELECT id::text, part::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' ORDER BY id DESC LIMIT 1`, name, kindSnap)
	if err != nil || len(a.cells) == 0 {
		return err
	}
	id, err1 := number(a.cells[0][0])
	parts, err2 := number(a.cells[0][1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return files.Aside(path, boltfile.Leftovers(path), func(f *os.File) error {
		for part := range parts {
			a, err := n.look.exec(ctx, `SELECT bytes FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND id = $3::bigint AND part = $4::bigint`, name, kindSnap, id, part)
			if err == nil && len(a.cells) == 0 {
				err = fmt.Errorf("part %d of %d is missing", part, parts)
			}
			if err == nil {
				_, err = f.Write(a.cells[0][0])
			}
			if err != nil {
				return err
			}
		}
		return nil
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
