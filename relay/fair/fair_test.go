package fair

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Owners by a letter of their tenant and a number of their instance.
var (
	a1, a2 = Owner{"a", "a1"}, Owner{"a", "a2"}
	b1, b2 = Owner{"b", "b1"}, Owner{"b", "b2"}
	c1     = Owner{"c", "c1"}
)

// TestTally: what several have counts once for each tenant and instance, and what is taken away leaves nothing behind.
func TestTally(t *testing.T) {
	var sum Tally
	sum.Add(5, a1, a2, a1)
	sum.Add(3, a2, b1)
	sum.Add(2)
	for o, want := range map[Owner][2]int64{a1: {8, 5}, a2: {8, 8}, b1: {3, 3}, b2: {3, 0}, c1: {0, 0}} {
		if tenant, instance := sum.Of(o); tenant != want[0] || instance != want[1] {
			t.Errorf("%v has %d and %d, want %v", o, tenant, instance, want)
		}
	}
	order := []Owner{a2, b1, a1, c1, b2}
	slices.SortStableFunc(order, sum.Compare)
	if want := []Owner{c1, b2, b1, a1, a2}; !slices.Equal(order, want) {
		t.Errorf("sorted %v, want %v", order, want)
	}
	if sum.Total() != 10 {
		t.Errorf("%d in all", sum.Total())
	}
	sum.Add(-2)
	sum.Add(-3, b1, a2)
	sum.Add(-5, a2, a1)
	if sum.Total() != 0 || len(sum.tenants)+len(sum.instances) != 0 {
		t.Errorf("%+v is left", sum)
	}
}

// TestAgainst: tenants are compared first, instances only within one.
func TestAgainst(t *testing.T) {
	var sum Tally
	sum.Add(6, a1)
	sum.Add(2, a2)
	sum.Add(4, b1)
	for name, tc := range map[string]struct {
		holder, taker Owner
		n             int64
		want          int
	}{
		"a tenant with more":                          {a1, b1, 3, 1},
		"also where its instance has less":            {a2, b1, 3, 1},
		"as much as the other would have":             {a1, b1, 4, 0},
		"less than the other would have":              {a1, b1, 5, -1},
		"a tenant with nothing":                       {a2, c1, 7, 1},
		"an instance with more than its sibling":      {a1, a2, 3, 1},
		"an instance with less than its sibling":      {a2, a1, 0, -1},
		"what one has is never more than its own":     {a1, a1, 0, 0},
		"of an instance of the same name, by tenants": {a1, Owner{"b", "a1"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sum.Against(tc.holder, tc.taker, tc.n); got != tc.want {
				t.Errorf("Against(%v, %v, %d) = %d, want %d", tc.holder, tc.taker, tc.n, got, tc.want)
			}
		})
	}
}
