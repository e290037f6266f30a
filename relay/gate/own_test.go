package gate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestOwnInstance(t *testing.T) {
	a, b, c := Owned{Instance: "a"}, Owned{Instance: "b"}, Owned{Instance: "c"}
	bDefault, cDefault := Owned{"b", true}, Owned{"c", true}
	for name, tc := range map[string]struct {
		owned  []Owned
		holder relay.InstanceID
		named  relay.InstanceID
		direct bool
		want   relay.InstanceID // empty: none
	}{
		"bound to nobody":                                   {nil, "x", "", false, ""},
		"bound to one":                                      {[]Owned{a}, "", "", false, "a"},
		"bound to one, chat held by a stranger":             {[]Owned{a}, "x", "", false, "a"},
		"first bound, direct":                               {[]Owned{a, b}, "", "", true, "a"},
		"first bound, shared":                               {[]Owned{a, b}, "", "", false, "a"},
		"default, direct":                                   {[]Owned{a, bDefault}, "", "", true, "b"},
		"default, shared, nobody holds it":                  {[]Owned{a, bDefault}, "", "", false, "b"},
		"default, shared, a stranger holds it":              {[]Owned{a, bDefault}, "x", "", false, "b"},
		"holder before default":                             {[]Owned{a, bDefault, c}, "c", "", false, "c"},
		"holder before first":                               {[]Owned{a, b}, "b", "", false, "b"},
		"a direct chat that is held, too, is the default's": {[]Owned{a, bDefault, c}, "c", "", true, "b"},
		"named, direct":                                     {[]Owned{a, bDefault, c}, "", "c", true, "c"},
		"named, direct, but not theirs":                     {[]Owned{a, bDefault}, "", "c", true, "b"},
		"named, shared: that is no choice":                  {[]Owned{a, bDefault, c}, "", "c", false, "b"},
		"named, shared, another of theirs holds it":         {[]Owned{a, b, c}, "b", "c", false, "b"},
		"of two defaults the first bound":                   {[]Owned{a, bDefault, cDefault}, "", "", true, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := OwnInstance(tc.owned, tc.holder, tc.named, tc.direct)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("OwnInstance(%v, %q, %t) = %q, %t; want %q", tc.owned, tc.holder, tc.direct, got, ok, tc.want)
			}
		})
	}
}

// TestOwnInstanceIsOneOfTheirs: whatever is stored, the choice is an instance the author is bound
// to, and there is one as soon as they are bound to any.
func TestOwnInstanceIsOneOfTheirs(t *testing.T) { // invariant 3
	instance := rapid.SampledFrom([]relay.InstanceID{"a", "b", "c", "d"})
	rapid.Check(t, func(t *rapid.T) {
		owned := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Owned {
			return Owned{instance.Draw(t, "instance"), rapid.Bool().Draw(t, "default")}
		}), 0, 4).Draw(t, "owned")
		holder := rapid.OneOf(instance, rapid.Just(relay.InstanceID(""))).Draw(t, "holder")
		named := rapid.OneOf(instance, rapid.Just(relay.InstanceID(""))).Draw(t, "named")
		got, ok := OwnInstance(owned, holder, named, rapid.Bool().Draw(t, "direct"))
		theirs := false
		for _, o := range owned {
			theirs = theirs || o.Instance == got
		}
		if ok != (len(owned) > 0) || theirs != ok {
			t.Fatalf("OwnInstance(%v, %q) = %q, %t", owned, holder, got, ok)
		}
	})
}
