package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Buttons implements platformtest.Presser.
func (h *harness) Buttons(chat relay.ChatID, message relay.MessageID) []string {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	var k replyMarkup
	_ = json.Unmarshal([]byte(h.fake.markup[string(chat)+":"+string(message)]), &k)
	var ids []string
	for _, row := range k.Rows {
		for _, b := range row {
			ids = append(ids, b.Data[strings.LastIndexByte(b.Data, ':')+1:])
		}
	}
	return ids
}

// Press implements platformtest.Presser.
func (h *harness) Press(_ context.Context, who platformtest.Person, where platformtest.Place, message relay.MessageID, prompt, option string) error {
	chat, topic := h.place(who, where)
	m := asked(chat, topic)
	m["message_id"] = json.Number(message)
	u := pressed(fmt.Sprint(h.presses.Add(1)), relay.PromptData(prompt, option), m)
	u["callback_query"].(obj)["from"] = person(who)
	h.fake.push(u)
	return nil
}
