package rest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The methods that are called here.
const (
	PostMessage    = "chat.postMessage"
	Update         = "chat.update"
	Delete         = "chat.delete"
	AddReaction    = "reactions.add"
	RemoveReaction = "reactions.remove"
	SetStatus      = "assistant.threads.setStatus"
	UploadURL      = "files.getUploadURLExternal"
	CompleteUpload = "files.completeUploadExternal"
	FileInfo       = "files.info"
	ChannelInfo    = "conversations.info"
	ChannelMembers = "conversations.members"
	ChannelHistory = "conversations.history"
	ThreadReplies  = "conversations.replies"
	UserInfo       = "users.info"
	BotInfo        = "bots.info"
	JoinedChannels = "users.conversations"
	AuthTest       = "auth.test"
	OpenSocket     = "apps.connections.open"
)

// PerMinute is how often methods may be called; what is not in it, as often as one likes.
type PerMinute map[string]int

// Slack is how often an app may call a method in one workspace, by Slack's page "Rate limits": tier 2 is 20, 3 is 50, 4
// is 100. What is not here has a rate of another kind (PostMessage: one a second and channel, which package sender keeps),
// or is called seldom.
var Slack = PerMinute{
	Update: 50, Delete: 50, AddReaction: 50, RemoveReaction: 20, ChannelInfo: 50, ChannelHistory: 50, ThreadReplies: 50,
	JoinedChannels: 50, ChannelMembers: 100, UserInfo: 100, FileInfo: 100, UploadURL: 100, CompleteUpload: 100, SetStatus: 600,
}

// rates let no more than n pass in any minute, a fifth of them at once. Half of that each instance has for certain.
func rates(n int) ratelimit.Rates {
	if n == 0 {
		return ratelimit.Rates{}
	}
	burst := n / 5
	every := time.Minute / time.Duration(n-burst)
	return ratelimit.Rates{
		Bot:      ratelimit.Rate{Every: every, Burst: burst},
		Instance: ratelimit.Rate{Every: 2 * every, Burst: max(burst/2, 1)},
	}
}

// gates keep methods from being called too often. A penalty of a method is one of the whole app: that is how Slack counts.
type gates struct {
	rates PerMinute // set once

	mu sync.Mutex // guards of
	of map[string]*ratelimit.Limiter
}

func newGates(r PerMinute) *gates { return &gates{rates: r, of: make(map[string]*ratelimit.Limiter)} }

func (g *gates) gate(method string) *ratelimit.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.of[method]
	if l == nil {
		l = ratelimit.New(rates(g.rates[method]))
		g.of[method] = l
	}
	return l
}

const (
	// reserve of a call's time is left to it when its gate opens late, so that its outcome is known in time.
	reserve = 3 * time.Second
	// longestWait is that of a call without a deadline.
	longestWait = time.Minute
	// leastPenalty is how long a method is left alone after a 429 that names no time.
	leastPenalty = time.Second
)

// enter waits for the method's gate.
func (g *gates) enter(ctx context.Context, method string) error {
	patience := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline) - reserve
	}
	release, err := g.gate(method).Acquire(ctx, "", ratelimit.Message, patience)
	if err != nil {
		f := &httpcall.Fault{What: method, Sent: httpcall.Never, Message: "held back by the method's rate", Cause: ctx.Err()}
		if ae := new(relay.ActionError); errors.As(err, &ae) {
			f.RetryAfter = ae.RetryAfter
		}
		return f
	}
	release() // calls of one method may be under way side by side
	return nil
}

// heed closes the method's gate for as long as Slack wants.
func (g *gates) heed(method string, err error) {
	if f := httpcall.FaultOf(err); f.Limited() && method != PostMessage {
		g.gate(method).PenaliseBot(max(f.RetryAfter, leastPenalty))
	}
}

// WaitOpen waits until the method could be called, for patience at most. Its error is an *relay.ActionError, not sent.
func (g *gates) WaitOpen(ctx context.Context, method string, patience time.Duration) error {
	return g.gate(method).WaitOpen(ctx, "", patience)
}
