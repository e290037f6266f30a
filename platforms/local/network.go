package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Message is a message of a person.
type Message struct {
	User relay.UserID
	// Chat is the chat; empty: the person's direct messages with the bot.
	Chat       relay.ChatID
	Thread     relay.ThreadID
	ReplyTo    relay.MessageID
	Text       string
	Files      []File // at most relay.MaxAttachments
	Press      *Press // instead of the text
	IsBot, Own bool   // the author is another bot; is the hosted bot itself
}

// File is a file that somebody shows the bot.
type File struct {
	// Kind is the network's type for the file; empty: a document.
	Kind    relay.MessageType
	Name    string
	Content []byte
	Caption string
	// Ref is the reference by which a configured bot finds the file: its name in the folder "files". Then Content is
	// not used.
	Ref string
}

// Press is a button that somebody presses.
type Press struct {
	Message        relay.MessageID // that the button is on
	Prompt, Option string
}

// Network is loopback's far side: people, chats, and the bot's actions. Its methods may be called from any goroutine.
// It remembers everything, with one exception: a configured bot may run for months, so its actions are only in its
// file, and of each chat only the newest texts are remembered.
type Network struct {
	*network

	// Guarded by mu.
	members    map[relay.ChatID]map[relay.UserID]bool
	managers   []manager
	acts       []Act
	failing    []error // for the next actions
	fetchFails []error // for the next fetches of files
	rejected   bool    // the network rejects the bot
}

// NewNetwork makes a network without people.
func NewNetwork() *Network {
	n := &Network{members: make(map[relay.ChatID]map[relay.UserID]bool)}
	n.network = newNetwork("m", face{
		bot: loopbackBot, name: Handle, label: "Loopback", maxLength: MaxLength, maxFile: MaxFile, gone: "deleted",
		isChat:   func(chat relay.ChatID) bool { return chat != "" },
		chatInfo: chatInfo,
		revoked:  func() bool { return n.rejected },
		fails: func(*Act, []byte) (err error) { // the next failure of FailNext; n.mu is held
			if len(n.failing) > 0 {
				err, n.failing = n.failing[0], n.failing[1:]
			}
			return err
		},
		did: func(acts []Act) {
			n.acts = append(n.acts, acts...)
			n.wakeLocked()
		},
	})
	return n
}

// Say says m and waits until the bot's Inbox has accepted it, or ctx ends; in that case it may still be accepted later.
func (n *Network) Say(ctx context.Context, m Message) error {
	select {
	case <-n.Post(m):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the bot to accept a message: %w", ctx.Err())
	}
}

// Post says m and returns at once. The channel is closed when the bot's Inbox has accepted m. A person who speaks in a
// shared chat is a member of it from then on.
func (n *Network) Post(m Message) (accepted <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.enqueueLocked(platforms.Batch{Events: []relay.Event{n.eventLocked(m, n.mintLocked())}}, "").accepted
}

// eventLocked returns the event of m, as the bot observes it. n.mu must be held.
func (n *Network) eventLocked(m Message, id string) relay.Event {
	if m.Chat == "" {
		m.Chat = directPrefix + relay.ChatID(m.User)
	}
	ev := relay.Event{
		ID: relay.EventID(id), MessageID: relay.MessageID(id), Bot: loopbackBot, At: time.Now(),
		Type: relay.TypeText, Text: m.Text, ReplyToMessageID: m.ReplyTo,
		Source: relay.Source{
			Platform: LoopbackID, Scope: scopeOf(m.Chat), ChatID: m.Chat, ChatType: relay.ChatGroup, ChatName: string(m.Chat),
			ThreadID: m.Thread, UserID: m.User, UserName: string(m.User), MessageID: relay.MessageID(id),
		},
		Traits: relay.Traits{AuthorIsBot: m.IsBot || m.Own, Own: m.Own},
	}
	if user, direct := directUser(m.Chat); direct {
		ev.Source.ChatType, ev.Source.ChatName = relay.ChatDM, string(user)
	} else {
		n.joinLocked(m.Chat, m.User)
	}
	if own := n.findLocked(m.Chat, m.ReplyTo); own != nil {
		ev.ReplyTo = &relay.Quote{Text: own.Text, IsOwn: true}
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

// Act waits for the bot's i-th action, counted from 0, and returns it.
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

// Acts returns the bot's actions so far, oldest first.
func (n *Network) Acts() []Act {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.acts)
}

// FailNext makes the bot's next actions fail, one with each of errs; nil lets one pass. An action whose error says
// maybe sent is still carried out.
func (n *Network) FailNext(errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failing = append(n.failing, errs...)
}

// Drop breaks the bot's connection. The bot finds a new one at once.
func (n *Network) Drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drops++
	n.wakeLocked()
}

// Revoke makes the network reject the bot from now on.
func (n *Network) Revoke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rejected = true
	n.wakeLocked()
}

// attachLocked attaches files to ev. n.mu must be held.
func (n *Network) attachLocked(ev *relay.Event, files []File) {
	for i, f := range files[:min(len(files), relay.MaxAttachments)] {
		a := relay.Attachment{Ref: f.Ref, Kind: cmp.Or(f.Kind, relay.TypeDocument), Name: f.Name, Size: int64(len(f.Content)), Caption: f.Caption}
		if a.Ref == "" {
			a.Ref = fmt.Sprintf("%s/%d", ev.ID, i)
			n.keepLocked(ev.Source.ChatID, RoomFile{ID: a.Ref, Name: f.Name}, f.Content)
		}
		ev.Attachments = append(ev.Attachments, a)
	}
}

// Forget makes the network lose the file of an attachment, as if its message had been deleted.
func (n *Network) Forget(ref string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.kept, ref)
}

// ForgetAll makes the network lose every file.
func (n *Network) ForgetAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.kept)
}

// FailFetch makes the bot's next fetches of files fail, one with each of errs; nil lets one pass.
func (n *Network) FailFetch(errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fetchFails = append(n.fetchFails, errs...)
}

// Sent returns the content of the file that the bot posted in a message, on a network in memory.
func (n *Network) Sent(chat relay.ChatID, message relay.MessageID) ([]byte, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.findLocked(chat, message)
	if m == nil || len(m.Files) == 0 {
		return nil, false
	}
	k, ok := n.kept[m.Files[0].ID]
	return k.content, ok
}

// Buttons returns the ids and labels of a message's present buttons; nil: it has none.
func (n *Network) Buttons(chat relay.ChatID, message relay.MessageID) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.findLocked(chat, message)
	if m == nil || len(m.Options) == 0 {
		return nil
	}
	labels := make(map[string]string)
	for _, o := range m.Options {
		labels[o.ID] = o.Label
	}
	return labels
}

// pressLocked turns ev into a press. n.mu must be held.
func (n *Network) pressLocked(ev *relay.Event, p Press) {
	ev.Type, ev.Text = relay.TypeCommand, "/"+p.Option
	ev.Prompt = &relay.PromptResponse{PromptID: p.Prompt, OptionID: p.Option, PromptMessageID: p.Message}
	if m := n.findLocked(ev.Source.ChatID, p.Message); m != nil {
		ev.Prompt.Label, _ = m.label(p.Option)
	}
	ev.Traits.Press, ev.Traits.Addressed = true, true
}
