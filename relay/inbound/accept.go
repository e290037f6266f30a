package inbound

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/history"
)

// Accept stores b's moves of chats, judges every event of b, stores the admitted ones in one transaction, and only then
// wakes the lanes and answers control messages. After an error the platform hands in b again.
func (x *inbox) Accept(ctx context.Context, b platforms.Batch) error {
	in := x.in
	in.facts.Visible.Forget(x.bot, b.Roster)
	if in.roster != nil && len(b.Roster) > 0 {
		in.roster(x.bot, b.Roster)
	}
	for _, m := range b.Moves {
		if err := in.db.MoveChat(ctx, store.Move{Platform: x.bot.Platform, From: m.From, To: m.To}); err != nil {
			return fmt.Errorf("move chat: %w", err)
		}
	}

	a := store.Accept{Bot: x.bot, Cursor: b.Cursor, Save: b.Save}
	for _, u := range b.Undecodable {
		a.Quarantine = append(a.Quarantine, store.Quarantined{Bot: x.bot, At: time.Now(), Err: u.Err.Error(), Raw: u.Raw})
	}
	judged := make([]judgement, 0, len(b.Events))
	for _, ev := range b.Events {
		ev = in.named(ev)
		j, err := in.judge.arrived(ctx, ev, judged)
		if err != nil {
			in.decide(ev, verdict{Reason: gate.StoreError})
			return fmt.Errorf("judge event: %w", err)
		}
		in.interruptFor(j)
		in.tell(j, b.Refused, b.Undecided)
		if j.ofOwner && len(b.Roster) == 0 { // roster changes may say that the author no longer sees the chat
			in.facts.Visible.Observe(visibility.Of{Bot: ev.Bot, Place: ev.Source.Place(), User: ev.Source.UserID}, ev.At)
		}
		j.capability = first(b.Capabilities, func(c platforms.Capability) bool { return c.Event == ev.ID })
		if j.consumed {
			d := deliveryOf(j.event, b.Forwards)
			j.pack(d)
			a.Items = append(a.Items, store.AcceptItem{
				Delivery: d, Frame: j.frame, Forward: j.forward, Whole: in.whole(j), To: j.to, Undecided: j.undecided, Press: j.press,
				Capability: in.bind(&j), Receipt: first(b.Receipts, func(r relay.Receipt) bool { return r.Event == ev.ID }), Verdicts: j.recalled(),
			})
		}
		judged = append(judged, j)
	}
	items := a.Items
	a.Items = append(items, toldItems(x.bot, judged)...)
	out, err := in.db.Accept(ctx, a)
	if err != nil {
		for _, item := range items {
			in.decide(item.Delivery.About(), verdict{Reason: gate.StoreError})
		}
		return fmt.Errorf("store batch: %w", err)
	}
	in.counters.Add(count.Quarantined, uint64(len(b.Undecodable)))
	in.noteLost(out)
	in.announceAll(judged, out.Items, b)
	runtime.Gosched() // the pumps go first: otherwise the platform's next request holds up these events
	for _, m := range b.Moves {
		in.workers.call(relay.Chat{Bot: x.bot, ID: m.To}) // the undecided events of the old chat belong to the new one now
	}
	return nil
}

// interruptFor makes every instance that is about to get a person's /stop stop its run first. It does so before the
// message is stored: once that is in the lane, nothing could overtake it any more, and the stop must not wait behind a
// backlog. The gateway's settings are not known here, so the stop is sent for every key that may be meant; a key that
// runs nothing ignores it.
func (in *Inbound) interruptFor(j judgement) {
	if !gate.IsStop(j.event) {
		return
	}
	src := j.event.Source
	keys := sessionkey.Forms(src)
	if src.ThreadID == "" || string(src.ThreadID) == string(src.ChatID) { // otherwise these are the keys of the whole chat
		keys = append(keys, sessionkey.Forwarded(src)...)
	}
	for _, v := range j.verdicts {
		if v.Reason != gate.Delivered {
			continue
		}
		for _, key := range keys {
			if t, ok := in.runs.recent(v.Tenant, v.Instance, key, time.Now()); ok {
				in.gateways.Interrupt(v.Instance, key, t.chat)
			}
		}
	}
}

// announceAll publishes the outcome of a batch's events. stored has one outcome for each event that was consumed, and
// then one for each mark of a notice (see toldItems).
func (in *Inbound) announceAll(judged []judgement, stored []store.ItemOutcome, b platforms.Batch) {
	for _, j := range judged {
		switch {
		case !j.consumed:
			in.announce(j, nil)
			continue
		case stored[0].Duplicate:
			in.decide(j.event, verdict{Reason: gate.Duplicate})
		case stored[0].Late: // another press on the same prompt was stored first
			j.late()
			in.tell(j, b.Refused, b.Undecided)
			in.announce(j, nil)
		default:
			in.announce(j, stored[0].Buffers)
		}
		stored = stored[1:]
	}
}

// noteLost counts and logs entries that left a full buffer, and removes the placeholders of capabilities that were
// dropped.
func (in *Inbound) noteLost(out store.AcceptOutcome) {
	for inst, n := range out.Overflowed {
		in.counters.Add(count.Overflowed, uint64(n))
		in.log.Warn("buffer full; the oldest entries became dead letters", "instance", inst, "entries", n)
	}
	in.capabilities.DiscardLost(out.Lost)
}

// deliveryOf returns the stored form of an event: the forward that stands for it, if there is one.
func deliveryOf(ev relay.Event, forwards []relay.Forward) relay.Delivery {
	f := first(forwards, func(f relay.Forward) bool { return f.Event.ID == ev.ID })
	if f == nil {
		return ev
	}
	out := *f
	out.Event = ev
	return out
}

// first returns the first element for which fits is true; nil if there is none.
func first[T any](all []T, fits func(T) bool) *T {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return &all[i]
	}
	return nil
}

// announce records the verdicts about an event that is stored under the ids in buffers, wakes the lanes that grew, and
// sends the answer to a control message.
func (in *Inbound) announce(j judgement, buffers []relay.BufferID) {
	j.stored(buffers)
	in.decide(j.event, j.verdicts...)
	if j.verdicts[0].Reason == gate.Duplicate {
		return // the capability belongs to the instance that got the first copy of the event
	}
	in.settle(j)
	if j.press != nil {
		in.prompts.Clear(j.press.Prompt.AnsweredBy(*j.press, time.Now()))
	}
	if j.answer.Text != "" {
		in.capabilities.Answer(j.event, j.answer, j.capability)
		if j.event.Prompt != nil { // the connector's own question
			in.prompts.ClearPressed(j.event)
		}
	}
	in.deliver(j)
	if len(j.undecided) > 0 {
		in.workers.call(j.event.Chat())
	}
}

// deliver hands the stored entries of j to their lanes, remembers which instance runs which session key from now on,
// and fetches the event's files if somebody gets the event.
func (in *Inbound) deliver(j judgement) {
	about := store.AboutOf(j.event)
	whole := in.whole(j)
	wanted := false
	for _, v := range j.verdicts {
		if v.Reason != gate.Delivered {
			continue
		}
		wanted = true
		e := store.Entry{Buffer: v.buffer, About: about, Frame: j.frame, Forward: j.forward}
		src := j.event.Source
		if src.Profile = j.profileFor(v.Instance); whole || src.Profile != "" {
			ev := j.event
			ev.Source, e.Event, e.Frame = src, &ev, nil
		}
		keys := sessionkey.Forms(src)
		if j.forward != nil {
			keys = append(keys, sessionkey.Forwarded(src)...)
		}
		in.runs.remember(v.Tenant, keys, run{v.Instance, src.ChatID, time.Now()})
		in.gateways.Deliver(v.Instance, e)
	}
	if wanted && in.keepsFilesOf(j.event) {
		in.files.Fetch(j.event.Attachments...)
	}
}

// recalled returns the verdicts as the history has them.
func (j judgement) recalled() (out []history.Verdict) {
	for _, v := range j.verdicts {
		out = append(out, history.Verdict{Instance: v.Instance, Why: string(v.Reason)})
	}
	return out
}

// profileFor returns the profile of the instance's gateway that is to answer j; empty: none is named.
func (j judgement) profileFor(i relay.InstanceID) string {
	n := slices.IndexFunc(j.to, func(r store.Recipient) bool { return r.Instance == i })
	return j.to[n].Profile
}

// stored notes in j's verdicts the ids under which j was stored, one per recipient, and corrects the verdict of an
// instance that was revoked after it was judged: that instance has received nothing.
func (j judgement) stored(buffers []relay.BufferID) {
	for n, to := range j.to {
		at := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Instance == to.Instance })
		if j.verdicts[at].buffer = buffers[n]; buffers[n].IsZero() && !to.Oversize {
			j.verdicts[at].Reason = gate.NoBinding
		}
	}
}

// decide counts and remembers verdicts about ev.
func (in *Inbound) decide(ev relay.Event, verdicts ...verdict) {
	names := store.NamesIn(ev.Source)
	for _, v := range verdicts {
		in.counters.Add(count.Event(v.Reason), 1)
		in.decisions.add(gate.Decision{
			At: time.Now(), Platform: ev.Bot.Platform, BotID: ev.Bot.ID, Event: ev.ID, Chat: ev.Source.ChatID, User: ev.Source.UserID,
			Instance: v.Instance, Reason: v.Reason, ChatType: ev.Source.ChatType,
			Person: names.Told, Handle: names.Handle,
		})
		in.log.Debug("event judged", "bot", ev.Bot.String(), "event", ev.ID, "instance", v.Instance, "reason", v.Reason)
	}
}

// bind returns the capability of a judged event, to be stored for the instance that is to receive the event; nil: there
// is none. If two instances receive the event, it is for the author's own.
func (in *Inbound) bind(j *judgement) *capability.Record {
	if j.capability == nil {
		return nil
	}
	for _, why := range []gate.Reason{gate.Delivered, gate.Undecided} {
		n := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Reason == why })
		if n < 0 {
			continue
		}
		v := j.verdicts[n]
		c := in.capabilities.Bind(*j.capability, j.event, v.Tenant, v.Instance, why == gate.Undecided)
		if c != nil {
			j.holder = c.Instance
		}
		return c
	}
	return nil
}

// settle tidies up what the network shows for a stored event that came with a capability. It removes the placeholder if
// nobody gets the event and the connector's own answer does not replace it, and the pressed buttons if somebody does. A
// prompt's buttons are removed in another way, which survives a crash.
func (in *Inbound) settle(j judgement) {
	if j.capability == nil {
		return
	}
	held := func(why gate.Reason) bool {
		return j.holder != "" && slices.ContainsFunc(j.verdicts, func(v verdict) bool { return v.Instance == j.holder && v.Reason == why })
	}
	switch {
	case held(gate.Undecided):
	case held(gate.Delivered):
		if j.press == nil && !j.capability.Placeholder {
			in.capabilities.Settle(j.event.Bot, *j.capability)
		}
	case j.answer.Text == "":
		in.capabilities.Discard(j.event.Bot, *j.capability)
	}
}

// named returns ev with a new id for each of its files, if files are kept here: the stored event names its files by
// these ids.
func (in *Inbound) named(ev relay.Event) relay.Event {
	if !in.keepsFilesOf(ev) {
		return ev
	}
	ev.Attachments = slices.Clone(ev.Attachments[:min(len(ev.Attachments), relay.MaxAttachments)])
	for n := range ev.Attachments {
		ev.Attachments[n].ID = relay.NewMediaID()
	}
	return ev
}

// keepsFilesOf reports whether ev has files that are kept.
func (in *Inbound) keepsFilesOf(ev relay.Event) bool {
	return in.files != nil && len(ev.Attachments) > 0
}

// whole reports whether the event is stored as a whole and not as a frame: either its context or its files depend on
// the moment when it is pushed, or the person forwarded it, which a frame would not show.
func (in *Inbound) whole(j judgement) bool {
	return j.context || in.keepsFilesOf(j.event) || j.event.Traits.Forwarded
}
