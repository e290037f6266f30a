package slack

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// nameFor is how long a name is remembered; unnamedFor is how long nobody asks again for a name that could not be
	// had.
	nameFor    = time.Hour
	unnamedFor = time.Minute
	// nameWait bounds the look-up of a name, and of all names in one event: a message must not wait long for them. The
	// names of the author and the channel are looked up first.
	nameWait = 6 * time.Second
	// maxNames bounds each of the two memories. A full memory is emptied.
	maxNames = 10_000
)

// workspace remembers the names of people and channels, and the people of direct chats. Its methods may be called from
// any goroutine.
type workspace struct {
	rest *rest.Client

	mu       sync.Mutex // guards the fields below
	people   map[string]remembered[person]
	channels map[string]remembered[place]
	direct   map[relay.ChatID]relay.UserID
}

// remembered is a value that is valid until a time.
type remembered[T any] struct {
	is    T
	until time.Time
}

func newWorkspace(c *rest.Client) *workspace {
	return &workspace{
		rest: c, people: make(map[string]remembered[person]), channels: make(map[string]remembered[place]),
		direct: make(map[relay.ChatID]relay.UserID),
	}
}

// asking implements names: it looks names up in a workspace, within ctx.
type asking struct {
	*workspace
	ctx context.Context
}

// person implements names.
func (a asking) person(id string) person {
	if id == "" {
		return person{}
	}
	return recall(a.ctx, a.workspace, a.people, id, func(ctx context.Context) (person, error) {
		u, err := a.rest.User(ctx, id)
		return personOf(u), err
	})
}

func personOf(u slack.User) person {
	return person{name: cmp.Or(u.Profile.DisplayName, u.RealName, u.Profile.RealName, u.Name), handle: u.Name, bot: u.IsBot || u.ID == slackbot}
}

// slackbot is Slack's own bot, which Slack does not mark as a bot.
const slackbot = "USLACKBOT"

// channel implements names. A direct chat has the name of its person.
func (a asking) channel(id string) place {
	if direct(id) {
		return place{}
	}
	return recall(a.ctx, a.workspace, a.channels, id, func(ctx context.Context) (place, error) {
		c, err := a.look(ctx, id)
		if err != nil || c.Name == "" {
			return place{}, err
		}
		return place{name: "#" + c.Name, topic: c.Topic.Value}, nil
	})
}

// recall returns the value that in, a memory of w, has under id, or else the result of ask, which it remembers.
func recall[T any](ctx context.Context, w *workspace, in map[string]remembered[T], id string, ask func(context.Context) (T, error)) T {
	w.mu.Lock()
	known, ok := in[id]
	w.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.is
	}
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	is, err := ask(ctx)
	next := remembered[T]{is, time.Now().Add(nameFor)}
	if err != nil { // the former name is better than none
		next = remembered[T]{known.is, time.Now().Add(unnamedFor)}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(in) >= maxNames {
		clear(in)
	}
	in[id] = next
	return next.is
}

// look asks Slack about a channel, and remembers the person of a direct chat.
func (w *workspace) look(ctx context.Context, id string) (slack.Channel, error) {
	c, err := w.rest.Channel(ctx, id)
	if err == nil && c.IsIM {
		w.met(relay.ChatID(id), relay.UserID(c.User))
	}
	return c, err
}

// isDirect reports whether a chat is a person's direct chat with the bot, from memory or else from Slack. It returns
// false if Slack does not answer.
func (w *workspace) isDirect(ctx context.Context, chat relay.ChatID, user relay.UserID) bool {
	if known, ok := w.DirectUser(chat); ok {
		return known == user
	}
	c, err := w.look(ctx, string(chat))
	return err == nil && c.IsIM && c.User == string(user)
}

// met remembers the person of a direct chat.
func (w *workspace) met(chat relay.ChatID, user relay.UserID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.direct) >= maxNames {
		clear(w.direct)
	}
	if user != "" {
		w.direct[chat] = user
	}
}

// chats returns the direct messages that somebody is known to have with the bot.
func (w *workspace) chats() []relay.ChatID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.direct))
}

// forget makes the name of a person or a channel be asked for again.
func (w *workspace) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.people, id)
	delete(w.channels, id)
}

// DirectUser implements platforms.DirectChats for chats with a message since the start, or that were looked up.
func (w *workspace) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	user, ok := w.direct[chat]
	return user, ok
}
