package slack

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// responseFor is how long the address that comes with a slash command accepts answers.
const responseFor = 30 * time.Minute

var errWithoutAction = errors.New("a press of nothing")

// decodePress reads a press; nil: the payload is of another kind, which an app made by `help slack` never gets.
func decodePress(raw []byte) (*pressData, error) {
	var d pressData
	if err := httpcall.Decode(raw, &d); err != nil {
		return nil, err
	}
	if d.Type != "block_actions" {
		return nil, nil
	}
	if d.Channel == "" {
		d.Channel = changedID(d.Container.ChannelID)
	}
	switch {
	case d.Channel == "":
		return nil, errWithoutChannel
	case d.User.ID == "":
		return nil, errWithoutAuthor
	case len(d.Actions) == 0:
		return nil, errWithoutAction
	}
	return &d, nil
}

// press returns the events of d, one for each button: answers to prompts, or choices. at is when the press arrived.
func (n normaliser) press(d *pressData, at time.Time) (out []relay.Event) {
	thread := cmp.Or(d.Message.ThreadTS, d.Container.ThreadTS)
	if thread == d.Container.MessageTS {
		thread = ""
	}
	by := relay.Source{UserID: relay.UserID(d.User.ID)}
	who := n.names.person(d.User.ID)
	by.UserName, by.UserHandle = cmp.Or(who.name, d.User.Name, d.User.Username, d.User.ID), cmp.Or(who.handle, d.User.Username)
	for _, a := range d.Actions {
		id := cmp.Or(a.ActionTS, stampOf(at)) + "-" + d.User.ID
		ev := n.event(string(d.Channel), relay.MessageID("press-"+id), thread, by)
		ev.ID, ev.At = eventID(string(d.Channel), "press-"+id), at
		if when, ok := timeOf(a.ActionTS); ok {
			ev.At = when
		}
		ev.Traits = relay.Traits{Addressed: true, Press: true}
		chosen, label := cmp.Or(a.Value, a.Selected.Value, a.ActionID), string(cmp.Or(a.Selected.Text, a.Text))
		ev.Type, ev.Text = relay.TypeText, cmp.Or(chosen, noText)
		if prompt, option, ok := relay.ParsePromptData(chosen); ok {
			ev.Type, ev.Text = relay.TypeCommand, "/"+option
			ev.Prompt = &relay.PromptResponse{
				PromptID: prompt, OptionID: option, Label: label, PromptMessageID: relay.MessageID(d.Container.MessageTS),
			}
		}
		out = append(out, ev)
	}
	return out
}

func decodeCommand(raw []byte) (*commandData, error) {
	var d commandData
	if err := httpcall.Decode(raw, &d); err != nil {
		return nil, err
	}
	switch {
	case d.Channel == "":
		return nil, errWithoutChannel
	case d.User == "":
		return nil, errWithoutAuthor
	}
	return &d, nil
}

// command returns the event of a slash command, and the right to answer it. envelope is the id of the command's
// envelope, and at is when that arrived. The text behind the command goes to the agent. If it names a command of the
// gateway, the event is that command; without text the event is /help.
func (n normaliser) command(d *commandData, envelope string, at time.Time) (relay.Event, *platforms.Capability) {
	who := n.names.person(d.User)
	id := relay.MessageID("command-" + envelope)
	ev := n.event(d.Channel, id, "", relay.Source{
		UserID: relay.UserID(d.User), UserName: cmp.Or(who.name, d.UserName, d.User), UserHandle: cmp.Or(who.handle, d.UserName),
	})
	ev.ID, ev.At = eventID(d.Channel, string(id)), at
	ev.Traits.Addressed = true
	text := strings.TrimSpace(n.reading().plain(d.Text))
	if text == "" {
		text = "/help"
	}
	if command, ok := n.commands.Slashed("!" + strings.TrimLeft(text, "/!")); ok {
		text = command
	}
	ev.Type, ev.Text = relay.TypeText, text
	if strings.HasPrefix(text, "/") {
		ev.Type = relay.TypeCommand
	}
	if d.ResponseURL == "" {
		return ev, nil
	}
	return ev, &platforms.Capability{
		Event: ev.ID, Kind: kindResponse, ID: string(id), Token: relay.NewSecret([]byte(d.ResponseURL)), ExpiresAt: at.Add(responseFor),
	}
}
