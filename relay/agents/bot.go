package agents

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

const (
	// maxReply is the most characters of one message of an agent, as its gateway is told. A longer one is cut into parts.
	maxReply = 131_072
	// storeWithin is how long a caller waits for the disk.
	storeWithin = 10 * time.Second
	// maxPushed is how many chats are remembered; maxOpen is how many events of a chat one answer can answer.
	maxPushed = 4096
	maxOpen   = 16
)

// Replies stores what agents say to callers. *callers.Records implements it.
type Replies interface {
	Receipt(ctx context.Context, caller string, ev relay.EventID) (relay.Receipt, bool, error)
	Latest(ctx context.Context, chat relay.ChatID) (relay.Receipt, bool, error)
	Keep(ctx context.Context, all []callers.Reply) (dropped int, err error)
	Replies(ctx context.Context, f callers.ReplyFilter) ([]callers.Reply, error)
}

// Bot is the bot through which programs reach agents: a program's message becomes its event, and an agent's answer is
// kept for the program. There is no network to connect to, so it is connected at once. Its methods may be called from
// any goroutine.
type Bot struct {
	inbox.People
	// Set once, by NewBot.
	kept   Replies
	count  func(count.Counter)
	log    *slog.Logger
	status *status.Tracker
	feed   *inbox.Feed

	mu     sync.Mutex // guards the fields below
	pushed map[relay.ChatID]unanswered
	taken  map[relay.EventID][]chan<- struct{} // closed when the event is acknowledged
	told   map[string][]chan<- callers.Reply   // by caller: the requests that wait for replies
}

// unanswered holds the events of a chat that a gateway was sent since the agent's last final answer, oldest first. If
// said is true, none was sent since, and events holds only the event that was answered last.
type unanswered struct {
	events []relay.EventID
	said   bool
}

var (
	_ platforms.Bot   = (*Bot)(nil)
	_ platforms.Typer = (*Bot)(nil)
)

// NewBot makes the bot. kept stores its replies; it is nil for a bot that is never run.
func NewBot(kept Replies, n func(count.Counter), log *slog.Logger) *Bot {
	return &Bot{
		People: inbox.People{Platform: relay.ProgramPlatform, With: func(c relay.ChatID) (relay.UserID, bool) {
			p, _, ok := relay.ProgramIn(c)
			return p.User(), ok
		}},
		kept: kept, count: n, log: cmp.Or(log, slog.New(slog.DiscardHandler)), status: status.New(string(relay.ProgramBotID)), feed: inbox.NewFeed(),
		pushed: make(map[relay.ChatID]unanswered), taken: make(map[relay.EventID][]chan<- struct{}), told: make(map[string][]chan<- callers.Reply),
	}
}

// ID implements platforms.Bot.
func (b *Bot) ID() relay.Bot { return relay.ProgramBot() }

// Status implements platforms.Bot.
func (b *Bot) Status() platforms.Status { return b.status.Get() }

// Descriptor implements platforms.Bot.
func (b *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: relay.ProgramPlatform, Label: "Programs", MaxMessageLength: maxReply, LenUnit: relay.LenChars, MarkdownDialect: "markdown", Emoji: "🔗",
	}
}

// Run implements platforms.Bot.
func (b *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	b.status.Set(platforms.Connected, "")
	b.feed.Run(ctx, in, b.status.StuckAfter("what programs hand over cannot be stored; they are told to come again"))
	b.status.Set(platforms.Stopped, "")
	return nil
}

// Take stores a program's message, with its receipt, and waits for the disk. An event that no instance gets, and a
// repetition, are not stored, and that is no error. After an error the event may or may not be stored.
func (b *Bot) Take(ctx context.Context, ev relay.Event, r relay.Receipt) error {
	b.status.EventReceived()
	return b.feed.Take(ctx, platforms.Batch{Events: []relay.Event{ev}, Receipts: []relay.Receipt{r}}, storeWithin)
}

// Typing implements platforms.Typer. Programs are not shown that somebody types.
func (b *Bot) Typing(_ context.Context, a relay.Typing) (relay.Result, error) {
	return relay.Result{}, b.CheckChat(a.Chat)
}

// Send implements platforms.Bot: it returns once the reply is on disk. A reply that is too long is stored in parts, of
// which the last one is final. It is stored once for each receipt that it answers.
func (b *Bot) Send(ctx context.Context, a relay.Send) (res relay.Result, err error) {
	p, session, ok := relay.ProgramIn(a.Chat)
	switch {
	case !ok || b.kept == nil:
		return res, relay.Gone("", nil)
	case strings.TrimSpace(a.Content) == "":
		return res, relay.Invalid(a.Op(), "the message is empty")
	}
	answered, err := b.answers(ctx, p, a)
	if err != nil {
		return res, relay.Later(unstored, err)
	}
	var all []callers.Reply
	runes := []rune(a.Content)
	for part := range slices.Chunk(runes, maxReply) {
		runes = runes[len(part):]
		for _, to := range answered {
			all = append(all, callers.Reply{
				Caller: p.Caller, Agent: p.Agent, Session: session, Event: to.Event, Dispatch: to.Dispatch, Correlation: to.Correlation,
				Content: string(part), Final: a.Meta.Notify && len(runes) == 0,
			})
		}
	}
	if err := b.keep(ctx, all); err != nil {
		return res, err
	}
	for part := range slices.Chunk(all, len(answered)) {
		res.MessageID = relay.MessageID("reply-" + strconv.FormatUint(part[len(part)-1].Number, 10))
		res.MessageIDs = append(res.MessageIDs, res.MessageID)
	}
	if a.Meta.Notify {
		b.close(a.Chat, answered)
	}
	return res, nil
}

// keep stores replies to one caller, all of them or none, and passes them to the requests that wait for them.
func (b *Bot) keep(ctx context.Context, all []callers.Reply) error {
	dropped, err := b.kept.Keep(ctx, all)
	switch {
	case errors.Is(err, store.ErrNotFound): // the caller was removed a moment ago
		return relay.Gone("", nil)
	case err != nil:
		return relay.Later(unstored, err)
	}
	for range dropped {
		b.count(count.ReplyDropped)
	}
	if dropped > 0 {
		b.log.Warn("too many replies wait for a program; the oldest were dropped", "caller", all[0].Caller, "replies", dropped)
	}
	for _, r := range all {
		b.tell(r)
	}
	return nil
}

const unstored = "the reply cannot be stored now"

// answers returns the receipts of the events that a answers, at least one. A gateway handles several events in one
// turn, and its answer names only the first of them, or none: so a answers all unanswered events of the chat. But if a
// names an event that is not among them, a answers that event alone. A zero receipt means that it is not known what a
// answers.
func (b *Bot) answers(ctx context.Context, p relay.Program, a relay.Send) (out []relay.Receipt, err error) {
	b.mu.Lock()
	events := slices.Clone(b.pushed[a.Chat].events)
	b.mu.Unlock()
	if to := relay.EventID(a.ReplyTo); to != "" && !slices.Contains(events, to) {
		r, ok, err := b.kept.Receipt(ctx, p.Caller, to)
		if err != nil || ok && r.Program().Chat(r.Session) == a.Chat {
			return []relay.Receipt{r}, err
		}
	}
	for _, ev := range events {
		r, ok, err := b.kept.Receipt(ctx, p.Caller, ev)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	r, _, err := b.kept.Latest(ctx, a.Chat)
	return []relay.Receipt{r}, err
}

// close notes that these receipts got a final answer. Further messages of the agent answer the last of them, until the
// next event is pushed.
func (b *Bot) close(chat relay.ChatID, answered []relay.Receipt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.pushed[chat]
	for _, r := range answered {
		if n := slices.Index(o.events, r.Event); n >= 0 && len(o.events) > 1 {
			o.events = slices.Delete(o.events, n, n+1)
		} else if n >= 0 {
			o.said = true
		}
	}
	b.pushed[chat] = o
}

// Pushed implements hub.Programs: it adds an event that a gateway was sent to the unanswered events of its chat.
func (b *Bot) Pushed(_ relay.InstanceID, of store.About) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, there := b.pushed[of.Chat]
	if !there && len(b.pushed) >= maxPushed { // then answers finds the chat's latest receipt in the database
		clear(b.pushed)
	}
	if o.said || len(o.events) >= maxOpen {
		o.events, o.said = o.events[1:], false
	}
	if !slices.Contains(o.events, of.ID) {
		o.events = append(o.events, of.ID)
	}
	b.pushed[of.Chat] = o
}

// Taken implements hub.Programs: it informs the requests that wait for the acknowledgement of an event.
func (b *Bot) Taken(_ relay.InstanceID, of store.About) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.taken[of.ID] {
		close(c)
	}
	delete(b.taken, of.ID)
}

// owedFor is how long an answer is still owed.
const owedFor = 10 * time.Minute

// Owed implements hub.Programs. It reports whether the chat's newest message was acknowledged before the given time and
// has no final answer yet. Both moments must be at most owedFor ago. If the database cannot be read, nothing is owed.
func (b *Bot) Owed(ctx context.Context, chat relay.ChatID, before time.Time) bool {
	if time.Since(before) > owedFor {
		return false
	}
	last, ok, err := b.kept.Latest(ctx, chat)
	if err != nil || !ok || !last.TakenAt.Before(before) || time.Since(last.TakenAt) > owedFor {
		return false
	}
	said, err := b.kept.Replies(ctx, callers.ReplyFilter{Caller: last.Caller, Event: last.Event})
	return err == nil && !slices.ContainsFunc(said, func(r callers.Reply) bool { return r.Final })
}

// awaitTaken returns a channel that is closed when a gateway acknowledges the event from now on. Call done in the end.
func (b *Bot) awaitTaken(ev relay.EventID) (taken <-chan struct{}, done func()) {
	c := make(chan struct{})
	return c, await(b, b.taken, ev, c)
}

// awaitReplies returns a channel of the replies that agents give to the caller from now on. Of replies in quick
// succession it may have only the first. Call done in the end.
func (b *Bot) awaitReplies(caller string) (said <-chan callers.Reply, done func()) {
	c := make(chan callers.Reply, 1)
	return c, await(b, b.told, caller, c)
}

// await adds c to the channels that all has under the key something; done removes c again. b.mu guards all.
func await[K comparable, T any](b *Bot, all map[K][]chan<- T, something K, c chan<- T) (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all[something] = append(all[something], c)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if all[something] = slices.DeleteFunc(all[something], func(o chan<- T) bool { return o == c }); len(all[something]) == 0 {
			delete(all, something)
		}
	}
}

// tell passes a reply to the requests that wait for replies to its caller. A request that is still busy with an earlier reply
// will find this one in the database.
func (b *Bot) tell(r callers.Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.told[r.Caller] {
		select {
		case c <- r:
		default:
		}
	}
}
