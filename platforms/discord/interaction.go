package discord

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// capabilityKind is the kind of the capabilities of Discord: each is the right to answer one interaction.
const capabilityKind = "discord.interaction_token"

var (
	errWithoutToken = errors.New("an interaction without a token")
	errWithoutName  = errors.New("a command without a name")
)

// interaction is somebody's slash command, button press, choice, or submitted form.
type interaction struct {
	ID      guilds.ID                        `json:"id"`
	Kind    discordgo.InteractionType        `json:"type"`
	Context discordgo.InteractionContextType `json:"context"`
	Guild   guilds.ID                        `json:"guild_id"` // 0: direct messages
	Channel guilds.ID                        `json:"channel_id"`
	Place   *guilds.ChannelData              `json:"channel"` // as Discord describes it
	User    guilds.User                      `json:"user"`
	Message *messageData                     `json:"message"` // the message with the pressed button
	Data    json.RawMessage                  `json:"data"`
	nick    string                           // of the user
	token   relay.Secret
	raw     []byte // the payload, with the token
}

// decodeInteraction reads an interaction that can be answered: the data of an INTERACTION_CREATE, or the body of an
// HTTP request, which have the same form. Its error contains nothing of the payload.
func decodeInteraction(data []byte) (*interaction, error) {
	i, err := readInteraction(data)
	if err == nil {
		err = i.check()
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}

// readInteraction reads an interaction without checking that it is complete.
func readInteraction(data []byte) (*interaction, error) {
	var d struct {
		interaction
		Token  string `json:"token"`
		Member *struct {
			nickData
			User guilds.User `json:"user"`
		} `json:"member"` // in guilds, in place of the user
	}
	if err := guilds.Decode(data, &d); err != nil {
		return nil, err
	}
	i := d.interaction
	i.token, i.raw = relay.NewSecret([]byte(d.Token)), data
	if i.Channel == 0 && i.Place != nil {
		i.Channel = i.Place.ID
	}
	if d.Member != nil {
		i.User, i.nick = d.Member.User, d.Member.Nick
	}
	return &i, nil
}

// check returns an error that names what the interaction lacks; nil if it is complete.
func (i *interaction) check() error {
	switch {
	case i.ID == 0:
		return errWithoutID
	case len(i.token.Reveal()) == 0:
		return errWithoutToken
	case i.wanted() && i.Channel == 0:
		return errWithoutChannel
	case i.wanted() && i.User.ID == 0:
		return errWithoutAuthor
	}
	return nil
}

// wanted reports whether the interaction becomes an event. One about a command that is still being typed does not, nor
// one from a chat of which the bot is no member.
func (i *interaction) wanted() bool {
	if i.Context == discordgo.InteractionContextPrivateChannel || i.Place != nil && i.Place.Kind == discordgo.ChannelTypeGroupDM {
		return false
	}
	switch i.Kind {
	case discordgo.InteractionApplicationCommand, discordgo.InteractionMessageComponent, discordgo.InteractionModalSubmit:
		return true
	}
	return false
}

// placeholder reports whether the acknowledgement is a message that says the bot is thinking. For a press the
// acknowledgement is no message.
func (i *interaction) placeholder() bool { return i.Kind != discordgo.InteractionMessageComponent }

// fromInteraction returns the event in a wanted interaction at the spot, and the capability to answer it. The event's id
// is made like that of a message: of the channel's id and the interaction's.
func (n normaliser) fromInteraction(i *interaction, at spot) (*relay.Event, *platforms.Capability, error) {
	ev := n.event(i.ID, at, author{i.User, i.nick})
	ev.Traits.Addressed = true
	var err error
	switch i.Kind {
	case discordgo.InteractionApplicationCommand:
		err = n.command(i, &ev)
	case discordgo.InteractionMessageComponent:
		err = press(i, &ev)
	case discordgo.InteractionModalSubmit:
		err = form(i, &ev)
	}
	if err != nil {
		return nil, nil, err
	}
	if strings.TrimSpace(ev.Text) == "" {
		ev.Text = noText
	}
	c := i.capability(ev.ID)
	return &ev, &c, nil
}

// capability returns the right to answer i, which came in ev.
func (i *interaction) capability(ev relay.EventID) platforms.Capability {
	return platforms.Capability{
		Event: ev, Kind: capabilityKind, ID: i.ID.String(), Placeholder: i.placeholder(),
		Token: i.token, ExpiresAt: i.ID.Time().Add(rest.TokenFor),
	}
}

// command fills ev with the text "/name arg …", and with the options and files of the command. If it was chosen from a
// context menu, the person it is about is the argument, or the message it is about is the one that ev replies to.
func (n normaliser) command(i *interaction, ev *relay.Event) error {
	var d commandData
	if err := guilds.Decode(i.Data, &d); err != nil {
		return err
	}
	if d.Name == "" {
		return errWithoutName
	}
	words := append([]string{"/" + d.Name}, arguments(nil, d.Options)...)
	switch d.Type {
	case discordgo.UserApplicationCommand:
		words = append(words, d.TargetID.String())
	case discordgo.MessageApplicationCommand:
		ev.ReplyToMessageID = relay.MessageID(d.TargetID.String())
		if m, ok := d.Resolved.Messages[d.TargetID]; ok {
			ev.ReplyTo = n.quote(&m)
		}
	}
	ev.Type, ev.Text = relay.TypeCommand, strings.Join(words, " ")
	for _, o := range d.Options {
		if v := scalar(o.Value); v != "" {
			ev.Options = append(ev.Options, relay.Option{Name: o.Name, Value: v})
		}
	}
	ev.Attachments = n.filesWith(&d, i.Channel)
	return nil
}

// arguments appends the names of sub-commands and the values of options, in order.
func arguments(words []string, options []optionData) []string {
	for _, o := range options {
		if o.Type == discordgo.ApplicationCommandOptionSubCommand || o.Type == discordgo.ApplicationCommandOptionSubCommandGroup {
			words = arguments(append(words, o.Name), o.Options)
			continue
		}
		if v := scalar(o.Value); v != "" {
			words = append(words, v)
		}
	}
	return words
}

// press fills ev: with the answer to a prompt if the button belongs to one, else with a text, which is the chosen
// values or the custom id of the pressed button.
func press(i *interaction, ev *relay.Event) error {
	var d componentData
	if err := guilds.Decode(i.Data, &d); err != nil {
		return err
	}
	ev.Traits.Press = true
	ev.Type, ev.Text = relay.TypeText, strings.Join(d.Values, ", ")
	if len(d.Values) == 0 {
		ev.Text = d.CustomID
	}
	id, option, ok := relay.ParsePromptData(d.CustomID)
	if !ok {
		return nil
	}
	ev.Type, ev.Text = relay.TypeCommand, "/"+option
	ev.Prompt = &relay.PromptResponse{PromptID: id, OptionID: option}
	if i.Message != nil {
		ev.Prompt.PromptMessageID = relay.MessageID(i.Message.ID.String())
		ev.Prompt.Label = labelOf(i.Message.Components, d.CustomID)
	}
	return nil
}

// labelOf returns the text of the button with the custom id.
func labelOf(components []componentData, id string) string {
	for _, c := range components {
		if c.CustomID == id {
			return c.Label
		}
		if label := labelOf(c.Components, id); label != "" {
			return label
		}
	}
	return ""
}

// form fills ev with a text that has a line "id=value" for each field of a submitted modal, and with the files.
func form(i *interaction, ev *relay.Event) error {
	var d formData
	if err := guilds.Decode(i.Data, &d); err != nil {
		return err
	}
	ev.Type, ev.Text = relay.TypeText, strings.Join(fields(nil, d.Components), "\n")
	ev.Attachments = atMost(uploads(nil, d.Components, d.Resolved.Attachments))
	return nil
}

// fields appends the line "id=value" of each field among components, at any depth.
func fields(lines []string, components []componentData) []string {
	for _, c := range components {
		switch {
		case c.Component != nil:
			lines = fields(lines, []componentData{*c.Component})
		case len(c.Components) > 0:
			lines = fields(lines, c.Components)
		case c.CustomID != "" && c.Values != nil:
			lines = append(lines, c.CustomID+"="+strings.Join(c.Values, ", "))
		case c.CustomID != "":
			lines = append(lines, c.CustomID+"="+scalar(c.Value))
		}
	}
	return lines
}

// scalar returns a JSON string, number or boolean as text; empty for anything else.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s) // cannot fail: the payload around it was decoded
		return s
	case 'n', '{', '[':
		return ""
	}
	return string(raw)
}

// withoutToken returns an interaction's payload without its credential; nil if it is not an object.
func withoutToken(data []byte) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(data, &o) != nil {
		return nil
	}
	for key := range o {
		if strings.EqualFold(key, "token") { // the decoder takes keys in upper and lower case
			delete(o, key)
		}
	}
	out, _ := json.Marshal(o) // of JSON: cannot fail
	return out
}
