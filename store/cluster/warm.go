package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// Lag is how far a file that this node keeps of a shard is behind the log, as it was seen last.
type Lag struct {
	Shard  string        `json:"shard"`
	N      uint64        `json:"n"`      // the entry it ends with
	Behind uint64        `json:"behind"` // entries
	For    time.Duration `json:"for"`    // since when it is behind; 0: it is not
}

// warmCopy is this node's file of a shard that it does not lead.
type warmCopy struct {
	mu   sync.Mutex         // guards the fields below, and the file; held as long as it is read from the engine
	file *boltfile.Follower // nil: it is not open
	lent bool               // this node leads, and has the file open

	seen  sync.Mutex // guards the fields below
	lag   Lag
	level time.Time // when it was last not behind
}

// note remembers where the open file and its log are.
func (c *warmCopy) note(name string, top uint64) {
	at := c.file.At().N
	c.seen.Lock()
	defer c.seen.Unlock()
	c.lag = Lag{Shard: name, N: at, Behind: top - min(at, top)}
	if c.lag.Behind == 0 || c.level.IsZero() {
		c.level = time.Now()
	}
}

// shut lets go of the file. c.mu must be held.
func (c *warmCopy) shut() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	c.seen.Lock()
	defer c.seen.Unlock()
	c.lag, c.level = Lag{}, time.Time{}
	return err
}

// shutCopies lets go of all files.
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

// copyOf is this node's copy of the shard.
func (n *Node) copyOf(name string) *warmCopy {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.copies == nil {
		n.copies = make(map[string]*warmCopy)
	}
	if n.copies[name] == nil {
		n.copies[name] = &warmCopy{}
	}
	return n.copies[name]
}

// lend closes the file, for whoever leads its shard here, until back.
func (c *warmCopy) lend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent = true
	return c.shut()
}

// back is the end of lend.
func (c *warmCopy) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent = false
}

// Lag is how far the copies are that this node keeps now, by shard. The node's row shows it to the others, as old as
// the renewal of its lease.
func (n *Node) Lag() []Lag {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []Lag{}
	for _, c := range n.copies {
		c.seen.Lock()
		if l := c.lag; l.N > 0 {
			if l.Behind > 0 {
				l.For = time.Since(c.level)
			}
			all = append(all, l)
		}
		c.seen.Unlock()
	}
	slices.SortFunc(all, func(a, b Lag) int { return strings.Compare(a.Shard, b.Shard) })
	return all
}

// lags is Lag as it stands in the node's row.
func (n *Node) lags() string {
	b, err := json.Marshal(n.Lag())
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b)
}

// follow brings this node's copies of shards, which others lead, to the ends of their logs: with one query for all of them,
// if their files are open and not far behind.
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
			seeErr = n.fill(ctx, s, row)
		}
		err = errors.Join(err, seeErr)
	}
	return err
}

// caughtUp brings the open copy of s to where the log was when got was read.
func (n *Node) caughtUp(ctx context.Context, s Shard, got news) error {
	c := n.copyOf(s.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil { // who leads it now opens it
		return nil
	}
	return n.settled(c, s.Name, s.Path, got.top, got.chain, n.advance(ctx, s.Name, c.file, got.top, &got))
}

// fill brings the file at path to entry s.top. A file that is not on the log's chain is set aside. Where there is no log yet,
// the file stays as it is: its first entry will be the whole of it.
func (n *Node) fill(ctx context.Context, of Shard, s shard) error {
	name, path, o := of.Name, of.Path, of.File
	if s.top == 0 {
		return nil
	}
	c := n.copyOf(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent {
		return nil
	}
	if c.file == nil && files.Exists(path) {
		if err := n.adopt(ctx, c, name, path, o, s); err != nil {
			return err
		}
	}
	var err error
	if c.file == nil {
		c.file, err = n.makeAnew(ctx, name, path, o, s)
	} else {
		err = n.advance(ctx, name, c.file, s.top, nil)
	}
	return n.settled(c, name, path, s.top, s.chain, err)
}

// settled ends an attempt to bring the copy to entry top, with err. A file that the log does not continue is set aside, and
// one that is so far behind that the log has no more what it lacks is dropped: the next attempt makes it anew.
func (n *Node) settled(c *warmCopy, name, path string, top uint64, chain []byte, err error) error {
	if c.file == nil {
		return err
	}
	at := c.file.At()
	switch {
	case errors.Is(err, errTrimmed): // until here the log had what the file has
		return errors.Join(err, c.shut(), os.Remove(path))
	case errors.Is(err, boltfile.ErrNotNext), errors.Is(err, boltfile.ErrDamaged): // somebody changed it besides the log
		return errors.Join(err, c.shut(), n.setAside(path, err.Error()))
	case err != nil:
		c.note(name, top)
		return err
	case at.N > top:
		err = errors.New(ahead(at.N, top))
	case !bytes.Equal(at.Chain[:], chain):
		err = errors.New(another(at.N))
	default:
		c.note(name, top)
		return nil
	}
	return errors.Join(err, c.shut(), n.setAside(path, err.Error()))
}
