package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// kindFile is the beginning of the column kind for the parts of a file; the file's id follows it. Their column id is
// the term of the leader that stored them.
const kindFile = "file:"

const (
	filePartSQL = `INSERT INTO hermes_connector.part (shard, kind, id, part, bytes) SELECT shard, $2, term, $4::bigint, $5::bytea FROM hermes_connector.shard WHERE shard = $1 AND term = $3::bigint`
	// wholeSQL: a file is whole when its last part is there, which is empty.
	wholeSQL    = `SELECT id::text, part::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' ORDER BY part.id DESC LIMIT 1`
	filesSQL    = `SELECT kind, bool_or(bytes = '')::text FROM hermes_connector.part WHERE shard = $1 AND starts_with(kind, $2) GROUP BY kind`
	dropFileSQL = `DELETE FROM hermes_connector.part WHERE shard = $1 AND kind IN (SELECT json_array_elements_text($2::json))
	AND EXISTS (SELECT FROM hermes_connector.shard WHERE shard = $1 AND term = $3::bigint)`
)

// Files are the copies of a shard's files in the engine, as its leader keeps them: on connections of their own, so that
// an append to the log never waits for a file. Its methods may be called from any goroutine; each ends at the latest at
// its context's deadline.
type Files struct {
	shard string
	term  uint64
	conns *pool
}

// Files returns the copies of the shard's files.
func (l *Lead) Files() *Files { return &Files{shard: l.shard, term: l.term, conns: l.node.file} }

// exec runs a statement. After ctx is cancelled it runs no further statement; but only the deadline of ctx ends a
// statement that runs, because ending one breaks the connection.
func (f *Files) exec(ctx context.Context, sql string, args ...any) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	bound := context.WithoutCancel(ctx)
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		bound, cancel = context.WithDeadline(bound, at)
		defer cancel()
	}
	return f.conns.exec(bound, sql, args...)
}

// Put stores the content of r as the file's copy, and replaces a former one. After an error a part of it may exist,
// which Get does not accept as a file. ErrFenced: another node leads.
func (f *Files) Put(ctx context.Context, id relay.MediaID, r io.Reader) error {
	if err := f.Drop(ctx, id); err != nil {
		return err
	}
	w := &parts{put: func(part int, b []byte) error {
		a, err := f.exec(ctx, filePartSQL, f.shard, kindFile+string(id), f.term, part, b)
		if err == nil && a.rows != 1 {
			err = ErrFenced
		}
		return err
	}}
	_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, partSize))
	if err == nil {
		err = w.end()
	}
	if err != nil {
		return fmt.Errorf("copy of a file in the engine: %w", err)
	}
	return nil
}

// Get returns the file's copy. It returns fs.ErrNotExist, also from a Read, if the copy is missing or incomplete.
func (f *Files) Get(ctx context.Context, id relay.MediaID) (io.Reader, error) {
	kind := kindFile + string(id)
	a, err := f.exec(ctx, wholeSQL, f.shard, kind)
	if err != nil {
		return nil, err
	}
	if len(a.cells) == 0 {
		return nil, fs.ErrNotExist
	}
	put, err := number(a.cells[0][0])
	if err != nil {
		return nil, err
	}
	size, err := number(a.cells[0][1])
	return &partReader{from: func(sql string, args ...any) (answer, error) { return f.exec(ctx, sql, args...) },
		shard: f.shard, kind: kind, id: put, parts: size, missing: fs.ErrNotExist}, err
}

// Drop removes copies, whole or not, if there are any.
func (f *Files) Drop(ctx context.Context, ids ...relay.MediaID) error {
	kinds := make([]string, len(ids))
	for n, id := range ids {
		kinds[n] = kindFile + string(id)
	}
	named, err := json.Marshal(kinds)
	if err == nil {
		_, err = f.exec(ctx, dropFileSQL, f.shard, string(named), f.term)
	}
	return err
}

// List returns the files that have a copy, and whether it is complete.
func (f *Files) List(ctx context.Context) (map[relay.MediaID]bool, error) {
	a, err := f.exec(ctx, filesSQL, f.shard, kindFile)
	if err != nil {
		return nil, err
	}
	all := make(map[relay.MediaID]bool, len(a.cells))
	for _, row := range a.cells {
		all[relay.MediaID(strings.TrimPrefix(string(row[0]), kindFile))] = string(row[1]) == "true"
	}
	return all, nil
}
