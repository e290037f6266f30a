package gate

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestOwnInstance(t *testing.T) {
	a, b, c := Owned{Instance: "a"}, Owned{Instance: "b"}, Owned{Instance: "c"}
	bDefault, cDefault := Owned{Instance: "b", DMDefault: true}, Owned{Instance: "c", DMDefault: true}
	tools, other := Owned{Instance: "tools", Commands: []string{"/add", "/backup"}}, Owned{Instance: "other", Commands: []string{"/Add"}}
	for name, tc := range map[string]struct {
		owned  []Owned
		holder relay.InstanceID
		named  relay.InstanceID
		direct bool
		want   relay.InstanceID // empty: none
		// command is the message's; empty: it is none.
		command string
	}{
		"bound to nobody":                                   {nil, "x", "", false, "", ""},
		"bound to one":                                      {[]Owned{a}, "", "", false, "a", ""},
		"bound to one, chat held by a stranger":             {[]Owned{a}, "x", "", false, "a", ""},
		"first bound, direct":                               {[]Owned{a, b}, "", "", true, "a", ""},
		"first bound, shared":                               {[]Owned{a, b}, "", "", false, "a", ""},
		"default, direct":                                   {[]Owned{a, bDefault}, "", "", true, "b", ""},
		"default, shared, nobody holds it":                  {[]Owned{a, bDefault}, "", "", false, "b", ""},
		"default, shared, a stranger holds it":              {[]Owned{a, bDefault}, "x", "", false, "b", ""},
		"holder before default":                             {[]Owned{a, bDefault, c}, "c", "", false, "c", ""},
		"holder before first":                               {[]Owned{a, b}, "b", "", false, "b", ""},
		"a direct chat that is held, too, is the default's": {[]Owned{a, bDefault, c}, "c", "", true, "b", ""},
		"named, direct":                                     {[]Owned{a, bDefault, c}, "", "c", true, "c", ""},
		"named, direct, but not theirs":                     {[]Owned{a, bDefault}, "", "c", true, "b", ""},
		"named, shared: that is no choice":                  {[]Owned{a, bDefault, c}, "", "c", false, "b", ""},
		"named, shared, another of theirs holds it":         {[]Owned{a, b, c}, "b", "c", false, "b", ""},
		"a command":                                         {[]Owned{a, bDefault, tools}, "", "", true, "tools", "/add"},
		"a command for another":                             {[]Owned{a, tools}, "", "a", true, "a", "/backup"},
		"a command, by name":                                {[]Owned{a, tools}, "", "tools", true, "tools", "/backup"},
		"a command, by name, shared":                        {[]Owned{a, tools}, "a", "tools", false, "tools", "/backup"},
		"a command, in the chat of another of theirs":       {[]Owned{a, b, tools}, "b", "", false, "tools", "/add"},
		"a command as another types it":                     {[]Owned{tools, other}, "", "", true, "other", "/Add"},
		"another command":                                   {[]Owned{tools, a}, "", "", true, "a", "/new"},
		"no command":                                        {[]Owned{tools, a, bDefault}, "", "", true, "b", ""},
		"no command, named":                                 {[]Owned{tools, a}, "", "tools", true, "a", ""},
		"no command, in its chat":                           {[]Owned{tools, a}, "tools", "", false, "a", ""},
		"no command, and nothing else is theirs":            {[]Owned{tools, other}, "tools", "tools", true, "", ""},
		"another command, and nothing else is theirs":       {[]Owned{tools}, "", "", false, "", "/new"},
		"of two defaults the first bound":                   {[]Owned{a, bDefault, cDefault}, "", "", true, "b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := OwnInstance(tc.owned, tc.holder, tc.named, tc.command, tc.direct)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("OwnInstance(%v, %q, %q, %t) = %q, %t; want %q", tc.owned, tc.holder, tc.command, tc.direct, got, ok, tc.want)
			}
		})
	}
}

// TestOwnInstanceIsOneOfTheirs: whatever is stored, the choice is an instance the author is bound
// to, with the command if it is for commands only, and there is one as soon as they are bound to any for everything.
func TestOwnInstanceIsOneOfTheirs(t *testing.T) { // invariant 3
	instance := rapid.SampledFrom([]relay.InstanceID{"a", "b", "c", "d"})
	command := rapid.SampledFrom([]string{"/x", "/y"})
	rapid.Check(t, func(t *rapid.T) {
		owned := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Owned {
			return Owned{instance.Draw(t, "instance"), rapid.Bool().Draw(t, "default"), rapid.SliceOfN(command, 0, 1).Draw(t, "commands")}
		}), 0, 4).Draw(t, "owned")
		holder := rapid.OneOf(instance, rapid.Just(relay.InstanceID(""))).Draw(t, "holder")
		named := rapid.OneOf(instance, rapid.Just(relay.InstanceID(""))).Draw(t, "named")
		typed := rapid.OneOf(command, rapid.Just("")).Draw(t, "command")
		got, ok := OwnInstance(owned, holder, named, typed, rapid.Bool().Draw(t, "direct"))
		theirs, any, has := false, false, false
		for _, o := range owned {
			fits := len(o.Commands) == 0 || o.Commands[0] == typed && (named == "" || named == o.Instance)
			any = any || fits
			theirs = theirs || o.Instance == got && fits
			has = has || o.Instance == got && len(o.Commands) > 0 && fits
		}
		taken := slices.ContainsFunc(owned, func(o Owned) bool {
			return slices.Contains(o.Commands, typed) && (named == "" || named == o.Instance)
		})
		if ok != any || theirs != ok || taken && !has {
			t.Fatalf("OwnInstance(%v, %q, %q) = %q, %t", owned, holder, typed, got, ok)
		}
	})
}

func TestCommandOf(t *testing.T) {
	for text, want := range map[string]string{
		"/add 7 35": "/add", "/add": "/add", " \n/add\t7": "/add", "/add@our_bot 7": "/add", "/Add": "/Add", "/add_more": "/add_more", "/größe x": "/größe",
		"": "", "add": "", "say /add": "", "/": "", "/@bot": "", "/a/b": "", "//": "", "/add,": "", "@tools /add": "", "/" + strings.Repeat("a", 33): "",
	} {
		if got := CommandOf(relay.Event{Text: text}); got != want {
			t.Errorf("of %q: %q, want %q", text, got, want)
		}
	}
	for what, ev := range map[string]relay.Event{
		"a press":          {Text: "/add", Traits: relay.Traits{Press: true}},
		"an answer":        {Text: "/add", Prompt: &relay.PromptResponse{}},
		"what was said on": {Text: "/add", Traits: relay.Traits{Forwarded: true}},
	} {
		if got := CommandOf(ev); got != "" {
			t.Errorf("%s is the command %q", what, got)
		}
	}
}
