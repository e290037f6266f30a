package history

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/table/tabletest"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// rig is a history in a database of its own.
type rig struct {
	*Records
	db    *tabletest.DB
	batch *Batch // of the transaction under way
}

func open(t testing.TB) *rig {
	db := tabletest.Open(t, Newest, Older)
	r := &rig{Records: New(db.DB), db: db}
	db.Rides = append(db.Rides, func(w *table.Writer) (func(), error) { return r.Ride(w, *r.batch, 1000) })
	return r
}

// commit carries out fn in a transaction, which changes something else, too.
func (r *rig) commit(t testing.TB, fn func(*table.Writer, *Batch) error) {
	t.Helper()
	err := r.db.Change(t.Context(), "test", func(w *table.Writer) error {
		r.batch = new(Batch)
		return errors.Join(fn(w, r.batch), w.Put(table.Index, []byte("other"), r.db.Time))
	})
	must.Succeed(t, err)
}

func (r *rig) list(t testing.TB, q Query) []Message {
	t.Helper()
	all, err := r.List(t.Context(), q)
	must.Succeed(t, err)
	return all
}

// model is the history as a list, with all that is known of each message in its place.
type model struct {
	all []*known
	seq map[relay.InstanceID]uint64
}

type known struct {
	Message
	seq    uint64 // the number under which it waits, or waited last
	hidden bool   // it has another verdict
}

// waits are those of a lane that are not taken, by their chat: the oldest of each.
func (m *model) waits() (out []*known) {
	met := make(map[string]bool)
	for _, k := range m.all {
		lane := fmt.Sprint(k.Instance, k.Of.Chat)
		if k.seq != 0 && k.TakenAt.IsZero() && k.Died == "" && !k.hidden && !met[lane] {
			met[lane] = true
			out = append(out, k)
		}
	}
	return out
}

// answered gives a to those that it answers: the one that it names, or those that were taken last in its chat.
func (m *model) answered(i relay.InstanceID, c relay.Chat, to relay.EventID, a Answer) {
	at := cmp.Or(a.Queued, a.At)
	var last time.Time
	for _, k := range m.all {
		if k.Instance == i && k.Of.Chat == c && k.TakenAt.After(last) {
			last = k.TakenAt
		}
	}
	for _, k := range m.all {
		if k.Instance != i || k.Of.Chat != c || k.TakenAt.IsZero() {
			continue
		}
		if to != "" && k.Of.ID == to || to == "" && k.TakenAt.Equal(last) && at.Sub(last) <= answeredWithin {
			k.Answers = append(k.Answers, a)
		}
	}
}

// TestAgainstAModel: what is listed is what a plain list of messages says, whatever came between, however it was cut into
// commits and records, for every question.
func TestAgainstAModel(t *testing.T) {
	for seed := range long.Pick(uint64(10), 200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r, m := open(t), &model{seq: make(map[relay.InstanceID]uint64)}
		start := r.db.Time
		pick := func(of string, n int) string { return of + fmt.Sprint(dice.IntN(n)) }
		var queued []Said
		for step := range 60 {
			r.commit(t, func(_ *table.Writer, b *Batch) error {
				for range 1 + dice.IntN(4) {
					r.db.Time = r.db.Time.Add(time.Duration(1+dice.IntN(20*60_000)) * time.Millisecond)
					m.step(r, b, dice, pick, &queued, step)
				}
				return nil
			})
		}
		var want []Message
		for _, k := range m.all {
			slices.SortStableFunc(k.Answers, func(a, b Answer) int { return a.At.Compare(b.At) })
			if !k.hidden {
				want = append(want, k.Message)
			}
		}
		person := Who{Platform: "telegram", User: "user1", Instance: "inst0"}
		since := start.Add(r.db.Time.Sub(start) / 2)
		event := want[len(want)/2].Of.ID
		for name, q := range map[string]struct {
			Query
			picks func(Message) bool
		}{
			"all":    {Query{}, func(Message) bool { return true }},
			"person": {Query{Who: func(w Who) bool { return w == person }}, func(m Message) bool { return m.Of.User == "user1" && m.Instance == "inst0" }},
			"since":  {Query{Since: since}, func(m Message) bool { return !m.At.Before(since) }},
			"event":  {Query{Event: event}, func(m Message) bool { return m.Of.ID == event }},
		} {
			var picked []Message
			for _, m := range want {
				if q.picks(m) {
					picked = append(picked, m)
				}
			}
			got := r.list(t, q.Query)
			if diff := gocmp.Diff(picked, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, %s: %s", seed, name, diff)
			}
			q.Last = 3
			if got, want := r.list(t, q.Query), newest(picked, 3); !gocmp.Equal(want, got, cmpopts.EquateEmpty()) {
				t.Fatalf("seed %d, the last three of %s: %s", seed, name, gocmp.Diff(want, got))
			}
		}
		r.reload(t)
	}
}

// reload wants what is remembered to be what the file says.
func (r *rig) reload(t *testing.T) {
	t.Helper()
	was := r.log
	must.Succeed(t, r.db.File.Read(t.Context(), func(x *bolt.Tx) error { r.Load(x); return nil }))
	if !reflect.DeepEqual(r.log, was) {
		t.Errorf("remembered %+v, stored %+v", was, r.log)
	}
}

// newest are the verdicts about the newest n messages.
func newest(all []Message, n int) []Message {
	from, last := len(all), Event{}
	for ; from > 0; from-- {
		if of := all[from-1].Of; of.ID != last.ID || of.Chat != last.Chat {
			if n--; n < 0 {
				break
			}
			last = of
		}
	}
	return all[from:]
}

// step does one thing, in r and in m.
func (m *model) step(r *rig, b *Batch, dice *rand.Rand, pick func(string, int) string, queued *[]Said, step int) {
	now := r.db.Time
	chat := relay.Chat{Bot: relay.Bot{Platform: "telegram", ID: relay.BotID(pick("7000", 2))}, ID: relay.ChatID(pick("-100", 3))}
	waits := m.waits()
	switch what := dice.IntN(10); {
	case what < 4 || len(waits) == 0:
		of := Event{ID: relay.EventID(fmt.Sprintf("%s:%d", chat.ID, len(m.all))), Chat: chat, Type: relay.ChatGroup, User: relay.UserID(pick("user", 3))}
		if dice.IntN(3) == 0 {
			of.ID = relay.EventID(fmt.Sprint("press:", len(m.all)))
		}
		for n := range 1 + dice.IntN(2) {
			c := Came{At: now, Of: of, Verdict: Verdict{relay.InstanceID(fmt.Sprint("inst", n)), "delivered"}}
			switch dice.IntN(6) {
			case 0:
				c.Why = "not_visible"
			case 1:
				c.Why = "undecided"
			default:
				m.seq[c.Instance]++
				c.Seq = m.seq[c.Instance]
			}
			b.Came(c)
			m.all = append(m.all, &known{Message: Message{At: now, Of: of, Verdict: c.Verdict}, seq: c.Seq})
		}
	case what == 4:
		for _, k := range m.all {
			if k.Why == "undecided" && !k.hidden {
				k.hidden = true
				c := Came{At: now, Of: k.Of, Verdict: Verdict{k.Instance, "delivered"}, Again: true}
				m.seq[c.Instance]++
				c.Seq = m.seq[c.Instance]
				b.Came(c)
				m.all = append(m.all, &known{Message: Message{At: now, Of: k.Of, Verdict: c.Verdict}, seq: c.Seq})
				break
			}
		}
	case what == 5:
		k := waits[dice.IntN(len(waits))]
		b.Died(now, k.Instance, k.seq, "overflow")
		if k.Died = "overflow"; dice.IntN(2) == 0 {
			m.seq[k.Instance]++
			b.Replayed(now, k.Instance, k.seq, m.seq[k.Instance])
			k.Died, k.seq = "", m.seq[k.Instance]
		}
	case what < 8:
		k := waits[dice.IntN(len(waits))]
		for _, o := range m.all { // now and then with what came behind it there
			if o == k || dice.IntN(3) == 0 && slices.Contains(m.waits(), o) && o.Instance == k.Instance && o.Of.Chat == k.Of.Chat {
				b.Taken(now, o.Instance, o.seq)
				o.TakenAt = now
			}
		}
	default:
		s := Said{
			At: now, Instance: relay.InstanceID(pick("inst", 2)), Chat: chat, Op: relay.OpSend, Message: relay.MessageID(fmt.Sprint("m", step, "-", now.UnixMilli())),
			State: Sent,
		}
		if k := m.all[dice.IntN(len(m.all))]; dice.IntN(3) == 0 && !k.TakenAt.IsZero() {
			s.To, s.Instance, s.Chat = k.Of.ID, k.Instance, k.Of.Chat
		}
		a := Answer{At: now, Op: s.Op, Message: s.Message, State: Sent}
		if dice.IntN(4) == 0 {
			s.State, s.Message = Queued, "q:"+s.Message
			a.State, a.Message, a.Queued = Queued, s.Message, now
			*queued = append(*queued, s)
		}
		r.Said(s)
		m.answered(s.Instance, s.Chat, s.To, a)
		if len(*queued) > 0 && dice.IntN(2) == 0 {
			was := (*queued)[0]
			*queued = (*queued)[1:]
			r.db.Time = r.db.Time.Add(time.Millisecond)
			then := was
			then.At, then.State, then.Message, then.Queued, then.To = r.db.Time, Sent, "real"+was.Message, was.Message, ""
			r.Said(then)
			for _, k := range m.all {
				for n := range k.Answers {
					if x := &k.Answers[n]; x.Message == was.Message {
						x.At, x.State, x.Message = then.At, Sent, then.Message
					}
				}
			}
		}
	}
}

// came is a message of a person's in a chat with one.
func came(at time.Time, n int) Came {
	chat := relay.Chat{Bot: relay.Bot{Platform: "telegram", ID: "7000001"}, ID: "12345678"}
	return Came{
		At: at, Of: Event{ID: relay.EventID(fmt.Sprintf("12345678:%d", 4000+n)), Chat: chat, Type: relay.ChatDM, User: "12345678"},
		Verdict: Verdict{"home", "delivered"}, Seq: uint64(n + 1),
	}
}

// TestWhatIsOldGoes: after thirty days a message is listed no more, and its notes are gone from the file a day later, with a
// commit that is made anyway; what is too much goes at once, the oldest first.
func TestWhatIsOldGoes(t *testing.T) {
	r := open(t)
	stored := func() (n int64) {
		_ = r.db.File.Read(t.Context(), func(x *bolt.Tx) error { n = contentOf(x).older.bytes; return nil })
		return n
	}
	write := func(from, to int) {
		r.commit(t, func(_ *table.Writer, b *Batch) error {
			for n := range to - from {
				b.Came(came(r.db.Time, from+n))
			}
			return nil
		})
	}
	write(0, 500)
	r.db.Time = r.db.Time.Add(Kept)
	write(500, 600)
	if got := len(r.list(t, Query{})); got != 600 {
		t.Errorf("%d are listed at the end of the thirtieth day, want 600", got)
	}
	r.db.Time = r.db.Time.Add(time.Second)
	if got := r.list(t, Query{}); len(got) != 100 || got[0].Of.ID != "12345678:4500" {
		t.Errorf("%d are listed after that, want the last 100", len(got))
	}
	before := stored()
	r.db.Time = r.db.Time.Add(lag)
	r.commit(t, func(*table.Writer, *Batch) error { return nil })
	if now := stored(); now > before/3 {
		t.Errorf("%d bytes are stored, and %d were before", now, before)
	}
	r.reload(t)
	r.most = 20_000
	write(600, 3000)
	if n := stored(); n > r.most || n < r.most*9/10 {
		t.Errorf("%d bytes are stored, and %d is allowed", n, r.most)
	}
	got := r.list(t, Query{})
	if newest := got[len(got)-1].Of.ID; newest != "12345678:6999" || len(got) < 100 {
		t.Errorf("%d are left, the newest %s", len(got), newest)
	}
	r.reload(t)
}

// TestARideThatFails: what waits for a commit waits on when it fails, is listed meanwhile, and is stored once.
func TestARideThatFails(t *testing.T) {
	r := open(t)
	r.commit(t, func(_ *table.Writer, b *Batch) error {
		b.Came(came(r.db.Time, 0))
		b.Taken(r.db.Time, "home", 1)
		return nil
	})
	r.Said(Said{At: r.db.Time, Instance: "home", Chat: came(r.db.Time, 0).Of.Chat, Op: relay.OpSend, Message: "9", State: Sent})
	bad := errors.New("bad")
	if err := r.db.Change(t.Context(), "bad", func(w *table.Writer) error {
		r.batch = new(Batch)
		return errors.Join(w.Put(table.Index, []byte("other"), 1), bad)
	}); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	for range 2 {
		if got := r.list(t, Query{}); len(got) != 1 || len(got[0].Answers) != 1 || got[0].Answers[0].Message != "9" {
			t.Errorf("%+v", got)
		}
		r.commit(t, func(*table.Writer, *Batch) error { return nil })
		if len(r.waiting) > 0 {
			t.Error("it waits on")
		}
	}
}

// TestWhatIsNotSentIsNotedOnce: a gateway that tries again and again leaves one note of it in a chat for each commit.
func TestWhatIsNotSentIsNotedOnce(t *testing.T) {
	r := open(t)
	of := came(r.db.Time, 0).Of
	for n := range 3 * maxWaiting {
		r.Said(Said{At: r.db.Time, Instance: "home", Chat: of.Chat, Op: relay.OpSend, State: NotSent, Why: "rate limited"})
		if n%2 == 0 {
			r.Said(Said{At: r.db.Time, Instance: "home", Chat: of.Chat, Op: relay.OpSend, Message: relay.MessageID(fmt.Sprint(n)), State: Sent})
		}
	}
	failed := 0
	for _, n := range r.waiting {
		if State(n.words[saidState]) == NotSent {
			failed++
		}
	}
	if failed != 1 || len(r.waiting) != maxWaiting {
		t.Errorf("%d wait, of which %d were not sent", len(r.waiting), failed)
	}
}

// TestForget: nothing of a person is left for the instance, in the file and of what waits, and everybody else's lines
// are as they were, those of the same person for another instance among them.
func TestForget(t *testing.T) {
	for seed := range long.Pick(uint64(4), 60) {
		dice := rand.New(rand.NewPCG(seed, 2))
		r, m := open(t), &model{seq: make(map[relay.InstanceID]uint64)}
		pick := func(of string, n int) string { return of + fmt.Sprint(dice.IntN(n)) }
		var queued []Said
		steps := func(b *Batch, step int) {
			for range 4 {
				r.db.Time = r.db.Time.Add(time.Minute)
				m.step(r, b, dice, pick, &queued, step)
			}
		}
		for step := range 30 {
			r.commit(t, func(_ *table.Writer, b *Batch) error { steps(b, step); return nil })
		}
		dm := relay.Chat{Bot: relay.Bot{Platform: "telegram", ID: "70000"}, ID: "user1"}
		r.Said(Said{At: r.db.Time, Instance: "inst0", Chat: dm, Op: relay.OpSend, Message: "good morning", State: Sent})
		r.Said(Said{At: r.db.Time, Instance: "inst1", Chat: dm, Op: relay.OpSend, Message: "good evening", State: Sent})
		r.commit(t, func(w *table.Writer, b *Batch) error {
			steps(b, 30)
			return r.Forget(w, b, "inst0", "telegram", "user1")
		})
		theirs := func(m Message) bool { return m.Of.User == "user1" && m.Instance == "inst0" }
		var want []Message
		for _, k := range m.all {
			if !k.hidden && !theirs(k.Message) {
				want = append(want, k.Message)
			}
		}
		got := r.list(t, Query{})
		plain := func(all []Message) (out string) { // what answers are whose may change when others are gone
			for _, m := range all {
				out += fmt.Sprintln(m.At, m.Of, m.Verdict, m.TakenAt, m.Died)
			}
			return out
		}
		if diff := gocmp.Diff(plain(want), plain(got)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		all := r.everything(t)
		if !strings.Contains(all, "good evening") || strings.Contains(all, "good morning") {
			t.Error("what was said in the direct messages is there for the one instance, or gone for the other")
		}
		for _, k := range m.all {
			if event := within(k.Of.ID, k.Of.Chat.ID); theirs(k.Message) && k.Instance == "inst0" && strings.Contains(all, fmt.Sprintf("%s %s user1 inst0", k.Of.Chat.ID, event)) {
				t.Errorf("the file has %s", event)
			}
		}
		r.reload(t)
	}
}

// TestForgetOnAFullDisk: where a transaction is stored without the notes that wait, those of a person who is forgotten in it
// are not stored later, either, and all others are.
func TestForgetOnAFullDisk(t *testing.T) {
	r := open(t)
	c := came(r.db.Time, 0)
	r.commit(t, func(_ *table.Writer, b *Batch) error {
		for n := range 100 {
			b.Came(came(r.db.Time, n))
		}
		return nil
	})
	for _, i := range []relay.InstanceID{"home", "kids"} {
		r.Said(Said{At: r.db.Time, Instance: i, Chat: c.Of.Chat, Op: relay.OpSend, Message: relay.MessageID("of " + i), State: Sent})
	}
	rides := r.db.Rides
	r.db.Rides = nil
	r.commit(t, func(w *table.Writer, b *Batch) error {
		b.Taken(r.db.Time, "kids", 7)
		return r.Forget(w, b, "home", "telegram", c.Of.User)
	})
	r.Wait(*r.batch)
	r.reload(t)
	r.db.Rides = rides
	r.commit(t, func(*table.Writer, *Batch) error { return nil })
	if got, want := r.everything(t), "kids\ntelegram 7000001 12345678 kids send of kids sent\n"; sorted(got) != sorted(want) {
		t.Errorf("the file has\n%swant\n%s", got, want)
	}
}

// sorted has the lines of a text in an order of their own.
func sorted(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// everything is all notes of the file.
func (r *rig) everything(t *testing.T) (all string) {
	t.Helper()
	var d decoder
	_ = r.db.File.Read(t.Context(), func(x *bolt.Tx) error {
		for _, b := range []string{Older, Newest} {
			for k, v := range table.Under(x, b, nil) {
				if err := d.read(k, v); err != nil {
					t.Error(err)
				}
				for _, n := range d.notes {
					w := d.note(n).words
					if n.kind == cameNote || n.kind == judgedNote {
						w[cameType] = ""
					}
					all += strings.Join(strings.Fields(strings.Join(w[:], " ")), " ") + "\n"
				}
			}
		}
		return nil
	})
	return all
}

// FuzzRead: what is read reads the same when it is written again, and whatever else is an error.
func FuzzRead(f *testing.F) {
	k := newestKey()
	var e encoder
	e.add(newNote(cameNote, time.UnixMilli(1_700_000_000_000), []string{"telegram", "1", "2", "+:3", "dm", "2", "home", "delivered"}, 1))
	e.add(newNote(takenNote, time.UnixMilli(1_700_000_000_100), []string{"home"}, 1))
	e.add(newNote(saidNote, time.UnixMilli(1_700_000_000_050), []string{"telegram", "1", "2", "home", "send", "9", "+:3", "sent", "", ""}))
	e.add(newNote(diedNote, time.UnixMilli(5), []string{"home", "age"}, 1))
	e.add(newNote(replayedNote, time.UnixMilli(6), []string{"home"}, 2, 1))
	f.Add(e.payload)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d, again decoder
		if d.read(k, boltfile.Seal(k, payload)) != nil {
			return
		}
		var e encoder
		for _, n := range d.notes {
			e.add(d.note(n))
		}
		if len(d.notes) == 0 {
			return
		}
		if err := again.read(k, boltfile.Seal(k, e.payload)); err != nil || len(again.notes) != len(d.notes) {
			t.Fatalf("%d notes become %d: %v", len(d.notes), len(again.notes), err)
		}
		for i := range d.notes {
			if *d.note(d.notes[i]) != *again.note(again.notes[i]) {
				t.Errorf("%+v becomes %+v", d.note(d.notes[i]), again.note(again.notes[i]))
			}
		}
	})
}
