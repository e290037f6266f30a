package gate

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestDecide(t *testing.T) {
	// A stranger's message that reaches the holder of the chat: every fact it needs, and no other.
	ok := Facts{HoldsGrant: true, Principal: relay.AnyOne, Visible: true, Addressed: true, RequireAddress: true}
	// The owner's message in a chat nobody was granted.
	own := Facts{AuthorBound: true, RequireAddress: true}
	for name, tc := range map[string]struct {
		facts  Facts
		change func(*Facts)
		want   Reason
	}{
		"a stranger in a granted chat":                       {ok, func(*Facts) {}, Delivered},
		"nobody is bound and nothing granted":                {ok, func(f *Facts) { f.HoldsGrant = false }, NoBinding},
		"no policy means the owner only":                     {ok, func(f *Facts) { f.Principal = "" }, NotPrincipal},
		"an unknown policy means the owner only":             {ok, func(f *Facts) { f.Principal = "anyone" }, NotPrincipal},
		"owner-only refuses a stranger":                      {ok, func(f *Facts) { f.Principal = relay.OwnerOnly }, NotPrincipal},
		"owner-only ignores the allow list":                  {ok, func(f *Facts) { f.Principal, f.AuthorListed = relay.OwnerOnly, true }, NotPrincipal},
		"allow-list refuses who is not listed":               {ok, func(f *Facts) { f.Principal = relay.AllowList }, NotPrincipal},
		"allow-list admits who is listed":                    {ok, func(f *Facts) { f.Principal, f.AuthorListed = relay.AllowList, true }, Delivered},
		"no owner sees the chat":                             {ok, func(f *Facts) { f.Visible = false }, NotVisible},
		"visibility comes before relevance":                  {ok, func(f *Facts) { f.Visible, f.Addressed = false, false }, NotVisible},
		"principal comes before visibility":                  {ok, func(f *Facts) { f.Visible, f.Principal = false, relay.OwnerOnly }, NotPrincipal},
		"not addressed":                                      {ok, func(f *Facts) { f.Addressed = false }, NotAddressed},
		"not addressed where it need not be":                 {ok, func(f *Facts) { f.Addressed, f.RequireAddress = false, false }, Delivered},
		"not addressed in a free-response chat":              {ok, func(f *Facts) { f.Addressed, f.FreeResponse = false, true }, Delivered},
		"a bot, where bots are off":                          {ok, func(f *Facts) { f.AuthorIsBot = true }, OtherBot},
		"a bot in a free-response chat, where bots are off":  {ok, func(f *Facts) { f.AuthorIsBot, f.FreeResponse = true, true }, OtherBot},
		"a bot, where bots are on":                           {ok, func(f *Facts) { f.AuthorIsBot, f.AllowOtherBots = true, true }, Delivered},
		"a bot that does not address, where bots are on":     {ok, func(f *Facts) { f.AuthorIsBot, f.AllowOtherBots, f.Addressed = true, true, false }, NotAddressed},
		"a granted direct chat needs nobody to see it":       {ok, func(f *Facts) { f.Direct, f.Visible = true, false }, Delivered},
		"a granted direct chat is always relevant":           {ok, func(f *Facts) { f.Direct, f.Addressed, f.AuthorIsBot = true, false, true }, Delivered},
		"a direct message of a stranger":                     {own, func(f *Facts) { f.Direct, f.AuthorBound = true, false }, NoBinding},
		"the owner's direct message":                         {own, func(f *Facts) { f.Direct = true }, Delivered},
		"the owner's direct message, who must address":       {own, func(f *Facts) { f.Direct, f.OwnerMustAddress = true, true }, Delivered},
		"the owner in a shared chat, not addressed":          {own, func(*Facts) {}, Delivered}, // invariant 4
		"the owner, where the policy refuses everybody else": {own, func(f *Facts) { f.HoldsGrant, f.Principal = true, relay.OwnerOnly }, Delivered},
		"the owner, who must address and does not":           {own, func(f *Facts) { f.OwnerMustAddress = true }, NotAddressed},
		"the owner, who must address and does":               {own, func(f *Facts) { f.OwnerMustAddress, f.Addressed = true, true }, Delivered},
		"the owner, who must address, in a free chat":        {own, func(f *Facts) { f.OwnerMustAddress, f.FreeResponse = true, true }, Delivered},
		"the owner, who must address where nobody must":      {own, func(f *Facts) { f.OwnerMustAddress, f.RequireAddress = true, false }, Delivered},
		"an owner that is a bot":                             {own, func(f *Facts) { f.AuthorIsBot = true }, Delivered},
		"an owner that is a bot, and must address and does":  {own, func(f *Facts) { f.AuthorIsBot, f.OwnerMustAddress, f.Addressed = true, true, true }, Delivered},
		"a stranger's approval":                              {ok, func(f *Facts) { f.Approval = true }, NotPrincipal}, // invariant 6
		"a listed person's approval":                         {ok, func(f *Facts) { f.Approval, f.Principal, f.AuthorListed = true, relay.AllowList, true }, NotPrincipal},
		"the owner's approval":                               {own, func(f *Facts) { f.Approval, f.HoldsGrant = true, true }, Delivered},
		"nothing known":                                      {Facts{}, func(*Facts) {}, NoBinding},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			tc.change(&f)
			if got := Decide(f); got != tc.want {
				t.Errorf("Decide(%+v) = %s, want %s", f, got, tc.want)
			}
		})
	}
}

// allFacts calls with for every combination of the boolean facts and the policies.
func allFacts(with func(Facts)) {
	var bools []int
	v := reflect.TypeFor[Facts]()
	for i := range v.NumField() {
		if v.Field(i).Type.Kind() == reflect.Bool {
			bools = append(bools, i)
		}
	}
	for _, principal := range []relay.PrincipalPolicy{relay.OwnerOnly, relay.AllowList, relay.AnyOne, "", "nonsense"} {
		for mask := range 1 << len(bools) {
			f := Facts{Principal: principal}
			for bit, i := range bools {
				reflect.ValueOf(&f).Elem().Field(i).SetBool(mask>>bit&1 == 1)
			}
			with(f)
		}
	}
}

// oracle is the rule once more, written down from the design's sentences as a list of ways in,
// and without a thought for reasons.
func oracle(f Facts) bool {
	shared := !f.Direct
	stranger := !f.AuthorBound

	// Ways to be admitted.
	var admitted []string
	if f.AuthorBound {
		admitted = append(admitted, "is an owner")
	}
	if f.HoldsGrant && f.Principal == "any" && !f.Approval {
		admitted = append(admitted, "anybody may speak here")
	}
	if f.HoldsGrant && f.Principal == "allow-list" && f.AuthorListed && !f.Approval {
		admitted = append(admitted, "is on the list")
	}

	// Ways not to be seen, and not to matter.
	var against []string
	if shared && stranger && !f.Visible {
		against = append(against, "no owner is known to see this chat")
	}
	if shared && stranger && f.AuthorIsBot && !f.AllowOtherBots {
		against = append(against, "bots are off")
	}
	mustAddress := f.RequireAddress && (stranger || f.OwnerMustAddress)
	if shared && mustAddress && !f.Addressed && !f.FreeResponse {
		against = append(against, "was not talking to the bot")
	}
	return len(admitted) > 0 && len(against) == 0
}

func TestDecideAgainstOracle(t *testing.T) { // invariant 1
	n, delivered := 0, 0
	allFacts(func(f Facts) {
		n++
		got, want := Decide(f) == Delivered, oracle(f)
		if want {
			delivered++
		}
		if got != want {
			t.Errorf("Decide(%+v) delivers: %t, want %t", f, got, want)
		}
	})
	if n != 5<<12 || delivered == 0 || delivered == n {
		t.Errorf("%d combinations, %d of them delivered; want %d, some and not all delivered", n, delivered, 5<<12)
	}
}

func TestDecideReasons(t *testing.T) { // invariant 5
	seen := make(map[Reason]bool)
	allFacts(func(f Facts) {
		why := Decide(f)
		seen[why] = true
		if !slices.Contains(Reasons(), why) {
			t.Errorf("Reasons lacks %s", why)
		}
		// A reason names something that, put right alone, changes the answer.
		fixed := f
		switch why {
		case Delivered:
			return
		case NoBinding:
			fixed.AuthorBound = true
		case NotPrincipal:
			fixed.Principal, fixed.Approval = relay.AnyOne, false
		case NotVisible:
			fixed.Visible = true
		case NotAddressed:
			fixed.Addressed = true
		case OtherBot:
			fixed.AuthorIsBot = false
		}
		if Decide(fixed) == why {
			t.Errorf("Decide(%+v) = %s, and the same with %+v", f, why, fixed)
		}
	})
	if len(seen) != 6 {
		t.Errorf("reasons of Decide: %v, want 6", seen)
	}
}

// TestDecideIsMonotone: less reason to deliver never delivers more.
func TestDecideIsMonotone(t *testing.T) { // invariant 2
	weaken := map[string]func(*Facts) bool{ // false: there is nothing to take away
		"Direct":           func(f *Facts) bool { return take(&f.Direct, true) },
		"AuthorBound":      func(f *Facts) bool { return take(&f.AuthorBound, true) },
		"HoldsGrant":       func(f *Facts) bool { return take(&f.HoldsGrant, true) },
		"Visible":          func(f *Facts) bool { return take(&f.Visible, true) },
		"AuthorListed":     func(f *Facts) bool { return take(&f.AuthorListed, true) },
		"Addressed":        func(f *Facts) bool { return take(&f.Addressed, true) },
		"FreeResponse":     func(f *Facts) bool { return take(&f.FreeResponse, true) },
		"AllowOtherBots":   func(f *Facts) bool { return take(&f.AllowOtherBots, true) },
		"AuthorIsBot":      func(f *Facts) bool { return take(&f.AuthorIsBot, false) },
		"Approval":         func(f *Facts) bool { return take(&f.Approval, false) },
		"RequireAddress":   func(f *Facts) bool { return take(&f.RequireAddress, false) },
		"OwnerMustAddress": func(f *Facts) bool { return take(&f.OwnerMustAddress, false) },
		"Principal": func(f *Facts) bool {
			switch f.Principal {
			case relay.AnyOne:
				f.Principal = relay.AllowList
			case relay.AllowList:
				f.Principal = relay.OwnerOnly
			default:
				return false
			}
			return true
		},
	}
	if got, want := len(weaken), reflect.TypeFor[Facts]().NumField(); got != want {
		t.Fatalf("%d facts can be weakened, want all %d", got, want)
	}
	allFacts(func(f Facts) {
		for name, less := range weaken {
			weaker := f
			if less(&weaker) && Decide(f) != Delivered && Decide(weaker) == Delivered {
				t.Errorf("%+v is dropped, but delivered with a weaker %s", f, name)
			}
		}
	})
}

// take turns b from the value from to its opposite.
func take(b *bool, from bool) bool {
	if *b != from {
		return false
	}
	*b = !from
	return true
}

func ExampleDecide() {
	fmt.Println(Decide(Facts{HoldsGrant: true, Principal: relay.AnyOne, Visible: true, RequireAddress: true}))
	// Output: not_addressed
}
