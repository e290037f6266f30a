package client

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// discordCommand is the part of Discord's slash command that a forward contains.
type discordCommand struct {
	Type    int             `json:"type"`
	ID      relay.MessageID `json:"id"`
	Channel relay.ChatID    `json:"channel_id"`
	Guild   relay.ScopeID   `json:"guild_id"`
	Place   struct {
		Type   int          `json:"type"`
		Parent relay.ChatID `json:"parent_id"`
	} `json:"channel"`
	User   discordUser `json:"user"`
	Member struct {
		User discordUser `json:"user"`
	} `json:"member"`
	Data struct {
		Name    string `json:"name"`
		Options []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"options"`
	} `json:"data"`
}

type discordUser struct {
	ID relay.UserID `json:"id"`
}

// slashCommand is Discord's number for an interaction that is a slash command; threads are Discord's numbers for
// channels that are threads.
const slashCommand = 2

var threads = []int{10, 11, 12}

// commandOf makes an event of the slash command in a forward. It is the event that the gateway would get if the bot's
// setting interactions were not "passthrough". ok is false if the forward is no slash command.
func commandOf(p wire.PassthroughForward) (in wire.Inbound, ok bool) {
	var d discordCommand
	if p.Forward.Event.Bot.Platform != "discord" || json.Unmarshal(p.Forward.Body, &d) != nil || d.Type != slashCommand || d.Data.Name == "" {
		return in, false
	}
	ev := relay.Event{Type: relay.TypeCommand, MessageID: d.ID, Source: relay.Source{
		Platform: p.Forward.Event.Bot.Platform, ChatID: d.Channel, ChatType: relay.ChatDM, UserID: d.User.ID, Scope: d.Guild, MessageID: d.ID,
	}}
	if d.Guild != "" {
		ev.Source.ChatType, ev.Source.UserID = relay.ChatGroup, d.Member.User.ID
	}
	if slices.Contains(threads, d.Place.Type) {
		ev.Source.ChatType, ev.Source.ThreadID, ev.Source.ParentChatID = relay.ChatThread, relay.ThreadID(d.Channel), d.Place.Parent
	}
	words := []string{"/" + d.Data.Name}
	for _, o := range d.Data.Options {
		value := string(o.Value)
		if json.Unmarshal(o.Value, &value) != nil { // a number, true or false
			value = string(o.Value)
		}
		ev.Options = append(ev.Options, relay.Option{Name: o.Name, Value: value})
		words = append(words, value)
	}
	ev.Text = strings.Join(words, " ")
	return wire.Inbound{Event: ev, Buffer: p.Buffer}, true
}
