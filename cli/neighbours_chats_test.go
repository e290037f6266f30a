package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"
)

type obj = map[string]any

// takes is how long a network takes for one request; half of it before it is carried out.
const takes = 60 * time.Millisecond

// botEvery is the pause between two requests of a bot that has used up its burst (platforms/telegram and discord/rest).
const botEvery = 40 * time.Millisecond

// spot is a place in a network: a message of a chat, or a person in it.
type spot struct{ chat, id string }

// post is a message that stands in a chat.
type post struct {
	text  string
	bot   bool // the bot wrote it
	gone  bool
	edits int
}

// walls are the messages of a network, and who is in which chat.
type walls struct {
	mu     sync.Mutex // guards the fields below
	posts  map[spot]*post
	marks  map[spot][]string // the bot's reactions
	kicked map[spot]bool
	calls  map[string]int // by what was asked for
	faults []string       // what a real network would have punished the whole bot for
}

func newWalls() walls {
	return walls{posts: map[spot]*post{}, marks: map[spot][]string{}, kicked: map[spot]bool{}, calls: map[string]int{}}
}

// put writes a message.
func (w *walls) put(chat, id, text string, bot bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posts[spot{chat, id}] = &post{text: text, bot: bot}
}

// rewrite changes one of the bot's messages; false when there is none.
func (w *walls) rewrite(chat, id, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.posts[spot{chat, id}]
	if p == nil || p.gone || !p.bot {
		return false
	}
	p.text = text
	p.edits++
	return true
}

// remove deletes a message; false when there is none.
func (w *walls) remove(chat, id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.posts[spot{chat, id}]
	if p == nil || p.gone {
		return false
	}
	p.gone = true
	return true
}

// at is a copy of what stands there; nil: nothing.
func (w *walls) at(chat, id string) *post {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.posts[spot{chat, id}]; p != nil && !p.gone {
		c := *p
		return &c
	}
	return nil
}

// react sets a reaction of the bot's, or takes it away.
func (w *walls) react(chat, id, emoji string, set bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := spot{chat, id}
	w.marks[at] = slices.DeleteFunc(w.marks[at], func(e string) bool { return e == emoji })
	if set {
		w.marks[at] = append(w.marks[at], emoji)
	}
}

// clear takes all of them away.
func (w *walls) clear(chat, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.marks, spot{chat, id})
}

// reactions are the bot's on a message.
func (w *walls) reactions(chat, id string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.marks[spot{chat, id}])
}

// ids are the messages of a chat, the newest last.
func (w *walls) ids(chat string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, p := range w.posts {
		if s.chat == chat && !p.gone {
			out = append(out, s.id)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return 1 - 2*btoi(len(a) < len(b) || len(a) == len(b) && a < b) })
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (w *walls) kick(chat, user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kicked[spot{chat, user}] = true
}

func (w *walls) member(chat, user string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.kicked[spot{chat, user}]
}

func (w *walls) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[what]++
	return w.calls[what]
}

// fault notes what must never happen to a bot that others share.
func (w *walls) fault(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) < 10 {
		w.faults = append(w.faults, what)
	}
}

// exchange carries a request out in the middle of the time that it takes.
func exchange(r *http.Request, carryOut func(body []byte) (status int, h http.Header, answer any)) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if !nap(r.Context(), takes/2) {
		return nil, r.Context().Err()
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	status, h, answer := carryOut(body)
	if !nap(r.Context(), takes/2) {
		return nil, r.Context().Err()
	}
	raw, err := json.Marshal(answer)
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{
		StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)), Request: r,
	}, err
}

// nap waits on the bubble's clock; false when ctx ended first.
func nap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
