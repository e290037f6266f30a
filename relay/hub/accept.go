package hub

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
)

// inbox is the door of one bot.
type inbox struct {
	hub *Hub
	bot relay.Bot
}

var _ platforms.Inbox = (*inbox)(nil)

func (in *inbox) Cursor(ctx context.Context) ([]byte, error) {
	return in.hub.db.Cursor(ctx, in.bot)
}

// Accept judges every event of b, stores what is admitted in one transaction, and only then wakes
// the lanes and answers control messages.
func (in *inbox) Accept(ctx context.Context, b platforms.Batch) error {
	h := in.hub
	h.facts.Visible.Forget(in.bot, b.Roster)
	for _, m := range b.Moves {
		if err := h.db.MoveChat(ctx, store.Move{Platform: in.bot.Platform, From: m.From, To: m.To}); err != nil {
			return fmt.Errorf("move chat: %w", err)
		}
	}

	a := store.Accept{Bot: in.bot, Cursor: b.Cursor, Save: b.Save}
	for _, u := range b.Undecodable {
		a.Quarantine = append(a.Quarantine, store.Quarantined{Bot: in.bot, At: time.Now(), Err: u.Err.Error(), Raw: u.Raw})
	}
	judged := make([]judgement, 0, len(b.Events))
	for _, ev := range b.Events {
		ev = h.named(ev)
		j, err := h.judge(ctx, ev, judged)
		if err != nil {
			h.decide(ev, verdict{Reason: gate.StoreError})
			return fmt.Errorf("judge event: %w", err)
		}
		h.interruptFor(j)
		h.tell(j, b.Refused, b.Undecided)
		if j.ofOwner && len(b.Roster) == 0 { // otherwise he may have been thrown out since
			h.facts.Visible.Observe(visibility.Of{Bot: ev.Bot, Place: ev.Source.Place(), User: ev.Source.UserID}, ev.At)
		}
		j.came = cameWith(ev.ID, b.Capabilities)
		if j.consumed {
			d := deliveryOf(j.event, b.Forwards)
			j.pack(d)
			a.Items = append(a.Items, store.AcceptItem{
				Delivery: d, Frame: j.frame, Forward: j.forward, Whole: h.whole(j), To: j.to, Undecided: j.undecided, Press: j.press,
				Capability: h.bind(&j),
			})
		}
		judged = append(judged, j)
	}
	items := a.Items
	a.Items = append(items, toldItems(in.bot, judged)...)
	out, err := h.db.Accept(ctx, a)
	if err != nil {
		for _, item := range items {
			h.decide(item.Delivery.About(), verdict{Reason: gate.StoreError})
		}
		return fmt.Errorf("store batch: %w", err)
	}
	h.counters.Add(count.Quarantined, uint64(len(b.Undecodable)))
	h.noteLost(out)
	h.announceAll(judged, out.Items, b)
	runtime.Gosched() // the pumps go first: otherwise the platform's next request holds up what came
	for _, m := range b.Moves {
		h.judges.call(relay.Chat{Bot: in.bot, ID: m.To}) // what was undecided went along
	}
	return nil
}

// announceAll says what became of a batch's events. stored has one for each that was consumed, and then those of marks.
func (h *Hub) announceAll(judged []judgement, stored []store.ItemOutcome, b platforms.Batch) {
	for _, j := range judged {
		switch {
		case !j.consumed:
			h.announce(j, nil)
			continue
		case stored[0].Duplicate:
			h.decide(j.event, verdict{Reason: gate.Duplicate})
		case stored[0].Late:
			j.late()
			h.tell(j, b.Refused, b.Undecided)
			h.announce(j, nil)
		default:
			h.announce(j, stored[0].Buffers)
		}
		stored = stored[1:]
	}
}

// noteLost counts and logs what left a full buffer, and takes away the placeholders of capabilities that had to go.
func (h *Hub) noteLost(out store.AcceptOutcome) {
	for inst, n := range out.Overflowed {
		h.counters.Add(count.Overflowed, uint64(n))
		h.log.Warn("buffer full; the oldest entries became dead letters", "instance", inst, "entries", n)
	}
	h.discardLost(out.Lost)
}

// deliveryOf is what is kept of an event: the forward that stands for it, if there is one.
func deliveryOf(ev relay.Event, forwards []relay.Forward) relay.Delivery {
	i := slices.IndexFunc(forwards, func(f relay.Forward) bool { return f.Event.ID == ev.ID })
	if i < 0 {
		return ev
	}
	f := forwards[i]
	f.Event = ev
	return f
}

// cameWith is the capability that came in the event; nil: none.
func cameWith(ev relay.EventID, caps []platforms.Capability) *platforms.Capability {
	i := slices.IndexFunc(caps, func(c platforms.Capability) bool { return c.Event == ev })
	if i < 0 {
		return nil
	}
	return &caps[i]
}

// announce records the verdicts about an event that is stored under those ids, wakes the lanes that grew, and puts
// the answer to a control message on its way.
func (h *Hub) announce(j judgement, buffers []relay.BufferID) {
	j.stored(buffers)
	h.decide(j.event, j.verdicts...)
	if j.verdicts[0].Reason == gate.Duplicate {
		return // what it came with belongs to whom its first copy was for
	}
	h.settle(j)
	h.clearAnswered(j)
	if j.answer != "" {
		h.answer(j.event, j.answer, j.came)
	}
	h.deliver(j)
	if j.undecided != "" {
		h.judges.call(j.event.Chat())
	}
}

// deliver gives what was stored of j to the lanes it was appended to, and tells the bus.
func (h *Hub) deliver(j judgement) {
	about := store.AboutOf(j.event)
	whole := h.whole(j)
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
		h.runs.remember(v.Tenant, keys, run{v.Instance, src.ChatID, time.Now()})
		h.lane(v.Instance).Appended(e)
		h.bus.Publish(bus.LaneGrew{Instance: v.Instance, Seq: v.buffer.Seq})
	}
	if wanted && h.keepsFilesOf(j.event) {
		h.opts.Files.Fetch(j.event.Attachments...)
	}
}

// profileFor is the profile that the instance gets j for.
func (j judgement) profileFor(i relay.InstanceID) string {
	n := slices.IndexFunc(j.to, func(r store.Recipient) bool { return r.Instance == i })
	return j.to[n].Profile
}

// stored notes under which ids j was stored, one per recipient, and corrects the verdict of an instance that was
// revoked after it was judged, which has received nothing.
func (j judgement) stored(buffers []relay.BufferID) {
	for n, to := range j.to {
		at := slices.IndexFunc(j.verdicts, func(v verdict) bool { return v.Instance == to.Instance })
		if j.verdicts[at].buffer = buffers[n]; buffers[n].IsZero() && !to.Oversize {
			j.verdicts[at].Reason = gate.NoBinding
		}
	}
}

// decide counts and remembers verdicts about ev.
func (h *Hub) decide(ev relay.Event, verdicts ...verdict) {
	for _, v := range verdicts {
		h.counters.Add(count.Event(v.Reason), 1)
		h.decisions.add(gate.Decision{
			At: time.Now(), Platform: ev.Bot.Platform, BotID: ev.Bot.ID, Event: ev.ID, Chat: ev.Source.ChatID, User: ev.Source.UserID,
			Instance: v.Instance, Reason: v.Reason, ChatType: ev.Source.ChatType,
		})
		h.log.Debug("event judged", "bot", ev.Bot.String(), "event", ev.ID, "instance", v.Instance, "reason", v.Reason)
	}
}
