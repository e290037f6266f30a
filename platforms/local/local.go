// Package local is a chat network in memory, with two faces.
//
// Loopback is for tests, for `hermes-connector demo` and, driven by lines in a file (see LoopbackNetwork), for trying
// things out from a shell. A Network has its people and chats. A chat's id shows its kind: "@ann" is Ann's direct
// messages with the bot, "garden" a shared chat, "park/garden" one inside the scope "park". Among managers, "park/" is
// the whole scope. A restart of the process forgets everything except how far the file was read.
//
// Web is for one person: whoever is logged in at this program's own pages. Each gateway has a room for that person and
// the bot. It shows that a gateway works before there is any bot. The chat's id and the person's id in it both equal
// the name of the gateway's instance, so that the id of the chat shows for whom a message is. The pages bind that id to
// that instance.
//
// Invariants, beside those of package platforms:
//
//  1. A message stays in the network, in order, until the Inbox has accepted it, also when a new bot takes over the
//     network.
//  2. An action of a bot is recorded in the network before its method returns.
//  3. Messages in a web room are on no disk, except as the Inbox stores them. A restart empties the rooms, and no id
//     comes back with another meaning.
//  4. Each web room has limits for its messages and for its files: the oldest are deleted first. Messages in one room
//     take nothing from another.
package local

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// firstRetry and lastRetry bound the pause after a refused batch.
const firstRetry, lastRetry = 50 * time.Millisecond, time.Second

// face is how a network presents itself. Its functions are called with the network's mu held; nil functions are not
// called.
type face struct {
	bot       relay.Bot
	name      string // the bot's, on the network
	label     string
	maxLength int // of a message, in code points
	maxFile   int64
	gone      string // the reason for a file that is not there any more
	stuck     string // the bot's status while its Inbox does not accept messages; empty: the status does not change

	messages, bytes, files int // limits of a room: the number of messages, the bytes of their texts, and the bytes of their files; 0: no limit

	// whole: a room holds all its messages, so that a reaction to any other message is refused.
	whole    bool
	isChat   func(relay.ChatID) bool
	chatInfo func(relay.ChatID) relay.ChatInfo
	revoked  func() bool // reports whether the network rejects the bot
	// fails is called before an action is carried out. If it returns an error that says not sent, the action is not
	// carried out.
	fails func(*Act, []byte) error
	did   func([]Act) // called with the bot's actions
}

// network is the common part of both faces: rooms, and messages that are not accepted yet.
type network struct {
	prefix string // of ids
	face   face

	mu      sync.Mutex    // guards the fields below
	changed chan struct{} // closed and replaced on every change
	queue   []*pending    // said and not yet accepted, oldest first
	rooms   map[relay.ChatID]*room
	kept    map[string]kept // files, by id
	minted  int             // numbers given to messages and files
	drops   int             // connections dropped so far
}

func newNetwork(prefix string, f face) *network {
	return &network{prefix: prefix, face: f, changed: make(chan struct{}), rooms: make(map[relay.ChatID]*room), kept: make(map[string]kept)}
}

// mintLocked returns a new id. n.mu must be held.
func (n *network) mintLocked() string {
	n.minted++
	return fmt.Sprintf("%s%d", n.prefix, n.minted)
}

// wakeLocked wakes those who wait for a change. n.mu must be held.
func (n *network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// pending is a message or a press that the bot's Inbox has not accepted yet.
type pending struct {
	batch    platforms.Batch
	accepted chan struct{}
	on       relay.MessageID // the message that shows it in the room; empty: none
}

// enqueueLocked puts b behind everything unaccepted. n.mu must be held.
func (n *network) enqueueLocked(b platforms.Batch, on relay.MessageID) *pending {
	p := &pending{b, make(chan struct{}), on}
	n.queue = append(n.queue, p)
	n.wakeLocked()
	return p
}

// offeredLocked returns a copy of the batch that has waited longest, because the taker may change it; nil if nothing
// waits. n.mu must be held.
func (n *network) offeredLocked() *platforms.Batch {
	if len(n.queue) == 0 {
		return nil
	}
	b := n.queue[0].batch
	b.Events = slices.Clone(b.Events)
	for i, ev := range b.Events {
		b.Events[i].Attachments = slices.Clone(ev.Attachments)
		if ev.Prompt != nil {
			answer := *ev.Prompt
			b.Events[i].Prompt = &answer
		}
	}
	events := n.queue[0].batch.Events
	b.Refused = func(press relay.EventID, words string) { n.refused(events, press, words) }
	return &b
}

// refused tells the person who pressed a button, and nobody else, why that had no effect.
func (n *network) refused(events []relay.Event, press relay.EventID, words string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ev := range events {
		if ev.ID != press {
			continue
		}
		if ev.Prompt != nil {
			n.changeLocked(ev.Source.ChatID, ev.Prompt.PromptMessageID, func(m *Posted) { m.Chosen, m.Notice = "", words })
		}
		n.didLocked([]Act{{Op: OpNotice, Chat: ev.Source.ChatID, Thread: ev.Source.ThreadID, Message: ev.MessageID, Text: words}})
	}
}

// accepted removes the batch that has waited longest from the queue.
func (n *network) accepted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.queue[0]
	n.queue[0], n.queue = nil, n.queue[1:]
	close(p.accepted)
	if p.on != "" {
		n.changeLocked(p.batch.Events[0].Source.ChatID, p.on, func(m *Posted) { m.Waiting = false })
	}
}

// bot is the common part of both faces' bots.
type bot struct {
	// Set once.
	net    *network
	log    *slog.Logger
	status *status.Tracker
}

// newBot makes the bot of n. A nil log discards.
func newBot(n *network, log *slog.Logger) bot {
	return bot{n, cmp.Or(log, slog.New(slog.DiscardHandler)), status.New(n.face.name)}
}

// ID is always the same, because a network has one bot.
func (b *bot) ID() relay.Bot { return b.net.face.bot }

// Descriptor returns the network's abilities.
func (b *bot) Descriptor() relay.Descriptor {
	f := b.net.face
	return relay.Descriptor{
		Platform: f.bot.Platform, Label: f.label, MaxMessageLength: f.maxLength, LenUnit: relay.LenChars, MarkdownDialect: "markdown",
	}
}

// Status returns the state of the connection.
func (b *bot) Status() platforms.Status { return b.status.Get() }

// Run hands in messages until ctx ends or the network revokes the bot. A message that is not accepted is handed in
// again, with growing pauses.
func (b *bot) Run(ctx context.Context, in platforms.Inbox) error {
	n := b.net
	pause := backoff.Backoff{First: firstRetry, Max: lastRetry}
	for drops := -1; ; { // how many connections were dropped when the bot last connected; -1: it has not connected yet
		n.mu.Lock()
		changed := n.changed // taken before looking, so a change while looking is not missed
		dropped, revoked := drops != n.drops, n.face.revoked != nil && n.face.revoked()
		drops = n.drops
		next := n.offeredLocked()
		n.mu.Unlock()

		switch {
		case ctx.Err() != nil:
			b.status.Set(platforms.Stopped, "shut down")
			return nil
		case revoked:
			b.status.Set(platforms.BadCredentials, "the network revoked the bot")
			return fmt.Errorf("%s: %w", n.face.bot.Platform, relay.ErrBadCredentials)
		case dropped:
			b.status.Set(platforms.Connecting, "connecting")
			b.log.Debug("connected", "drops", drops)
			b.status.Set(platforms.Connected, "")
		case next != nil:
			b.status.EventReceived()
			if err := in.Accept(ctx, *next); err == nil {
				b.stuck("") // before the sender learns that it was accepted, and looks at the status
				n.accepted()
				pause.Reset()
			} else if ctx.Err() == nil { // a message that arrives now does not shorten the pause
				d := pause.Next()
				b.stuck(n.face.stuck)
				b.log.Warn("event not accepted; handing it in again", "in", d, "err", err)
				backoff.Pause(ctx, d)
			}
		default:
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}

// stuck sets words as the status for messages that cannot be stored, if the face has such a status; empty: they can be
// stored.
func (b *bot) stuck(words string) {
	if b.net.face.stuck != "" {
		b.status.SetStuck(words)
	}
}
