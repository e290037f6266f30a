package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// credentials are what `enroll --json` printed.
type credentials struct {
	GatewayID, Secret string
}

// dial opens a socket and says hello on it.
func (c credentials) dial(ctx context.Context, door string) (*wiretest.End, error) {
	return c.dialAs(ctx, door, wire.Hello{Platform: "telegram", BotID: "4242", Manifest: []json.RawMessage{}})
}

func (c credentials) dialAs(ctx context.Context, door string, hello wire.Hello) (*wiretest.End, error) {
	bearer := token.Mint(relay.GatewayID(c.GatewayID), relay.NewSecret([]byte(c.Secret)), time.Now().Add(time.Minute))
	conn, err := wiretest.Dial(ctx, door, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + bearer}},
	})
	if err != nil {
		return nil, err
	}
	return conn, conn.Send(ctx, hello)
}

// agent is a gateway that comes back whatever happens, with the books of what it was told. The
// person who talks to it says the numbers 1, 2, 3, …, so every gap and every repetition shows.
type agent struct {
	name string
	user int64
	cred credentials
	rand *rand.Rand // run's own
	bot  *botAPI

	files exchange // run's own, but for what is a.mu's

	// It neither cuts nor sleeps any more: a server that is no longer killed remembers how often a
	// gateway has dialled, and makes one that dials so often wait.
	calm atomic.Bool

	floods atomic.Bool // much is said to it, at length, however far it is behind

	changes func() int // of leader, if its server is several nodes, none of which may lead
	began   int        // run's own: the changes before the session

	mu        sync.Mutex // guards the fields below
	said      int
	heard     int    // the newest number
	at        int    // the number that came last
	sure      int    // the newest number of which it is known that its acknowledgement was committed
	last      string // what came last: numbers or a press
	committed string // the newest of these of which that is known
	overtook  string // the press that came last before the session, and of which that is not known, until something comes behind the first
	faults    []string
	answers   map[string]bool            // texts to send, and whether a result said that they were, or would be
	waiting   map[string]relay.MessageID // those that would be, by their ids
	tally     struct{ sessions, deliveries, repeats, flips, cuts, doubts int }
}

// enrolled makes a gateway and binds its person, before anything is killed.
func (b *victim) enrolled(name string, user int64, seed uint64) *agent {
	b.t.Helper()
	a := &agent{name: name, user: user, bot: b.bot, rand: rand.New(rand.NewPCG(seed, 1)), answers: make(map[string]bool), waiting: make(map[string]relay.MessageID)}
	a.files = exchange{
		base: "http" + strings.TrimSuffix(strings.TrimPrefix(b.url, "ws"), "/relay"), at: patience,
		pressed: make(map[string]string), options: make(map[string]string),
	}
	out, err := b.command("enroll", name, "--new", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &a.cred)
	}
	if err == nil {
		err = b.command("bind", name, "telegram", strconv.FormatInt(user, 10)).Run()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

// unheard is how far a person is ahead of the agent at most: the slower the machine, the less is said. That much has at most
// ten files, and so is given as one.
const unheard = 35

// A flood is so many messages at a time, which say that much besides their numbers.
const flood = 20

var atLength = "\n" + strings.Repeat("and so on ", 300)

// talk says the next number, again and again.
func (b *victim) talk(ctx context.Context, a *agent, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		times, more := 1, ""
		if a.floods.Load() {
			times, more = flood, atLength
		}
		for range times {
			if n, ok := a.next(); ok {
				b.bot.say(a.user, strconv.Itoa(n)+more)
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// next is the next number to be said, if the agent has heard enough of those before.
func (a *agent) next() (n int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.said-a.heard >= unheard && !a.floods.Load() {
		return 0, false
	}
	a.said++
	return a.said, true
}

func (a *agent) deliveries() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tally.deliveries
}

// mixed reports whether the agent has slept, was told that something was sent, of that a file, and that a question was
// answered.
func (a *agent) mixed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent, files := false, false
	for text, said := range a.answers {
		sent = sent || said
		files = files || said && strings.Contains(text, " with ")
	}
	return a.tally.flips > 0 && sent && files && len(a.files.pressed) > 0
}

func (a *agent) heardAll() bool {
	a.mu.Lock()
	heard := a.heard == a.said
	a.mu.Unlock()
	return heard && len(a.unanswered()) == 0 && a.allArrived()
}

func (a *agent) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// run dials until ctx ends.
func (a *agent) run(ctx context.Context, door string) {
	for ctx.Err() == nil {
		if a.changes != nil {
			a.began = a.changes()
		}
		if conn, err := a.cred.dial(ctx, door); err == nil {
			a.tally.sessions++
			a.mu.Lock()
			old := a.said
			a.mu.Unlock()
			(&visit{agent: a, conn: conn, fresh: true, old: old, texts: make(map[relay.RequestID]string)}).run(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// visit is one session of an agent.
type visit struct {
	*agent
	conn  *wiretest.End
	fresh bool // nothing was heard since the last hello
	idle  bool // going_idle was acknowledged, and no descriptor came since
	old   int  // the newest number that was said before the session
	texts map[relay.RequestID]string

	newest string // of the texts
}

// run handles frames until the socket ends, or the agent has enough of it.
func (v *visit) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	frames := make(chan wire.Frame)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer v.conn.CloseNow() //nolint:errcheck // it is over either way
	defer cancel()
	wg.Go(func() {
		defer close(frames)
		err := v.conn.Each(ctx, func(f wire.Frame) error {
			select {
			case frames <- f:
			case <-ctx.Done():
			}
			return nil
		})
		if websocket.CloseStatus(err) == session.CodeUnauthorized {
			v.fault("the credential was refused")
		}
	})
	var wake <-chan time.Time // the end of an idle time
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return
			}
			switch f := f.(type) {
			case wire.Inbound:
				if !v.hear(ctx, f) {
					return
				}
			case wire.Descriptor:
				v.idle = false // a second going_idle may be acknowledged behind the hello that ended the first
			case wire.GoingIdleAck:
				v.sleeps()
				wake = time.After(time.Duration(v.rand.IntN(40)) * time.Millisecond)
			case wire.OutboundResult:
				switch {
				case f.Err == nil && f.Result.Queued:
					v.queued(f.ID, f.Result.MessageID)
				case f.Err == nil:
					v.sent(f.ID)
				case strings.Contains(f.Err.Public, "media not found"):
					v.fault("%q: %s", v.texts[f.ID], f.Err.Public)
				}
			}
		case <-wake:
			if v.rand.IntN(2) == 0 {
				_ = v.conn.Close(websocket.StatusNormalClosure, "")
				return
			}
			wake, v.fresh = nil, true
			if v.conn.Send(ctx, wire.Hello{Platform: "telegram", BotID: "4242", Manifest: []json.RawMessage{}}) != nil {
				return
			}
		}
	}
}

// hear books one message and answers it; false means that the agent leaves.
func (v *visit) hear(ctx context.Context, in wire.Inbound) bool {
	var said []int
	if in.Event.Prompt == nil {
		if said = numbers(in.Event.Text); said == nil {
			v.fault("no message of the person's: %q", in.Event.Text)
			return false
		}
	}
	if in.Event.Source.UserID != relay.UserID(v.chat()) {
		v.fault("somebody else's message: user %s", in.Event.Source.UserID)
		return false
	}
	n := 0
	if in.Event.Prompt != nil {
		v.press(in.Event)
	} else {
		n = said[len(said)-1]
		v.book(said)
		if !v.given(ctx, said, in.Event) {
			return false
		}
	}
	dice := v.rand.IntN(100)
	if v.calm.Load() {
		dice = 50
	}
	if v.files.kept != "" && v.files.keptIn != v.tally.sessions {
		dice = 4 // it is sent in a later session, and often in a later life of the server
	}
	if dice < 2 {
		v.tally.cuts++
		return false
	}
	if dice < 7 && !v.answer(ctx, n, dice) {
		return false
	}
	if dice < 12 {
		<-time.After(time.Duration(v.rand.IntN(20)) * time.Millisecond)
	}
	if v.conn.Send(ctx, wire.InboundAck{Buffer: in.Buffer}) != nil {
		return false
	}
	switch {
	case dice >= 98:
		v.tally.cuts++
		return false
	case dice >= 96:
		return v.conn.Send(ctx, wire.GoingIdle{}) == nil
	case n > 0 && n <= v.old: // of backlog the next is given when the turn is over
		return v.do(ctx, relay.Send{Chat: v.chat(), Content: v.newAnswer(n, ""), Meta: relay.Metadata{Notify: true}})
	}
	return true
}

// book judges where the numbers of one event stand in the order. After the end of a session those in doubt may come again,
// with what was said since, or one by one.
func (v *visit) book(said []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, n := range said {
		if n != said[0]+i {
			v.faults = append(v.faults, fmt.Sprintf("%v came as one", said))
		}
	}
	isNext, again := said[0] == v.at+1, v.fresh && v.sure < v.at && said[0] == v.sure+1
	v.bookLocked(fmt.Sprint(said), isNext, again)
	if isNext {
		v.sure = v.at // or that would have come first
	}
	v.at = said[len(said)-1]
	v.heard = max(v.heard, v.at)
}

// bookLocked judges where numbers or a press stand in the order. isNext: they are due; inDoubt: they came last, and nobody
// knows whether their acknowledgement was committed. A press waits for no turn: it overtakes numbers that do, and if it is
// in doubt then, it comes again behind them. v.mu must be held.
func (v *visit) bookLocked(what string, isNext, inDoubt bool) {
	v.tally.deliveries++
	if !v.fresh || what == v.overtook {
		v.overtook = ""
	}
	if !v.fresh {
		v.committed, v.sure = v.last, v.at // or nothing would have come behind it
	} else if strings.HasPrefix(v.last, "press ") && v.last != v.committed && v.last != what {
		v.overtook = v.last
	}
	switch {
	case v.idle:
		v.faults = append(v.faults, what+" came after going_idle_ack")
	case isNext:
	case inDoubt:
		v.tally.repeats++
	default:
		v.faults = append(v.faults, fmt.Sprintf("%s came after %d and %s (committed: %s, first since hello: %v)", what, v.heard, v.last, v.committed, v.fresh))
	}
	v.last, v.fresh = what, false
}

// answer sends a text, a file or a question; the first is a file, for a gateway that never took or sent one is given none.
func (v *visit) answer(ctx context.Context, n, dice int) bool {
	switch {
	case dice == 3 || dice == 4 || v.files.uploads == 0:
		return v.sendFile(ctx, n)
	case dice == 5:
		return v.ask(ctx, n)
	}
	return v.do(ctx, relay.Send{Chat: v.chat(), Content: v.newAnswer(n, "")})
}

// sleeps notes a going_idle_ack.
func (v *visit) sleeps() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.idle = true
	v.tally.flips++
}

// sent notes that a result said so.
func (v *visit) sent(id relay.RequestID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[v.texts[id]] = true
}

// judge compares the books with the platform's.
func (a *agent) judge(t *testing.T, bot *botAPI) {
	asked := bot.questions(a.user)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.judgeQuestions(asked)
	confirmed, unknown := 0, 0
	for text, said := range a.answers {
		n := bot.timesSent(text)
		// One that waited may be in doubt: it may stand there already, and says so. Without a result it may have waited.
		if again := bot.timesSent(text + repeated); again > 0 && (a.waiting[text] != "" || !said) {
			n = max(n, 1)
			a.tally.doubts += again
		} else if again > 0 {
			a.faults = append(a.faults, fmt.Sprintf("%q was repeated %d times, and did not wait", text, again))
		}
		switch {
		case n > 1:
			a.faults = append(a.faults, fmt.Sprintf("%q was sent %d times", text, n))
		case said && n == 0:
			a.faults = append(a.faults, fmt.Sprintf("%q was never sent, but reported as sent", text))
		case said:
			confirmed++
		default:
			unknown++
		}
	}
	a.judgeOrder(bot.arrivals())
	lost := a.said - a.heard
	for i, f := range a.faults {
		if i == 10 {
			t.Errorf("%s: and %d faults more", a.name, len(a.faults)-i)
			break
		}
		t.Errorf("%s: %s", a.name, f)
	}
	t.Logf("%s: %d said, %d lost, %d deliveries in %d sessions, %d repeated (in doubt at a crash or cut), %d flips, %d cuts, %d answers reported as sent, of which %d waited and %d were repeated, %d without a result; %d files fetched, %d uploaded, %d questions asked, %d posted, %d answered",
		a.name, a.said, lost, a.tally.deliveries, a.tally.sessions, a.tally.repeats, a.tally.flips, a.tally.cuts, confirmed, len(a.waiting), a.tally.doubts, unknown,
		a.files.fetched, a.files.uploads, a.files.asked, len(asked), len(a.files.options))
}
