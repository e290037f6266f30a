package media

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// TestTheLifeOfAFile: it is fetched once, is its instances' and nobody else's, stays for an hour behind the last
// acknowledgement, and goes with its record. Without anything to do nothing is written.
func TestTheLifeOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, "i1", "i2", "i3")
		r.net.has("a", []byte("hello"))
		ev, buffers := r.accept([]relay.InstanceID{"i1", "i2"}, 5, "a")
		r.want(ev, relay.MediaHeld)
		id := ev.Attachments[0].ID
		if got := string(r.content("i1", id)) + string(r.content("i2", id)); got != "hellohello" {
			t.Errorf("read %q", got)
		}
		if r.content("i3", id) != nil || r.content("i1", relay.NewMediaID()) != nil || r.content("i1", "../connector.db") != nil {
			t.Error("a foreign or unknown file was read")
		}
		st, err := os.Stat(r.k.folder.path(id))
		dir, err2 := os.Stat(r.k.folder.dir)
		if errors.Join(err, err2) != nil || st.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("modes %v, %v", st.Mode(), dir.Mode())
		}
		if s := r.counted(); s != (Stats{Files: 1, Bytes: 5}) {
			t.Errorf("%+v", s)
		}
		r.ack("i1", buffers[0])
		time.Sleep(3 * time.Hour)
		if r.content("i1", id) == nil {
			t.Error("a file went that an entry names")
		}
		r.ack("i2", buffers[1])
		commits := r.db.Stats().Commits
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if r.content("i1", id) == nil || r.db.Stats().Commits != commits {
			t.Error("it went within the hour, or something was written")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if all, err := r.db.Media.List(r.ctx()); r.content("i1", id) != nil || len(r.names())+len(all) != 0 || err != nil {
			t.Errorf("after an hour: %v, %v, %v", r.names(), all, err)
		}
		commits = r.db.Stats().Commits
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := r.db.Stats().Commits; n != commits || r.net.asked("a") != 1 {
			t.Errorf("idle %d commits, fetched %d times", n-commits, r.net.asked("a"))
		}
	})
}

// TestWhatCannotBeHad: what is refused for good is asked for once, what fails three times.
func TestWhatCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 5 * time.Minute}, "i1")
		r.net.fails("gone", &platforms.MediaError{State: relay.MediaGone, Why: "deleted"})
		r.net.fails("large", &platforms.MediaError{State: relay.MediaTooLarge, Why: "larger than the 20 MB Telegram gives bots"})
		r.net.fails("flaky", errors.New("reset"))
		r.net.has("empty", nil)
		r.net.has("more", sized(MaxFile+1))
		r.net.has("most", sized(MaxFile))
		r.net.give("stuck", func(ctx context.Context) (io.ReadCloser, error) {
			p, w := io.Pipe()
			context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
			return p, nil
		})
		ev, _ := r.accept(one, 0, "gone", "large", "flaky", "empty", "more", "most", "stuck")
		r.want(ev, relay.MediaGone, relay.MediaTooLarge, relay.MediaGone, relay.MediaGone, relay.MediaTooLarge, relay.MediaHeld, relay.MediaGone)
		// The platform says why, at once: nobody waits for room for what will not come.
		r.net.fails("told", &platforms.MediaError{State: relay.MediaTooLarge, Why: "larger than the 20 MB Telegram gives bots"})
		told, _ := r.accept(one, 54<<20, "told")
		r.want(told, relay.MediaTooLarge)
		if h := r.k.Settle(r.ctx(), told.Attachments); h[0].Why != "larger than the 20 MB Telegram gives bots" {
			t.Errorf("%+v", h)
		}
		for ref, want := range map[string]int{"gone": 1, "large": 1, "flaky": 3, "empty": 1, "more": 1, "most": 1, "stuck": 3, "told": 1} {
			if n := r.net.asked(ref); n != want {
				t.Errorf("%s: asked %d times, want %d", ref, n, want)
			}
		}
		if h := r.k.Settle(r.ctx(), ev.Attachments[1:2]); h[0].Why != "larger than the 20 MB Telegram gives bots" {
			t.Errorf("%+v", h)
		}
		if s := r.counted(); s != (Stats{Files: 1, Bytes: MaxFile, Failed: 7}) || len(r.names()) != 1 {
			t.Errorf("%+v, %v", s, r.names())
		}
	})
}

// TestSettleEnds: with its time, with the context, and what did not come in time comes later.
func TestSettleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 20 * time.Second}, "i1")
		late, w := io.Pipe()
		r.net.give("late", func(context.Context) (io.ReadCloser, error) { return late, nil })
		ev, _ := r.accept(one, 3, "late")
		began := time.Now()
		r.want(ev, relay.MediaWaiting)
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("waited %v", d)
		}
		_, _ = w.Write([]byte("x")) // the try would have ended without a byte
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if h := r.k.Settle(ctx, ev.Attachments); h[0].State != relay.MediaWaiting || time.Since(began) > 22*time.Second {
			t.Errorf("%+v", h)
		}
		_, _ = w.Write([]byte("yz"))
		_ = w.Close()
		r.want(ev, relay.MediaHeld)
		if b, err := r.k.Read(t.Context(), ev.Attachments[0].ID, 3); string(b) != "xyz" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := r.k.Read(t.Context(), ev.Attachments[0].ID, 2); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
	})
}

// TestHowManyAtOnce: three of one instance, eight in all, and nobody waits for another's.
func TestHowManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, "i1", "i2", "i3", "i4")
		hold := make(chan struct{})
		slow := func(context.Context) (io.ReadCloser, error) {
			<-hold
			return io.NopCloser(strings.NewReader("x")), nil
		}
		open := func() int {
			synctest.Wait()
			r.net.mu.Lock()
			defer r.net.mu.Unlock()
			return r.net.open
		}
		var all []relay.Event
		for n, want := range []int{3, 6, 8, 8} {
			i := relay.InstanceID([]string{"i1", "i2", "i3", "i4"}[n])
			for _, ref := range []string{"a", "b", "c", "d", "e"} {
				r.net.give(string(i)+ref, slow)
				ev, _ := r.accept([]relay.InstanceID{i}, 1, string(i)+ref)
				all = append(all, ev)
			}
			if got := open(); got != want {
				t.Errorf("%d instances: %d at once, want %d", n+1, got, want)
			}
		}
		close(hold)
		for _, ev := range all {
			r.want(ev, relay.MediaHeld)
		}
		if r.net.most != 8 {
			t.Errorf("%d at once", r.net.most)
		}
	})
}

// TestRoom: released files go first, the oldest first, and only as many as must; what an entry needs stays, and new ones
// wait until there is room; what one instance needs leaves as much to its neighbour.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxTotal: 1000}, "i1", "i2")
		two := []relay.InstanceID{"i2"}
		for _, ref := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			r.net.has(ref, sized(200))
		}
		a, ab := r.accept(one, 200, "a")
		b, bb := r.accept(one, 200, "b")
		r.want(a, relay.MediaHeld)
		r.want(b, relay.MediaHeld)
		c, cb := r.accept(one, 200, "c") // it would need 600, and leave 400
		r.want(c, relay.MediaNoSpace)
		d, db := r.accept(two, 200, "d") // the neighbour has room
		r.want(d, relay.MediaHeld)
		r.ack("i1", ab[0])
		time.Sleep(time.Second)
		r.ack("i1", bb[0])
		r.want(c, relay.MediaHeld)
		e, eb := r.accept(one, 200, "e")
		r.want(e, relay.MediaHeld)
		f, fb := r.accept(one, 200, "f") // c and e are needed
		r.want(f, relay.MediaNoSpace)
		r.ack("i1", fb[0]) // it went on without its file
		time.Sleep(2 * time.Minute)
		r.want(f, relay.MediaNoSpace)
		if r.net.asked("f") != 0 || r.counted() != (Stats{Files: 5, Bytes: 1000, Failed: 1}) {
			t.Errorf("asked %d times, %+v", r.net.asked("f"), r.counted())
		}
		// Of both it comes as soon as one of them has room.
		g, gb := r.accept([]relay.InstanceID{"i1", "i2"}, 200, "g")
		r.want(g, relay.MediaNoSpace)
		r.ack("i2", db[0])
		r.want(g, relay.MediaHeld)
		if r.content("i1", a.Attachments[0].ID) != nil || r.content("i1", b.Attachments[0].ID) == nil || r.content("i2", d.Attachments[0].ID) == nil {
			t.Error("not the oldest released one went, of whoever has the most")
		}
		if s := r.counted(); s != (Stats{Files: 5, Bytes: 1000, Failed: 1}) {
			t.Errorf("%+v", s)
		}
		r.ack("i1", cb[0])
		r.ack("i1", eb[0])
		r.ack("i1", gb[0])
	})
}

// TestMoreThanItsNetworkSaid: such a file takes no room that it was not promised; it is fetched again as one of unknown size.
func TestMoreThanItsNetworkSaid(t *testing.T) {
	for most, want := range map[int64]relay.MediaState{1000: relay.MediaNoSpace, 2 * MaxFile: relay.MediaHeld} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{MaxTotal: most}, "i1")
			r.net.has("liar", sized(600))
			ev, _ := r.accept(one, 10, "liar")
			r.want(ev, want)
			if held := want == relay.MediaHeld; (r.counted().Bytes == 600) != held || (r.net.asked("liar") == 2) != held {
				t.Errorf("of %d: %+v, asked %d times", most, r.counted(), r.net.asked("liar"))
			}
		})
	}
}

// TestFullDisk: below 64 MiB of free disk nothing is fetched and nothing is taken; a disk that is full in the middle
// costs no try.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := int64(minFree + 99)
		r := newRig(t, Options{Free: func(string) (int64, error) { return free, nil }, Timeout: 4 * time.Minute}, "i1")
		r.net.has("a", sized(100))
		ev, _ := r.accept(one, 100, "a")
		r.want(ev, relay.MediaNoSpace)
		if _, _, err := r.k.Put(t.Context(), "i1", "n", 100, bytes.NewReader(sized(100))); !errors.Is(err, ErrNoSpace) || r.net.asked("a") != 0 {
			t.Errorf("%v, asked %d times", err, r.net.asked("a"))
		}
		r.k.mu.Lock()
		free++
		r.k.mu.Unlock()
		r.want(ev, relay.MediaHeld)
		free = 1 << 40
		n := 0
		r.net.give("b", func(context.Context) (io.ReadCloser, error) {
			if n++; n <= 4 {
				return nil, syscall.ENOSPC
			}
			return io.NopCloser(strings.NewReader("b")), nil
		})
		ev, _ = r.accept(one, 1, "b")
		r.want(ev, relay.MediaHeld)
		free = minFree + 2*MaxFile - 1
		temp := func(size int64) (func(), error) {
			_, done, err := r.k.Temp(t.Context(), r.k.Owner(t.Context(), "i1"), size)
			return done, err
		}
		done, err := temp(MaxFile)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := temp(MaxFile); !errors.Is(err, ErrNoSpace) {
			done()
			t.Errorf("a second one of 25 MiB: %v", err)
		}
		small, err := temp(1000)
		if err != nil {
			t.Errorf("a small one beside it: %v", err)
		}
		small()
		done()
		done() // gives nothing back twice
		if done, err = temp(MaxFile); err != nil {
			t.Errorf("after the first is done: %v", err)
		}
		if done, err := temp(MaxFile); !errors.Is(err, ErrNoSpace) {
			done()
			t.Errorf("beside the third: %v", err)
		}
		done()
		if n := len(r.k.room.files); n != 2 { // a and b
			t.Errorf("%d files in the room", n)
		}
	})
}

// TestUploads: whose they are, how long they stay, and what is refused.
func TestUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxTotal: 2 * MaxFile}, "i1", "i2")
		put := func(declared int64, b []byte) (relay.MediaID, error) {
			id, n, err := r.k.Put(t.Context(), "i1", "a.txt", declared, bytes.NewReader(b))
			if err == nil && n != int64(len(b)) {
				t.Errorf("%d bytes, want %d", n, len(b))
			}
			return id, err
		}
		id, err := put(5, []byte("hello"))
		if got := string(r.content("i1", id)); err != nil || got != "hello" || r.content("i2", id) != nil {
			t.Errorf("%v, %q", err, got)
		}
		for want, put := range map[error]func() (relay.MediaID, error){
			ErrEmpty:    func() (relay.MediaID, error) { return put(0, nil) },
			ErrTooLarge: func() (relay.MediaID, error) { return put(MaxFile+1, nil) },
			ErrNoFile: func() (relay.MediaID, error) {
				id, _, err := r.k.Put(t.Context(), "i1", "", -1, io.MultiReader(strings.NewReader("x"), broken{}))
				return id, err
			},
		} {
			if id, err := put(); !errors.Is(err, want) || id != "" {
				t.Errorf("%q, %v, want %v", id, err, want)
			}
		}
		if _, err := put(-1, nil); !errors.Is(err, ErrEmpty) {
			t.Error(err)
		}
		if _, err := put(-1, sized(MaxFile+1)); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		if s := r.k.Stats(); s != (Stats{Files: 1, Bytes: 5}) || len(r.names()) != 1 {
			t.Errorf("%+v, %v", s, r.names())
		}
		first, err := put(MaxFile, sized(MaxFile))
		time.Sleep(time.Second)
		second, err2 := put(MaxFile, sized(MaxFile)) // too much with the five bytes, which were sent, so they may go
		if errors.Join(err, err2) != nil || r.content("i1", id) != nil {
			t.Error(err, err2)
		}
		if _, err := put(1, []byte("x")); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v: an upload went that was not sent", err)
		}
		if r.content("i1", first) == nil || r.content("i1", second) == nil {
			t.Error("an upload went")
		}
		if _, err := put(1, []byte("x")); err != nil || r.content("i1", first) != nil || r.content("i1", second) == nil {
			t.Errorf("%v: not the oldest that was sent went", err)
		}
		time.Sleep(62 * time.Minute)
		synctest.Wait()
		if r.content("i1", second) != nil || len(r.names()) != 0 {
			t.Errorf("after an hour: %v", r.names())
		}
	})
}

// broken is a body that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, ErrNoFile }

// TestAReplayFetchesAgain: also when the file has gone, and when it was given up.
func TestAReplayFetchesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, "i1")
		r.net.has("a", []byte("a"))
		r.net.fails("b", errors.New("reset"))
		ev, buffers := r.accept(one, 1, "a", "b")
		r.want(ev, relay.MediaHeld, relay.MediaGone)
		bury := func(b relay.BufferID) {
			if err := r.db.Lanes.Bury(r.ctx(), "i1", b, "poison"); err != nil {
				t.Fatal(err)
			}
		}
		replay := func() relay.BufferID {
			if n, err := r.db.Lanes.Replay(r.ctx(), nil, "i1"); n.Moved != 1 || err != nil {
				t.Fatal(n, err)
			}
			e, ok, err := r.db.Lanes.Next(r.ctx(), "i1", 0)
			if !ok || err != nil {
				t.Fatal(err)
			}
			return e.Buffer
		}
		bury(buffers[0])
		r.net.has("b", []byte("b"))
		b := replay() // at once: what was held still is
		r.want(ev, relay.MediaHeld, relay.MediaHeld)
		bury(b)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(r.names()) != 0 {
			t.Fatalf("a dead letter keeps %v", r.names())
		}
		replay()
		time.Sleep(2 * time.Minute) // nobody need ask
		synctest.Wait()
		if len(r.names()) != 2 {
			t.Errorf("%v", r.names())
		}
		r.want(ev, relay.MediaHeld, relay.MediaHeld)
	})
}

// TestStart: what the folder and the records do not agree in.
func TestStart(t *testing.T) {
	r := newRig(t, Options{}, "i1")
	r.net.has("a", []byte("aaaa"))
	r.net.has("b", []byte("bbbb"))
	r.net.has("c", []byte("cccc"))
	needed, _ := r.accept(one, 4, "a", "b")
	freed, buffers := r.accept(one, 4, "c")
	r.want(needed, relay.MediaHeld, relay.MediaHeld)
	r.want(freed, relay.MediaHeld)
	r.ack("i1", buffers[0])
	upload, _, err := r.k.Put(r.ctx(), "i1", "", 4, strings.NewReader("dddd"))
	if err != nil {
		t.Fatal(err)
	}
	stays, _, err := r.k.Put(r.ctx(), "i1", "", 4, strings.NewReader("eeee"))
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	for _, err := range []error{
		os.Remove(r.k.folder.path(needed.Attachments[0].ID)), os.Truncate(r.k.folder.path(needed.Attachments[1].ID), 2),
		os.Remove(r.k.folder.path(freed.Attachments[0].ID)), os.Remove(r.k.folder.path(upload)),
		os.WriteFile(r.k.folder.path("0123"), []byte("x"), 0o600), os.WriteFile(r.k.folder.path(stays+partSuffix), []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.open(Options{})
	r.want(needed, relay.MediaHeld, relay.MediaHeld)
	r.want(freed, relay.MediaGone)
	if got := string(r.content("i1", needed.Attachments[0].ID)) + string(r.content("i1", needed.Attachments[1].ID)) + string(r.content("i1", stays)); got != "aaaabbbbeeee" {
		t.Errorf("read %q", got)
	}
	if r.content("i1", upload) != nil || len(r.names()) != 3 || r.net.asked("c") != 1 {
		t.Errorf("%v, asked %d times", r.names(), r.net.asked("c"))
	}
	r.close() // a file can be read before it is counted
	if s := r.k.Stats(); s.Files != 3 || s.Bytes != 12 {
		t.Errorf("%+v", s)
	}
}

// TestBitFlipsInFiles: after a restart no bit of a file can be another one unnoticed; what is needed is fetched again.
func TestBitFlipsInFiles(t *testing.T) {
	r := newRig(t, Options{}, "i1")
	content := sized(40)
	r.net.has("a", content)
	ev, _ := r.accept(one, 40, "a")
	r.want(ev, relay.MediaHeld)
	id := ev.Attachments[0].ID
	for bit := range len(content) * 8 {
		r.close()
		b := bytes.Clone(content)
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(r.k.folder.path(id), b, 0o600); err != nil {
			t.Fatal(err)
		}
		r.open(Options{})
		if got := r.content("i1", id); got != nil {
			t.Fatalf("bit %d: read %q", bit, got)
		}
		r.want(ev, relay.MediaHeld)
		if !bytes.Equal(r.content("i1", id), content) {
			t.Fatalf("bit %d: not fetched again", bit)
		}
	}
}

// TestARottenFileIsNotNamed: what an entry is told of after a restart is what was written, or fetched again before.
func TestARottenFileIsNotNamed(t *testing.T) {
	r := newRig(t, Options{}, "i1")
	content := sized(40)
	r.net.has("a", content)
	ev, _ := r.accept(one, 40, "a")
	r.want(ev, relay.MediaHeld)
	id := ev.Attachments[0].ID
	for what, spoil := range map[string]func() error{
		"another byte": func() error { return os.WriteFile(r.k.folder.path(id), sized(41)[1:], 0o600) },
		"no file":      func() error { return os.Remove(r.k.folder.path(id)) },
	} {
		r.close()
		r.open(Options{})
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		r.want(ev, relay.MediaHeld)
		if !bytes.Equal(r.content("i1", id), content) {
			t.Errorf("%s: it is named and cannot be read", what)
		}
	}
}

// TestNotFetched: twenty files taken and none read; one that is read ends it.
func TestNotFetched(t *testing.T) {
	r := newRig(t, Options{}, "i1")
	r.net.has("a", []byte("a"))
	for n := range 20 {
		if r.k.NotFetched("i1") {
			t.Fatalf("after %d", n)
		}
		ev, b := r.accept(one, 1, "a")
		r.want(ev, relay.MediaHeld)
		r.ack("i1", b[0])
	}
	if !r.k.NotFetched("i1") {
		t.Error("nothing is said after twenty")
	}
	if r.k.Served("i1"); r.k.NotFetched("i1") {
		t.Error("it is said of one that reads")
	}
}

// TestARevokedInstanceReadsNothing: nor does who bears its name next.
func TestARevokedInstanceReadsNothing(t *testing.T) {
	r := newRig(t, Options{}, "i1")
	r.net.has("a", []byte("a"))
	ev, _ := r.accept(one, 1, "a")
	r.want(ev, relay.MediaHeld)
	if _, err := r.db.Revoke(r.ctx(), nil, "i1", "i1"); err != nil {
		t.Fatal(err)
	}
	if r.content("i1", ev.Attachments[0].ID) != nil {
		t.Error("it reads on")
	}
	var all []media.Record
	all, err := r.db.Media.List(r.ctx())
	if err != nil || len(all) != 1 || len(all[0].For)+len(all[0].Needed) != 0 || all[0].Freed.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestABotThatComesBack: the files of one that is removed and soon added again are fetched; nobody waits long for one that
// stays away.
func TestABotThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 5 * time.Minute}, "i1")
		r.net.has("a", []byte("abc"))
		r.net.has("b", []byte("abc"))
		r.k.Host(nil)
		soon, _ := r.accept(one, 3, "a")
		time.Sleep(time.Second)
		r.k.Host([]platforms.Bot{r.net})
		r.want(soon, relay.MediaHeld)
		r.k.Host(nil)
		began := time.Now()
		never, _ := r.accept(one, 3, "b")
		r.want(never, relay.MediaGone)
		h := r.k.Settle(r.ctx(), never.Attachments)
		if d := time.Since(began); d > 10*time.Second || h[0].Why != "its bot is not served here any more, or gives no files" {
			t.Errorf("after %v: %+v", d, h)
		}
	})
}

// TestABotThatComesAndGoes: one that was away at each try, but not all the time, has its files fetched when it stays.
func TestABotThatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 5 * time.Minute}, "i1")
		r.net.has("a", []byte("abc"))
		r.k.Host(nil)
		ev, _ := r.accept(one, 3, "a")
		for range 4 { // nobody is there at the tries, which come after 0, 2 and 6 seconds
			time.Sleep(1500 * time.Millisecond)
			r.k.Host([]platforms.Bot{r.net})
			r.k.Host(nil)
		}
		time.Sleep(time.Second)
		r.k.Host([]platforms.Bot{r.net})
		r.want(ev, relay.MediaHeld)
	})
}
