package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// Checked is what Check has read, and the faults that it found.
type Checked struct {
	Entries   int      `json:"entries"`   // of the log
	Snapshots int      `json:"snapshots"` // whole ones
	File      string   `json:"file"`      // the relation of this node's file to the log
	Wrong     []string `json:"wrong"`     // a sentence each
}

func (c *Checked) wrong(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

// Check reads everything that the engine has of the shard s, and this node's file of it. It checks that the log is
// unbroken, that the snapshots open, and that the newest of them, with the log, gives what the leader has. It changes
// nothing; it writes one snapshot at a time into a folder beside the file, which it removes at the end. n need not run.
func (n *Node) Check(ctx context.Context, s Shard) (c Checked, err error) {
	c.Wrong = []string{}
	row, err := n.seen(ctx, s.Name)
	if err != nil {
		return c, err
	}
	if row.schema > uint64(s.File.Format.Schema) {
		return c, newerSchema(row, s)
	}
	if err := n.checkLog(ctx, s, row, &c); err != nil {
		return c, err
	}
	if err := n.checkSnapshots(ctx, s, row, &c); err != nil {
		return c, err
	}
	return c, n.checkFile(ctx, s, row, &c)
}

// checkLog reads the log up to entry row.top, the newest one when the check began.
func (n *Node) checkLog(ctx context.Context, s Shard, row shard, c *Checked) error {
	last := boltfile.Entry{}
	readable := false // last could be read
	for from := uint64(0); from <= row.top && row.top > 0; {
		a, err := n.look.exec(ctx, `SELECT n::text, term::text, entry FROM hermes_connector.log WHERE shard = $1 AND n >= $2::bigint AND n <= $3::bigint ORDER BY log.n LIMIT $4::bigint`, s.Name, from, row.top, fetchAtOnce)
		if err != nil {
			return err
		}
		if len(a.cells) == 0 {
			c.wrong("the log ends before entry %d, which the leader was told is stored", row.top)
			return nil
		}
		for _, cells := range a.cells {
			at, err1 := number(cells[0])
			term, err2 := number(cells[1])
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			from = at + 1
			c.Entries++
			e, wrong := boltfile.ParseEntry(cells[2])
			switch {
			case wrong != nil:
				c.wrong("entry %d of the log is damaged: a file that is behind it cannot be brought further", at)
			case e.Place.N != at || e.Place.Term != term:
				c.wrong("entry %d of the log is another one: it says that it is %d", at, e.Place.N)
			case readable && !e.Base && !e.Follows(last.Place):
				c.wrong("entry %d of the log does not continue entry %d", at, last.Place.N)
			case at == row.top && !bytes.Equal(e.Place.Chain[:], row.chain):
				c.wrong("the newest entry of the log, %d, is not the one that the leader stored", at)
			}
			last, readable = e, wrong == nil
		}
	}
	return nil
}

// checkSnapshots opens each snapshot, and brings the newest to the end of the log.
func (n *Node) checkSnapshots(ctx context.Context, s Shard, row shard, c *Checked) error {
	a, err := n.look.exec(ctx, `SELECT id::text, part::text FROM hermes_connector.part WHERE shard = $1 AND kind = $2 AND bytes = '' AND id > 0 ORDER BY part.id`, s.Name, kindSnap)
	if err != nil || row.top == 0 {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(s.Path), "checking-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, filepath.Base(s.Path))
	for _, cells := range a.cells {
		id, err1 := number(cells[0])
		parts, err2 := number(cells[1])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := os.RemoveAll(file); err != nil {
			return err
		}
		c.Snapshots++
		h, err := boltfile.History{}, files.Aside(file, boltfile.Leftovers(file), func(to *os.File) error {
			_, err := io.Copy(to, n.snapshot(ctx, s.Name, id, parts))
			return err
		}, func(made string) error { return files.Replace(made, file, "") })
		if err == nil {
			err = boltfile.Verify(file)
		}
		if err == nil {
			h, err = boltfile.HistoryAt(file, s.File)
		}
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			c.wrong("the snapshot at entry %d cannot be used: %v", id, err)
		case h.N != id:
			c.wrong("the snapshot at entry %d is of entry %d", id, h.N)
		}
	}
	// Without a snapshot the file is made from the log alone.
	var is boltfile.Place
	f, err := boltfile.Follow(file, s.File)
	if err == nil {
		err = n.advance(ctx, s.Name, f, row.top, nil)
		is = f.At()
		err = errors.Join(err, f.Close())
	}
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		c.wrong("a new node could not be filled: %v", err)
	case is.N != row.top || !bytes.Equal(is.Chain[:], row.chain):
		c.wrong("a new node would end with entry %d, and not with the leader's %d", is.N, row.top)
	}
	return nil
}

// checkFile compares this node's file with the log.
func (n *Node) checkFile(ctx context.Context, s Shard, row shard, c *Checked) error {
	if !files.Exists(s.Path) {
		c.File = "this node has no file yet"
		return nil
	}
	if err := boltfile.InUse(s.Path, s.File); errors.Is(err, boltfile.ErrLocked) {
		c.File = "this node's file is in use by its server: stop that to have the file compared"
		return nil
	}
	err := boltfile.Verify(s.Path)
	if errors.Is(err, boltfile.ErrDamaged) {
		c.wrong("this node's file: %v; its server sets it aside and fills it anew", err)
		return nil
	}
	if err != nil {
		return err
	}
	had, why, err := n.strange(ctx, s, row)
	switch {
	case err != nil:
		return err
	case why != "":
		c.wrong("this node's file is not what the log says: %s; its server sets it aside and fills it anew", why)
	case had.N > row.top:
		c.wrong("this node's file has %d entries more than the engine: its server brings them back when nobody leads", had.N-row.top)
	default:
		c.File = fmt.Sprintf("this node's file is at entry %d of %d", had.N, row.top)
	}
	return nil
}
