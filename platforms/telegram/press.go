package telegram

import "github.com/hermes-connector/hermes-connector/relay"

// pressMark begins the id of a press's event, and that of its message, which is none of Telegram's: nothing can reply
// or react to it.
const pressMark = "q"

// pressID is the id of the event that a press is.
func pressID(query string) relay.EventID { return relay.EventID(pressMark + ":" + query) }

// press reads a press on one of our prompts: a command of the person who pressed, in the chat and topic of the prompt.
// Any other press is nothing. Which options were offered, the hub knows: the data of a press is what a client says.
func (n normaliser) press(q *callbackQuery) (reading, error) {
	if q.ID == "" {
		return reading{}, errWithoutID
	}
	prompt, option, ok := relay.ParsePromptData(q.Data)
	if !ok || q.Message == nil || q.Message.Chat.ID == 0 || q.Message.ID == 0 || q.From.ID == 0 {
		return reading{}, nil
	}
	m := *q.Message
	m.From, m.SenderChat = &q.From, nil
	ev := relay.Event{
		ID:        pressID(q.ID),
		Bot:       n.bot,
		Source:    n.source(&m, reading{}),
		Type:      relay.TypeCommand,
		Text:      "/" + option,
		MessageID: pressMark + relay.MessageID(q.ID),
		Prompt: &relay.PromptResponse{
			PromptID: prompt, OptionID: option,
			Label: m.labelOf(q.Data), PromptMessageID: messageID(m.ID),
		},
		Traits: relay.Traits{Press: true, AuthorIsBot: q.From.IsBot},
	}
	ev.Source.MessageID = ev.MessageID
	if m.Date == 0 && ev.Source.ThreadID == generalTopic { // of an old message Telegram does not say its topic
		ev.Source.ThreadID = ""
	}
	return reading{event: &ev}, nil
}

// labelOf is what stands on the button with that data.
func (m *message) labelOf(data string) string {
	if m.ReplyMarkup == nil {
		return ""
	}
	for _, row := range m.ReplyMarkup.Rows {
		for _, b := range row {
			if b.Data == data {
				return b.Text
			}
		}
	}
	return ""
}
