package discord

import (
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// RenameThread implements platforms.ThreadRenamer. OnlyIfConnectorCreated wins over
// OnlyIfCurrentName; it also means that nobody has renamed the thread since. A thread of another
// chat than the one named, which is the one the caller may act on, is declined.
func (p *Platform) RenameThread(ctx context.Context, a relay.ThreadRename) (relay.Result, error) {
	name := threadName(a.Name)
	if name == "" {
		return relay.Result{}, errInvalidForm
	}
	thread := relay.ChatID(a.Thread)
	if thread == "" {
		thread = a.Chat
	}
	t, err := p.turns.Enter(ctx, thread, pace.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	d, err := p.channel(ctx, t, thread)
	switch {
	case err == nil:
	case thread != a.Chat && (answered(err, http.StatusForbidden) || answered(err, http.StatusNotFound)):
		return relay.Result{}, relay.Declined(Name) // as where there is one: the answer must not tell
	default:
		return relay.Result{}, explained(err)
	}
	ch := guilds.ChannelOf(d, 0)
	ours, created := p.createdThread(string(thread))
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
		err := p.call(ctx, t, request{
			method: http.MethodPatch, endpoint: discordgo.EndpointChannel(string(thread)), again: true, apart: true,
			body: newThread{Name: name},
		}, nil)
		if err != nil {
			return relay.Result{}, explained(err)
		}
		if created {
			p.rememberThread(string(thread), name)
		}
	}
	return relay.Result{ThreadID: relay.ThreadID(thread)}, nil
}

func declinedRename(why string) *relay.ActionError {
	return &relay.ActionError{Outcome: relay.NotSent, Public: "thread_rename declined: " + why}
}
