package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	partSize = 256 << 10
	kindSnap = "snapshot"
	// A snapshot is due after this much log, or time.
	snapshotBytes = 64 << 20
	snapshotAge   = 24 * time.Hour
)

// errTrimmed: the log no longer has what comes after a file, which is merely behind.
var errTrimmed = errors.New("the log no longer has what comes next: the file is filled anew")

// allOfIt is want.Upto of whoever takes all there is.
const allOfIt = 1 << 62

// want is what a file of a shard lacks: the entries after At, up to one.
type want struct {
	Shard string `json:"shard"`
	At    uint64 `json:"at"`
	Upto  uint64 `json:"upto"`
}

// news is the state of a log, and some of what was wanted of it: about 1 MiB, in order.
type news struct {
	top, oldest uint64 // oldest: the number of the first entry that is kept; 0: none is
	chain       []byte
	entries     []boltfile.Entry
	err         error // why there are no more of them
}

const newsSQL = `SELECT s.shard, s.top::text, s.chain, coalesce((SELECT min(n) FROM hermes_connector.log WHERE shard = s.shard), 0)::text, l.n::text, l.entry
	FROM json_to_recordset($1::json) AS m(shard text, at bigint, upto bigint) JOIN hermes_connector.shard s ON s.shard = m.shard
	LEFT JOIN LATERAL (
		SELECT n, entry FROM (SELECT n, entry, sum(length(entry)) OVER (ORDER BY n) AS size FROM hermes_connector.log
			WHERE shard = m.shard AND n > m.at AND n <= least(m.upto, s.top) ORDER BY n LIMIT 1024) e WHERE size - length(entry) < 1 << 20
	) l ON true ORDER BY s.shard, l.n`

// news asks what is new for several files at once.
func (n *Node) news(ctx context.Context, wants ...want) (map[string]news, error) {
	all := make(map[string]news, len(wants))
	if len(wants) == 0 {
		return all, nil
	}
	asked, err := json.Marshal(wants)
	if err != nil {
		return nil, err
	}
	a, err := n.look.exec(ctx, newsSQL, string(asked))
	if err != nil {
		return nil, err
	}
	for _, row := range a.cells {
		name := string(row[0])
		got, known := all[name]
		if !known {
			top, err1 := number(row[1])
			oldest, err2 := number(row[3])
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			got = news{top: top, oldest: oldest, chain: row[2]}
		}
		if row[4] != nil && got.err == nil {
			e, err := boltfile.ParseEntry(row[5])
			if err == nil {
				got.entries = append(got.entries, e)
			} else {
				got.err = fmt.Errorf("entry %s of the log: %v", row[4], err) // the engine's damage is not the file's
			}
		}
		all[name] = got
	}
	return all, nil
}

// advance brings f to entry top of its log. got, unless nil, is what was already read for it.
func (n *Node) advance(ctx context.Context, name string, f *boltfile.Follower, top uint64, got *news) error {
	for f.At().N < top {
		if got == nil {
			all, err := n.news(ctx, want{name, f.At().N, top})
			if err != nil {
				return err
			}
			one := all[name]
			got = &one
		}
		next := f.At().N + 1
		got.entries = slices.DeleteFunc(got.entries, func(e boltfile.Entry) bool { return e.Place.N < next })
		switch {
		case got.oldest > next:
			return errTrimmed
		case len(got.entries) == 0 && got.err != nil:
			return got.err
		case len(got.entries) == 0 || got.entries[0].Place.N != next:
			return fmt.Errorf("entry %d of the log is missing", next)
		}
		if err := f.Apply(got.entries...); err != nil {
			return err
		}
		got = nil
	}
	return nil
}

// adopt opens the file at path as this node's copy, if it is on the log's chain. Else it is set aside, or dropped if it is
// merely so far behind that the log does not have its entry any more.
func (n *Node) adopt(ctx context.Context, c *warmCopy, name, path string, o boltfile.Options, s shard) error {
	f, err := boltfile.Follow(path, o)
	if errors.Is(err, boltfile.ErrDamaged) {
		return n.setAside(path, err.Error())
	}
	if err != nil {
		return err
	}
	at := f.At()
	all, err := n.news(ctx, want{name, max(at.N, 1) - 1, max(at.N, 1)})
	why := ""
	if err == nil {
		why = strange(at, s.top, all[name])
	}
	if err == nil && why == whyTrimmed {
		var behind bool
		if behind, err = n.isBehind(ctx, name, at); behind {
			n.o.Log.Info("this node's file is older than the log: it is filled anew", "shard", name, "entry", at.N, "log from", all[name].oldest)
			return errors.Join(f.Close(), os.Remove(path))
		}
	}
	switch {
	case err != nil:
		return errors.Join(err, f.Close())
	case why != "":
		return errors.Join(f.Close(), n.setAside(path, why))
	}
	c.file = f
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

const whyTrimmed = "the log no longer has its entry"

func ahead(at, top uint64) string {
	return fmt.Sprintf("the log ends with entry %d, and the file has %d more: the engine has lost what it had confirmed, or nobody was told of them", top, at-top)
}

func another(at uint64) string { return fmt.Sprintf("its entry %d is another one than the log's", at) }

// strange says why a file that is at p is not one that the log continues, which ends with entry top, and of which got has
// entry p.N; empty: it is one.
func strange(p boltfile.Place, top uint64, got news) string {
	switch {
	case p.N == 0:
		return "it never was in this cluster"
	case p.N > top:
		return ahead(p.N, top)
	case got.oldest > p.N:
		return whyTrimmed
	case len(got.entries) == 0 || got.entries[0].Place != p:
		return another(p.N)
	}
	return ""
}

// isBehind reports whether the log had the entry that a file ends with: then others have all that the file has.
func (n *Node) isBehind(ctx context.Context, name string, p boltfile.Place) (bool, error) {
	a, err := n.look.exec(ctx, behindSQL, name, p.Term, p.N)
	return err == nil && string(a.cells[0][0]) == "true", err
}

// behindSQL: the leader of that term began below the entry, and the one after it not below.
const behindSQL = `SELECT (EXISTS (SELECT FROM hermes_connector.lead WHERE shard = $1 AND term = $2::bigint AND top < $3::bigint)
	AND NOT EXISTS (SELECT FROM hermes_connector.lead WHERE shard = $1 AND term > $2::bigint AND top < $3::bigint))::text`

// makeAnew makes the file at path of the newest snapshot that is sound, and the log behind it.
func (n *Node) makeAnew(ctx context.Context, name, path string, o boltfile.Options, s shard) (*boltfile.Follower, error) {
	if err := files.RemoveLeftovers(filepath.Dir(path), boltfile.Leftovers(path)); err != nil {
		return nil, err
	}
	a, err := n.look.exec(ctx, `SELECT id::text, part::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' ORDER BY id DESC`, name, kindSnap)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	var all error
	for _, row := range append(a.cells, [][]byte{[]byte("0"), []byte("0")}) { // 0: of the log alone
		id, err1 := number(row[0])
		parts, err2 := number(row[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		f, err := n.makeOf(ctx, name, path, o, id, parts, s)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, boltfile.ErrDamaged), ctx.Err() != nil:
			return nil, errors.Join(all, err)
		case id > 0:
			n.o.Log.Error("a snapshot in the engine is damaged: what was before it is taken", "shard", name, "entry", id, "err", err)
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// makeOf makes the file at path of one snapshot. ErrDamaged: it cannot be made of that.
func (n *Node) makeOf(ctx context.Context, name, path string, o boltfile.Options, id, parts uint64, s shard) (f *boltfile.Follower, err error) {
	err = files.Aside(path, boltfile.Leftovers(path), func(to *os.File) error {
		_, err := io.Copy(to, &partReader{from: func(sql string, args ...any) (answer, error) { return n.look.exec(ctx, sql, args...) },
			shard: name, kind: kindSnap, id: id, parts: parts, missing: boltfile.ErrDamaged})
		return err
	}, func(made string) error {
		if id == 0 { // what is empty is no file of ours
			if err := os.Remove(made); err != nil {
				return err
			}
		}
		if f, err = boltfile.Follow(made, o); err != nil {
			return err
		}
		if at := f.At().N; at != id {
			return fmt.Errorf("%w: it is at entry %d", boltfile.ErrDamaged, at)
		}
		switch err := n.advance(ctx, name, f, s.top, nil); {
		case errors.Is(err, errTrimmed), errors.Is(err, boltfile.ErrNotNext):
			return fmt.Errorf("%w: %w", boltfile.ErrDamaged, err)
		case err != nil:
			return err
		}
		return files.Replace(made, path, "")
	})
	if err != nil && f != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, err
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

// partReader reads the parts of one thing, one after the other.
type partReader struct {
	from        func(sql string, args ...any) (answer, error)
	shard, kind string
	id, parts   uint64
	missing     error // what a missing one is

	next uint64
	rest []byte
}

func (r *partReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next == r.parts {
			return 0, io.EOF
		}
		a, err := r.from(`SELECT bytes FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND id = $3::bigint AND part = $4::bigint`, r.shard, r.kind, r.id, r.next)
		switch {
		case err != nil:
			return 0, err
		case len(a.cells) == 0:
			return 0, fmt.Errorf("%w: part %d of %d is missing", r.missing, r.next, r.parts)
		}
		r.next, r.rest = r.next+1, a.cells[0][0]
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
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
