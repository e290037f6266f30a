// Package local is a chat network in memory, with two faces.
//
// Loopback is for tests, for `hermes-connector demo`, and, driven by lines in a file (see LoopbackNetwork), for trying things
// out from a shell: people and chats, all of a Network's. A chat's id says what it is: "@ann" are Ann's direct messages
// with the bot, "garden" is a shared chat, "park/garden" one inside the scope "park". Among managers, "park/" is the
// whole scope. Over a restart of the process nothing is kept but how far the file was read.
//
// Web is for one person: whoever is logged in at this program's own pages. Each gateway has a room, and in it that
// person and the bot. It shows that a gateway works before there is any bot. A chat's id and the person's id in it are
// both the name of the gateway's instance, so that whom a message is for can be read off where it was said; whoever
// offers the room binds that id to that instance.
//
// Invariants, beside those of package platforms:
//
//  1. What was said stays in the network, in order, until the Inbox accepted it, also over a new bot on the same network.
//  2. What a bot did stands in the network before its method returned.
//  3. Nothing that is said in a room of the web's is on a disk, but what the Inbox stores. A restart empties the rooms,
//     and no id comes back with another meaning.
//  4. Each room of the web's has bounds, of its messages and of its files: the oldest go first. What is said in one room
//     takes nothing from another.
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

// face is how a network shows itself. Its functions are called with the network's mu held; those that are nil are not
// needed.
type face struct {
	bot       relay.Bot
	name      string // the bot's, on the network
	label     string
	maxLength int // of a message, in code points
	maxFile   int64
	gone      string // said of a file that is not there any more
	stuck     string // said of the bot while what was said is not accepted; empty: nothing

	messages, bytes, files int // bounds of a room: messages that stand, bytes of their texts and of their files; 0: none

	// whole: a room holds everything that is said there, so that what is not in it cannot be reacted to.
	whole    bool
	isChat   func(relay.ChatID) bool
	chatInfo func(relay.ChatID) relay.ChatInfo
	revoked  func() bool
	// fails is asked before an action is carried out: an error that says not sent keeps it from being so.
	fails func(*Act, []byte) error
	did   func([]Act) // what was done
}

// network is what both faces have: rooms, and what was said and not yet accepted.
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

// mintLocked is a new id. n.mu must be held.
func (n *network) mintLocked() string {
	n.minted++
	return fmt.Sprintf("%s%d", n.prefix, n.minted)
}

// wakeLocked wakes those who wait for a change. n.mu must be held.
func (n *network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// pending is what the bot has not confirmed.
type pending struct {
	batch    platforms.Batch
	accepted chan struct{}
	on       relay.MessageID // that shows it in the room; empty: none does
}

// enqueueLocked puts b behind everything unaccepted. n.mu must be held.
func (n *network) enqueueLocked(b platforms.Batch, on relay.MessageID) *pending {
	p := &pending{b, make(chan struct{}), on}
	n.queue = append(n.queue, p)
	n.wakeLocked()
	return p
}

// offeredLocked is what has waited longest, nil if nothing does: a copy, for whoever takes it may change it. n.mu must be held.
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

// refused tells whoever pressed a button, and nobody else, why that did nothing.
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

// accepted takes what has waited longest off the queue.
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

// bot is what both faces' bots have.
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

// ID is always the same, for there is one bot on a network.
func (b *bot) ID() relay.Bot { return b.net.face.bot }

// Descriptor is what the network can do.
func (b *bot) Descriptor() relay.Descriptor {
	f := b.net.face
	return relay.Descriptor{
		Platform: f.bot.Platform, Label: f.label, MaxMessageLength: f.maxLength, LenUnit: relay.LenChars, MarkdownDialect: "markdown",
	}
}

// Status is the state of the connection.
func (b *bot) Status() platforms.Status { return b.status.Get() }

// Run hands in what is said until ctx ends or the network revokes the bot.
func (b *bot) Run(ctx context.Context, in platforms.Inbox) error {
	n := b.net
	pause := backoff.Backoff{First: firstRetry, Max: lastRetry}
	for drops := -1; ; {
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
				b.stuck("") // before whoever said it is told, who may look
				n.accepted()
				pause.Reset()
			} else if ctx.Err() == nil { // what is said meanwhile does not shorten the pause
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

// stuck says that nothing can be stored, of a face that says so.
func (b *bot) stuck(words string) {
	if b.net.face.stuck != "" {
		b.status.SetStuck(words)
	}
}
