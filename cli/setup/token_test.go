package setup

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	telegramToken = "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4"
	discordToken  = "MTIzNDU2Nzg5.abcdef.ghijklmnopqrstuvwxyz"
)

// networkOf is a network whose tokens have so many parts, which are joined by a separator.
func networkOf(name relay.PlatformID, separator string, parts int) platforms.Network {
	return platforms.Network{Name: name, Label: strings.ToUpper(string(name)), Guide: "ask for one", CheckToken: func(s relay.Secret) error {
		if got := strings.Split(s.RevealString(), separator); len(got) != parts || strings.ContainsAny(s.RevealString(), " \n=") {
			return errStopped
		}
		return nil
	}}
}

func TestFindToken(t *testing.T) {
	one, two := networkOf("one", ":", 2), networkOf("two", ".", 3)
	networks := []platforms.Network{one, two}
	for name, tc := range map[string]struct {
		network platforms.Network
		pasted  string
		want    string // empty: refused
		says    string
	}{
		"bare":            {one, telegramToken, telegramToken, ""},
		"blanks":          {one, "  " + telegramToken + " \n", telegramToken, ""},
		"quotes":          {one, `"` + telegramToken + `",`, telegramToken, ""},
		"a whole message": {one, "Done! It is 10:30.\nUse this token:\n" + telegramToken + "\nKeep it.", telegramToken, ""},
		"an assignment":   {one, "TOKEN=" + telegramToken, telegramToken, ""},
		"behind Bot":      {two, "Bot " + discordToken, discordToken, ""},
		"a header":        {two, `'Authorization: Bot ` + discordToken + `'`, discordToken, ""},
		"a terminal's frame around what is pasted": {one, "\x1b[200~" + telegramToken + "\x1b[201~", telegramToken, ""},
		"of the other network":                     {one, discordToken, "", "a token of TWO"},
		"nothing":                                  {one, " \n", "", "nothing was pasted"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findToken(tc.network, networks, tc.pasted)
			switch {
			case tc.want != "" && (err != nil || got.RevealString() != tc.want):
				t.Errorf("found %q, %v; want %q", got.RevealString(), err, tc.want)
			case tc.want == "" && (err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "AAHd") || strings.Contains(err.Error(), "MTIz")):
				t.Errorf("the refusal is %v, want %q and no token", err, tc.says)
			}
		})
	}
}
