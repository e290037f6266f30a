package loopback

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Message is what a person says.
type Message struct {
	User relay.UserID
	// Chat is where; empty means the person's direct messages with the bot.
	Chat       relay.ChatID
	Thread     relay.ThreadID
	ReplyTo    relay.MessageID
	Text       string
	Files      []File // at most relay.MaxAttachments
	Press      *Press // instead of the text
	IsBot, Own bool   // the author is another bot; is the hosted bot itself
}

// Act is one thing the bot did.
type Act struct {
	Op      relay.Op        `json:"op"`
	Chat    relay.ChatID    `json:"chat"`
	Thread  relay.ThreadID  `json:"thread,omitempty"`
	Message relay.MessageID `json:"messageId,omitempty"` // made or acted on
	ReplyTo relay.MessageID `json:"replyTo,omitempty"`
	Text    string          `json:"text,omitempty"` // of a send or edit; a caption; the emoji of a reaction
	Remove  bool            `json:"remove,omitempty"`
	File    SentFile        `json:"file,omitzero"`
	Prompt  string          `json:"prompt,omitempty"`  // its id
	Options string          `json:"options,omitempty"` // the ids of its buttons, with spaces between them
}

// Network is the far side: people, chats, and what the bot did there. Its methods may be called
// from any goroutine. It remembers everything; but a configured bot may run for months, so what that did stands only in
// its file, and only its newest texts are remembered.
type Network struct {
	mu       sync.Mutex    // guards the fields below
	changed  chan struct{} // closed and replaced on every change
	queue    []pending     // said and not yet accepted, oldest first
	members  map[relay.ChatID]map[relay.UserID]bool
	managers []manager
	acts     []Act
	texts    map[posted]string            // the bot's messages that stand
	standing []posted                     // with keep: the keys of texts and of deleted ones, oldest first
	keep     int                          // how many texts; 0: all
	minted   int                          // numbers given to messages
	buttons  map[posted]map[string]string // labels by their option's id
	files    map[string][]byte            // shown to the bot, by reference
	sent     map[posted][]byte            // posted by the bot
	fails    []error
	// fetchFails are of fetches of files.
	fetchFails []error
	drops      int // connections dropped so far
	revoked    bool
}

// posted names a message, as the larger networks do: by its chat and its id there.
type posted struct {
	chat    relay.ChatID
	message relay.MessageID
}

// pending is what the bot has not confirmed.
type pending struct {
	batch    platforms.Batch
	accepted chan struct{}
}

// NewNetwork makes a network without people.
func NewNetwork() *Network {
	return &Network{
		changed: make(chan struct{}),
		members: make(map[relay.ChatID]map[relay.UserID]bool),
		texts:   make(map[posted]string),
		buttons: make(map[posted]map[string]string),
		files:   make(map[string][]byte),
		sent:    make(map[posted][]byte),
	}
}

// changedLocked wakes those who wait. n.mu must be held.
func (n *Network) changedLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// Say says m and waits until the bot's Inbox accepted it, or ctx ends; then it may be accepted later.
func (n *Network) Say(ctx context.Context, m Message) error {
	select {
	case <-n.Post(m):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the bot to accept a message: %w", ctx.Err())
	}
}

// Post says m and returns at once. The channel is closed when the bot's Inbox accepted m. Whoever speaks in a shared
// chat is a member of it from then on.
func (n *Network) Post(m Message) (accepted <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.minted++
	return n.enqueueLocked(platforms.Batch{Events: []relay.Event{n.eventLocked(m, fmt.Sprintf("m%d", n.minted))}})
}

// enqueueLocked puts b behind everything unaccepted. n.mu must be held.
func (n *Network) enqueueLocked(b platforms.Batch) (accepted <-chan struct{}) {
	p := pending{b, make(chan struct{})}
	n.queue = append(n.queue, p)
	n.changedLocked()
	return p.accepted
}

// accepted takes the oldest batch off the queue.
func (n *Network) accepted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.queue[0].accepted)
	n.queue = n.queue[1:]
}

// eventLocked is m as the bot observes it. n.mu must be held.
func (n *Network) eventLocked(m Message, id string) relay.Event {
	if m.Chat == "" {
		m.Chat = directPrefix + relay.ChatID(m.User)
	}
	ev := relay.Event{
		ID: relay.EventID(id), MessageID: relay.MessageID(id), Bot: bot, At: time.Now(),
		Type: relay.TypeText, Text: m.Text, ReplyToMessageID: m.ReplyTo,
		Source: relay.Source{
			Platform: ID, Scope: scopeOf(m.Chat), ChatID: m.Chat, ChatType: relay.ChatGroup, ChatName: string(m.Chat),
			ThreadID: m.Thread, UserID: m.User, UserName: string(m.User), MessageID: relay.MessageID(id),
		},
		Traits: relay.Traits{AuthorIsBot: m.IsBot || m.Own, Own: m.Own},
	}
	if user, direct := directUser(m.Chat); direct {
		ev.Source.ChatType, ev.Source.ChatName = relay.ChatDM, string(user)
	} else {
		n.joinLocked(m.Chat, m.User)
	}
	if text, ok := n.texts[posted{m.Chat, m.ReplyTo}]; ok {
		ev.ReplyTo = &relay.Quote{Text: text, IsOwn: true}
		ev.Traits.Addressed = true
	}
	n.attachLocked(&ev, m.Files)
	if m.Press != nil {
		n.pressLocked(&ev, *m.Press)
		return ev
	}
	if strings.HasPrefix(m.Text, "/") {
		ev.Type = relay.TypeCommand
		command, _, _ := strings.Cut(m.Text, " ")
		_, to, named := strings.Cut(command, "@")
		ev.Traits.OtherCommand = named && to != Handle
		ev.Traits.Addressed = !ev.Traits.OtherCommand
	} else if strings.Contains(m.Text, "@"+Handle) {
		ev.Traits.Addressed = true
	}
	return ev
}

// Join makes user a member of a shared chat.
func (n *Network) Join(chat relay.ChatID, user relay.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.joinLocked(chat, user)
}

func (n *Network) joinLocked(chat relay.ChatID, user relay.UserID) {
	if n.members[chat] == nil {
		n.members[chat] = make(map[relay.UserID]bool)
	}
	n.members[chat][user] = true
}

// Leave ends user's membership of a shared chat.
func (n *Network) Leave(chat relay.ChatID, user relay.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.members[chat], user)
}

// Act waits for the i-th thing the bot did, counted from 0.
func (n *Network) Act(ctx context.Context, i int) (Act, error) {
	for {
		n.mu.Lock()
		acts, changed := n.acts, n.changed
		n.mu.Unlock()
		if i < len(acts) {
			return acts[i], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Act{}, fmt.Errorf("wait for act %d of the bot: %w", i, ctx.Err())
		}
	}
}

// Acts lists what the bot did so far, oldest first.
func (n *Network) Acts() []Act {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.acts)
}

// FailNext makes the bot's next actions fail with errs, one each; nil lets one pass. An action whose error says maybe
// sent is carried out all the same.
func (n *Network) FailNext(errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = append(n.fails, errs...)
}

// Drop breaks the bot's connection. The bot finds a new one at once.
func (n *Network) Drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drops++
	n.changedLocked()
}

// Revoke makes the network reject the bot from now on.
func (n *Network) Revoke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.revoked = true
	n.changedLocked()
}
