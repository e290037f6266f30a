package slack

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxBatch is how many envelopes are handed in at once.
	maxBatch = 100
	// clockSlack is how far messages of different channels may overtake each other, and how wrong this clock may be.
	// Messages that come twice because of it are recognised by their event ids.
	clockSlack = time.Minute
	// lastWrite bounds each of the two writes to the inbox at the end.
	lastWrite = 2 * time.Second
)

// feeder hands the items of the queue to the inbox, in order. Only it calls Accept and stores the state.
type feeder struct {
	*Bot
	in      platforms.Inbox
	queue   *queue
	catchup catchup
	left    []item // items that were not handed in when ctx ended
}

// run hands in events until ctx ends. Slack delivers those again that were not accepted by then. The result of a read
// channel comes first, then the next step of the catch-up, then new events.
func (f *feeder) run(ctx context.Context) {
	f.catchup.read = make(chan fetched, 1)
	for ctx.Err() == nil {
		n, _, changed := f.queue.look()
		pause, missing := f.catchup.pause()
		switch {
		case len(f.catchup.read) > 0:
			f.handInMissed(ctx, <-f.catchup.read)
		case missing && pause <= 0:
			f.catchUp(ctx)
		case n > 0:
			f.feed(ctx, f.queue.take(maxBatch))
		default:
			var due <-chan time.Time
			if missing {
				due = time.After(pause)
			}
			select {
			case <-changed:
			case <-due:
			case x := <-f.catchup.read:
				f.handInMissed(ctx, x)
			case <-ctx.Done():
			}
		}
	}
	if f.catchup.reading {
		<-f.catchup.read
	}
	f.handLeft(ctx)
	f.keepLast(ctx)
}

// handLeft hands in the presses and commands that wait. They are acknowledged, so Slack does not deliver them again.
func (f *feeder) handLeft(ctx context.Context) {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	all := f.left
	for _, items := range f.catchup.held { // each channel's in order
		all = append(all, items...)
	}
	for more := f.queue.take(maxQueued); len(more) > 0; more = f.queue.take(maxQueued) { // a gap comes alone
		all = append(all, more...)
	}
	var d draft
	for _, i := range all {
		if i.atOnce() {
			f.add(ctx, &d, i) // ctx has ended, so only remembered names are used: the time left is for Accept
		}
	}
	if !f.hand(soon, d) {
		f.log.Error("slack presses and commands not stored at the end; they are lost", "number", len(d.items))
	}
}

// feed hands in items from the queue. It keeps back the items of a channel that is still to be read. If items is a gap,
// which comes alone, feed begins a catch-up.
func (f *feeder) feed(ctx context.Context, items []item) {
	if items[0].gap {
		f.begin()
		f.queue.done(items)
		return
	}
	var d draft
	for _, i := range items {
		if !f.hold(i) {
			f.add(ctx, &d, i)
		}
	}
	f.hand(ctx, d)
}

// draft is a batch that is being made.
type draft struct {
	platforms.Batch
	items   []item // the items of which it is made
	presses []pressed
	seen    string // the timestamp of the newest message among them
}

// pressed is a press, and the address at which its person is told that it does not count.
type pressed struct {
	event   relay.EventID
	address relay.Secret
}

// add reads the item i into d. An item that makes no sense goes into quarantine.
func (f *feeder) add(ctx context.Context, d *draft, i item) {
	d.items = append(d.items, i)
	soon, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	err := f.read(soon, d, f.normaliser(soon), i)
	if err != nil {
		d.Undecodable = append(d.Undecodable, platforms.Undecodable{Raw: withoutCredentials(i.envelope.Payload), Err: err})
		f.log.Warn("slack event makes no sense; kept in quarantine", "err", err)
	}
}

// normaliser returns a normaliser that looks up names within ctx.
func (p *Bot) normaliser(ctx context.Context) normaliser {
	return normaliser{bot: p.bot, self: p.memory.read().Self, names: asking{p.workspace, ctx}, commands: &p.CommandNames}
}

// read reads one envelope into d; a panic counts as its error.
func (f *feeder) read(ctx context.Context, d *draft, n normaliser, i item) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("panic: " + relay.PanicWords(v))
		}
	}()
	switch i.envelope.Type {
	case kindEvents:
		return f.callback(d, n, i.envelope.Payload)
	case kindInteractive:
		press, err := decodePress(i.envelope.Payload)
		if err != nil || press == nil || !f.ours(press.App, press.Team.ID) {
			return err
		}
		for _, ev := range n.press(press, i.at) {
			f.met(ev)
			d.Events = append(d.Events, ev)
			d.presses = append(d.presses, pressed{ev.ID, relay.NewSecret([]byte(press.ResponseURL))})
		}
	case kindCommand:
		command, err := decodeCommand(i.envelope.Payload)
		if err != nil || !f.ours(command.App, command.Team) {
			return err
		}
		// Whether the chat is the person's direct chat with the bot is looked up before any name, because names may use
		// up the time. The bot is not in the direct messages of two people.
		between := direct(command.Channel) && !f.isDirect(ctx, relay.ChatID(command.Channel), relay.UserID(command.User))
		ev, capability := n.command(command, i.envelope.ID, i.at)
		if between {
			ev.Source.ChatType, ev.Source.ChatName = relay.ChatGroup, command.Channel
		}
		f.met(ev)
		d.Events = append(d.Events, ev)
		if capability != nil {
			d.Capabilities = append(d.Capabilities, *capability)
		}
	}
	return nil
}

// ours reports whether an event is for this app in its workspace. An app that is installed in several workspaces gets
// the events of all; the bot's token is for one.
func (f *feeder) ours(app, team string) bool {
	self := f.memory.read().Self
	if app != "" && app != string(f.bot.ID) || team != "" && team != self.Team {
		f.log.Warn("slack event left out: it is for another app, or from another workspace", "app", app, "workspace", team)
		return false
	}
	return true
}

// callback reads an event into d: a message, or a change of who sees a channel.
func (f *feeder) callback(d *draft, n normaliser, payload []byte) error {
	var c callback
	if err := httpcall.Decode(payload, &c); err != nil {
		return err
	}
	if !f.ours(c.App, c.team()) {
		return nil
	}
	e, err := decodeEvent(c.Event)
	if err != nil {
		return err
	}
	scope := relay.ScopeID(n.self.Team)
	change := platforms.RosterChange{Scope: scope, Chat: relay.ChatID(e.Channel), User: relay.UserID(e.User)}
	switch e.Type {
	case "message", "app_mention": // for a mention Slack sends both; they have the same event id
		return f.message(d, n, &e.messageData)
	case "member_joined_channel", "member_left_channel":
		if string(change.User) == n.self.User {
			change.User = ""
		}
		f.forget(e.Channel)
	case "user_change", "team_join":
		change.Chat = ""
		f.forget(e.User)
	case "channel_left", "group_left", "channel_archive", "channel_unarchive", "channel_deleted", "channel_shared", "channel_unshared",
		"channel_rename", "group_rename", "group_archive", "group_unarchive", "group_deleted":
		change.User = ""
		f.forget(e.Channel)
	default:
		return nil
	}
	d.Roster = append(d.Roster, change)
	return nil
}

// message reads a message into d, if somebody wrote it.
func (f *feeder) message(d *draft, n normaliser, m *messageData) error {
	if !m.said() {
		return nil
	}
	if err := m.check(); err != nil {
		return err
	}
	root := talk{m.Channel, threadAt(m)}
	talked := m.thread() != "" && f.memory.takesPart(root)
	ev := n.message(m, talked)
	if ev.Traits.Own && m.thread() != "" || n.mentioned(m) {
		f.memory.joins(root)
	}
	f.met(ev)
	d.Events = append(d.Events, ev)
	d.seen = later(d.seen, m.TS)
	return nil
}

// threadAt returns the root of the thread that m is in or may begin.
func threadAt(m *messageData) string {
	if t := m.thread(); t != "" {
		return t
	}
	return m.TS
}

// met remembers the person of a direct chat.
func (f *feeder) met(ev relay.Event) {
	if ev.Source.ChatType == relay.ChatDM && !ev.Traits.Own && !ev.Traits.AuthorIsBot { // Slackbot may write there, too
		f.workspace.met(ev.Source.ChatID, ev.Source.UserID)
	}
}

// hand hands in d, again and again until the inbox accepts it, and only then acknowledges d's envelopes. It returns
// false if ctx ended first.
func (f *feeder) hand(ctx context.Context, d draft) bool {
	seen := d.seen
	advance := func(s *state) { s.Seen = later(s.Seen, seen) }
	if len(d.Events)+len(d.Undecodable)+len(d.Roster) > 0 {
		d.Refused = f.refused(d.presses)
		// The bot's own messages and changes of the roster alone are not worth a write of the state.
		store := len(d.Undecodable) > 0 || slices.ContainsFunc(d.Events, func(ev relay.Event) bool { return !ev.Traits.Own })
		retry := f.retries()
		accepted := retry.Keep(ctx, func() error {
			if store {
				d.Cursor = f.memory.blob(advance)
			}
			if err := f.in.Accept(ctx, d.Batch); err != nil {
				return err
			}
			f.status.SetStuck("")
			return nil
		}, func(err error, in time.Duration) {
			f.status.SetStuck("what Slack sent cannot be stored; it is kept in memory, and by Slack")
			f.log.Warn("slack events not stored; trying again", "events", len(d.Events), "in", in, "err", err)
		})
		if !accepted {
			f.left = append(f.left, d.items...)
			return false
		}
		if store {
			f.memory.stored(advance)
			d.seen = ""
		}
	}
	if d.seen != "" {
		f.memory.change(advance) // it is stored with the next batch
	}
	for _, i := range d.items {
		if !i.atOnce() {
			i.envelope.Ack(context.WithoutCancel(ctx)) // it is stored, even if this is the end
		}
	}
	f.queue.done(d.items)
	return true
}

// atOnce reports whether the envelope is acknowledged before it is stored, because otherwise Slack would show its
// person a fault.
func (i item) atOnce() bool {
	return i.envelope.Type == kindInteractive || i.envelope.Type == kindCommand
}

// keepLast stores the changes that were not worth a write of their own.
func (f *feeder) keepLast(ctx context.Context) {
	raw := f.memory.unsaved()
	if raw == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	if err := f.in.Accept(ctx, platforms.Batch{Cursor: raw, Save: true}); err != nil {
		f.log.Warn("slack state not stored at the end; what Slack repeats is recognised", "err", err)
	}
}

// retries returns the pauses between attempts.
func (p *Bot) retries() backoff.Backoff {
	return backoff.Backoff{First: p.opts.Duration(keyRetryWait), Max: p.opts.Duration(keyRetryMax)}
}
