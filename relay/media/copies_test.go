package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
)

// fakeCopies are copies in memory.
type fakeCopies struct {
	mu    sync.Mutex
	files map[relay.MediaID][]byte
	part  map[relay.MediaID]bool // not whole
	err   error                  // of all calls, if set
	hangs bool                   // Put and Get do, until their context ends
	gate  chan struct{}          // if set, Get waits until it is closed
	gets  int
}

func newFakeCopies() *fakeCopies {
	return &fakeCopies{files: make(map[relay.MediaID][]byte), part: make(map[relay.MediaID]bool)}
}

func (c *fakeCopies) trouble(ctx context.Context, mayHang bool) error {
	c.mu.Lock()
	hangs, err := c.hangs && mayHang, c.err
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (c *fakeCopies) Put(ctx context.Context, id relay.MediaID, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	err = c.trouble(ctx, true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part[id] = err != nil
	c.files[id] = b
	return err
}

func (c *fakeCopies) Get(ctx context.Context, id relay.MediaID) (io.Reader, error) {
	if err := c.trouble(ctx, true); err != nil {
		return nil, err
	}
	if c.gate != nil {
		<-c.gate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gets++
	if b, ok := c.files[id]; ok && !c.part[id] {
		return bytes.NewReader(b), nil
	}
	return nil, fs.ErrNotExist
}

func (c *fakeCopies) Drop(ctx context.Context, ids ...relay.MediaID) error {
	if err := c.trouble(ctx, false); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.files, id)
		delete(c.part, id)
	}
	return nil
}

func (c *fakeCopies) List(ctx context.Context) (map[relay.MediaID]bool, error) {
	if err := c.trouble(ctx, false); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[relay.MediaID]bool)
	for id := range c.files {
		all[id] = !c.part[id]
	}
	return all, nil
}

// is sets what goes wrong.
func (c *fakeCopies) is(err error, hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.hangs = err, hangs
}

// whole is what is kept, by content.
func (c *fakeCopies) whole() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, b := range c.files {
		if !c.part[id] {
			out = append(out, string(b))
		}
	}
	slices.Sort(out)
	return out
}

func (r *rig) upload(i relay.InstanceID, content string) relay.MediaID {
	r.t.Helper()
	id, _, err := r.k.Put(r.ctx(), i, "", int64(len(content)), strings.NewReader(content))
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// moves has another machine go on: with the same records and copies, and without the files.
func (r *rig) moves() {
	r.t.Helper()
	r.close()
	if err := os.RemoveAll(r.home + "/media"); err != nil {
		r.t.Fatal(err)
	}
	r.open(Options{})
}

// TestAnotherMachineGoesOn: what was uploaded is there, and what came over a network that gives it no more; what has no copy
// is fetched again, and copies go with their records.
func TestAnotherMachineGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCopies()
		r := newRigWith(t, c, Options{}, "i1")
		r.net.has("once", []byte("once"))
		r.net.has("again", []byte("again"))
		ev, buffers := r.accept(one, 0, "once", "again")
		r.want(ev, relay.MediaHeld, relay.MediaHeld)
		id := r.upload("i1", "uploaded")
		if got := c.whole(); !slices.Contains(got, "uploaded") {
			t.Errorf("answered, and copied are %q", got)
		}
		synctest.Wait()
		if got := c.whole(); !slices.Equal(got, []string{"again", "once", "uploaded"}) {
			t.Errorf("copied: %q", got)
		}
		without := r.upload("i1", "copy lost")
		if err := c.Drop(t.Context(), without, ev.Attachments[1].ID); err != nil {
			t.Fatal(err)
		}
		c.files["0123"], c.part["0123"] = []byte("of an upload that was never answered"), true
		r.net.fails("once", errors.New("it gives a file for an hour"))

		r.moves()
		synctest.Wait()
		r.want(ev, relay.MediaHeld, relay.MediaHeld)
		if got := string(r.content("i1", ev.Attachments[0].ID)) + string(r.content("i1", ev.Attachments[1].ID)) + string(r.content("i1", id)); got != "onceagainuploaded" {
			t.Errorf("read %q", got)
		}
		if r.net.asked("once") != 1 || r.net.asked("again") != 2 {
			t.Errorf("asked %d and %d times", r.net.asked("once"), r.net.asked("again"))
		}
		if r.content("i1", without) != nil {
			t.Error("what is nowhere was read")
		}
		synctest.Wait()
		if got := slices.Sorted(maps.Keys(c.files)); len(got) != 3 {
			t.Errorf("copies: %v", got)
		}
		if s := r.k.Stats(); s != (Stats{Files: 3, Bytes: 17}) || len(r.names()) != 3 {
			t.Errorf("%+v, %v", s, r.names())
		}
		r.ack("i1", buffers[0])
		time.Sleep(62 * time.Minute)
		synctest.Wait()
		if len(c.files) != 0 || len(r.names()) != 0 {
			t.Errorf("after an hour: %q, %v", c.whole(), r.names())
		}
	})
}

// TestAnUploadWithoutACopyIsNotAnswered: nor does anything stay of it, and it takes no longer than a gateway waits.
func TestAnUploadWithoutACopyIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCopies()
		r := newRigWith(t, c, Options{}, "i1")
		lost := errors.New("the engine is gone")
		for _, hangs := range []bool{false, true} {
			c.is(lost, hangs)
			began := time.Now()
			if id, _, err := r.k.Put(r.ctx(), "i1", "", 1, strings.NewReader("x")); err == nil || !hangs && !errors.Is(err, lost) || time.Since(began) > copyFor {
				t.Errorf("hangs %v: %q, %v after %v", hangs, id, err, time.Since(began))
			}
			if s := r.k.Stats(); s != (Stats{}) || len(r.names()) != 0 {
				t.Errorf("%+v, %v", s, r.names())
			}
		}
		c.is(nil, false)
		time.Sleep(copyAgain)
		synctest.Wait()
		if len(c.files) != 0 {
			t.Errorf("left: %v", c.files)
		}
		if got := string(r.content("i1", r.upload("i1", "y"))); got != "y" {
			t.Errorf("read %q", got)
		}
	})
}

// TestCopiesCannotBeAsked: a file is neither given up nor fetched again for that, and given out as soon as they can.
func TestCopiesCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCopies()
		r := newRigWith(t, c, Options{}, "i1")
		r.net.has("a", []byte("aaaa"))
		ev, _ := r.accept(one, 4, "a")
		r.want(ev, relay.MediaHeld)
		id := r.upload("i1", "dddd")
		synctest.Wait()
		for _, hangs := range []bool{false, true} {
			c.is(errors.New("the engine is gone"), hangs)
			r.moves()
			r.want(ev, relay.MediaHeld)
			began := time.Now()
			if _, _, err := r.k.Open(r.ctx(), "i1", id); err == nil || errors.Is(err, ErrNoFile) || time.Since(began) > copyFor {
				t.Errorf("hangs %v: %v after %v", hangs, err, time.Since(began))
			}
			c.is(nil, false)
			if got := string(r.content("i1", id)) + string(r.content("i1", ev.Attachments[0].ID)); got != "ddddaaaa" || r.net.asked("a") != 1 {
				t.Errorf("hangs %v: read %q, asked %d times", hangs, got, r.net.asked("a"))
			}
		}
	})
}

// TestADamagedCopy is not given out: the network is asked instead, and an upload is gone.
func TestADamagedCopy(t *testing.T) {
	for what, damage := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b[1] ^= 4; return b },
		"short":   func(b []byte) []byte { return b[1:] },
		"empty":   func([]byte) []byte { return nil },
		"long":    func(b []byte) []byte { return append(b, 'x') },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newFakeCopies()
			r := newRigWith(t, c, Options{}, "i1")
			r.net.has("a", []byte("aaaa"))
			ev, _ := r.accept(one, 4, "a")
			r.want(ev, relay.MediaHeld)
			id := r.upload("i1", "dddd")
			synctest.Wait()
			for id, b := range c.files {
				c.files[id] = damage(b)
			}
			r.moves()
			r.want(ev, relay.MediaHeld)
			if got := string(r.content("i1", ev.Attachments[0].ID)); got != "aaaa" || r.content("i1", id) != nil || r.net.asked("a") != 2 {
				t.Errorf("%s: read %q, asked %d times", what, got, r.net.asked("a"))
			}
			synctest.Wait()
			if got := c.whole(); !slices.Equal(got, []string{"aaaa"}) || len(r.names()) != 1 {
				t.Errorf("%s: copied are %q, here %v", what, got, r.names())
			}
		})
	}
}

// TestManyWantOneFile: it is brought back once, and all have it.
func TestManyWantOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCopies()
		r := newRigWith(t, c, Options{}, "i1")
		id := r.upload("i1", "dddd")
		r.moves()
		c.gate = make(chan struct{})
		var wg sync.WaitGroup
		var got [20]string
		for n := range got {
			wg.Go(func() { got[n] = string(r.content("i1", id)) })
		}
		synctest.Wait()
		close(c.gate)
		wg.Wait()
		for _, g := range got {
			if g != "dddd" || c.gets != 1 {
				t.Errorf("read %q, asked for %d times", got, c.gets)
			}
		}
	})
}

// TestTurnsOfCopies: a tenant with many files does not keep another's waiting, nor an instance its sibling's; drops go first.
func TestTurnsOfCopies(t *testing.T) {
	c := newCopies()
	c.to = newFakeCopies()
	for n := range 4 {
		c.add(relay.MediaID(fmt.Sprint("a", n)), []fair.Owner{{Tenant: "a", Instance: "a1"}})
	}
	c.add("sibling", []fair.Owner{{Tenant: "a", Instance: "a2"}})
	c.add("b0", []fair.Owner{{Tenant: "b", Instance: "b1"}})
	c.add("b1", []fair.Owner{{Tenant: "b", Instance: "b1"}})
	c.add("b1", []fair.Owner{{Tenant: "b", Instance: "b1"}}) // once is enough
	c.drop("a3", "x")
	var got []string
	for {
		gone, f, ok := c.next()
		if !ok {
			break
		}
		got = append(got, fmt.Sprint(gone, f.id))
	}
	if want := []string{"[a3 x]", "[]a0", "[]b0", "[]sibling", "[]b1", "[]a1", "[]a2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
