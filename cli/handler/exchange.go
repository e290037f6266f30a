package handler

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Texts that people read in place of an answer.
const (
	didNotWork  = "That did not work."
	interrupted = "Interrupted; it may have been done. Send it again if it was not."
)

// errorStep is the step to which the time of a failed call is rounded up, so that the time does not tell whether the
// peer does not exist or failed quickly. A peer that fails slowly can be recognised, but only by those that may call
// it: for a handler that may not, no run begins, so its call never takes longer than one step.
const errorStep = 500 * time.Millisecond

// Engine runs handlers for messages, one message at a time.
type Engine struct {
	Config *Config
	Tools  Tools
	State  *State
	Log    *slog.Logger
	// Seen, unless nil, is called after each run.
	Seen func(Seen)
}

// Seen is a run that has ended, for somebody who tries a handler.
type Seen struct {
	Depth         int // among peers, from 0
	Name          string
	Stdin, Output []byte
	Cause         string // why the run failed; empty: it did not
	Stderr        string
}

// message is the part of an event that matters to a handler.
type message struct {
	conversation string // the gateway's session key
	text         string
	options      map[string]string // by name, if the command's network names them; nil: it does not
}

// prepare finds the handler of a message, and reads the message as the handler's payload. run runs the handler and
// returns the messages for the person, in CommonMark. If nothing is to run, run is nil, and instead has the messages.
func (e *Engine) prepare(m message) (run func(context.Context) []string, instead []string) {
	h, words := e.Config.find(m.text)
	if h == nil {
		e.Log.Info("no handler for a message")
		return nil, nil
	}
	v, err := h.parse(words)
	if m.options != nil && h.Command != "" { // a handler without a command gets the whole message as text
		words = strings.Join(mapped(h, m.options), " ")
		if v, err = h.named(m.options); h.Payload == nil {
			v, err = values{m.options[textField]}, nil
		}
	}
	if err != nil {
		e.Log.Info("a payload does not fit", "handler", h.Name)
		return nil, []string{h.usage()}
	}
	stdin := []byte(words)
	if h.XML {
		stdin = h.document(v)
	}
	return func(ctx context.Context) []string {
		ctx, cancel := context.WithTimeout(ctx, maxExchange)
		defer cancel()
		x := &exchange{engine: e}
		said, _, err := x.turn(ctx, h, stdin, e.State.threadID(h, m.conversation), 0)
		messages := textsOf(said)
		if err != nil {
			messages = append(messages, didNotWork)
		}
		return messages
	}, nil
}

// mapped returns the values of the options in the order of h's fields.
func mapped(h *Handler, options map[string]string) (words []string) {
	for _, f := range h.fields() {
		if v, ok := options[f.Name]; ok {
			words = append(words, v)
		}
	}
	return words
}

func textsOf(said []spoken) (texts []string) {
	for _, s := range said {
		if strings.TrimSpace(s.text) != "" {
			texts = append(texts, s.text)
		}
	}
	return texts
}

// exchange is all that one message causes.
type exchange struct {
	engine *Engine
	runs   int
}

// spoken is a text for the person for whom a handler runs.
type spoken struct{ root, text string }

// failure is why a handler gave no answer. Only the operator reads it.
type failure struct{ cause string }

func (f failure) Error() string { return f.cause }

// turn runs h until it has nothing more to say: once with its payload, and once more for each answer of a peer. With an
// error it also returns the messages before the failure, but none if there are more than maxMessages. halted: h has
// ended the turn with a <halt>.
func (x *exchange) turn(ctx context.Context, h *Handler, stdin []byte, thread string, depth int) (said []spoken, halted bool, err error) {
	all, err := x.output(ctx, h, stdin, thread, depth)
	if err != nil {
		return nil, false, err
	}
	for _, f := range all {
		switch f.root {
		case rootHalt:
			return said, true, nil
		case rootThought:
		case rootResult, rootReply:
			said = append(said, spoken{f.root, f.text})
		default:
			for _, payload := range x.call(ctx, h, f, thread, depth) {
				more, halted, err := x.turn(ctx, h, payload, thread, depth)
				if said = append(said, more...); err != nil || halted {
					return said, halted, err
				}
			}
		}
		if len(said) > maxMessages {
			return nil, false, x.failed(h, fmt.Sprintf("more than %d messages", maxMessages), "")
		}
	}
	return said, false, nil
}

// output runs h and returns its output as fragments; a text is one result. An agent whose output was wrong, and that
// was not killed, runs once more to correct it.
func (x *exchange) output(ctx context.Context, h *Handler, stdin []byte, thread string, depth int) ([]fragment, error) {
	r, err := x.run(ctx, h, stdin, thread, depth)
	if err != nil {
		return nil, err
	}
	if !h.XML {
		if r.cause != "" {
			return nil, x.failed(h, r.cause, r.said)
		}
		return []fragment{{root: rootResult, text: strings.ToValidUTF8(string(r.output), "\uFFFD")}}, nil
	}
	all, cause := x.read(h, r)
	if cause == "" {
		return all, nil
	}
	if r.killed {
		return nil, x.failed(h, cause, r.said)
	}
	complaint := huh(r.output)
	x.engine.Log.Warn("a handler's output counts for nothing", "handler", h.Name, "cause", cause, "stderr", r.said, "huh", string(complaint))
	if !h.Agent {
		return nil, failure{cause}
	}
	if r, err = x.run(ctx, h, complaint, thread, depth); err != nil {
		return nil, err
	}
	if all, cause = x.read(h, r); cause != "" {
		return nil, x.failed(h, "again: "+cause, r.said)
	}
	return all, nil
}

// read returns the fragments in the output of an XML handler. cause is why the output is dropped; empty: it counts.
func (x *exchange) read(h *Handler, r ran) (all []fragment, cause string) {
	if r.cause != "" {
		return nil, r.cause
	}
	all, err := fragments(r.output)
	if err != nil {
		return nil, err.Error()
	}
	for _, f := range all {
		switch f.root {
		case rootResult, rootReply, rootThought, rootHalt:
		case rootHuh:
			return nil, "a <huh> of its own"
		default:
			if len(h.Peers) == 0 {
				return nil, "an unknown root"
			}
		}
	}
	return all, ""
}

// failed logs why h gave no answer, and returns that as a failure.
func (x *exchange) failed(h *Handler, cause, stderr string) error {
	x.engine.Log.Warn("a handler failed", "handler", h.Name, "cause", cause, "stderr", stderr)
	return failure{cause}
}

// run runs h once, if the exchange has a run left.
func (x *exchange) run(ctx context.Context, h *Handler, stdin []byte, thread string, depth int) (ran, error) {
	e := x.engine
	if x.runs == maxRuns {
		return ran{}, x.failed(h, fmt.Sprintf("more than %d runs for one message", maxRuns), "")
	}
	if ctx.Err() != nil {
		return ran{}, x.failed(h, "the message has taken longer than "+maxExchange.String(), "")
	}
	if err := e.Config.sound(h); err != nil {
		return ran{}, x.failed(h, err.Error(), "")
	}
	dir, err := e.State.folder(thread)
	if err != nil {
		return ran{}, x.failed(h, err.Error(), "")
	}
	x.runs++
	r := e.Tools.run(ctx, h, thread, dir, stdin)
	if err := touch(dir); err != nil && r.cause == "" {
		r.cause = err.Error()
	}
	if e.Seen != nil {
		e.Seen(Seen{depth, h.Name, stdin, r.output, r.cause, r.said})
	}
	return r, nil
}

// call runs the peer of h that the fragment f names, and returns the next payloads of h: one element for each message
// of the peer. There is one payload, a SystemError, if the peer does not exist, is no peer of h or fails, if f does not
// fit the peer's payload, or if the limits do not allow a run of the peer and another one of h.
func (x *exchange) call(ctx context.Context, h *Handler, f fragment, thread string, depth int) (payloads [][]byte) {
	began := time.Now()
	peer := x.peer(h, f.root)
	if peer != nil && depth+1 < maxDepth && x.runs+2 <= maxRuns && f.said != nil {
		if v, err := peer.named(f.said); err == nil {
			said, _, err := x.turn(ctx, peer, peer.document(v), x.engine.State.threadID(peer, thread), depth+1)
			if err == nil {
				for _, s := range said {
					var b bytes.Buffer
					element(&b, peer.Name+"."+s.root, s.text)
					payloads = append(payloads, b.Bytes())
				}
				return payloads
			}
		}
	}
	x.engine.Log.Info("a call of a peer failed", "handler", h.Name)
	wait := time.NewTimer(errorStep - time.Since(began)%errorStep)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	return [][]byte{[]byte(systemError)}
}

// peer returns the declared peer of h that a fragment's root names, by its name alone or with one more part; nil: there
// is none.
func (x *exchange) peer(h *Handler, root string) *Handler {
	for _, name := range h.Peers {
		if root == name || onePart(name, root) {
			return x.engine.Config.byName(name)
		}
	}
	return nil
}
