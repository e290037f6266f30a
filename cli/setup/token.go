package setup

import (
	"errors"
	"strings"
	"unicode"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// findToken returns the network's token from pasted text: bare, in quotes, behind "Bot " or NAME=, or inside a whole
// message. The error says what is wrong and repeats nothing of the text.
func findToken(network platforms.Network, networks []platforms.Network, pasted string) (none relay.Secret, err error) {
	if s, ok := candidate(network, pasted); ok {
		return s, nil
	}
	for _, other := range networks {
		if other.Name != network.Name && other.Guide != "" && !other.Formless {
			if _, ok := candidate(other, pasted); ok {
				return none, errors.New("this is a token of " + other.Label + ", but the bot should be one of " + network.Label)
			}
		}
	}
	if strings.TrimSpace(pasted) == "" {
		return none, errors.New("nothing was pasted")
	}
	err = network.CheckToken(relay.NewSecret([]byte(strings.TrimSpace(pasted))))
	if err == nil {
		err = errors.New("no token was found in it")
	}
	return none, err
}

// candidate returns the longest word of pasted that has the form of the network's token. The longest, because a time
// such as "10:30" has the form of a token of Telegram's, too.
func candidate(network platforms.Network, pasted string) (best relay.Secret, found bool) {
	for _, frame := range []string{"\x1b[200~", "\x1b[201~"} { // terminals put these around pasted text
		pasted = strings.ReplaceAll(pasted, frame, " ")
	}
	if network.CheckToken == nil { // this network has no tokens
		return best, false
	}
	longest := 0
	for _, word := range strings.FieldsFunc(pasted, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("\"'`<>()[]{},;“”„‘’*|", r)
	}) {
		_, behind, _ := strings.Cut(word, "=") // NAME=TOKEN; a token of Discord's may itself end with =
		for _, w := range []string{strings.TrimRight(word, "."), behind} {
			s := relay.NewSecret([]byte(w))
			if len(w) > longest && network.CheckToken(s) == nil {
				best, found, longest = s, true, len(w)
			}
		}
	}
	return best, found
}
