package telegram

import (
	"context"
	"log/slog"
	"sync"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// pressWait is how long an answer waits for words and for the disk, so that a person waits for three seconds at
	// most.
	pressWait = 2 * time.Second
	// pressTimeout bounds one answer; two are tried.
	pressTimeout = 5 * time.Second
	// maxPresses is how many presses may wait for an answer. Further ones get none: the person's client gives up by
	// itself. One answer of getUpdates has at most half of them.
	maxPresses = 2 * batchSize
	// maxWords is how many characters an answer may have.
	maxWords = 200
)

// desk answers presses of buttons, so that the person's client stops showing that it waits. The answer has the words of
// a refusal, or no words when the press is stored or pressWait is over. Its methods may be called from any goroutine;
// run is called once.
type desk struct {
	// Set once, by newDesk.
	client *client
	log    *slog.Logger
	came   chan *query // presses to answer; when it is full, a press gets no answer

	mu    sync.Mutex               // guards the fields below
	open  map[relay.EventID]*query // presses without an answer
	ahead map[relay.EventID]bool   // noted by arrivedAhead, and not yet by arrived
}

// query is a press that is not answered yet.
type query struct {
	id    string
	at    time.Time   // when it arrived
	words chan string // capacity 1: the words of the answer; later words are dropped
	waits bool        // its words come after its update was stored; desk.mu guards this
}

func newDesk(c *client, log *slog.Logger) *desk {
	return &desk{client: c, log: log, came: make(chan *query, maxPresses), open: make(map[relay.EventID]*query), ahead: make(map[relay.EventID]bool)}
}

// press returns the press's id if the update is a press, else "".
func (u *update) press() string {
	if u.CallbackQuery == nil {
		return ""
	}
	return u.CallbackQuery.ID
}

// arrived takes note of the presses among updates. It never blocks.
func (d *desk) arrived(us ...*received) { d.note(us, false) }

// arrivedAhead does the same for updates that arrived will be called for later.
func (d *desk) arrivedAhead(us ...*received) { d.note(us, true) }

// note queues the presses that are new for an answer. ahead: note will be called for them once more.
func (d *desk) note(us []*received, ahead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range us {
		if u.press() == "" {
			continue
		}
		press := pressID(u.press())
		known := d.ahead[press] || d.open[press] != nil
		if ahead {
			if len(d.ahead) >= maxPresses { // their updates never came again
				clear(d.ahead)
			}
			d.ahead[press] = true
		} else {
			delete(d.ahead, press)
		}
		if known {
			continue
		}
		q := &query{id: u.press(), at: time.Now(), words: make(chan string, 1)}
		select {
		case d.came <- q:
			d.open[press] = q
		default:
		}
	}
}

// say sets the words of a press's answer. It never blocks. It is platforms.Batch.Refused.
func (d *desk) say(press relay.EventID, words string) {
	d.mu.Lock()
	q := d.open[press]
	d.mu.Unlock()
	if q == nil {
		return
	}
	select {
	case q.words <- words:
	default:
	}
}

// wait makes a press wait for its words even after its update was stored. It is platforms.Batch.Undecided.
func (d *desk) wait(press relay.EventID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.open[press]; q != nil {
		q.waits = true
	}
}

// settled answers, without words, the presses among updates that have no answer yet: they are on disk, or dropped.
func (d *desk) settled(us ...*received) {
	for _, u := range us {
		if id := u.press(); id != "" && !d.waits(pressID(id)) {
			d.say(pressID(id), "")
		}
	}
}

func (d *desk) waits(press relay.EventID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.open[press]
	return q != nil && q.waits
}

// run answers presses until ctx ends, and returns when all its calls have returned.
func (d *desk) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, maxPresses)
	for {
		select {
		case q := <-d.came:
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wg.Go(func() {
				d.attend(ctx, q)
				<-places
			})
		case <-ctx.Done():
			return
		}
	}
}

// attend waits for the words for one press, and answers it.
func (d *desk) attend(ctx context.Context, q *query) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, pressID(q.id))
	}()
	words := ""
	select {
	case words = <-q.words:
	case <-time.After(pressWait - time.Since(q.at)):
	case <-ctx.Done():
		return
	}
	params := tgbotapi.Params{"callback_query_id": q.id}
	params.AddNonEmpty("text", string([]rune(words)[:min(len([]rune(words)), maxWords)]))
	var err error
	for range 2 { // a second answer to a press does no harm
		if err = d.answer(ctx, params); err == nil || refusedForGood(err) || ctx.Err() != nil {
			break
		}
	}
	if err != nil && !refusedWith(err, "query is too old", "query id is invalid") {
		d.log.Debug("telegram press not answered", "err", err)
	}
}

func (d *desk) answer(ctx context.Context, params tgbotapi.Params) error {
	ctx, cancel := context.WithTimeout(ctx, pressTimeout)
	defer cancel()
	return d.client.call(ctx, "answerCallbackQuery", params, nil)
}
