package wake

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// hanging are instances of a tenant whose wake URLs do not answer, with entries waiting.
func (r *rig) hanging(tenant string, count int, url func(n int) string) {
	r.t.Helper()
	for n := range count {
		i := relay.InstanceID(fmt.Sprint(tenant, n)) // before "victim" in every order
		r.enrollFor(relay.TenantID(tenant), i, url(n))
		r.event(i)
		r.waker.Grew(i)
	}
	r.pass(0)
}

// victimsPoke is when the victim's URL was asked for first; negative: never.
func (r *rig) victimsPoke() time.Duration {
	for _, p := range r.asked() {
		if p.URL == "https://shared.example/victim" {
			return p.At.Truncate(time.Millisecond)
		}
	}
	return -1
}

// A tenant holds up its own pokes only, on whatever hosts its wake URLs hang. (invariant 3)
func TestATenantWhoseTargetsHangHoldsUpNoOther(t *testing.T) {
	for name, url := range map[string]func(n int) string{
		"on the victim's host":  func(int) string { return "https://shared.example/hang" },
		"on hosts of their own": func(n int) string { return fmt.Sprintf("https://h%d.example/hang", n) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, r *rig) {
				r.set(func() {
					for n := range 40 {
						r.hang[fmt.Sprintf("h%d.example/hang", n)] = true
					}
					r.hang["shared.example/hang"] = true
				})
				r.hanging("mallory", 40, url)
				r.enrollFor("victim", "victim", "https://shared.example/victim")
				r.pass(s)
				r.grow("victim")
				if got := r.victimsPoke(); got != s {
					t.Errorf("the victim was poked at %s, want %s; %d requests hang", got, s, len(r.asked()))
				}
			})
		})
	}
}

// Two tenants that fill all places between them: the next free one is the third's, whoever has waited longer. (invariant 3)
func TestTenantsTakeTurns(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		hang := func(tenant string) func(int) string {
			return func(n int) string {
				host := fmt.Sprintf("%s%d.example", tenant, n)
				r.set(func() { r.hang[host] = true })
				return "https://" + host
			}
		}
		r.hanging("mallory", 40, hang("mallory"))
		r.hanging("mallet", 40, hang("mallet"))
		if n := len(r.asked()); n != maxPokes {
			t.Fatalf("%d requests hang, want %d", n, maxPokes)
		}
		r.enrollFor("victim", "victim", "https://shared.example/victim")
		r.pass(s)
		r.grow("victim")
		r.pass(10 * s)
		if got := r.victimsPoke(); got != 10*s {
			t.Errorf("the victim was poked at %s, want %s, when the first requests were given up", got, 10*s)
		}
	})
}
