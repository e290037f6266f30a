package discord

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/discord/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxThreadName is how many code points a thread's name may have.
	maxThreadName = 100
	// clockSkew is how much Discord's clock may differ from ours.
	clockSkew = time.Minute
)

// newThread is the body of a request that makes or renames a thread.
type newThread struct {
	Name    string                `json:"name"`
	Type    discordgo.ChannelType `json:"type,omitempty"`    // of a thread without a message
	Message *message              `json:"message,omitempty"` // the first message of a post
}

// threads makes threads, and knows which it made.
type threads struct {
	*writer
	// Set once, by open.
	log    *slog.Logger
	memory *memory
	guilds *guilds.Guilds
}

// CreateThread implements platforms.ThreadCreator. In a forum it makes a post, which begins with the seed text; with an
// anchor, the thread of that message; else a public thread. After an attempt with an unknown outcome it asks Discord
// for the thread before it makes another.
func (th *threads) CreateThread(ctx context.Context, a relay.ThreadCreate) (relay.Result, error) {
	name := threadName(a.Name)
	if name == "" || a.Anchor != "" && !rest.IsID(string(a.Anchor)) {
		return relay.Result{}, errInvalidForm
	}
	if markdown.TooLong(a.SeedText) {
		return relay.Result{}, errTooLong
	}
	t, err := th.turns.Enter(ctx, a.Chat, ratelimit.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	parent, err := th.channel(ctx, t, a.Chat)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	r := request{method: http.MethodPost, endpoint: discordgo.EndpointChannelThreads(string(a.Chat))}
	body := newThread{Name: name}
	seed := th.postscript(a.SeedText)
	switch {
	case guilds.ChannelOf(parent, 0).HoldsPosts():
		if len(seed.parts) == 0 {
			seed.parts = []string{name}
		}
		first := th.message(seed.parts[0])
		body.Message = &first
		seed.parts = seed.parts[1:]
	case a.Anchor != "":
		r.endpoint = discordgo.EndpointChannelMessageThread(string(a.Chat), string(a.Anchor))
	case parent.Kind == discordgo.ChannelTypeGuildNews:
		body.Type = discordgo.ChannelTypeGuildNewsThread
	default:
		body.Type = discordgo.ChannelTypeGuildPublicThread
	}
	r.body = body
	id, err := th.create(ctx, t, r, parent, name)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	th.rememberThread(id, name)
	res := relay.Result{ThreadID: relay.ThreadID(id)}
	if len(seed.parts) == 0 {
		return res, nil
	}
	inside, err := th.turns.Enter(ctx, relay.ChatID(id), ratelimit.Message)
	if err == nil {
		defer inside.Leave()
		_, err = inside.Post(ctx, seed)
	}
	if err != nil { // a second thread would be worse than a thread without its first words
		th.log.Warn("thread made, but its first message is not all there", "err", err)
	}
	return res, nil
}

// threadName returns name in the form that Discord accepts.
func threadName(name string) string {
	runes := []rune(strings.Join(strings.Fields(dialect.Clean(name)), " "))
	return strings.TrimSpace(string(runes[:min(len(runes), maxThreadName)]))
}

// create makes one thread with r and returns its id. After an unknown outcome it looks for the thread, and sends r once
// more only if Discord does not have it.
func (th *threads) create(ctx context.Context, t *sender.Turn, r request, parent guilds.ChannelData, name string) (id string, err error) {
	since := time.Now().Add(-clockSkew)
	for range 2 {
		var made posted
		err = th.call(ctx, t, r, &made)
		var f *httpcall.Fault
		if err == nil || !errors.As(err, &f) || f.Sent != httpcall.Maybe {
			return made.ID, err
		}
		if !backoff.Pause(ctx, backoff.Shortened(time.Second)) { // a request under way may still arrive
			return "", err
		}
		id, known := th.findThread(ctx, t, parent, name, since)
		if id != "" {
			return id, nil
		}
		if !known {
			return "", err
		}
	}
	return "", err
}

// findThread looks for a thread of parent with that name which the bot has made since the given time, and which is not
// remembered from an earlier request. known is false if Discord did not answer.
func (th *threads) findThread(ctx context.Context, t *sender.Turn, parent guilds.ChannelData, name string, since time.Time) (id string, known bool) {
	var active struct {
		Threads []struct {
			guilds.Channel
			Owner   guilds.ID `json:"owner_id"`
			Created struct {
				At time.Time `json:"create_timestamp"`
			} `json:"thread_metadata"`
		} `json:"threads"`
	}
	err := th.call(ctx, t, request{
		method: http.MethodGet, endpoint: discordgo.EndpointGuildActiveThreads(parent.Guild.String()), again: true,
	}, &active)
	if err != nil {
		return "", false
	}
	for _, thread := range active.Threads {
		at := thread.Created.At
		if at.IsZero() {
			at = thread.ID.Time()
		}
		_, ours := th.createdThread(thread.ID.String())
		mine := thread.Owner == th.guilds.Me() && !ours && at.After(since)
		if mine && thread.Parent == parent.ID && thread.Name == name {
			return thread.ID.String(), true
		}
	}
	return "", true
}

// RenameThread implements platforms.ThreadRenamer. OnlyIfConnectorCreated wins over OnlyIfCurrentName, and also demands
// that nobody has renamed the thread since. The thread must belong to the chat on which the caller may act.
func (th *threads) RenameThread(ctx context.Context, a relay.ThreadRename) (relay.Result, error) {
	name := threadName(a.Name)
	if name == "" {
		return relay.Result{}, errInvalidForm
	}
	thread := cmp.Or(relay.ChatID(a.Thread), a.Chat)
	t, err := th.turns.Enter(ctx, thread, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	d, err := th.channel(ctx, t, thread)
	switch {
	case err == nil:
	case thread != a.Chat && answered(err, http.StatusForbidden, http.StatusNotFound):
		return relay.Result{}, relay.Declined(Name) // the answer must not show whether the thread exists
	default:
		return relay.Result{}, explained(err)
	}
	ch := guilds.ChannelOf(d, 0)
	ours, created := th.createdThread(string(thread))
	switch {
	case thread != a.Chat && ch.Parent.String() != string(a.Chat):
		return relay.Result{}, relay.Declined(Name)
	case !ch.IsThread():
		return relay.Result{}, declinedRename("not a thread")
	case a.OnlyIfConnectorCreated && !created:
		return relay.Result{}, declinedRename("the connector did not create this thread")
	case a.OnlyIfConnectorCreated && d.Name != ours:
		return relay.Result{}, declinedRename("it was renamed since")
	case !a.OnlyIfConnectorCreated && a.OnlyIfCurrentName != nil && d.Name != *a.OnlyIfCurrentName:
		return relay.Result{}, declinedRename("it has another name")
	}
	if d.Name != name {
		err := th.call(ctx, t, request{
			method: http.MethodPatch, endpoint: discordgo.EndpointChannel(string(thread)), again: true, apart: true,
			body: newThread{Name: name},
		}, nil)
		if err != nil {
			return relay.Result{}, explained(err)
		}
		if created {
			th.rememberThread(string(thread), name)
		}
	}
	return relay.Result{ThreadID: relay.ThreadID(thread)}, nil
}

func declinedRename(why string) *relay.ActionError {
	return relay.Refused("thread_rename declined: "+why, nil)
}
