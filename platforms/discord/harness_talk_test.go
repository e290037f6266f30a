package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

var _ platformtest.Presser = (*harness)(nil)

// rows are a message's buttons, as the bot sends them.
type rows []struct {
	Components []struct {
		ID string `json:"custom_id"`
	} `json:"components"`
}

// show puts those buttons on a message; nil leaves it as it is.
func (h *harness) show(chat, message string, all *rows) {
	if all == nil {
		return
	}
	var ids []string
	for _, row := range *all {
		for _, b := range row.Components {
			ids = append(ids, b.ID[strings.LastIndexByte(b.ID, ':')+1:])
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buttons[chat+":"+message] = ids
}

// Buttons implements platformtest.Presser.
func (h *harness) Buttons(chat relay.ChatID, message relay.MessageID) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.buttons[string(chat)+":"+string(message)])
}

// Press implements platformtest.Presser.
func (h *harness) Press(ctx context.Context, who platformtest.Person, where platformtest.Place, message relay.MessageID, prompt, option string) error {
	data := relay.PromptData(prompt, option)
	press := h.fake.aPress("CANARY-press-token", data)
	press["message"].(obj)["id"] = string(message)
	chat := placeOf(who, where)
	press["channel_id"] = chat
	delete(press, "user")
	delete(press, "channel")
	user := obj{"id": "4001", "username": "ann", "global_name": "Ann"}
	if who == platformtest.Bob {
		user = obj{"id": "4002", "username": "bob"}
	}
	if where == platformtest.Direct {
		press["user"], press["channel"] = user, obj{"id": chat, "type": 1}
	} else {
		press["member"], press["guild_id"] = obj{"user": user, "roles": []string{}}, "900"
	}
	h.mu.Lock()
	p := h.open
	h.mu.Unlock()
	if !h.endpoint {
		h.fake.dispatch(kindInteraction, press)
		return nil
	}
	if a := post(ctx, p, press); a.Status != http.StatusOK {
		return fmt.Errorf("a press is answered with %d %s", a.Status, a.Body)
	}
	return nil
}
