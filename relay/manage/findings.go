package manage

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

// Look says which sources Diagnose asks.
type Look struct {
	Offline bool `json:"offline,omitempty"` // ask no network
}

// Diagnosis is the list of faults that a Service sees.
type Diagnosis struct {
	Run      string       `json:"run,omitempty"` // of the server, as in its /healthz; empty: none runs
	Findings finding.List `json:"findings"`      // the worst first
}

// Diagnose looks for faults, and asks the networks about the bots. These questions end with ctx, or after
// examineWithin.
func (s *observer) Diagnose(ctx context.Context, l Look) (d Diagnosis, err error) {
	st, err := s.status(ctx, true)
	if err != nil {
		return d, err
	}
	d.Findings = append(finding.List{}, st.Findings...)
	if s.live != nil {
		d.Run = s.set.Run
	}
	if l.Offline {
		return d, nil
	}
	places, err := grantedPlaces(ctx, s.db)
	if err != nil {
		return d, err
	}
	asked := Examine(ctx, s.bots(), places)
	if s.set.Notify != nil {
		asked = append(asked, s.set.Notify.Check(ctx, true)...)
	}
	if s.set.Standings != nil { // the networks have just answered about the same places, so older answers are dropped
		d.Findings = slices.DeleteFunc(d.Findings, ofPlace)
		s.set.Standings.Again()
	}
	d.Findings = finding.Merge(asked, d.Findings)
	return d, nil
}

// findings adds the faults to st, and sorts them. live are the instances that a gateway can serve; afresh demands new
// findings about the machine.
func (s *observer) findings(ctx context.Context, st *Status, seen Seen, live map[relay.InstanceID]bool, afresh bool) error {
	gateways, err := s.db.Gateways(ctx)
	if err != nil {
		return err
	}
	for _, g := range gateways {
		its := SeenGateway{Gateway: g}
		if s.live != nil { // only a running server knows
			its.Dials, its.Connected = s.auth.Dials(g.ID), s.live.Serves(g.ID, g.Instance)
		}
		for n, i := range st.Instances { // a connected instance is left out: another of its gateways serves it
			if i.ID == g.Instance && i.State != Connected && its.Dials.Refused > 0 && (g.Revoked || !its.Connected) {
				st.Instances[n].RefusedAt = its.Dials.Last.UTC()
			}
		}
		seen.Gateways = append(seen.Gateways, its)
	}
	if err := s.reach(ctx, st, &seen, live); err != nil {
		return err
	}
	if s.set.Words != nil {
		s.set.Words.Status(st, seen)
	}
	for n := range st.Findings {
		for _, i := range st.Instances {
			if f := &st.Findings[n]; f.About == "gateway "+string(i.ID) && i.Name != "" {
				f.Name = "gateway " + i.Name
			}
		}
	}
	if s.set.Findings != nil {
		for _, f := range s.set.Findings(afresh) {
			st.Findings = append(st.Findings, f)
			switch f.Code {
			case finding.DatabaseStopped.Code, finding.FellBack.Code, finding.SetAside.Code, finding.Leftover.Code, finding.SnapshotFailed.Code:
				st.Warnings = append(st.Warnings, f.What)
			}
		}
	}
	if s.set.Standings != nil {
		places, err := s.set.Standings.Findings(ctx)
		if err != nil {
			return err
		}
		st.Findings = append(st.Findings, places...)
	}
	if s.set.Notify != nil {
		st.Findings = append(st.Findings, s.set.Notify.Check(ctx, false)...)
	}
	finding.Sort(st.Findings)
	return nil
}

// reach adds to seen what shows whether messages can reach the instances in live: networks without a bot, on each
// network the first instance with a binding or a grant, instances with neither, and programs with an agent outside
// live.
func (s *observer) reach(ctx context.Context, st *Status, seen *Seen, live map[relay.InstanceID]bool) error {
	seen.Served, seen.Bound, seen.Granted = len(live), make(map[relay.PlatformID]relay.InstanceID), make(map[relay.PlatformID]relay.InstanceID)
	hosted := make(map[relay.PlatformID]bool)
	for _, b := range st.Bots {
		hosted[b.Platform] = true
	}
	for _, k := range s.set.Networks {
		if !hosted[k.Name] && !k.Own {
			seen.Networks = append(seen.Networks, k.Name)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(live)) {
		grants, err := s.db.Grants(ctx, store.GrantFilter{Instance: i})
		if err != nil {
			return err
		}
		reached := len(grants) > 0
		for _, g := range grants {
			seen.Granted[g.Platform] = cmp.Or(seen.Granted[g.Platform], i)
		}
		for _, k := range s.set.Networks {
			one, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i, Platform: k.Name, Limit: 1})
			if err != nil {
				return err
			}
			if len(one) > 0 {
				reached, seen.Bound[k.Name] = true, cmp.Or(seen.Bound[k.Name], i)
			}
		}
		if !reached { // people may also be linked on a network that this program no longer speaks
			all, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i})
			if err != nil {
				return err
			}
			reached = len(all) > 0
		}
		if !reached {
			seen.Unreached = append(seen.Unreached, i)
		}
	}
	programs, err := s.db.Callers.All(ctx)
	if err != nil {
		return err
	}
	for _, c := range programs {
		for _, a := range c.Agents {
			if !live[a.Instance] {
				seen.Programs = append(seen.Programs, CallerFor{Caller: c.Name, Agents: []string{string(a.Instance)}})
			}
		}
	}
	return nil
}
