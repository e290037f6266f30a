package gate

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestDecidePress(t *testing.T) {
	// A guest's press on a choice in a chat that the asking instance holds.
	ok := PressFacts{
		Facts: Facts{HoldsGrant: true, Principal: relay.AnyOne, Visible: true}, Open: true, Offered: true, OnMessage: true,
	}
	for name, tc := range map[string]struct {
		change func(*PressFacts)
		want   Reason
	}{
		"a guest in a granted chat":                 {func(*PressFacts) {}, Delivered},
		"a guest on the list":                       {func(f *PressFacts) { f.Principal, f.AuthorListed = relay.AllowList, true }, Delivered},
		"a guest not on the list":                   {func(f *PressFacts) { f.Principal = relay.AllowList }, PromptForeign},
		"a guest, owners only":                      {func(f *PressFacts) { f.Principal = relay.OwnerOnly }, PromptForeign},
		"a guest in a chat of nobody":               {func(f *PressFacts) { f.HoldsGrant = false }, PromptForeign},
		"a guest where no owner looks":              {func(f *PressFacts) { f.Visible = false }, PromptForeign},
		"a guest in a granted direct chat":          {func(f *PressFacts) { f.Visible, f.Direct = false, true }, Delivered},
		"a guest's approval":                        {func(f *PressFacts) { f.Sensitive = true }, PromptForeign}, // invariant 6
		"the owner's approval":                      {func(f *PressFacts) { f.Sensitive, f.AuthorBound = true, true }, Delivered},
		"the owner in a chat of nobody":             {func(f *PressFacts) { f.HoldsGrant, f.Visible, f.AuthorBound = false, false, true }, Delivered},
		"answered, or past its time":                {func(f *PressFacts) { f.Open, f.AuthorBound = false, true }, PromptClosed},
		"an option that was never offered":          {func(f *PressFacts) { f.Offered, f.AuthorBound = false, true }, PromptClosed},
		"another message's button":                  {func(f *PressFacts) { f.OnMessage, f.AuthorBound = false, true }, PromptClosed},
		"relevance says nothing about presses":      {func(f *PressFacts) { f.RequireAddress, f.AuthorIsBot = true, true }, Delivered},
		"nobody knows anything":                     {func(f *PressFacts) { *f = PressFacts{} }, PromptClosed},
		"a stranger on a closed one learns no more": {func(f *PressFacts) { f.Open, f.HoldsGrant = false, false }, PromptClosed},
	} {
		t.Run(name, func(t *testing.T) {
			f := ok
			tc.change(&f)
			if got := DecidePress(f); got != tc.want {
				t.Errorf("DecidePress(%+v) = %s, want %s", f, got, tc.want)
			}
		})
	}
}

// TestDecidePressAgainstOracle puts every combination of facts to the rule once more, as a list of ways in.
func TestDecidePressAgainstOracle(t *testing.T) { // invariants 1, 2, 5, 6
	n := make(map[Reason]int)
	allFacts(func(f Facts) {
		for mask := range 1 << 4 {
			p := PressFacts{f, mask&1 != 0, mask&2 != 0, mask&4 != 0, mask&8 != 0}
			guest := !p.Sensitive && f.HoldsGrant && (f.Principal == "any" || f.Principal == "allow-list" && f.AuthorListed) && (f.Direct || f.Visible)
			want := PromptForeign
			if f.AuthorBound || guest {
				want = Delivered
			}
			if mask&7 != 7 {
				want = PromptClosed
			}
			got := DecidePress(p)
			if n[got]++; got != want {
				t.Errorf("DecidePress(%+v) = %s, want %s", p, got, want)
			}
			for name, less := range map[string]func(*PressFacts) bool{
				"Open":        func(p *PressFacts) bool { return take(&p.Open, true) },
				"Offered":     func(p *PressFacts) bool { return take(&p.Offered, true) },
				"OnMessage":   func(p *PressFacts) bool { return take(&p.OnMessage, true) },
				"Sensitive":   func(p *PressFacts) bool { return take(&p.Sensitive, false) },
				"AuthorBound": func(p *PressFacts) bool { return take(&p.AuthorBound, true) },
				"HoldsGrant":  func(p *PressFacts) bool { return take(&p.HoldsGrant, true) },
				"Visible":     func(p *PressFacts) bool { return take(&p.Visible, true) },
			} {
				if weaker := p; less(&weaker) && got != Delivered && DecidePress(weaker) == Delivered {
					t.Errorf("%+v is dropped, but delivered with a weaker %s", p, name)
				}
			}
		}
	})
	if len(n) != 3 {
		t.Errorf("reasons %v, want three", n)
	}
}

func TestIsApproval(t *testing.T) {
	for text, want := range map[string]bool{
		"/approve": true, "/deny": true, "/APPROVE": true, " /approve session": true, "/approve@bot session": true,
		"/Deny@Some_Bot all of it": true, "/approve\nalways": true, "/approve\x1cnow": true, "\x1c/approve": true, "\x1f \x1d/deny": true, "/deny.": true,
		"": false, "approve": false, "/approved": false, "/approve_all": false, "/deny-list": false, "please /approve": false,
		"/denyé": false, "/app": false, "/": false, "//approve": false,
	} {
		if got := IsApproval(text); got != want {
			t.Errorf("IsApproval(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestUrgent(t *testing.T) {
	for want, all := range map[bool][]relay.Event{
		true:  {{Prompt: &relay.PromptResponse{}}, {Text: "/approve"}, {Text: "/deny always"}, {Text: "/stop"}},
		false: {{}, {Text: "stop"}, {Text: "/new"}, {Text: "please /approve"}},
	} {
		for _, ev := range all {
			if Urgent(ev) != want {
				t.Errorf("Urgent(%+v) = %t", ev, !want)
			}
		}
	}
}

func TestIsStop(t *testing.T) {
	for text, want := range map[string]bool{
		"/stop": true, "/STOP": true, "/stop@bot": true, " /Stop@Bot please": true, "/stop\nnow": true,
		"": false, "stop": false, "/stopwatch": false, "/": false, "@stop": false, "do not /stop": false, "/st\u00f6p": false,
	} {
		if got := IsStop(relay.Event{Text: text}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if IsStop(relay.Event{Text: "/stop", Traits: relay.Traits{AuthorIsBot: true}}) {
		t.Error("a bot is no person")
	}
	if IsStop(relay.Event{Text: "/stop", Prompt: &relay.PromptResponse{}}) {
		t.Error("a press is no command")
	}
}
