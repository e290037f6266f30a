package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// prefix begins the names of our metrics.
const prefix = "hermes_connector_"

// groups lists name prefixes of the hub's totals; the totals of one prefix become one counter with a label.
var groups = []struct {
	start  string
	family family
}{
	{"event_", counter(prefix+"events_total",
		"Events by what became of them, once for each instance that could receive them.", "reason")},
	{"action_", counter(prefix+"actions_total", "Actions that gateways asked for, by their outcome.", "outcome")},
	{"media_", counter(prefix+"media_total", "Files by what became of them.", "result")},
	{"wake_", counter(prefix+"wake_pokes_total", "Requests to wake URLs, by their result.", "result")},
}

var (
	botStates = []platforms.State{platforms.Starting, platforms.Connecting, platforms.Connected,
		platforms.Degraded, platforms.BadCredentials, platforms.Stopped}
	instStates = []manage.State{manage.Connected, manage.Asleep, manage.Away}
)

// show puts all our metrics on the page.
func (m *Metrics) show(ctx context.Context, p page) {
	totals(p, m.live.Counters())
	for _, b := range m.live.Bots() {
		showBot(p, b)
	}
	showStore(p, m.db.Stats())
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	status, err := m.service.Status(ctx, struct{}{})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the instances could not be read and are missing from the metrics", "err", err)
	}
	p.add(gauge(prefix+"store_readable", "1 if the instances could be read for this scrape."), flag(err == nil))
	p.add(gauge(prefix+"ready", "1 if the store takes writes and every bot's updates flow."), flag(err == nil && status.Ready))
	if err != nil {
		return
	}
	p.add(gauge(prefix+"build_info", "Always 1; the label says which version runs.", "version"), 1, status.Version)
	if f := status.Media; f != nil {
		p.add(gauge(prefix+"media_files", "Files that are kept."), float64(f.Files))
		p.add(gauge(prefix+"media_bytes", "Bytes of the files that are kept."), float64(f.Bytes))
		p.add(gauge(prefix+"media_pending", "Files that are still to be fetched."), float64(f.Pending))
	}
	for _, b := range status.Bots {
		if w := b.Answers; w != nil {
			p.add(gauge(prefix+"bot_oldest_answer_age_seconds", "Seconds that the oldest answer has waited for a bot's network; absent when none waits.",
				"platform", "bot_id"), age(w.OldestAt), string(b.Platform), string(b.ID))
		}
	}
	for _, i := range status.Instances {
		showInstance(p, i)
	}
}

// totals shows the hub's counters. A counter that belongs to no group has a metric of its own name.
func totals(p page, counters map[string]uint64) {
next:
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		n := float64(counters[name])
		for _, g := range groups {
			if word, ok := strings.CutPrefix(name, g.start); ok {
				p.add(g.family, n, word)
				continue next
			}
		}
		p.add(counter(prefix+name+"_total", "Counts "+count.Help(name)+"."), n)
	}
}

func showBot(p page, b platforms.Bot) {
	status, platform, id := b.Status(), string(b.ID().Platform), string(b.ID().ID)
	for _, state := range botStates {
		p.add(gauge(prefix+"bot_state",
			"1 for the state a bot's connection is in, 0 for the others.", "platform", "bot_id", "state"),
			flag(status.State == state), platform, id, string(state))
	}
	if !status.LastEventAt.IsZero() {
		p.add(gauge(prefix+"bot_last_event_age_seconds",
			"Seconds since the network last sent an event; absent until the first.", "platform", "bot_id"),
			age(status.LastEventAt), platform, id)
	}
}

func showStore(p page, s store.Stats) {
	p.add(counter(prefix+"store_commits_total", "Transactions that were committed, each with a sync."), float64(s.Commits))
	p.add(counter(prefix+"store_operations_total", "Writes that were made; a transaction carries many."), float64(s.Ops))
	for _, why := range slices.Sorted(maps.Keys(s.Died)) {
		p.add(counter(prefix+"store_dead_letters_total", "Messages that became dead letters, by reason.", "reason"),
			float64(s.Died[why]), string(why))
	}
	p.add(counter(prefix+"store_dead_letters_dropped_total", "Dead letters that were dropped because an instance had too many."),
		float64(s.DeadDropped))
	p.add(counter(prefix+"store_bad_marks_total", "Marks of seen events that were damaged and not believed."), float64(s.BadMarks))
	p.add(gauge(prefix+"store_file_bytes", "Bytes of the database file."), float64(s.FileBytes))
	p.add(gauge(prefix+"store_fell_back", "1 if the newest commit was unreadable when the database was opened."),
		flag(s.FellBack))
	p.add(gauge(prefix+"store_damaged_records", "Records that were damaged when the database was opened."), float64(s.Damaged))
}

func showInstance(p page, i manage.InstanceStatus) {
	add := func(name, help string, value float64) {
		p.add(gauge(prefix+name, help, "tenant", "instance_id"), value, string(i.Tenant), string(i.ID))
	}
	for _, state := range instStates {
		p.add(gauge(prefix+"instance_state",
			"1 for the state an instance is in, 0 for the others.", "tenant", "instance_id", "state"),
			flag(i.State == state), string(i.Tenant), string(i.ID), string(state))
	}
	oldest := 0.0
	if !i.OldestAt.IsZero() {
		oldest = age(i.OldestAt)
	}
	add("instance_backlog_entries", "Entries in an instance's buffer that are not acknowledged.", float64(i.Backlog))
	add("instance_oldest_entry_age_seconds", "Seconds that the oldest entry has waited; 0 when none waits.", oldest)
	add("instance_dead_letters", "Dead letters of an instance.", float64(i.Dead))
	add("instance_waiting_answers", "Answers of an instance that wait for a network.", float64(i.Answers))
	if !i.LastSeenAt.IsZero() {
		add("instance_last_seen_age_seconds", "Seconds since a gateway of the instance last connected or left; absent until the first.",
			age(i.LastSeenAt))
	}
	for _, n := range i.Notes {
		p.add(gauge(prefix+"instance_note",
			"1 while messages for an instance wait because somebody wants it so, as the label says.", "tenant", "instance_id", "note"),
			1, string(i.Tenant), string(i.ID), n.Word)
	}
	if i.Warning != "" {
		p.add(gauge(prefix+"instance_warning",
			"1 while an operator should look at an instance, for the reason that the label names.", "tenant", "instance_id", "warning"),
			1, string(i.Tenant), string(i.ID), i.Warning)
	}
}

// age returns an age in seconds, never negative, even if a clock was set back.
func age(since time.Time) float64 { return max(0, time.Since(since).Seconds()) }

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
