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

// The methods of Slack's API that the connector calls.
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

// PerMinute is how often each method may be called in a minute. A method that is not in it has no limit.
type PerMinute map[string]int

// Slack holds Slack's limits for an app in one workspace, from its page "Rate limits": 20 a minute in tier 2, 50 in
// tier 3, 100 in tier 4. A method that is not here has another kind of limit (PostMessage: one a second in a channel,
// which package sender keeps), or is called seldom.
var Slack = PerMinute{
	Update: 50, Delete: 50, AddReaction: 50, RemoveReaction: 20, ChannelInfo: 50, ChannelHistory: 50, ThreadReplies: 50,
	JoinedChannels: 50, ChannelMembers: 100, UserInfo: 100, FileInfo: 100, UploadURL: 100, CompleteUpload: 100, SetStatus: 600,
}

// rates returns limits that allow n calls in any minute, a fifth of them at once. The actions of one instance may take
// half of that rate at any time, whatever other instances do. For n = 0 there is no limit.
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

// gates keep methods from being called too often. A penalty for a method holds for the whole app, because Slack counts
// by app.
type gates struct {
	rates PerMinute // set once

	mu sync.Mutex                    // guards the field of
	of map[string]*ratelimit.Limiter // by method
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
	// reserve is how long before a call's deadline enter stops waiting, so that a call that begins then can still end
	// in time.
	reserve = 3 * time.Second
	// longestWait is how long a call without a deadline waits.
	longestWait = time.Minute
	// leastPenalty is how long a method is not called after a 429 that names no time.
	leastPenalty = time.Second
)

// enter waits until the method may be called. It gives up reserve before ctx's deadline, or after longestWait if there
// is no deadline.
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
	release() // calls of one method may run at the same time
	return nil
}

// heed stops calls of the method for as long as Slack's error demands. A penalty for PostMessage is left to package
// sender, because it is the channel's.
func (g *gates) heed(method string, err error) {
	if f := httpcall.FaultOf(err); f.Limited() && method != PostMessage {
		g.gate(method).PenaliseBot(max(f.RetryAfter, leastPenalty))
	}
}

// WaitOpen waits at most patience until the method may be called. Its error is an *relay.ActionError, not sent.
func (g *gates) WaitOpen(ctx context.Context, method string, patience time.Duration) error {
	return g.gate(method).WaitOpen(ctx, "", patience)
}
