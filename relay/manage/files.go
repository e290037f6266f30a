package manage

import (
	"cmp"
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// mayFetch reports whether the instance may have a gateway that can fetch files. Any gateway may, unless it is revoked
// or known to be too old.
func (s *observer) mayFetch(ctx context.Context, i relay.InstanceID) bool {
	all, err := s.db.Gateways(ctx)
	return err != nil || slices.ContainsFunc(all, func(g store.Gateway) bool { return g.Instance == i && !g.Revoked && !g.TooOld })
}

// eventFiles are the files that people sent and that the store remembers, by bot and event.
type eventFiles map[relay.Bot]map[relay.EventID][]media.Record

func (s *history) filesOf(ctx context.Context) (eventFiles, error) {
	all, err := s.db.Media.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make(eventFiles)
	for _, r := range all {
		if r.Uploaded() {
			continue
		}
		if out[r.Bot] == nil {
			out[r.Bot] = make(map[relay.EventID][]media.Record)
		}
		out[r.Bot][r.Event] = append(out[r.Bot][r.Event], r)
	}
	return out, nil
}

// of returns the files of a verdict's event that its instance gets, in the order they stand in the event.
func (f eventFiles) of(d gate.Decision) (out []gate.File) {
	all := slices.DeleteFunc(slices.Clone(f[d.Bot()][d.Event]), func(r media.Record) bool { return !slices.Contains(r.For, d.Instance) })
	slices.SortStableFunc(all, func(a, b media.Record) int { return cmp.Compare(a.Place, b.Place) })
	for _, r := range all {
		out = append(out, gate.File{Kind: cmp.Or(r.Kind, r.Facts.Kind), Size: cmp.Or(r.Facts.Size, r.Size), State: r.State})
	}
	return out
}
