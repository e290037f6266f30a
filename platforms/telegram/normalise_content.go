package telegram

import (
	"strconv"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

// content is what a message mainly is and its text. ok is false for service messages, which
// nobody wrote. The order of the kinds is the gateway's own adapter's; an animation comes with a
// document for old clients, and is a film all the same.
func content(m *message) (kind relay.MessageType, text string, ok bool) {
	text = m.body()
	switch {
	case m.Sticker != nil:
		return relay.TypeSticker, m.Sticker.Emoji, true
	case m.Photo != nil:
		return relay.TypePhoto, text, true
	case m.Video != nil, m.VideoNote != nil, m.Animation != nil:
		return relay.TypeVideo, text, true
	case m.Audio != nil:
		return relay.TypeAudio, text, true
	case m.Voice != nil:
		return relay.TypeVoice, text, true
	case m.Document != nil:
		return relay.TypeDocument, text, true
	case m.Venue != nil:
		return relay.TypeLocation, pin(m.Venue.Location, m.Venue.Title, m.Venue.Address), true
	case m.Location != nil:
		return relay.TypeLocation, pin(*m.Location, "", ""), true
	case text != "":
		return relay.TypeText, text, true
	}
	text = describe(m)
	return relay.TypeText, text, text != ""
}

// pin puts a location into words, as the gateway's own adapter does.
func pin(l tgbotapi.Location, title, address string) string {
	lat, lon := degrees(l.Latitude), degrees(l.Longitude)
	lines := []string{"[The user shared a location pin.]"}
	if title != "" {
		lines = append(lines, "Venue: "+title)
	}
	if address != "" {
		lines = append(lines, "Address: "+address)
	}
	lines = append(lines,
		"latitude: "+lat,
		"longitude: "+lon,
		"Map: https://www.google.com/maps/search/?api=1&query="+lat+","+lon,
		"If it is not clear what the place is for, ask.",
	)
	return strings.Join(lines, "\n")
}

func degrees(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// describe puts what has no text of its own into a few words, so that nothing arrives empty.
// Empty: a service message.
func describe(m *message) string {
	switch {
	case m.Contact != nil:
		return "[Contact: " + strings.TrimSpace(fullName(m.Contact.FirstName, m.Contact.LastName, "")+" "+m.Contact.PhoneNumber) + "]"
	case m.Dice != nil:
		return "[" + m.Dice.Emoji + " " + strconv.Itoa(m.Dice.Value) + "]"
	case m.Poll != nil:
		lines := []string{"[Poll: " + m.Poll.Question + "]"}
		for _, o := range m.Poll.Options {
			lines = append(lines, "- "+o.Text)
		}
		return strings.Join(lines, "\n")
	case m.Game != nil:
		return "[Game: " + m.Game.Title + "]"
	case m.Checklist != nil:
		return "[Checklist: " + m.Checklist.Title + "]"
	case m.Story != nil:
		return "[Story]"
	case m.PaidMedia != nil:
		return "[Paid media]"
	}
	return ""
}
