// Package handler runs local programs for chat messages: a gateway whose agent is a script. A Handler is a program with a
// name; a thread is one conversation, as the gateway's session key names it; an exchange is all that one message causes.
// The package judges handlers.toml, reads what a message says into a payload, runs the program in a cage, and reads what
// it puts out. Runner joins that to the connector.
//
// Programs are foreign code, and what they put out is foreign text: whom an answer goes to is settled before a program starts, and
// nothing that it says can change that.
//
// Invariants:
//
//  1. A program is told its thread, its payload and, if it is an agent, its own name; never who wrote, where, or who called.
//  2. A payload that does not fit never reaches a program.
//  3. Output that is not right in every part counts for nothing, and what is said of it is the same whatever was wrong.
//  4. A message runs a program once or not at all: what had begun when the runner died is not run again.
//  5. A program runs in its cage, or does not run. Only sandbox = "none", written by hand, runs it without one.
//  6. Nothing of a run is left when it has ended, or when the runner is killed.
package handler

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// The limits of a run and of an exchange.
const (
	// defaultTimeout is how long a run may take that says nothing of it, maxTimeout how long any may.
	defaultTimeout, maxTimeout = 10 * time.Second, 60 * time.Second
	// maxOutput is how many bytes a run may put out.
	maxOutput = 64 << 10
	// maxMessages is how many messages one output may be.
	maxMessages = 16
	// maxRuns, maxDepth and maxExchange bound what one message may cause: runs, peers that call one another, and time.
	maxRuns, maxDepth, maxExchange = 16, 4, 5 * time.Minute
	// idleAfter is how long the folder of a thread is kept in which nothing runs.
	idleAfter = 30 * 24 * time.Hour
)

// Handler is a program with a name.
type Handler struct {
	Name string
	// Run is the program and its arguments. The program is an absolute path, or stands in the cage's PATH.
	Run []string
	// Command is what a message begins with, "/backup"; empty: it gets what no command matches, or is only called by peers.
	Command string
	// Read and Write are absolute paths that the cage shows beside the thread's folder.
	Read, Write []string
	// Network: it shares the machine's network.
	Network bool
	// XML: it is given and puts out XML, else text.
	XML bool
	// Payload is what a message must say; nil: anything.
	Payload []Field
	// Agent: it is told its own name, and hears of its misuse.
	Agent bool
	// Timeout bounds a run.
	Timeout time.Duration
	// Peers are the handlers it may call.
	Peers []string
	// Uncaged: sandbox = "none".
	Uncaged bool
}

// Config is a handlers.toml that is in order.
type Config struct {
	Handlers []*Handler
	// Guarded are the paths that no cage may show: resolved, as far as they are there.
	Guarded []string
}

// byName is the handler of that name, or nil.
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

// find is the handler for a message, and what the message says to it: the words behind the command, or all of them. It is nil
// when nobody is there for it.
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
