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
	of    []fair.Owner // who may read it; nobody: it is the first to go
	needs []fair.Owner // whose entries name it, or for whom it is being written: while there are any it stays
	// unsent: an upload that no action has named yet. It goes after those that nobody waits for.
	unsent bool
	freed  int64 // since when nobody needs it; the oldest goes first
}

// claim is a file that wants room.
type claim struct {
	size   int64
	of     []fair.Owner
	upload bool // what a gateway sends, or has fetched; not: what an entry needs
}

// giveWay decides who gives way to a claim in a room of so many bytes: the files that go, in that order. ok is false when it
// must wait, and nothing goes then. live are all owners there are, whether or not they have files.
//
// What is needed never goes. So that it cannot fill the room for good, whoever needs some already may take more only while the
// others are left as much as it has then: of tenants, and in a tenant of instances. One file is anybody's, and where
// there are no others, all of it is.
//
// Of the rest the tenant gives way first that has the most, of that tenant the instance that has the most, with the claim
// counted; of an instance what nobody waits for goes before uploads that are unsent, the oldest first. A file that an entry
// needs may have all of that. An upload takes from those who have more than its owner has with it, and from its own instance
// what is sent.
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

// allowance is how much of what others left one may need: as much again must stay for the others. So the first has half,
// and the next half of the rest. Shares of equal size would leave too little for a file where many tenants are quiet.
func allowance(left, has int64, others bool) int64 {
	if others && has > 0 {
		return left / 2
	}
	return left
}

// stack is what the same owners have of what may go, what goes first on top.
type stack struct {
	of    []fair.Owner
	files []share
}

// stacked are the files that may go.
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

// sooner sorts what of one stack goes before the other.
func sooner(a, b share) int {
	unsent := func(s share) int {
		if s.unsent {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(unsent(a), unsent(b)), cmp.Compare(a.freed, b.freed), cmp.Compare(a.id, b.id))
}

// first is the stack of which a file goes next for the claim, which all counts; nil: nothing may go. What several share is
// theirs who have the least: it must not go because of a neighbour.
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
