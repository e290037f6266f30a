package telegram

import "github.com/hermes-connector/hermes-connector/relay"

// pressMark is the beginning of the id of a press's event and of its message. That id is not one of Telegram's, so
// nothing can reply or react to the message.
const pressMark = "q"

// pressID returns the id of the event that a press is.
func pressID(query string) relay.EventID { return relay.EventID(pressMark + ":" + query) }

// press reads a press on one of our prompts: a command of the person who pressed, in the chat and topic of the prompt.
// It ignores any other press. The hub knows which options were offered, because a client can send any data.
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
	if m.Date == 0 && ev.Source.ThreadID == generalTopic { // Telegram does not name the topic of an old message
		ev.Source.ThreadID = ""
	}
	return reading{event: &ev}, nil
}

// labelOf returns the text of the button with that data.
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
