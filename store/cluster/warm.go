package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// warmCopy is this node's file of a shard that it does not lead.
type warmCopy struct {
	mu   sync.Mutex         // guards the fields below, and the file; held as long as the file is brought further
	file *boltfile.Follower // nil: it is not open
	lent bool               // this node leads, and has the file open
}

// shut closes the file if it is open. c.mu must be held.
func (c *warmCopy) shut() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// shutCopies closes all files.
func (n *Node) shutCopies() (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.copies {
		c.mu.Lock()
		err = errors.Join(err, c.shut())
		c.mu.Unlock()
	}
	return err
}

// copyOf returns this node's copy of the shard.
func (n *Node) copyOf(name string) *warmCopy {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.copies[name] == nil {
		n.copies[name] = &warmCopy{}
	}
	return n.copies[name]
}

// lend closes the file, so that this node can open it as the leader. Until back is called, fill and follow leave the
// file alone.
func (c *warmCopy) lend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent = true
	return c.shut()
}

// back ends lend: this node no longer has the file open as the leader.
func (c *warmCopy) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent = false
}

// follow brings this node's copies of shards, which others lead, to the ends of their logs: with one query for all of
// them, if their files are open and not far behind.
func (n *Node) follow(ctx context.Context, shards ...Shard) (err error) {
	var open []want
	for _, s := range shards {
		c := n.copyOf(s.Name)
		c.mu.Lock()
		if c.file != nil {
			open = append(open, want{s.Name, c.file.At().N, allOfIt})
		}
		c.mu.Unlock()
	}
	all, err := n.news(ctx, open...)
	if err != nil {
		return err
	}
	for _, s := range shards {
		if got, ok := all[s.Name]; ok {
			err = errors.Join(err, n.caughtUp(ctx, s, got))
			continue
		}
		row, seeErr := n.seen(ctx, s.Name)
		if seeErr == nil {
			_, seeErr = n.fill(ctx, s, row)
		}
		err = errors.Join(err, seeErr)
	}
	return err
}

// caughtUp brings the open copy of s to the entry that was the newest of the log when got was read.
func (n *Node) caughtUp(ctx context.Context, s Shard, got news) error {
	c := n.copyOf(s.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil { // it was lent meanwhile: this node leads the shard now
		return nil
	}
	err := n.settled(c, s, got.top, got.chain, n.advance(ctx, s.Name, c.file, got.top, &got))
	if err == nil {
		n.report.isAt(s.Name, c.file.At().N)
	}
	return err
}

// fill brings the shard's file to entry s.top, and returns the entry that the file is then at. It does nothing, and
// returns 0, while this node has the file open as the leader. It sets aside a file that is not on the log's chain. A
// file that has more than the log, or that exists while the log is still empty, is not changed: its next entry will be
// the whole file.
func (n *Node) fill(ctx context.Context, of Shard, s shard) (at uint64, err error) {
	if s.schema > uint64(of.File.Format.Schema) {
		return 0, newerSchema(s, of)
	}
	c := n.copyOf(of.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent {
		return 0, nil
	}
	defer func() {
		if err == nil {
			n.report.isAt(of.Name, at)
		}
	}()
	var had boltfile.History
	var why verdict
	there := files.Exists(of.Path)
	if s.top == 0 {
		if c.file != nil {
			return c.file.At().N, nil
		}
		if there {
			had, _ = boltfile.HistoryAt(of.Path, of.File) // the start of its server reports an error
		}
		return had.N, nil
	}
	if c.file == nil && there {
		had, why, err = n.strange(ctx, of, s)
		switch {
		case err != nil:
			return 0, err
		case why == "" && had.N > s.top:
			return had.N, nil
		case why == "":
			if c.file, err = boltfile.Follow(of.Path, of.File); err != nil {
				return 0, err
			}
		}
	}
	if c.file != nil {
		err = n.advance(ctx, of.Name, c.file, s.top, nil)
	} else {
		c.file, err = n.makeAnew(ctx, of, s, had, why)
	}
	if err = n.settled(c, of, s.top, s.chain, err); err != nil {
		return 0, err
	}
	return c.file.At().N, nil
}

// settled ends an attempt to bring the copy to entry top: err is the result of the attempt. It closes a file that could
// not be brought there, and the next attempt judges that file anew. It sets aside a file that is damaged or does not
// fit the log.
func (n *Node) settled(c *warmCopy, of Shard, top uint64, chain []byte, err error) error {
	if c.file == nil {
		return err
	}
	at := c.file.At()
	switch {
	case errors.Is(err, boltfile.ErrNotNext), errors.Is(err, boltfile.ErrDamaged):
		return errors.Join(err, c.shut(), n.setAside(of.Path, err.Error()))
	case errors.Is(err, errTrimmed), errors.Is(err, errElsewhere):
		return errors.Join(err, c.shut())
	case err == nil && (at.N != top || !bytes.Equal(at.Chain[:], chain)):
		return errors.Join(fmt.Errorf("the file is at entry %d, the log at %d", at.N, top), c.shut())
	}
	return err
}
