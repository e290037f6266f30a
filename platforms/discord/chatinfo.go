package discord

import (
	"context"
	"net/http"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// ChatInfo implements platforms.ChatInformer. A guild's channel is a "channel" here, though it is a
// group in events: so says the gateway's own adapter. A question has no place in the chat's order:
// while it waits for its share of the bot's rate, others may write there.
func (p *Platform) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	if err := checkChat(a.Chat); err != nil {
		return relay.Result{}, err
	}
	d, err := p.channel(ctx, p.turns.Outside(), a.Chat)
	if err != nil {
		return relay.Result{}, explained(err)
	}
	info := relay.ChatInfo{Name: d.Name, Type: relay.ChatChannel}
	switch ch := guilds.ChannelOf(d, 0); {
	case ch.Kind == discordgo.ChannelTypeDM:
		info.Type = relay.ChatDM
		for _, other := range d.Recipients {
			info.Name = other.Username
		}
	case ch.Kind == discordgo.ChannelTypeGroupDM:
		info.Type = relay.ChatGroup
	case ch.IsThread():
		info.Type = relay.ChatThread
	}
	if info.Name == "" {
		info.Name = string(a.Chat)
	}
	return relay.Result{ChatInfo: &info}, nil
}

// channel asks for a channel as it is now.
func (p *Platform) channel(ctx context.Context, t *turn.Turn, id relay.ChatID) (guilds.ChannelData, error) {
	var d guilds.ChannelData
	err := p.call(ctx, t, request{method: http.MethodGet, endpoint: discordgo.EndpointChannel(string(id)), again: true}, &d)
	return d, err
}
