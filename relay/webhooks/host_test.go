package webhooks

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// TestHost: the paths follow the bots, and one that stays keeps what is known of its requests.
func TestHost(t *testing.T) {
	refuses := func(platforms.HookRequest) platforms.HookAnswer {
		return platforms.HookAnswer{Status: 401, Refused: platforms.BadSignature}
	}
	stays, goes := &bot{name: "1", rules: posts, receive: refuses}, &bot{name: "2", rules: posts, receive: refuses}
	p, d, _ := plane(stays, goes)
	status := func(name string) int {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest("POST", "/webhooks/sms/"+name, strings.NewReader("x")))
		return w.Code
	}
	for _, name := range []string{"1", "2"} {
		if got := status(name); got != 401 {
			t.Fatalf("bot %s answers %d", name, got)
		}
	}
	comes := &bot{name: "3", rules: posts, receive: refuses}
	p.Host([]platforms.Bot{comes, stays})
	for name, want := range map[string]int{"1": 401, "2": 404, "3": 401} {
		if got := status(name); got != want {
			t.Errorf("afterwards bot %s answers %d, want %d", name, got, want)
		}
	}
	if s, ok := p.State(stays.ID()); !ok || s.Refused != 2 {
		t.Errorf("of the one that stays: %+v, %t; want 2 refused", s, ok)
	}
	if _, ok := p.State(goes.ID()); ok {
		t.Error("the one that went still has a state")
	}
}
