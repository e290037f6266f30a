package spool

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

var birth = time.UnixMilli(1_764_000_000_000)

func openAt(t *testing.T, dir string, history int, c *clock) *Spool {
	t.Helper()
	s, err := Open(dir, Options{Gateway: "desk", History: history, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func entry(n int, chat, text string) Entry {
	return Entry{Digest: "d" + strconv.Itoa(n), Key: "agent:main:telegram:dm:" + chat, Event: relay.Event{
		Text: text, MessageID: relay.MessageID("m" + strconv.Itoa(n)), Source: relay.Source{Platform: "telegram", ChatID: relay.ChatID(chat), ChatType: relay.ChatDM},
	}}
}

func add(t *testing.T, s *Spool, all ...Entry) {
	t.Helper()
	for _, e := range all {
		if err := s.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func cursors(all []Message) (out []Cursor) {
	for _, m := range all {
		out = append(out, m.Cursor)
	}
	return out
}

func texts(all []Message) (out []string) {
	for _, m := range all {
		if m.Entry != nil {
			out = append(out, m.Event.Text)
		} else {
			out = append(out, "> "+m.Said.Text)
		}
	}
	return out
}

// do makes a test of an error short.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCursors: they start at the spool's birth, grow, stay over a restart, and confirm what was polled and nothing else.
func TestCursors(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 10, c)
	add(t, s, entry(1, "a", "one"), entry(2, "b", "two"), entry(3, "a", "three"), entry(1, "a", "one"))
	first := Cursor(birth.UnixMilli())
	if got := cursors(s.Waiting("")); !slices.Equal(got, []Cursor{first, first + 1, first + 2}) {
		t.Fatalf("cursors are %v", got)
	}
	for name, upTo := range map[string]Cursor{"before the birth": first - 1, "not given": first, "not there yet": first + 9, "negative": -1, "huge": 1<<53 - 1} {
		if err := s.Confirm(upTo, ""); !errors.Is(err, ErrNeverGiven) {
			t.Errorf("%s: %v", name, err)
		}
	}
	do(t, s.Poll(first, first+2)) // those of one chat
	do(t, s.Close())
	s = openAt(t, dir, 10, c)
	do(t, s.Confirm(first+2, ""))
	if got := texts(s.Waiting("")); !slices.Equal(got, []string{"two"}) {
		t.Errorf("after a confirmation %v waits, want what was not polled", got)
	}
	do(t, s.Show(first+1))
	do(t, s.Confirm(first+1, ""))
	if n := len(s.Waiting("")); n != 1 {
		t.Error("what was only shown was confirmed")
	}
	do(t, s.Poll(first+1))
	do(t, s.Confirm(first+1, "agent:main:telegram:dm:a"))
	if n := len(s.Waiting("")); n != 1 {
		t.Error("a confirmation for one chat confirmed another's event")
	}
	do(t, s.Confirm(first+1, ""))
	do(t, s.Confirm(first+1, "")) // said again, as by a client that did not get the answer
	add(t, s, entry(2, "b", "two"))
	if n := len(s.Waiting("")); n != 0 {
		t.Error("a delivery that was confirmed came back")
	}
	do(t, s.Close())
	do(t, os.RemoveAll(dir))
	c.now = c.now.Add(time.Minute)
	if s = openAt(t, dir, 10, c); s.head.Next <= first+3 {
		t.Errorf("a new spool gives cursors of the former: %d", s.head.Next)
	}
}

func TestHistory(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	for i := range 5 {
		add(t, s, entry(i, "a", strconv.Itoa(i)))
	}
	all := s.Waiting("")
	do(t, s.Poll(cursors(all)...))
	do(t, s.Confirm(all[3].Cursor, ""))
	do(t, s.Finish("", Outcome{Status: "sent"}, Chat{}, &Said{Key: all[0].Entry.Key, Text: "hi"}, 0))
	want := []string{"3", "4", "> hi"}
	if got := texts(s.Messages(all[0].Entry.Key)); !slices.Equal(got, want) {
		t.Errorf("history is %q, want %q", got, want)
	}
	do(t, s.Close())
	s = openAt(t, dir, 3, c)
	if got := texts(s.Messages(all[0].Entry.Key)); !slices.Equal(got, want) {
		t.Errorf("after a restart it is %q", got)
	}
	c.now = c.now.Add(31 * 24 * time.Hour)
	if got := texts(s.Messages(all[0].Entry.Key)); !slices.Equal(got, []string{"4"}) {
		t.Errorf("after a month it is %q, want what is not confirmed", got)
	}
	do(t, s.Tidy())
	if raw, err := os.ReadFile(s.path()); err != nil || bytes.Contains(raw, []byte(`"hi"`)) {
		t.Errorf("the file still has what is too old (%v)", err)
	}
	do(t, s.Close())
	s = openAt(t, dir, 0, c)
	do(t, s.Confirm(all[4].Cursor, ""))
	if raw, err := os.ReadFile(s.path()); err != nil || bytes.Contains(raw, []byte(`"text"`)) || len(s.Messages(all[0].Entry.Key)) > 0 {
		t.Errorf("without a history, something is kept (%v): %s", err, raw)
	}
	if _, ok := s.Chat(all[0].Entry.Key); !ok {
		t.Error("the conversation is forgotten")
	}
}

// TestNoHistory: what was confirmed goes within a day, though something waits; then the file stays as it is.
func TestNoHistory(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 0, c)
	add(t, s, entry(1, "a", "secret"), entry(2, "a", "waits"))
	all := cursors(s.Waiting(""))
	do(t, s.Poll(all...))
	do(t, s.Confirm(all[0], ""))
	do(t, s.Tidy())
	raw, err := os.ReadFile(s.path())
	do(t, err)
	if bytes.Contains(raw, []byte("secret")) || !bytes.Contains(raw, []byte("waits")) {
		t.Errorf("the file has %s", raw)
	}
	was, err := os.Stat(s.path())
	do(t, err)
	do(t, s.Tidy())
	if is, err := os.Stat(s.path()); err != nil || !os.SameFile(was, is) {
		t.Errorf("with nothing to do, it is written anew: %v", err)
	}
}

// TestHistoryHasBounds: of all chats together.
func TestHistoryHasBounds(t *testing.T) {
	m := newMemory(1000)
	m.apply(line{Head: &head{Version: version, Birth: 1, Next: 1}}, 1)
	for i := range 40 {
		m.apply(line{Event: &Entry{Cursor: Cursor(i + 1), Key: strconv.Itoa(i % 3), Files: []File{{Name: strconv.Itoa(i), Size: 20 << 20}}}}, 1<<20)
		m.apply(line{Confirm: []Cursor{Cursor(i + 1)}}, 10)
	}
	if m.pastBytes > historyBytes || m.pastBytes < historyBytes/2 || m.pastFiles > MaxFiles || len(m.useless) < 24 {
		t.Errorf("history has %d bytes and %d of files, %d files gone", m.pastBytes, m.pastFiles, len(m.useless))
	}
	for i := range maxChats + 50 {
		m.apply(line{Chat: &Chat{Key: "c" + strconv.Itoa(i), At: birth.Add(time.Duration(i))}}, 10)
	}
	if len(m.chats) > maxChats {
		t.Errorf("%d chats", len(m.chats))
	}
}

func TestFullAndLow(t *testing.T) {
	for name, tc := range map[string]struct {
		n    int
		size int64
		file int64
	}{
		"events": {MaxEvents, 100, 0},
		"bytes":  {17, 1 << 20, 0},
		"files":  {22, 100, 24 << 20},
	} {
		m := newMemory(1)
		m.apply(line{Head: &head{Version: version, Birth: 1, Next: 1}}, 1)
		for i := range tc.n {
			if m.full(1) && i < tc.n-1 {
				t.Fatalf("%s: full after %d", name, i)
			}
			m.apply(line{Event: &Entry{Cursor: Cursor(i + 1), Key: "k", Files: []File{{Name: "f" + strconv.Itoa(i), Size: tc.file}}}}, tc.size)
		}
		if !m.full(1) {
			t.Errorf("%s: not full", name)
		}
		for i := range tc.n {
			m.apply(line{Confirm: []Cursor{Cursor(i + 1)}}, 10)
			if left := tc.n - i - 1; m.full(1) && left < tc.n-2 || !m.full(2) && left > tc.n/2 || m.full(2) && left < tc.n/2-1 {
				t.Fatalf("%s: full %t, above half %t with %d of %d left", name, m.full(1), m.full(2), left, tc.n)
			}
		}
		if m.bytes != 0 || m.files != 0 {
			t.Errorf("%s: %d bytes, %d of files wait when nothing does", name, m.bytes, m.files)
		}
	}
}

func TestKeys(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	begin := func(key, digest string) (string, error) {
		o, was, err := s.Begin(key, digest)
		switch {
		case err != nil || !was:
			return "", err
		case o == nil:
			return "?", nil
		}
		return o.Status, nil
	}
	for _, key := range []string{"sent", "crash", "not"} {
		if got, err := begin(key, "d"); got != "" || err != nil {
			t.Fatalf("a new key: %q, %v", got, err)
		}
	}
	if _, err := begin("sent", "d"); !errors.Is(err, ErrRuns) {
		t.Errorf("a key twice at once: %v", err)
	}
	do(t, s.Finish("sent", Outcome{Status: "sent", MessageIDs: []relay.MessageID{"7"}}, Chat{Key: "k"}, &Said{Key: "k", Text: "x"}, 0))
	do(t, s.Finish("not", Outcome{Status: NotSent}, Chat{}, nil, 0))
	for restarts := range 2 {
		for key, want := range map[string]string{"sent": "sent", "crash": "?"} {
			if key == "crash" && restarts == 0 {
				continue // it runs
			}
			if got, err := begin(key, "d"); got != want || err != nil {
				t.Errorf("%s after %d restarts: %q, %v, want %q", key, restarts, got, err, want)
			}
		}
		if _, err := begin("sent", "other"); !errors.Is(err, ErrOtherText) {
			t.Errorf("another text under a key: %v", err)
		}
		do(t, s.Close())
		s = openAt(t, dir, 3, c)
	}
	if got, err := begin("not", "other"); got != "" || err != nil {
		t.Errorf("a key under which nothing was sent: %q, %v, want it free", got, err)
	}
	c.now = c.now.Add(keyLife + time.Second)
	if got, err := begin("sent", "other"); got != "" || err != nil {
		t.Errorf("a key of yesterday: %q, %v, want it free", got, err)
	}
}

// TestOneProcess: a second one is told which has the spool, and gets it when that has closed it.
func TestOneProcess(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	add(t, s, entry(1, "a", "x"))
	_, err := Open(dir, Options{Gateway: "desk", Now: c.Now})
	if held, ok := errors.AsType[Held](err); !ok || held.PID != os.Getpid() || held.Error() != fmt.Sprintf("held by process %d", os.Getpid()) {
		t.Errorf("a second process gets %v", err)
	}
	st, err := Look(dir)
	if err != nil || st.PID != os.Getpid() || st.Waiting != 1 || st.Full {
		t.Errorf("it looks like %+v, %v", st, err)
	}
	do(t, s.Close())
	if st, err = Look(dir); err != nil || st.PID != 0 {
		t.Errorf("closed, it looks like %+v, %v", st, err)
	}
	if _, err := Open(dir, Options{Gateway: "other", Now: c.Now}); err == nil || !strings.Contains(err.Error(), "desk") {
		t.Errorf("another gateway gets %v", err)
	}
	openAt(t, dir, 3, c)
}

// TestAClosedSpoolWritesNothing: not even the file anew, which another process has by then.
func TestAClosedSpoolWritesNothing(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	do(t, s.Close())
	other := openAt(t, dir, 3, c)
	add(t, other, entry(1, "a", "one"))
	for range 2 {
		if err := s.Append(entry(2, "a", "two")); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed spool: %v", err)
		}
	}
	if err := s.Mend(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("mended: %v", err)
	}
	do(t, other.Close())
	if got := texts(openAt(t, dir, 3, c).Waiting("")); !slices.Equal(got, []string{"one"}) {
		t.Errorf("then %v waits", got)
	}
}

// TestDamage: a tail that was not written whole is cut, and what comes next is whole; damage before that is an error.
func TestDamage(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	add(t, s, entry(1, "a", "one"), entry(2, "a", "two"))
	do(t, s.Close())
	path := filepath.Join(dir, spoolName)
	raw, err := os.ReadFile(path)
	do(t, err)
	second := bytes.LastIndexByte(raw[:len(raw)-1], '\n') + 1
	for cut := second; cut < len(raw); cut += 1 + (len(raw)-second)/12 {
		for _, junk := range []string{"", "\x00\x00\x00", "12345678 {}\n"} {
			do(t, os.WriteFile(path, append(slices.Clone(raw[:cut]), junk...), 0o600))
			s := openAt(t, dir, 3, c)
			add(t, s, entry(3, "a", "three"))
			do(t, s.Close())
			s = openAt(t, dir, 3, c)
			if got := texts(s.Waiting("")); !slices.Equal(got, []string{"one", "three"}) {
				t.Fatalf("cut at %d: %v", cut, got)
			}
			do(t, s.Close())
		}
	}
	for _, at := range []int{0, 10, second - 5} {
		bad := slices.Clone(raw)
		bad[at] ^= 4
		do(t, os.WriteFile(path, bad, 0o600))
		if _, err := Open(dir, Options{Gateway: "desk", Now: c.Now}); !errors.Is(err, errDamaged) {
			t.Errorf("damage at %d: %v", at, err)
		}
	}
}

// TestADiskThatFails: what cannot be written is not taken, and once it can be, all is there.
func TestADiskThatFails(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 3, c)
	add(t, s, entry(1, "a", "one"))
	do(t, s.file.Close()) // every write fails from now on
	if err := s.Append(entry(2, "a", "two")); err == nil || s.Has("d2") || s.Broken() == nil {
		t.Fatalf("append on a broken disk: %v, taken %t", err, s.Has("d2"))
	}
	do(t, s.Mend())
	add(t, s, entry(2, "a", "two"))
	do(t, s.Close())
	s = openAt(t, dir, 3, c)
	if got := texts(s.Waiting("")); !slices.Equal(got, []string{"one", "two"}) || s.Broken() != nil {
		t.Errorf("then %v waits", got)
	}
}

func TestFiles(t *testing.T) {
	c, dir := &clock{birth}, t.TempDir()
	s := openAt(t, dir, 1, c)
	keep := func(text string) File {
		t.Helper()
		name, err := s.Keep(func(f *os.File) (string, error) {
			_, err := f.WriteString(text)
			return ".txt", err
		})
		do(t, err)
		return File{Name: name, Size: int64(len(text))}
	}
	e := entry(1, "a", "x")
	e.Files = []File{keep("kept")}
	add(t, s, e)
	keep("nobody's")
	if _, err := s.Keep(func(*os.File) (string, error) { return "", errors.New("cut off") }); err == nil {
		t.Error("a file that was not fetched is kept")
	}
	do(t, s.Close())
	s = openAt(t, dir, 1, c)
	names := func() (out []string) {
		all, err := os.ReadDir(s.FilePath(""))
		do(t, err)
		for _, f := range all {
			out = append(out, f.Name())
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{e.Files[0].Name}) {
		t.Fatalf("the folder holds %v", got)
	}
	first := s.Waiting("")
	do(t, s.Poll(cursors(first)...))
	do(t, s.Confirm(first[0].Cursor, ""))
	if len(names()) != 1 {
		t.Error("a file goes before its message does")
	}
	add(t, s, entry(2, "a", "y"))
	do(t, s.Poll(cursors(s.Waiting(""))...))
	do(t, s.Confirm(s.Waiting("")[0].Cursor, ""))
	if got := names(); len(got) != 0 {
		t.Errorf("the message is gone, and its files are there: %v", got)
	}
}

// TestAgainstAModel drives a spool at random, crashes it with a torn tail, and compares it with what was promised.
func TestAgainstAModel(t *testing.T) {
	for world := range long.Pick(5, 150) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		c, dir := &clock{birth}, t.TempDir()
		perChat := r.IntN(4)
		open := func() *Spool {
			s, err := Open(dir, Options{Gateway: "desk", History: perChat, Now: c.Now})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return s
		}
		s := open()
		n := 0
		var waits []string // texts, oldest first
		polled := make(map[string]bool)
		byText := func() map[string]Cursor {
			out := make(map[string]Cursor)
			for _, m := range s.Waiting("") {
				out[m.Event.Text] = m.Cursor
			}
			return out
		}
		newest := Cursor(0)
		for range 60 {
			c.now = c.now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
			switch r.IntN(8) {
			case 0, 1, 2:
				n++
				text := strings.Repeat("x", r.IntN(100)) + strconv.Itoa(n)
				e := entry(n, strconv.Itoa(r.IntN(3)), text)
				do(t, s.Append(e))
				do(t, s.Append(e)) // redelivered
				waits = append(waits, text)
				if at := byText()[text]; at <= newest {
					t.Fatalf("seed %d: the cursor %d came after %d", seed, at, newest)
				} else {
					newest = at
				}
			case 3:
				at := byText()
				for _, text := range waits[:r.IntN(len(waits)+1)] {
					do(t, s.Poll(at[text]))
					polled[text] = true
				}
			case 4:
				at := byText()
				if k := r.IntN(len(waits) + 1); k > 0 && polled[waits[k-1]] {
					do(t, s.Confirm(at[waits[k-1]], ""))
					kept := slices.Clone(waits[k:])
					for _, text := range slices.Backward(waits[:k]) {
						if !polled[text] {
							kept = slices.Insert(kept, 0, text)
						}
					}
					waits = kept
				}
			case 5:
				do(t, s.Finish("", Outcome{Status: "sent"}, Chat{}, &Said{Key: "agent:main:telegram:dm:1", Text: "s"}, 0))
			case 6:
				do(t, s.rewrite())
			case 7: // a crash: the lock is let go, and the next line was begun
				do(t, s.Close())
				f, err := os.OpenFile(filepath.Join(dir, spoolName), os.O_APPEND|os.O_WRONLY, 0)
				do(t, err)
				raw, err := encode(line{Event: &Entry{Cursor: newest + 1000, Digest: "torn", Key: "torn"}})
				do(t, err)
				_, err = f.Write(raw[:r.IntN(len(raw))])
				do(t, errors.Join(err, f.Close()))
				s = open()
			}
			if got := texts(s.Waiting("")); !slices.Equal(got, waits) {
				t.Fatalf("world %d, seed %d: %v waits, want %v", world, seed, got, waits)
			}
		}
		do(t, s.Close())
	}
}

// FuzzRead: whatever stands in the file, it is read or refused, and what was read is written so that it reads the same.
func FuzzRead(f *testing.F) {
	first, _ := encode(line{Head: &head{Version: version, Birth: 5, Next: 5}})
	e := entry(1, "a", "x")
	e.Cursor, e.Files = 5, []File{{Name: "f", Size: 3}}
	for _, l := range []line{{Event: &e, Polled: []Cursor{5}}, {Event: &e, Confirm: []Cursor{5}}, {Begin: &keyLine{Key: "k"}}, {Said: &Said{Key: "k", Text: "t"}}} {
		raw, _ := encode(l)
		f.Add(raw[9:], false)
	}
	f.Add([]byte(`{"event":{"c":6,"files":[{"name":"../x"}]}}`), true)
	f.Fuzz(func(t *testing.T, raw []byte, as bool) {
		file := slices.Clone(first)
		for text := range bytes.Lines(raw) {
			if as { // as it stands
				file = append(file, text...)
				continue
			}
			file = append(file, fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(bytes.TrimSuffix(text, []byte("\n"))), bytes.TrimSuffix(text, []byte("\n")))...)
		}
		m := newMemory(2)
		if _, err := m.read(file, birth); err != nil {
			return
		}
		var again []byte
		for l := range m.lines() {
			raw, err := encode(l)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, raw...)
		}
		o := newMemory(2)
		if whole, err := o.read(again, birth); err != nil || whole != int64(len(again)) {
			t.Fatalf("%v, %d of %d: %s", err, whole, len(again), again)
		}
		if len(o.waiting) != len(m.waiting) || len(o.chats) != len(m.chats) || len(o.keys) != len(m.keys) || o.head.Next != m.head.Next {
			t.Fatalf("it reads differently: %s", again)
		}
	})
}
