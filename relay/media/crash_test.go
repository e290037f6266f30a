package media

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// world is what a crash left: the database and the folder, copied at a moment at which a step had just ended.
type world struct {
	after string
	home  string
	put   []relay.MediaID // uploads that were answered by then
}

// copyTo copies what is on disk. lost: the names that no sync of the folder has made durable are not there, and what no
// sync of the file has is empty, as after a power cut.
func copyTo(t *testing.T, from, to string, lost bool, after string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(to, "media"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(filepath.Join(from, "connector.db"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(filepath.Join(from, "media"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("connector.db", db)
	newest, at := "", int64(0)
	for _, e := range all {
		if st, err := e.Info(); err == nil && st.ModTime().UnixNano() >= at {
			newest, at = e.Name(), st.ModTime().UnixNano()
		}
	}
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(from, "media", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name()
		if isPart := strings.HasSuffix(name, partSuffix); lost && isPart && after != "synced" {
			b = b[:len(b)/2]
		}
		if lost && after == "named" && name == newest {
			name += partSuffix
		}
		write(filepath.Join("media", name), b)
	}
}

// TestACrashAtEveryStep: files are fetched, sent, acknowledged, evicted and let go of, and after every step the process
// is killed or the power fails. Whatever is left of it, the next start comes to the same: a record that says held has its
// file, whole; what an entry names is held in the end; an upload that was answered is there; nothing else lies in the folder.
func TestACrashAtEveryStep(t *testing.T) {
	var mu sync.Mutex
	var worlds []world
	var answered []relay.MediaID
	var r *rig
	base := t.TempDir()
	step := func(after string) {
		mu.Lock()
		defer mu.Unlock()
		for _, lost := range []bool{false, true} {
			w := world{fmt.Sprintf("%d: %s, power cut %v", len(worlds), after, lost), filepath.Join(base, fmt.Sprint(len(worlds))), slices.Clone(answered)}
			copyTo(t, r.home, w.home, lost, after)
			worlds = append(worlds, w)
		}
	}
	r = newRig(t, Options{}, "i1", "i2")
	live := false
	r.close()
	r.open(Options{MaxTotal: 1410, Step: func(after string) {
		if live {
			step(after)
		}
	}})
	live = true
	contents := map[string][]byte{}
	for n, ref := range []string{"a", "b", "c", "d"} {
		contents[ref] = sized(300 + n)
		r.net.has(ref, contents[ref])
	}
	uploads := map[relay.MediaID][]byte{}
	put := func(b []byte) {
		id, _, err := r.k.Put(r.ctx(), "i1", "n.txt", int64(len(b)), bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		answered = append(answered, id)
		mu.Unlock()
		uploads[id] = b
	}
	both := []relay.InstanceID{"i1", "i2"}
	a, ab := r.accept(both, 300, "a")
	step("accepted")
	r.want(a, relay.MediaHeld)
	put(sized(200))
	step("answered")
	b, bb := r.accept(one, 301, "b")
	r.want(b, relay.MediaHeld)
	r.ack("i1", ab[0])
	step("acknowledged by one")
	r.ack("i2", ab[1])
	r.ack("i1", bb[0])
	step("acknowledged")
	c, cb := r.accept(one, 302, "c")
	r.want(c, relay.MediaHeld)
	if err := r.db.Lanes.Bury(r.ctx(), "i1", cb[0], "poison"); err != nil {
		t.Fatal(err)
	}
	step("buried")
	if n, err := r.db.Lanes.Replay(r.ctx(), nil, "i1"); n.Moved != 1 || err != nil {
		t.Fatal(n, err)
	}
	step("replayed")
	put(sized(100))
	mu.Lock()
	waits := answered[len(answered)-1]
	mu.Unlock()
	answer, err := r.db.Outbox.Add(r.ctx(), outbox.Record{Instance: "i1", File: waits, Frame: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	step("waits with an answer")
	d, _ := r.accept(one, 303, "d") // a gives way
	r.want(d, relay.MediaHeld)
	step("with a full room")
	if _, err := r.db.Outbox.Change(r.ctx(), answer.Number, func(*outbox.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	step("end")
	live = false
	r.close()

	seen := map[string]bool{}
	for _, w := range worlds {
		seen[w.after[strings.Index(w.after, ": ")+2:strings.Index(w.after, ",")]] = true
		x := &rig{t: t, home: w.home, net: r.net}
		x.open(Options{MaxTotal: 1410})
		x.judge(w, contents, uploads)
		x.close()
	}
	for _, s := range []string{"made", "written", "synced", "named", "name synced", "recorded", "let go of"} {
		if !seen[s] {
			t.Errorf("no crash after %q", s)
		}
	}
	t.Logf("%d crashes", len(worlds))
}

// judge looks at what came of a crash.
func (r *rig) judge(w world, contents map[string][]byte, uploads map[relay.MediaID][]byte) {
	r.t.Helper()
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		n := uint64(0)
		for {
			e, ok, err := r.db.Lanes.Next(r.ctx(), i, n)
			if err != nil {
				r.t.Fatal(err)
			}
			if !ok {
				break
			}
			n = e.Buffer.Seq
			for k, h := range r.k.Settle(r.ctx(), e.Event.Attachments) {
				got := r.content(i, h.ID)
				if want := contents[e.Event.Attachments[k].Ref]; h.State != relay.MediaHeld || !bytes.Equal(got, want) {
					r.t.Errorf("%s: %s of %s is %s, %d bytes", w.after, h.Ref, i, h.State, len(got))
				}
			}
		}
	}
	all, err := r.db.Media.List(r.ctx())
	if err != nil {
		r.t.Fatal(err)
	}
	held := 0
	for _, rec := range all {
		if rec.State != relay.MediaHeld {
			continue
		}
		held++
		want := contents[rec.Ref]
		if rec.Uploaded() {
			want = uploads[rec.ID]
		}
		b, err := os.ReadFile(r.k.folder.path(rec.ID))
		if err != nil || want != nil && !bytes.Equal(b, want) || int64(len(b)) != rec.Facts.Size {
			r.t.Errorf("%s: a record says held of %d bytes, %v", w.after, len(b), err)
		}
	}
	open, err := r.db.Outbox.List(r.ctx(), outbox.Filter{})
	for _, a := range open {
		if got := r.content("i1", a.File); len(got) == 0 || err != nil {
			r.t.Errorf("%s: the file of an answer that waits has %d bytes, %v", w.after, len(got), err)
		}
	}
	for _, id := range w.put {
		if got := r.content("i1", id); !bytes.Equal(got, uploads[id]) {
			r.t.Errorf("%s: an upload that was answered has %d bytes", w.after, len(got))
		}
	}
	if names := r.names(); len(names) != held || !files.Exists(r.k.folder.dir) {
		r.t.Errorf("%s: %v in the folder, %d held", w.after, names, held)
	}
}
