package inbound

import (
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	// toldFor is how long a program's message to a silent person is remembered.
	toldFor = 24 * time.Hour
	// maxReaders is for how many people such messages are remembered.
	maxReaders = 512
)

// Told remembers, in memory only, what programs told people in direct messages, for the instance in whose name they
// did: the person's next message brings that as context. The zero value is ready. Its methods may be called from any
// goroutine.
type Told struct {
	mu     sync.Mutex // guards the field below
	people map[reader][]remark
}

// reader is a person in their direct messages with a bot, and the instance to which they talk there.
type reader struct {
	instance relay.InstanceID
	bot      relay.Bot
	user     relay.UserID
}

// remark is something that a person was told.
type remark struct {
	at   time.Time
	line relay.ContextLine
	with relay.EventID // the newest message that brought it; empty: none
}

// Add remembers what a program told a person through b, in the name of their linked instance. It forgets remarks that
// are too old, the person who has been silent for longest if there are too many people, and the first remarks if there
// are more than one message brings.
func (d *Told) Add(to store.Binding, b relay.Bot, program, text string, now time.Time) {
	r := reader{to.Instance, b, to.User}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.people == nil {
		d.people = make(map[reader][]remark)
	}
	var longest reader // the person who has been silent for longest
	for o, all := range d.people {
		all = slices.DeleteFunc(all, func(m remark) bool { return now.Sub(m.at) > toldFor })
		if d.people[o] = all; len(all) == 0 {
			delete(d.people, o)
		} else if first := d.people[longest]; len(first) == 0 || all[0].at.Before(first[0].at) {
			longest = o
		}
	}
	if len(d.people[r]) == 0 && len(d.people) >= maxReaders {
		delete(d.people, longest)
	}
	all := append(d.people[r], remark{at: now, line: relay.ContextLine{UserName: program, Text: text}})
	d.people[r] = slices.Delete(all, 0, broughtFrom(len(all), func(n int) relay.ContextLine { return all[n].line }))
}

// any reports whether something that the person was told is still remembered.
func (d *Told) any(r reader) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.people[r]) > 0
}

// bring returns the context for the message with that id, which is about to be pushed, and notes that the message
// brings it.
func (d *Told) bring(r reader, with relay.EventID, now time.Time) (lines []relay.ContextLine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.people[r] {
		if m := &d.people[r][n]; now.Sub(m.at) <= toldFor {
			m.with = with
			lines = append(lines, m.line)
		}
	}
	return lines
}

// Taken forgets the context of an event that the instance's gateway acknowledged.
func (d *Told) Taken(i relay.InstanceID, of store.About) {
	r := reader{i, of.Bot, of.User}
	d.mu.Lock()
	defer d.mu.Unlock()
	if all, there := d.people[r]; there {
		if all = slices.DeleteFunc(all, func(m remark) bool { return m.with == of.ID }); len(all) == 0 {
			delete(d.people, r)
			return
		}
		d.people[r] = all
	}
}

// Forget forgets what a person was told in the name of an instance.
func (d *Told) Forget(i relay.InstanceID, p relay.PlatformID, u relay.UserID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.people {
		if r.instance == i && r.bot.Platform == p && r.user == u {
			delete(d.people, r)
		}
	}
}
