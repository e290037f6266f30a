package gate

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestSpoken(t *testing.T) {
	home, kitchen := Callable{Instance: "home"}, Callable{Instance: "gw-7", Label: "Kitchen"}
	both := []Callable{home, kitchen}
	for name, tc := range map[string]struct {
		text  string
		among []Callable
		trait relay.Traits
		want  relay.InstanceID // empty: none
		rest  string
	}{
		"by its name":                  {text: "@kitchen light on", among: both, want: "gw-7", rest: "light on"},
		"by its id":                    {text: "@GW-7 light on", among: both, want: "gw-7", rest: "light on"},
		"with a colon":                 {text: "@home: hi", among: both, want: "home", rest: "hi"},
		"on a line of its own":         {text: " @home\n\nhi", among: both, want: "home", rest: "hi"},
		"with nothing behind it":       {text: "@home", among: both, want: "home"},
		"whose name ends with a colon": {text: "@a: hi", among: []Callable{{Instance: "a"}, {Instance: "a:"}}, want: "a:", rest: "hi"},
		"somebody else":                {text: "@attic hi", among: both},
		"in the middle":                {text: "hi @home", among: both},
		"a longer word":                {text: "@homely hi", among: both},
		"an at alone":                  {text: "@ home", among: both},
		"two of that name":             {text: "@x hi", among: []Callable{{Instance: "x"}, {Instance: "y", Label: "X"}}},
		"no label":                     {text: "@ hi", among: []Callable{{Instance: "y"}}},
		"words of others":              {text: "@home hi", among: both, trait: relay.Traits{Forwarded: true}},
		"a press":                      {text: "@home hi", among: both, trait: relay.Traits{Press: true}},
		"a bot":                        {text: "@home hi", among: both, trait: relay.Traits{AuthorIsBot: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, rest, ok := Spoken(relay.Event{Text: tc.text, Traits: tc.trait}, tc.among)
			if got != tc.want || rest != tc.rest || ok != (tc.want != "") {
				t.Errorf("Spoken(%q) = %q, %q, %t; want %q, %q", tc.text, got, rest, ok, tc.want, tc.rest)
			}
		})
	}
}

// TestWhatIsSaidToANameIsACommandAgain, so that it is judged as one.
func TestWhatIsSaidToANameIsACommandAgain(t *testing.T) {
	ev := relay.Event{Type: relay.TypeText, Text: "@home /approve all"}
	if got := Without(ev, "/approve all"); got.Type != relay.TypeCommand || !IsApproval(got.Text) {
		t.Errorf("got %+v", got)
	}
	if got := Without(ev, ""); got.Text != ev.Text {
		t.Errorf("nothing is left of %q: %q", ev.Text, got.Text)
	}
}
