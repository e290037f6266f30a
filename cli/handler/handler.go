// Package handler runs local programs for chat messages: it is a gateway whose agent is a script. A Handler is a
// program with a name; a thread is one conversation, as the gateway's session key names it; an exchange is everything
// that one message causes. The package checks handlers.toml, turns a message into a payload, runs the program in a
// cage, and reads its output. Runner connects this to the connector.
//
// Programs are foreign code, and their output is foreign text. Who gets an answer is decided before a program starts,
// and the program's output cannot change that.
//
// Invariants:
//
//  1. A program learns its thread, its payload and, if it is an agent, its own name. It never learns who wrote, where,
//     or who called it.
//  2. A payload that does not fit never reaches a program.
//  3. Output that is wrong in any part is dropped, and what its program learns about that is the same whatever was
//     wrong.
//  4. A message runs a program once or not at all: a run that had begun when the runner died is not repeated.
//  5. A program runs in its cage, or does not run. Only a handler with sandbox = "none", which a person must write,
//     runs without one.
//  6. When a run has ended, or the runner is killed, nothing of it is left.
package handler

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// The limits of a run and of an exchange.
const (
	// defaultTimeout is how long a run may take unless the handler says otherwise, maxTimeout how long any run may
	// take.
	defaultTimeout, maxTimeout = 10 * time.Second, 60 * time.Second
	// maxOutput is how many bytes a run may write.
	maxOutput = 64 << 10
	// maxMessages is how many messages one output may contain.
	maxMessages = 16
	// maxRuns, maxDepth and maxExchange bound what one message may cause: the runs, the depth of calls between peers,
	// and the time.
	maxRuns, maxDepth, maxExchange = 16, 4, 5 * time.Minute
	// idleAfter is how long the folder of an idle thread is kept.
	idleAfter = 30 * 24 * time.Hour
)

// Handler is a program with a name.
type Handler struct {
	Name string
	// Run is the program and its arguments. The program is an absolute path, or a name to be found in the cage's PATH.
	Run []string
	// Command is the first word of the messages for this handler, such as "/backup"; empty: it gets the messages that
	// match no command or, if it is a peer of another handler, no messages.
	Command string
	// Read and Write are absolute paths that the cage shows beside the thread's folder.
	Read, Write []string
	// Network: it shares the machine's network.
	Network bool
	// XML: it reads and writes XML, else text.
	XML bool
	// Payload is the form that a message must have; nil: any.
	Payload []Field
	// Agent: it learns its own name, and runs once more to correct an output that does not count.
	Agent bool
	// Timeout bounds a run.
	Timeout time.Duration
	// Peers are the handlers it may call.
	Peers []string
	// Uncaged: sandbox = "none".
	Uncaged bool
}

// Config is the content of a valid handlers.toml.
type Config struct {
	Handlers []*Handler
	// Guarded are the paths that no cage may show, with links resolved.
	Guarded []string
}

// byName returns the handler with that name, or nil.
func (c *Config) byName(name string) *Handler {
	for _, h := range c.Handlers {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// called reports whether some handler names h as its peer.
func (c *Config) called(h *Handler) bool {
	return slices.ContainsFunc(c.Handlers, func(o *Handler) bool { return slices.Contains(o.Peers, h.Name) })
}

// find returns the handler for a message, and the words for the handler: those behind the command or, if the handler
// has no command, the whole message. h is nil if no handler is for the message.
func (c *Config) find(text string) (h *Handler, words string) {
	command, words := cutCommand(text)
	for _, h := range c.Handlers {
		if h.Command != "" && h.Command == command {
			return h, words
		}
	}
	for _, h := range c.Handlers {
		if h.Command == "" && !c.called(h) {
			return h, text
		}
	}
	return nil, ""
}

// cutCommand cuts a message behind its command: "/add@somebot 7 35" is "/add" and "7 35". The connector gives us no
// commands of other bots, so which bot is named does not matter.
func cutCommand(text string) (command, words string) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	command, _, _ = strings.Cut(text[:end], "@")
	return command, strings.TrimSpace(text[end:])
}
