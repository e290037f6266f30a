package wake

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/store"
)

func TestTheLastPokeIsRemembered(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		if got := r.waker.Last("home"); got != nil {
			t.Errorf("before any poke: %+v", got)
		}
		r.set(func() {
			r.answer = func(*http.Request) (*http.Response, error) { return answered(http.StatusTeapot), nil }
		})
		r.grow("home")
		r.pass(time.Second)
		want := &Poke{At: r.start.UTC(), Status: http.StatusTeapot}
		if diff := cmp.Diff(want, r.waker.Last("home")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for p, words := range map[Poke]string{
			*want:                    "failed: answered with status 418",
			{Reason: "timed out"}:    "failed: timed out",
			{Woken: true, Status: 9}: "answered",
		} {
			if p.String() != words {
				t.Errorf("%+v reads %q, want %q", p, p, words)
			}
		}
		r.update("home", func(i *store.Instance) { i.WakeURL = "" })
		r.pass(2 * time.Hour)
		if got := r.waker.Last("home"); got != nil {
			t.Errorf("without a wake URL: %+v", got)
		}
	})
}
