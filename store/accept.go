package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// Accept holds what one batch of a bot stores.
type Accept struct {
	Bot        relay.Bot
	Items      []AcceptItem
	Quarantine []Quarantined
	Cursor     []byte // nil: unchanged; equal to the present one: not written
	// Save: Cursor is worth a write of its own. Without Save, and if the batch stores nothing else, Cursor is written
	// along with the next write of anybody, or after a minute, or by Close.
	Save bool
}

// AcceptItem is one delivery and the instances that were admitted to it. Only delivered or consumed events are items.
type AcceptItem struct {
	Delivery relay.Delivery
	Frame    []byte   // of the delivery's event, as wire.Pack makes it; nil if the delivery has no recipients
	Forward  *Forward // the frame of the relay.Forward, if Delivery is one; nil: it is none, or is too large
	// Whole: the entry stores the event itself in place of Frame: what its gateway gets of the event is known only at
	// the push, or Frame cannot show it.
	Whole bool
	To    []Recipient
	// Undecided are the instances for which the verdict on the delivery is still open.
	Undecided []relay.InstanceID
	// Press: the delivery is stored only if it is the first answer to its prompt. Nil: the delivery answers no prompt,
	// or is undecided.
	Press *prompt.Press
	// Receipt is stored with the delivery if the agent that the receipt names is among those that get the delivery.
	// Nil: there is no receipt.
	Receipt *relay.Receipt
	// Capability came in the delivery's event, and is stored if its instance gets the delivery or is undecided.
	Capability *capability.Record
	// Verdicts are the entries of the history about the delivery, if it is stored.
	Verdicts []history.Verdict
}

// Recipient is one instance that is to get a delivery.
type Recipient struct {
	Instance relay.InstanceID
	// Conversation is stored with the delivery. Its Instance, Bot, Chat and LastAt are filled in.
	Conversation Conversation
	Oversize     bool // does not fit a frame: the delivery becomes a dead letter at once
	// Profile is the gateway's profile for the event. With a profile, the event is stored as a whole for this
	// recipient.
	Profile string
}

// AcceptOutcome is the result of an Accept.
type AcceptOutcome struct {
	Items []ItemOutcome // as Accept.Items
	// Overflowed counts the entries moved to the dead letters because a buffer was full; nil if there were none.
	Overflowed map[relay.InstanceID]int
	// Lost are the capabilities that were dropped because their instances had too many.
	Lost []capability.Record
}

// ItemOutcome is the result of one item.
type ItemOutcome struct {
	Duplicate bool             // the event was stored before; nothing was stored now
	Late      bool             // the event answers a prompt that is no longer open; nothing was stored
	Buffers   []relay.BufferID // in the order of To; zero if the recipient was skipped or the delivery is oversize
}

// prepared is an AcceptItem with everything encoded that can be before the transaction.
type prepared struct {
	item    AcceptItem
	about   About
	mark    dedupe.Mark
	payload []byte // the entry; nil if there are no recipients
	// profiled are the entries of recipients with a profile, by the profile.
	profiled map[string][]byte
}

// Accept stores one batch in one transaction: the quarantine, then for each item the seen mark, its deliveries and its
// undecided instances, and the cursor. An item whose event was seen before, even in the same batch, stores nothing. A
// delivery to an instance that is not enrolled, or revoked, is skipped. A lane past its limits loses its oldest entries
// to the dead letters in the same transaction. A batch with nothing to write but its cursor does not write. ErrFull:
// nothing is stored until something is deleted.
func (db *DB) Accept(ctx context.Context, a Accept) (AcceptOutcome, error) {
	now := db.now()
	items, size, err := db.prepareItems(a, now)
	if err != nil {
		return AcceptOutcome{}, fmt.Errorf("accept for %s: %w", a.Bot, err)
	}
	var out AcceptOutcome
	var bad []dedupe.Bad
	err = db.change(ctx, nil, "accept for "+a.Bot.String(), func(t *tx) (err error) {
		out, bad, err = t.accept(a, items, now)
		return err
	}, max(size, 1))
	if err != nil {
		return AcceptOutcome{}, err
	}
	db.Seen.Report(bad)
	return out, nil
}

// prepareItems encodes the items of a. size is about how many bytes a will add to the file.
func (db *DB) prepareItems(a Accept, now time.Time) (out []prepared, size int, err error) {
	for _, q := range a.Quarantine {
		size += len(q.Raw)
	}
	out = make([]prepared, len(a.Items))
	for n, item := range a.Items {
		p := prepared{item: item, about: AboutOf(item.Delivery)}
		if p.about.ID == "" {
			return nil, 0, errors.New("an event has no id")
		}
		p.mark = dedupe.Of(a.Bot, p.about.ID)
		if len(item.To) > 0 {
			if err := p.encode(db.run, now); err != nil {
				return nil, 0, err
			}
		}
		size += len(p.mark)
		for _, to := range item.To {
			size += len(p.entryFor(to))
		}
		if item.Receipt != nil {
			size += callers.Size
		}
		if c := item.Capability; c != nil {
			size += capability.Size + len(c.Sealed)
		}
		out[n] = p
	}
	return out, size, nil
}

// encode renders the entry of p.item: with the event, if it is stored as a whole, else with the frame.
func (p *prepared) encode(run uint64, now time.Time) (err error) {
	if p.payload, err = p.entry(p.item.Whole, "", run, now); err != nil {
		return err
	}
	for _, to := range p.item.To {
		if to.Profile == "" || p.profiled[to.Profile] != nil {
			continue
		}
		if p.profiled == nil {
			p.profiled = make(map[string][]byte)
		}
		if p.profiled[to.Profile], err = p.entry(true, to.Profile, run, now); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the encoded entry of p.item for a gateway's profile; empty: for none. With whole the entry has the
// event in place of the frame.
func (p *prepared) entry(whole bool, profile string, run uint64, now time.Time) ([]byte, error) {
	h, behind := entryHead{At: now, About: p.about}, p.item.Frame
	if whole {
		ev := p.item.Delivery.About()
		ev.Source.Profile = profile
		h.Event, behind = &ev, nil
	}
	if f := p.item.Forward; f != nil {
		h.Forward = &forwardHead{Until: f.Until, Run: run, Size: len(f.Frame)}
		behind = slices.Concat(behind, f.Frame)
	}
	payload, err := encodeEntry(h, behind)
	if err != nil {
		err = fmt.Errorf("encode event %s: %w", p.about.ID, err)
	}
	return payload, err
}

// entryFor returns the encoded entry for a recipient: the one for its profile, if it has one.
func (p *prepared) entryFor(to Recipient) []byte {
	if to.Profile == "" {
		return p.payload
	}
	return p.profiled[to.Profile]
}

// accept is Accept's transaction: for each item it checks the seen mark and the prompt, and then stores the mark and
// everything that belongs to the item. bad are the damaged records of seen marks that it found and replaced.
func (t *tx) accept(a Accept, items []prepared, now time.Time) (out AcceptOutcome, bad []dedupe.Bad, err error) {
	out.Items = make([]ItemOutcome, len(items))
	for _, q := range a.Quarantine {
		if err := quarantine(t.Writer, q); err != nil {
			return out, nil, err
		}
	}
	var held []capability.Record
	for n, p := range items {
		dup, spoilt := t.marks.Has(t.Tx, p.mark)
		if err := dedupe.Believe(t.Writer, spoilt); err != nil {
			return out, nil, err
		}
		bad = append(bad, spoilt...)
		if dup {
			out.Items[n].Duplicate = true
			continue
		}
		asked, open, err := prompt.Takes(t.Tx, p.item.Press, now)
		if err != nil {
			return out, nil, err
		}
		if !open {
			out.Items[n].Late = true
			continue
		}
		t.marks.Mark(t.Writer, p.mark, now)
		out.Items[n].Buffers = make([]relay.BufferID, len(p.item.To))
		for r, to := range p.item.To {
			if out.Items[n].Buffers[r], err = t.deliver(a.Bot, p, to, now, &out); err != nil {
				return out, nil, err
			}
		}
		if err := t.receipt(p.item, out.Items[n].Buffers, now); err != nil {
			return out, nil, err
		}
		if err := prompt.Take(t.Writer, asked, p.item.Press, now); err != nil {
			return out, nil, err
		}
		for _, i := range p.item.Undecided {
			if err := postpone(t.Writer, a.Bot, i, p.item.Delivery, now); err != nil {
				return out, nil, err
			}
		}
		if c := p.item.Capability; c != nil && p.item.given(c.Instance, out.Items[n].Buffers) {
			held = append(held, *c)
		}
		for _, v := range p.item.Verdicts {
			t.recall(p, v, out.Items[n].Buffers, now, false)
		}
	}
	if out.Lost, err = capability.Hold(t.Writer, now, held...); err != nil {
		return out, nil, err
	}
	t.setCursor(a.Bot, a.Cursor, a.Save) // last, so that a failed Accept moves no cursor
	return out, bad, nil
}

// recall notes in the history a verdict about a delivery. buffers are the ids under which the delivery was stored, in
// the order of p.item.To; again: an earlier note said that the verdict was still to come. If the verdict's instance was
// revoked meanwhile, it did not get the delivery, and recall notes nothing.
func (t *tx) recall(p prepared, v history.Verdict, buffers []relay.BufferID, now time.Time, again bool) {
	ev := p.item.Delivery.About()
	c := history.Came{
		At: now, Verdict: v, Again: again,
		Of: history.Event{ID: p.about.ID, Chat: relay.Chat{Bot: ev.Bot, ID: p.about.Chat}, Type: ev.Source.ChatType, User: p.about.User},
	}
	if n := slices.IndexFunc(p.item.To, func(r Recipient) bool { return r.Instance == v.Instance }); n >= 0 {
		if buffers[n].IsZero() && !p.item.To[n].Oversize {
			return
		}
		c.Seq = buffers[n].Seq
	}
	t.history.Came(c)
}

// receipt stores the receipt of a delivery, unless its agent did not get the delivery. buffers are the ids under which
// the delivery was stored, in the order of a.To.
func (t *tx) receipt(a AcceptItem, buffers []relay.BufferID, now time.Time) error {
	if a.Receipt == nil {
		return nil
	}
	n := slices.IndexFunc(a.To, func(r Recipient) bool { return r.Instance == a.Receipt.Agent })
	if n < 0 || buffers[n].IsZero() && !a.To[n].Oversize {
		return nil
	}
	return callers.Put(t.Writer, *a.Receipt, buffers[n], now)
}

// given reports whether the instance gets the delivery or is still undecided. buffers are the ids under which the
// delivery was stored, in the order of a.To.
func (a AcceptItem) given(i relay.InstanceID, buffers []relay.BufferID) bool {
	n := slices.IndexFunc(a.To, func(r Recipient) bool { return r.Instance == i })
	return slices.Contains(a.Undecided, i) || n >= 0 && !buffers[n].IsZero()
}

// deliver stores a delivery for one recipient, and counts in out the entries that had to leave the recipient's buffer
// to make room. The id is zero if the instance does not exist, or the delivery is oversize.
func (t *tx) deliver(b relay.Bot, p prepared, to Recipient, now time.Time, out *AcceptOutcome) (id relay.BufferID, err error) {
	l, err := t.live(to.Instance)
	if errors.Is(err, ErrNotFound) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	c := to.Conversation
	c.Instance, c.Bot, c.Chat, c.LastAt = to.Instance, b, p.about.Chat, now
	// An event may be from just before its chat moved. A translation that is damaged must not stop it.
	if now, err := t.recents.currentChat(t.Tx, b.Platform, c.Chat); err == nil {
		c.Chat = now
	}
	if err := t.converse(c); err != nil {
		return id, err
	}
	if to.Oversize {
		dead := deadHead{DiedAt: now, Reason: DeadOversize, Size: boltfile.EnvelopeSize + len(p.entryFor(to))}
		return id, l.addDead(l.next(), dead, p.entryFor(to))
	}
	if id, err = l.append(p.entryFor(to)); err != nil {
		return id, err
	}
	overflowed, err := l.trim(t.db.limits, now)
	if overflowed > 0 {
		if out.Overflowed == nil {
			out.Overflowed = make(map[relay.InstanceID]int)
		}
		out.Overflowed[to.Instance] += overflowed
	}
	return id, err
}
