package telegram

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/backoff"
)

const (
	// menuAfter is how long after the start the list of commands is checked: messages go first.
	menuAfter = 10 * time.Second
	// menuTries is how often the check is tried; the next start tries again.
	menuTries = 5
	// maxCommands is how many commands Telegram shows.
	maxCommands = 100
)

// botCommand is the Bot API's BotCommand.
type botCommand struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

// ownCommands are the connector's own, in direct messages.
var ownCommands = []botCommand{
	{"link", "Link me to an agent, with the code I was given"},
	{"agent", "Choose which of my agents answers here"},
	{"whoami", "Who I am here, and which agent answers"},
	{"unlink", "Link me to an agent no more"},
}

// menu is the list of commands that Telegram shows.
type menu struct {
	client *client
	log    *slog.Logger
}

// keep makes Telegram show the connector's own commands in direct messages, and gives up after some tries: they work
// without being shown.
func (m menu) keep(ctx context.Context) {
	for n := range menuTries {
		if !backoff.Pause(ctx, menuAfter<<(3*n)) {
			return
		}
		err := m.show(ctx)
		if err == nil || refusedForGood(err) || ctx.Err() != nil {
			return
		}
		m.log.Debug("telegram list of commands not brought up to date", "err", err)
	}
}

// show adds the connector's own commands to the list that direct messages show. It keeps the commands that were set for
// direct messages, and adds those that BotFather was told for all chats, because the list for direct messages replaces
// them. A list that is right already is not set again.
func (m menu) show(ctx context.Context) error {
	direct := tgbotapi.Params{"scope": `{"type":"all_private_chats"}`}
	var shown, general []botCommand
	if err := m.client.call(ctx, "getMyCommands", direct, &shown); err != nil {
		return err
	}
	if err := m.client.call(ctx, "getMyCommands", nil, &general); err != nil {
		return err
	}
	wanted := withOwn(general, shown)
	if slices.Equal(wanted, shown) {
		return nil
	}
	raw, _ := json.Marshal(wanted) // strings: cannot fail
	direct["commands"] = string(raw)
	return m.client.call(ctx, "setMyCommands", direct, nil)
}

// withOwn returns the commands of the lists, each once, followed by the connector's own, which no command of the lists
// replaces.
func withOwn(lists ...[]botCommand) (out []botCommand) {
	has := func(all []botCommand, c botCommand) bool {
		return slices.ContainsFunc(all, func(o botCommand) bool { return o.Command == c.Command })
	}
	for _, c := range slices.Concat(lists...) {
		if !has(ownCommands, c) && !has(out, c) && len(out) < maxCommands-len(ownCommands) {
			out = append(out, c)
		}
	}
	return append(out, ownCommands...)
}
