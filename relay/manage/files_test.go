package manage_test

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/store"
)

// unread is files of which no gateway fetched one.
type unread struct{}

func (unread) Stats() media.Stats               { return media.Stats{} }
func (unread) NotFetched(relay.InstanceID) bool { return true }

// TestFilesThatNobodyFetches: the operator is told, unless the gateway is one that cannot fetch.
func TestFilesThatNobodyFetches(t *testing.T) {
	w := newWorld(t, nil)
	w.change(func(s *manage.Settings) { s.Files = unread{} })
	g, err := w.Enroll(t.Context(), system, manage.Enroll{Name: "home"})
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []bool{false, true} {
		if err := w.db.UpdateGateway(t.Context(), nil, g.Gateway, func(g *store.Gateway, _ *store.Instance) error {
			g.TooOld = old
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		st, err := w.Status(t.Context(), struct{}{})
		if err != nil || len(st.Instances) != 1 || (st.Instances[0].Warning == "media_not_fetched") == old {
			t.Errorf("too old %t: %+v, %v", old, st.Instances, err)
		}
	}
}
