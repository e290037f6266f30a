package media

import (
	"cmp"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/fair"
)

// share is one file in the room.
type share struct {
	id    relay.MediaID
	size  int64
	of    []fair.Owner // who may read it; nobody: it is the first to be dropped
	needs []fair.Owner // owners whose entries need it, or for whom it is being written: while there are any it stays
	// unsent: an upload that no action has named yet. It gives way after the files that nobody waits for.
	unsent bool
	freed  int64 // since when nobody needs it, in nanoseconds since 1970; the oldest gives way first
}

// claim is a file that wants room.
type claim struct {
	size   int64
	of     []fair.Owner
	upload bool // a gateway's upload, or a file fetched for one; false: an entry's file
}

// giveWay decides which files give way to a claim in a room of so many bytes: gone lists them in the order of removal.
// If ok is false the claim must wait, and nothing is removed. live are all existing owners, with or without files.
//
// A needed file never gives way. So that needed files cannot fill the room for good, an owner that already needs some
// may take more only while as much as it would then have is left for the others: among tenants, and within a tenant
// among instances. Everybody may have one file, and without others an owner may have everything.
//
// Among the other files the tenant with the most gives way first, and within it the instance with the most, counting
// the claim. Within an instance, files that nobody waits for go before unsent uploads, the oldest first. A file that an
// entry needs may take all of these. An upload takes only from owners that have more than its own owner would have, and
// from its own instance only sent files.
func giveWay(room int64, held []share, c claim, live []fair.Owner) (gone []relay.MediaID, ok bool) {
	var needed, all fair.Tally
	for _, s := range held {
		all.Add(s.size, s.of...)
		if len(s.needs) > 0 {
			needed.Add(s.size, s.needs...)
		}
	}
	if !slices.ContainsFunc(c.of, func(o fair.Owner) bool { return mayNeed(room, &needed, o, c.size, live) }) {
		return nil, false
	}
	all.Add(c.size, c.of...)
	if all.Total() <= room {
		return nil, true
	}
	stacks := stacked(held)
	for all.Total() > room {
		p := first(stacks, c, &all)
		if p == nil {
			return nil, false
		}
		gone = append(gone, p.files[0].id)
		all.Add(-p.files[0].size, p.of...)
		p.files = p.files[1:]
	}
	return gone, true
}

// mayNeed reports whether o may have so many bytes more that cannot give way.
func mayNeed(room int64, needed *fair.Tally, o fair.Owner, size int64, live []fair.Owner) bool {
	tenant, instance := needed.Of(o)
	others := slices.ContainsFunc(live, func(x fair.Owner) bool { return x.Tenant != o.Tenant })
	siblings := slices.ContainsFunc(live, func(x fair.Owner) bool { return x.Tenant == o.Tenant && x.Instance != o.Instance })
	most := allowance(room-(needed.Total()-tenant), tenant, others)
	return instance+size <= allowance(most-(tenant-instance), instance, siblings)
}

// allowance returns how much of the room left by others one owner may need: as much again must stay for the others. So
// the first has half, and the next half of the rest. Shares of equal size would leave too little for a file if many
// tenants are quiet.
func allowance(left, has int64, others bool) int64 {
	if others && has > 0 {
		return left / 2
	}
	return left
}

// stack holds the removable files of the same owners, with the first to go on top.
type stack struct {
	of    []fair.Owner
	files []share
}

// stacked returns the files that may go.
func stacked(held []share) map[string]*stack {
	stacks := make(map[string]*stack)
	for _, s := range held {
		if len(s.needs) > 0 {
			continue
		}
		name := ""
		for _, o := range s.of {
			name += string(o.Tenant) + "\x00" + string(o.Instance) + "\x00"
		}
		if stacks[name] == nil {
			stacks[name] = &stack{of: s.of}
		}
		stacks[name].files = append(stacks[name].files, s)
	}
	for _, p := range stacks {
		slices.SortFunc(p.files, sooner)
	}
	return stacks
}

// sooner sorts the files of one stack by which goes first.
func sooner(a, b share) int {
	unsent := func(s share) int {
		if s.unsent {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(unsent(a), unsent(b)), cmp.Compare(a.freed, b.freed), cmp.Compare(a.id, b.id))
}

// first returns the stack from which a file gives way next to the claim, whose size all includes; nil: no file may. A
// file with several owners counts as that of the owner who has the least: it must not go because of a neighbour.
func first(stacks map[string]*stack, c claim, all *fair.Tally) (best *stack) {
	owner := func(p *stack) fair.Owner { return slices.MinFunc(p.of, all.Compare) }
	for _, p := range stacks {
		switch {
		case len(p.files) == 0:
			continue
		case len(p.of) == 0:
			return p
		case !c.upload:
		case slices.Contains(p.of, c.of[0]):
			if p.files[0].unsent {
				continue
			}
		case all.Against(owner(p), c.of[0], 0) <= 0:
			continue
		}
		if best == nil || cmp.Or(all.Compare(owner(p), owner(best)), sooner(best.files[0], p.files[0])) > 0 {
			best = p
		}
	}
	return best
}
