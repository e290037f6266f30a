package discord

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxThreadName is how many code points Discord takes for a thread's name.
	maxThreadName = 100
	// clockSkew is how much Discord's clock may differ from ours.
	clockSkew = time.Minute
)

// newThread is a thread as it is asked for.
type newThread struct {
	Name    string   `json:"name"`
	Type    int      `json:"type,omitempty"`    // of a thread without a message
	Message *message `json:"message,omitempty"` // the first one of a post
}

// CreateThread implements platforms.ThreadCreator. In a forum it is a post, which begins with the
// seed text; on an anchor it is that message's thread; else it is a public one. After an attempt
// whose outcome is unknown Discord is asked which threads there are before another one is made.
func (p *Platform) CreateThread(ctx context.Context, a relay.ThreadCreate) (relay.Result, error) {
	name := threadName(a.Name)
	if name == "" || a.Anchor != "" && !isID(string(a.Anchor)) {
		return relay.Result{}, errInvalidForm
	}
	if markdown.TooLong(a.SeedText) {
		return relay.Result{}, errTooLong
	}
	t, err := p.enter(ctx, a.Chat, pace.Message, timeFor(ctx))
	if err != nil {
		return relay.Result{}, err
	}
	defer t.leave()
	parent, err := t.channel(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	r := request{method: http.MethodPost, path: channelPath(a.Chat) + "/threads"}
	body := newThread{Name: name}
	seed := p.postscript(a.SeedText)
	switch {
	case channelOf(parent, 0).holdsPosts():
		if len(seed.parts) == 0 {
			seed.parts = []string{name}
		}
		body.Message = &message{Content: seed.parts[0], Mentions: p.mentions()}
		seed.parts = seed.parts[1:]
	case a.Anchor != "":
		r.path = messagePath(a.Chat, a.Anchor) + "/threads"
	case discordgo.ChannelType(parent.Type) == discordgo.ChannelTypeGuildNews:
		body.Type = channelNewsThread
	default:
		body.Type = channelPublicThread
	}
	r.body = body
	id, err := t.create(ctx, r, parent, name)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	p.rememberThread(id, name)
	res := relay.Result{ThreadID: relay.ThreadID(id)}
	if len(seed.parts) == 0 {
		return res, nil
	}
	inside, err := p.enter(ctx, relay.ChatID(id), pace.Message, timeFor(ctx))
	if err == nil {
		defer inside.leave()
		_, err = inside.post(ctx, seed, "")
	}
	if err != nil { // a second thread would be worse than a thread without its first words
		p.log.Warn("thread made, but its first message is not all there", "err", err)
	}
	return res, nil
}

// threadName is name as Discord takes it.
func threadName(name string) string {
	runes := []rune(strings.Join(strings.Fields(clean(name)), " "))
	return strings.TrimSpace(string(runes[:min(len(runes), maxThreadName)]))
}

// create makes one thread and returns its id.
func (t *turn) create(ctx context.Context, r request, parent channelData, name string) (id string, err error) {
	since := time.Now().Add(-clockSkew)
	for range 2 {
		var made posted
		err = t.call(ctx, r, &made)
		var ae *apiError
		if err == nil || !errors.As(err, &ae) || ae.Sent != sentMaybe {
			return made.ID, err
		}
		if !backoff.Pause(ctx, backoff.Shortened(time.Second)) { // what is under way may still arrive
			return "", err
		}
		id, known := t.findThread(ctx, parent, name, since)
		if id != "" {
			return id, nil
		}
		if !known {
			return "", err
		}
	}
	return "", err
}

// findThread looks for a thread of that name which the bot has made since then and we know nothing
// of. known is false when Discord did not say.
func (t *turn) findThread(ctx context.Context, parent channelData, name string, since time.Time) (id string, known bool) {
	var active struct {
		Threads []struct {
			ID      snowflake `json:"id"`
			Parent  snowflake `json:"parent_id"`
			Owner   snowflake `json:"owner_id"`
			Name    string    `json:"name"`
			Created struct {
				At time.Time `json:"create_timestamp"`
			} `json:"thread_metadata"`
		} `json:"threads"`
	}
	err := t.call(ctx, request{
		method: http.MethodGet, path: "/guilds/" + parent.GuildID.String() + "/threads/active", again: true,
	}, &active)
	if err != nil {
		return "", false
	}
	for _, thread := range active.Threads {
		at := thread.Created.At
		if at.IsZero() {
			at = thread.ID.time()
		}
		_, ours := t.p.createdThread(thread.ID.String())
		mine := thread.Owner == t.p.cache.me && !ours && at.After(since)
		if mine && thread.Parent == parent.ID && thread.Name == name {
			return thread.ID.String(), true
		}
	}
	return "", true
}
