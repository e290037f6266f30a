package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// answeredWithin is for how long after a gateway acknowledged a message another message of the gateway in the chat
// counts as an answer, if it does not name the message that it answers.
const answeredWithin = time.Hour

// maxSpoken is how many messages of a gateway in a chat are remembered until the message that they answer is read.
const maxSpoken = 32

// maxAnswers is how many answers to one message are listed: the first ones.
const maxAnswers = 20

// Message is what happened to a message, for one instance or as a whole.
type Message struct {
	At time.Time // when the message came or, if its verdict was open at first, when it was judged
	Of Event
	Verdict
	TakenAt time.Time // when its gateway acknowledged it; zero: it did not
	Died    string    // why the message was given up; empty: it was not
	Answers []Answer  // oldest first
}

// Answer is an answer of a gateway to a message, sent or not.
type Answer struct {
	At      time.Time // when the network took it, or when it failed, was queued or was dropped
	Op      relay.Op
	Message relay.MessageID // the network's id, if it was sent
	State   State
	Why     string    // why it was not sent, is queued, or was dropped
	Queued  time.Time // when it was queued, if it was
}

// Who holds the fields by which most questions select.
type Who struct {
	Platform relay.PlatformID
	User     relay.UserID
	Instance relay.InstanceID
}

// Query picks messages. The zero value picks all.
type Query struct {
	Event relay.EventID
	Since time.Time      // came after that
	Who   func(Who) bool // called once for each different Who; nil: all
	Last  int            // the newest so many messages, each with all its verdicts; 0: all
}

// List lists the messages that q selects, the oldest first. It skips notes that cannot be read.
func (r *Records) List(ctx context.Context, q Query) ([]Message, error) {
	s := scan{
		q: q, oldest: r.db.Now().Add(-Kept).UnixMilli(), ids: make(map[string]uint32), taken: make(map[number]int64),
		lost: make(map[number]string), talks: make(map[where]*talk), queued: make(map[string]spoken), judged: make(map[judged]bool),
		who: make(map[[3]uint32]bool),
	}
	if since := q.Since; !since.IsZero() {
		s.oldest = max(s.oldest, since.UnixMilli())
	}
	waiting := r.snapshot() // before the file is read: a note that is committed meanwhile is read twice, and not missed
	return table.Get(ctx, r.db, "history", func(t *bolt.Tx) ([]Message, error) {
		for _, n := range slices.Backward(waiting) {
			s.loose(n)
		}
		k := newestKey()
		s.record(k, t.Bucket([]byte(Newest)).Get(k))
		c := t.Bucket([]byte(Older)).Cursor()
		for k, v := c.Last(); k != nil && !s.done && ctx.Err() == nil; k, v = c.Prev() {
			// An older record does not end the scan: the clock may have been wrong for a while.
			if string(k) != table.Filler && lastOf(v) >= s.oldest {
				s.record(k, v)
			}
		}
		slices.Reverse(s.out)
		return s.out, ctx.Err()
	})
}

// number identifies a message by its instance and its number in the lane of that.
type number struct {
	instance uint32
	seq      uint64
}

// where is a chat and an instance in it, by the ids that scan.id gives to the words.
type where struct{ instance, platform, bot, chat uint32 }

// talk has the messages of a gateway in a chat that are later than the notes still to be read, and are not yet known to
// be answers.
type talk struct {
	spoken []spoken // newest first
	// When the message that was read last was acknowledged, and the answers to all messages that were acknowledged at
	// that time: their gateway saw these messages as one.
	takenAt int64
	answers []spoken
}

// spoken is a gateway's message. If it was queued, its outcome comes from another note.
type spoken struct {
	at, queuedAt            int64 // milliseconds; not queued: 0
	op, message, state, why string
	to                      string // the message that it answers, in its chat; empty: it names none
}

// said returns when the gateway handed the message over, in milliseconds.
func (a spoken) said() int64 {
	if a.queuedAt != 0 {
		return a.queuedAt
	}
	return a.at
}

func (a spoken) answer() Answer {
	out := Answer{At: time.UnixMilli(a.at).UTC(), Op: relay.Op(a.op), Message: relay.MessageID(a.message), State: State(a.state), Why: a.why}
	if a.queuedAt != 0 {
		out.Queued = time.UnixMilli(a.queuedAt).UTC()
	}
	return out
}

// judged identifies a message for an instance.
type judged struct {
	where
	event string
}

// scan reads notes from the newest to the oldest. So all later notes about a message have been read when the note is
// read that the message came (came).
type scan struct {
	q      Query
	oldest int64 // milliseconds
	done   bool  // as many messages as asked for were found
	out    []Message

	d   decoder
	ids map[string]uint32 // the ids of words, which are the same in all records
	own []uint32          // the ids of the words of the record that is read; 0: not looked up yet

	taken  map[number]int64  // when a message was acknowledged, in milliseconds
	lost   map[number]string // why a message was given up; empty: it was not, since it was replayed
	talks  map[where]*talk
	queued map[string]spoken  // the outcome of queued messages, by their ids in the outbox
	judged map[judged]bool    // the messages whose first verdict was open, and of which a later one was read
	who    map[[3]uint32]bool // the results of q.Who, by platform, user and instance

	named []spoken // memory that answers uses again

	last  [3]uint32 // platform, bot and chat of the message that was found last
	event string    // its event
	found int       // how many messages were found
}

// loose reads a note that waits for a commit.
func (s *scan) loose(n *note) {
	s.d.reset()
	e := entry{kind: n.kind, at: n.at, numbers: n.numbers}
	for i, w := range n.words {
		if w != "" {
			s.d.words = append(s.d.words, w)
			e.words[i] = uint16(len(s.d.words) - 1)
		}
	}
	s.d.notes = append(s.d.notes, e)
	s.notes()
}

// record reads a stored record.
func (s *scan) record(k, value []byte) {
	if s.d.read(k, value) == nil {
		s.notes()
	}
}

// notes reads the notes that s.d has decoded, the newest first. The ids of the words that every record knows stay;
// those of the other words are looked up anew.
func (s *scan) notes() {
	first := min(len(s.own), 1+len(common))
	s.own = append(s.own[:first], make([]uint32, len(s.d.words)-first)...)
	for i := len(s.d.notes) - 1; i >= 0 && !s.done; i-- {
		s.note(&s.d.notes[i])
	}
}

// id returns a number for a word of the record; it is the same for the same word in all records.
func (s *scan) id(w uint16) uint32 {
	if s.own[w] == 0 {
		word := s.d.words[w]
		id, ok := s.ids[word]
		if !ok {
			id = uint32(len(s.ids)) + 1
			s.ids[word] = id
		}
		s.own[w] = id
	}
	return s.own[w]
}

func (s *scan) word(n *entry, i int) string { return s.d.words[n.words[i]] }

// note reads one note. What a later note says about a message is remembered until the note is read that the message
// came.
func (s *scan) note(n *entry) {
	switch n.kind {
	case cameNote, judgedNote:
		s.came(n)
	case takenNote:
		s.taken[number{s.id(n.words[itsInstance]), n.numbers[0]}] = n.at
	case diedNote:
		at := number{s.id(n.words[itsInstance]), n.numbers[0]}
		if _, known := s.lost[at]; !known {
			s.lost[at] = s.word(n, diedWhy)
		}
	case replayedNote:
		i := s.id(n.words[itsInstance])
		is, was := number{i, n.numbers[0]}, number{i, n.numbers[1]}
		s.lost[was] = s.lost[is]
		delete(s.lost, is)
		if at, ok := s.taken[is]; ok {
			s.taken[was] = at
			delete(s.taken, is)
		}
	case saidNote:
		s.said(n)
	}
}

// said reads the note of a gateway's message, or of the outcome of one that was queued.
func (s *scan) said(n *entry) {
	a := spoken{
		at: n.at, op: s.word(n, saidOp), message: s.word(n, saidMessage), state: s.word(n, saidState), why: s.word(n, saidWhy), to: s.word(n, saidTo),
	}
	if was := s.word(n, saidQueued); was != "" {
		if _, known := s.queued[was]; !known {
			s.queued[was] = a
		}
		return
	}
	if State(a.state) == Queued {
		a.queuedAt = a.at
		if then, ok := s.queued[a.message]; ok {
			a.at, a.state, a.message, a.why = then.at, then.state, then.message, then.why
		}
	}
	w := s.where(n, saidInstance)
	t := s.talks[w]
	if t == nil {
		t = new(talk)
		s.talks[w] = t
	}
	if !slices.Contains(t.spoken, a) { // else the same note was read among those that wait
		t.spoken = append(t.spoken[max(0, len(t.spoken)-maxSpoken):], a)
	}
}

// where returns the place of n for the instance whose word has that index.
func (s *scan) where(n *entry, instance int) where {
	return where{s.id(n.words[instance]), s.id(n.words[ofPlatform]), s.id(n.words[ofBot]), s.id(n.words[ofChat])}
}

// came reads the note that a message came, or had a further verdict. It joins the note with what later notes said about
// the message, and adds the message to s.out, unless there is a later verdict or the query does not select it.
func (s *scan) came(n *entry) {
	w := s.where(n, cameInstance)
	takenAt, died := int64(0), ""
	if seq := n.numbers[0]; seq != 0 {
		at := number{w.instance, seq}
		if takenAt = s.taken[at]; takenAt != 0 {
			delete(s.taken, at)
		}
		if len(s.lost) > 0 {
			died = s.lost[at]
			delete(s.lost, at)
		}
	}
	event := s.word(n, cameEvent)
	answers := s.answers(w, event, takenAt)
	if len(s.judged) > 0 || n.kind == judgedNote {
		k := judged{w, event}
		if s.judged[k] {
			delete(s.judged, k)
			return
		}
		if n.kind == judgedNote {
			s.judged[k] = true
		}
	}
	if n.at < s.oldest || !s.asked(n, w) {
		return
	}
	chat := s.word(n, ofChat)
	id := eventOf(event, chat)
	if s.q.Event != "" && id != s.q.Event {
		return
	}
	if of := [3]uint32{w.platform, w.bot, w.chat}; s.found == 0 || of != s.last || event != s.event {
		if s.q.Last > 0 && s.found == s.q.Last {
			s.done = true
			return
		}
		s.last, s.event = of, event
		s.found++
	}
	m := Message{
		At: time.UnixMilli(n.at).UTC(),
		Of: Event{
			ID: id, Type: relay.ChatType(s.word(n, cameType)), User: relay.UserID(s.word(n, cameUser)),
			Chat: relay.Chat{Bot: relay.Bot{Platform: relay.PlatformID(s.word(n, ofPlatform)), ID: relay.BotID(s.word(n, ofBot))}, ID: relay.ChatID(chat)},
		},
		Verdict: Verdict{Instance: relay.InstanceID(s.word(n, cameInstance)), Why: s.word(n, cameWhy)},
		Died:    died,
	}
	if takenAt != 0 {
		m.TakenAt, m.Died = time.UnixMilli(takenAt).UTC(), ""
	}
	slices.Reverse(answers) // so that answers of the same time are in the order of their notes
	slices.SortStableFunc(answers, func(a, b spoken) int { return cmp.Compare(a.at, b.at) })
	for _, a := range answers[:min(len(answers), maxAnswers)] {
		m.Answers = append(m.Answers, a.answer())
	}
	s.out = append(s.out, m)
}

// asked reports whether n matches the query's Who.
func (s *scan) asked(n *entry, w where) bool {
	if s.q.Who == nil {
		return true
	}
	k := [3]uint32{w.platform, s.id(n.words[cameUser]), w.instance}
	yes, known := s.who[k]
	if !known {
		yes = s.q.Who(Who{relay.PlatformID(s.word(n, ofPlatform)), relay.UserID(s.word(n, cameUser)), relay.InstanceID(s.word(n, cameInstance))})
		s.who[k] = yes
	}
	return yes
}

// answers returns the answers to a message that was acknowledged at takenAt: those that name the message, and those
// that name none and were sent at most answeredWithin after takenAt, and before the next message of the chat was
// acknowledged. The result is valid until the next call.
func (s *scan) answers(w where, event string, takenAt int64) (out []spoken) {
	if takenAt == 0 || len(s.talks) == 0 {
		return nil
	}
	t := s.talks[w]
	if t == nil || len(t.spoken) == 0 && t.takenAt != takenAt {
		return nil
	}
	if t.takenAt != takenAt {
		t.takenAt, t.answers = takenAt, t.answers[:0]
	}
	s.named = s.named[:0]
	left := t.spoken[:0]
	for _, a := range t.spoken {
		switch {
		case a.to == event:
			s.named = append(s.named, a)
		case a.to != "" || a.said() < takenAt:
			left = append(left, a)
		case a.said()-takenAt <= answeredWithin.Milliseconds():
			t.answers = append(t.answers, a)
		}
	}
	t.spoken = left
	s.named = append(s.named, t.answers...)
	return s.named
}
