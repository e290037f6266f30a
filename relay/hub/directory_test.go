package hub

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestSeenOfTheDirectory: what was delivered is known; what nobody received, and what never came, is not.
func TestSeenOfTheDirectory(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	var events []relay.EventID
	for _, user := range []relay.UserID{"eve", "ann"} {
		r.say(local.Message{User: user, Text: "hi"})
		all := r.hub.Decisions()
		events = append(events, all[len(all)-1].Event)
	}
	in := r.hub.in.Inbox(r.bot).(platforms.Directory)
	got, err := in.Seen(t.Context(), append(events, "never"))
	if diff := cmp.Diff([]bool{false, true, false}, got); err != nil || diff != "" {
		t.Errorf("seen, %v (-want +got):\n%s", err, diff)
	}
}

// TestAWholeScopeIsInTheDirectory: what is missed in a scope granted as a whole is asked for as well.
func TestAWholeScopeIsInTheDirectory(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := store.Grant{Platform: local.LoopbackID, Scope: "park", Instance: "home", Tenant: relay.DefaultTenant, GrantedAt: time.Now()}
	must.Succeed(t, r.db.Claim(t.Context(), nil, g))
	got, err := r.hub.in.Inbox(r.bot).(platforms.Directory).Chats(t.Context())
	if err != nil || !slices.Contains(got, relay.Place{Platform: local.LoopbackID, Scope: "park"}) {
		t.Errorf("chats %v, %v", got, err)
	}
}
