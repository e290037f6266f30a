package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// prefix begins every name of ours.
const prefix = "hermes_connector_"

// snapshot is what one scrape shows.
type snapshot struct {
	at       time.Time
	counters map[string]uint64
	bots     []bot
	status   *manage.Status // nil: the store could not be read
	stats    store.Stats
}

type bot struct {
	id     relay.Bot
	status platforms.Status
}

// The metrics. What the hub counts under other names has a counter of that name. Never changed.
var (
	events  = counter(prefix+"events_total", "Events by what became of them, per instance that could receive them.", "reason")
	actions = counter(prefix+"actions_total", "Actions that gateways asked for, by their outcome.", "outcome")
	wakes   = counter(prefix+"wake_pokes_total", "Requests to wake URLs, by their result.", "result")

	buildInfo = gauge(prefix+"build_info", "Always 1; the label says which version runs.", "version")
	ready     = gauge(prefix+"ready", "1 if the store takes writes and every bot's updates flow.")
	readable  = gauge(prefix+"store_readable", "1 if the instances could be read for this scrape.")

	botState = gauge(prefix+"bot_state", "1 for the state a bot's connection is in, 0 for the others.", "platform", "bot_id", "state")
	botAge   = gauge(prefix+"bot_last_event_age_seconds", "Time since the network last sent an event; absent until the first.", "platform", "bot_id")

	instState   = gauge(prefix+"instance_state", "1 for the state an instance is in, 0 for the others.", "tenant", "instance_id", "state")
	instBacklog = gauge(prefix+"instance_backlog_entries", "Entries that wait in an instance's buffer, not acknowledged.", "tenant", "instance_id")
	instOldest  = gauge(prefix+"instance_oldest_entry_age_seconds", "Age of the oldest entry that waits; 0 when none does.", "tenant", "instance_id")
	instDead    = gauge(prefix+"instance_dead_letters", "Dead letters of an instance.", "tenant", "instance_id")
	instSeen    = gauge(prefix+"instance_last_seen_age_seconds", "Time since a gateway of the instance last came or went; absent until the first.", "tenant", "instance_id")
	instWarning = gauge(prefix+"instance_warning", "1 while an operator should look at an instance, for the reason the label names.", "tenant", "instance_id", "warning")

	commits  = counter(prefix+"store_commits_total", "Transactions committed, each with a sync.")
	ops      = counter(prefix+"store_operations_total", "Writes, of which a transaction carries many.")
	died     = counter(prefix+"store_dead_letters_total", "Messages that became dead letters, by reason.", "reason")
	dropped  = counter(prefix+"store_dead_letters_dropped_total", "Dead letters dropped because an instance had too many.")
	badMarks = counter(prefix+"store_bad_marks_total", "Damaged marks of events seen; none was believed.")
	size     = gauge(prefix+"store_file_bytes", "Size of the database file.")
	fellBack = gauge(prefix+"store_fell_back", "1 if the newest commit was unreadable when the database was opened.")
	damaged  = gauge(prefix+"store_damaged_records", "Records found damaged when the database was opened.")
)

// groups are the names in the hub's totals that become one counter with a label, by how they begin.
var groups = []struct {
	start  string
	family family
}{{"event_", events}, {"action_", actions}, {"wake_", wakes}}

var (
	botStates  = []platforms.State{platforms.Starting, platforms.Connecting, platforms.Connected, platforms.Degraded, platforms.BadCredentials, platforms.Stopped}
	instStates = []manage.State{manage.Connected, manage.Asleep, manage.Away}
)

// show puts everything on the page.
func (s *snapshot) show(p page) {
	s.totals(p)
	for _, b := range s.bots {
		platform, id := string(b.id.Platform), string(b.id.ID)
		for _, state := range botStates {
			p.add(botState, flag(b.status.State == state), platform, id, string(state))
		}
		if !b.status.LastEventAt.IsZero() {
			p.add(botAge, s.age(b.status.LastEventAt), platform, id)
		}
	}
	p.add(readable, flag(s.status != nil))
	p.add(ready, flag(s.status != nil && s.status.Ready))
	if s.status != nil {
		p.add(buildInfo, 1, s.status.Version)
		for _, i := range s.status.Instances {
			s.instance(p, i)
		}
	}
	p.add(commits, float64(s.stats.Commits))
	p.add(ops, float64(s.stats.Ops))
	for _, why := range slices.Sorted(maps.Keys(s.stats.Died)) {
		p.add(died, float64(s.stats.Died[why]), string(why))
	}
	p.add(dropped, float64(s.stats.DeadDropped))
	p.add(badMarks, float64(s.stats.BadMarks))
	p.add(size, float64(s.stats.FileBytes))
	p.add(fellBack, flag(s.stats.FellBack))
	p.add(damaged, float64(s.stats.Damaged))
}

// totals are the hub's counters.
func (s *snapshot) totals(p page) {
next:
	for _, name := range slices.Sorted(maps.Keys(s.counters)) {
		n := float64(s.counters[name])
		for _, g := range groups {
			if word, ok := strings.CutPrefix(name, g.start); ok {
				p.add(g.family, n, word)
				continue next
			}
		}
		p.add(counter(prefix+name+"_total", "Total of "+strings.ReplaceAll(name, "_", " ")+" since the start."), n)
	}
}

func (s *snapshot) instance(p page, i manage.InstanceStatus) {
	tenant, id := string(i.Tenant), string(i.ID)
	for _, state := range instStates {
		p.add(instState, flag(i.State == state), tenant, id, string(state))
	}
	p.add(instBacklog, float64(i.Backlog), tenant, id)
	oldest := 0.0
	if !i.OldestAt.IsZero() {
		oldest = s.age(i.OldestAt)
	}
	p.add(instOldest, oldest, tenant, id)
	p.add(instDead, float64(i.Dead), tenant, id)
	if !i.LastSeenAt.IsZero() {
		p.add(instSeen, s.age(i.LastSeenAt), tenant, id)
	}
	if i.Warning != "" {
		p.add(instWarning, 1, tenant, id, i.Warning)
	}
}

// age is in seconds, and not negative when a clock was set back.
func (s *snapshot) age(since time.Time) float64 { return max(0, s.at.Sub(since).Seconds()) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
