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
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	partSize    = 256 << 10
	kindSnap    = "snapshot"
	fetchAtOnce = 64 // how many entries one query of a check reads
	// A snapshot is due after this much log, or time.
	snapshotBytes = 64 << 20
	snapshotAge   = 24 * time.Hour
)

// errTrimmed: the log no longer has the next entries of a file, which is merely behind.
var errTrimmed = errors.New("the log no longer has what comes next: the file is filled anew")

// allOfIt is the value of want.Upto that asks for all entries of the log.
const allOfIt = 1 << 62

// want names the entries that a shard's file lacks: those after At, up to Upto.
type want struct {
	Shard string `json:"shard"`
	At    uint64 `json:"at"`
	Upto  uint64 `json:"upto"`
}

// news is the state of a log, and some of the wanted entries: about 1 MiB, in order.
type news struct {
	top, oldest uint64 // oldest: the number of the first entry that is kept; 0: none is
	chain       []byte
	entries     []boltfile.Entry
	err         error // why the entry after these cannot be read
}

const newsSQL = `SELECT s.shard, s.top::text, s.chain, coalesce((SELECT min(n) FROM hermes_connector.log WHERE shard = s.shard), 0)::text, l.n::text, l.entry
	FROM json_to_recordset($1::json) AS m(shard text, at bigint, upto bigint) JOIN hermes_connector.shard s ON s.shard = m.shard
	LEFT JOIN LATERAL (
		SELECT n, entry FROM (SELECT n, entry, sum(length(entry)) OVER (ORDER BY n) AS size FROM hermes_connector.log
			WHERE shard = m.shard AND n > m.at AND n <= least(m.upto, s.top) ORDER BY n LIMIT 1024) e WHERE size - length(entry) < 1 << 20
	) l ON true ORDER BY s.shard, l.n`

// news reads the new entries of several files with one query. It returns them by shard, without shards that the engine
// does not know.
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
				got.err = fmt.Errorf("entry %s of the log: %v", row[4], err) // not %w: the file is not damaged
			}
		}
		all[name] = got
	}
	return all, nil
}

// advance brings f to entry top of its log. got, unless nil, has the first entries that f lacks, which were read
// already.
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
		case len(got.entries) == 0 && got.err != nil:
			return got.err
		case len(got.entries) > 0 && (got.entries[0].Place.N == next || got.entries[0].Base): // a base may come after a gap
		case got.oldest > next:
			return errTrimmed
		default:
			return fmt.Errorf("entry %d of the log is missing", next)
		}
		if err := hasAll(f, got.entries); err != nil {
			return err
		}
		if err := f.Apply(got.entries...); err != nil {
			return err
		}
		got = nil
	}
	return nil
}

// errElsewhere: the log continued without an entry that the file has.
var errElsewhere = errors.New(string(elsewhere))

// hasAll returns errElsewhere if a base among entries lacks an entry that f has.
func hasAll(f *boltfile.Follower, entries []boltfile.Entry) error {
	for _, e := range entries {
		if !e.Base || f.At().N == 0 {
			continue
		}
		had, err1 := f.History()
		now, err2 := e.History()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if had.Misses(now) > 0 {
			return errElsewhere
		}
	}
	return nil
}

// newerSchema returns the error for a shard whose newest entry has a schema that this version does not know.
func newerSchema(s shard, of Shard) error {
	return fmt.Errorf("%w (schema %d, this one knows %d): this node neither copies nor leads until it has that version", boltfile.ErrNewer, s.schema, of.File.Format.Schema)
}

// setAside gives the file at path another name. Files that were set aside before are removed, because they would fill
// the disk. But a file that never was in the cluster gets a name under which it stays, because it is somebody's only
// copy.
func (n *Node) setAside(path, why string) error {
	suffix := aside
	if why == string(foreign) {
		suffix = ".before-cluster-"
	}
	kept, former := path+suffix+time.Now().UTC().Format("20060102T150405.000000000Z"), AsideOf(path)
	if err := os.Rename(path, kept); err != nil {
		return err
	}
	n.o.Log.Error("the database of this node is not what the log says: it is set aside, and filled anew", "why", why, "kept", kept)
	if suffix == aside {
		for _, one := range former {
			if err := os.Remove(one); err != nil {
				n.o.Log.Warn("what was set aside before is not removed", "err", err)
				continue
			}
			n.o.Log.Info("what was set aside before is removed", "file", one)
		}
	}
	return nil
}

// aside separates, in the name of a file that was set aside, the name of the shard's file from the time at which that
// happened.
const aside = ".set-aside-"

// AsideOf returns the files that were set aside from path: at most one, except for those that an older version left.
func AsideOf(path string) (all []string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // if the folder does not exist, there are none
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+aside) {
			all = append(all, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return all
}

// makeAnew makes the shard's file from the newest sound snapshot, and the log behind it. If there is a file already,
// had is its history, and why says why it cannot be used: it is dropped if it is merely behind, otherwise set aside.
func (n *Node) makeAnew(ctx context.Context, of Shard, s shard, had boltfile.History, why verdict) (*boltfile.Follower, error) {
	name, path := of.Name, of.Path
	if err := files.RemoveLeftovers(filepath.Dir(path), boltfile.Leftovers(path)); err != nil {
		return nil, err
	}
	a, err := n.look.exec(ctx, `SELECT id::text, part::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' AND id > 0 ORDER BY part.id DESC`, name, kindSnap)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	var all error
	for _, row := range append(a.cells, [][]byte{[]byte("0"), []byte("0")}) { // 0: from the log alone
		id, err1 := number(row[0])
		parts, err2 := number(row[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		f, err := n.makeOf(ctx, of, s, id, parts, func(now boltfile.History) error {
			lost := had.Misses(now)
			switch {
			case why == "":
				return nil
			case why == tooOld && lost == 0:
				n.o.Log.Info("this node's file was older than the log: it is filled anew", "shard", name, "entry", had.N)
				return nil
			}
			if had.N > 0 {
				n.nameLost(ctx, had, lost, of)
			}
			return n.setAside(path, string(why))
		})
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

// makeOf makes the shard's file from one snapshot and the log behind it, or from the log alone, if id is 0. Before the
// file gets its name, makeOf calls whole with its history, and stops if whole returns an error. ErrDamaged: the
// snapshot cannot be used.
func (n *Node) makeOf(ctx context.Context, of Shard, s shard, id, parts uint64, whole func(boltfile.History) error) (f *boltfile.Follower, err error) {
	name, path := of.Name, of.Path
	err = files.Aside(path, boltfile.Leftovers(path), func(to *os.File) error {
		_, err := io.Copy(to, n.snapshot(ctx, name, id, parts))
		return err
	}, func(made string) error {
		if id == 0 { // Follow makes a new file, and refuses an empty one
			if err := os.Remove(made); err != nil {
				return err
			}
		}
		if f, err = boltfile.Follow(made, of.File); err != nil {
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
		now, err := f.History()
		if err == nil {
			err = whole(now)
		}
		if err != nil {
			return err
		}
		return files.Replace(made, path, "")
	})
	if err != nil && f != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, err
}

// snapshot returns a reader of the snapshot id, which has that many parts. ErrDamaged: a part is missing.
func (n *Node) snapshot(ctx context.Context, name string, id, parts uint64) io.Reader {
	return &partReader{from: func(sql string, args ...any) (answer, error) { return n.look.exec(ctx, sql, args...) },
		shard: name, kind: kindSnap, id: id, parts: parts, missing: boltfile.ErrDamaged}
}

// Snapshots stores a snapshot of the shard whenever one is due, until ctx ends. copied writes the shard's file to w,
// and returns the place in the log at which that content is.
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

// snapshot stores a snapshot, and then drops the log and the snapshots before the last but one. A snapshot is complete
// when its last part is there, which is empty. A snapshot that was begun and not completed has a negative id, and the
// next call drops it.
func (l *Lead) snapshot(ctx context.Context, copied func(ctx context.Context, w io.Writer) (boltfile.Place, error)) error {
	config, err := engineConfig(l.node.o.DSN, l.node.o.Lease)
	if err != nil {
		return err
	}
	to := newEngine(config) // a connection of its own, because this takes long
	defer to.close(ctx)
	draft := -int64(l.term) // no complete snapshot has a negative id
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

// partReader reads the parts of one snapshot or file, one after the other.
type partReader struct {
	from        func(sql string, args ...any) (answer, error)
	shard, kind string
	id, parts   uint64
	missing     error // the error for a missing part

	next uint64 // the number of the part to read next
	rest []byte // what Read has not returned yet of the part before
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

// parts cuts the bytes written to it into parts, and calls put for each.
type parts struct {
	put  func(part int, b []byte) error
	n    int    // how many parts were put
	rest []byte // what was written and is not put yet
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

// end writes the rest, and then the empty part, which shows that all parts are there.
func (p *parts) end() error {
	if len(p.rest) > 0 {
		if err := p.put(p.n, p.rest); err != nil {
			return err
		}
		p.n++
	}
	return p.put(p.n, []byte{})
}
