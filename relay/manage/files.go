package manage

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/media"
)

// notFetched says what an operator should look at when a gateway fetches none of the files it is told of.
func (s *observer) notFetched() string {
	return "its gateway took many messages with files and fetched none of them: " + s.howFetched()
}

// howFetched says what must hold for a gateway to fetch files.
func (s *observer) howFetched() string {
	return "a gateway fetches only from the address that it dials itself. Does it dial " + s.set.URL + ", without a path in front of /relay? A proxy must pass /relay/media/ on; one of trusted_proxies should send X-Forwarded-Proto and X-Forwarded-Host"
}

// mayFetch reports whether some gateway of the instance is not known to be too old to fetch files.
func (s *observer) mayFetch(ctx context.Context, i relay.InstanceID) bool {
	all, err := s.db.Gateways(ctx)
	return err != nil || slices.ContainsFunc(all, func(g store.Gateway) bool { return g.Instance == i && !g.Revoked && !g.TooOld })
}

// eventFiles are the files that are remembered, by the event that they came in.
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

// of are the files of a verdict's event that its instance gets, in the order they stand in the event.
func (f eventFiles) of(d gate.Decision) (out []gate.File) {
	all := slices.DeleteFunc(slices.Clone(f[d.Bot()][d.Event]), func(r media.Record) bool { return !slices.Contains(r.For, d.Instance) })
	sort.SliceStable(all, func(i, j int) bool { return all[i].Place < all[j].Place })
	for _, r := range all {
		out = append(out, gate.File{Kind: cmp.Or(r.Kind, r.Facts.Kind), Size: cmp.Or(r.Facts.Size, r.Size), State: r.State})
	}
	return out
}
