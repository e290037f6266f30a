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
	// pressWait is how long the answer to a press waits for words and for the disk, so that the person waits for three
	// seconds at most.
	pressWait = 2 * time.Second
	// pressTimeout bounds one answer; two are tried.
	pressTimeout = 5 * time.Second
	// maxPresses is how many presses wait for an answer; whoever presses then sees their client give up by itself. More are
	// in no answer of getUpdates.
	maxPresses = 2 * batchSize
	// maxWords is how many characters an answer takes.
	maxWords = 200
)

// desk answers presses, lest clients go on showing that they wait: with the words of a refusal, or with nothing once
// the press is stored or pressWait is over. Its methods may be called from any goroutine, run once.
type desk struct {
	// Set once, by newDesk.
	client *client
	log    *slog.Logger
	came   chan *query // when it is full, the press is not answered

	mu    sync.Mutex // guards the fields below
	open  map[relay.EventID]*query
	early map[relay.EventID]bool // came before their updates are handed in, and were noted then
}

// query is a press that is not answered.
type query struct {
	id    string
	at    time.Time
	words chan string // capacity 1: what the answer says; whatever comes later counts for nothing
	waits bool        // for a verdict that comes after its update was taken; desk.mu guards it
}

func newDesk(c *client, log *slog.Logger) *desk {
	return &desk{client: c, log: log, came: make(chan *query, maxPresses), open: make(map[relay.EventID]*query), early: make(map[relay.EventID]bool)}
}

// press is the id of the press that an update is; empty: it is none.
func (u *update) press() string {
	if u.CallbackQuery == nil {
		return ""
	}
	return u.CallbackQuery.ID
}

// arrived takes note of the presses among updates. It never blocks.
func (d *desk) arrived(us ...*received) {
	for _, u := range us {
		if id := u.press(); id != "" {
			d.note(id, false)
		}
	}
}

// arrivedEarly is arrived, of updates that arrived will see again.
func (d *desk) arrivedEarly(us ...*received) {
	for _, u := range us {
		if id := u.press(); id != "" {
			d.note(id, true)
		}
	}
}

func (d *desk) note(id string, early bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.early[pressID(id)]
	if early {
		if len(d.early) >= maxPresses { // of updates that never came again
			clear(d.early)
		}
		d.early[pressID(id)] = true
	} else {
		delete(d.early, pressID(id))
	}
	if known || d.open[pressID(id)] != nil {
		return
	}
	q := &query{id: id, at: time.Now(), words: make(chan string, 1)}
	select {
	case d.came <- q:
		d.open[pressID(id)] = q
	default:
	}
}

// say has a press answered with words. It never blocks; platforms.Batch.Refused is this.
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

// wait has a press wait for its words although its update is taken; platforms.Batch.Undecided is this.
func (d *desk) wait(press relay.EventID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.open[press]; q != nil {
		q.waits = true
	}
}

// settled answers, with nothing, the presses among updates that have no answer: they are on disk, or dropped.
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

// run answers until ctx ends, and returns when all its calls have.
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

// attend waits for what is to be said to one press, and says it.
func (d *desk) attend(ctx context.Context, q *query) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, pressID(q.id))
	}()
	t := time.NewTimer(pressWait - time.Since(q.at))
	defer t.Stop()
	words := ""
	select {
	case words = <-q.words:
	case <-t.C:
	case <-ctx.Done():
		return
	}
	params := tgbotapi.Params{"callback_query_id": q.id}
	params.AddNonEmpty("text", string([]rune(words)[:min(len([]rune(words)), maxWords)]))
	var err error
	for range 2 { // answered twice, a press is answered
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
