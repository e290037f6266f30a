package manage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// observer sees how everything is, and what is wrong.
type observer struct {
	directory
	*surroundings
	auth *token.Authority
}

// Status is the connector at one moment.
type Status struct {
	Version   string            `json:"version"`
	Ready     bool              `json:"ready"`
	Running   bool              `json:"running"` // a server answered
	Bots      []BotStatus       `json:"bots"`
	Instances []InstanceStatus  `json:"instances"`
	Counters  map[string]uint64 `json:"counters"`
	Media     *media.Stats      `json:"media,omitempty"` // nil: no server runs
	// Warnings are what the operator should know about the database and its copies, in words.
	Warnings []string `json:"warnings,omitempty"`
	// Findings are what is wrong, the worst first; those of doctor that cost little.
	Findings finding.List `json:"findings,omitempty"`
}

// BotStatus is one bot's connection.
type BotStatus struct {
	Platform    relay.PlatformID `json:"platform"`
	ID          relay.BotID      `json:"botId"`
	Name        string           `json:"name"` // empty until known
	State       platforms.State  `json:"state"`
	Reason      string           `json:"reason,omitempty"`
	LastEventAt time.Time        `json:"lastEventAt,omitzero"`
	Since       time.Time        `json:"since,omitzero"`     // when the state became what it is
	RetryAt     time.Time        `json:"retryAt,omitzero"`   // when the connection is tried again
	Hook        *HookStatus      `json:"hook,omitempty"`     // nil: no network calls it over HTTP
	Warnings    []string         `json:"warnings,omitempty"` // what is wrong with its network's calls, in sentences
}

// InstanceStatus is one agent's connection and buffer.
type InstanceStatus struct {
	ID         relay.InstanceID `json:"instanceId"`
	Tenant     relay.TenantID   `json:"tenant"`
	State      State            `json:"state"`
	Revoked    bool             `json:"revoked,omitempty"` // nobody can connect: all its gateways are revoked
	Backlog    int              `json:"backlog"`           // entries not acknowledged
	OldestAt   time.Time        `json:"oldestAt,omitzero"`
	Dead       int              `json:"dead"`    // dead letters
	Prompts    int              `json:"prompts"` // questions with buttons that nobody has answered yet
	LastSeenAt time.Time        `json:"lastSeenAt,omitzero"`
	RefusedAt  time.Time        `json:"refusedAt,omitzero"` // when somebody dialled as its gateway in vain, and that one has not come since
	Warning    string           `json:"warning,omitempty"`  // "copied_credential", "not_fronted", "media_not_fetched" or "unusable_wake_url"
	Warnings   []string         `json:"warnings,omitempty"` // what is wrong, and what to do about it, in sentences
	Poke       *wake.Poke       `json:"poke,omitempty"`     // how the newest wake poke went; nil: none since the start
}

// Status looks at bots and instances. Instances whose gateways are all revoked appear only while
// their buffers hold something.
func (s *observer) Status(ctx context.Context, _ struct{}) (Status, error) {
	return s.status(ctx, false)
}

// status is Status. afresh: what is known of the machine from a moment ago is not enough.
func (s *observer) status(ctx context.Context, afresh bool) (Status, error) {
	out := Status{
		Version: s.set.Version, Running: s.live != nil,
		Bots: []BotStatus{}, Instances: []InstanceStatus{}, Counters: map[string]uint64{},
	}
	for _, p := range s.bots() {
		bot := p.Bot()
		b := BotStatus{Platform: bot.Platform, ID: bot.ID, State: platforms.Stopped}
		if s.live != nil {
			st := p.Status()
			b.Name, b.State, b.Reason, b.LastEventAt = st.Name, st.State, st.Reason, st.LastEventAt.UTC()
			b.Since, b.RetryAt = st.Since.UTC(), st.RetryAt.UTC()
		}
		s.called(&b, p)
		out.Bots = append(out.Bots, b)
	}
	live, err := s.liveGateways(ctx)
	if err != nil {
		return Status{}, err
	}
	all, err := s.db.Instances(ctx)
	if err != nil {
		return Status{}, err
	}
	var served []store.Instance
	for _, i := range all {
		st, err := s.statusOf(ctx, i, live[i.ID], &out.Findings)
		if err != nil {
			return Status{}, err
		}
		if st != nil {
			out.Instances = append(out.Instances, *st)
		}
		if live[i.ID] {
			served = append(served, i)
		}
	}
	if s.set.Files != nil {
		files := s.set.Files.Stats()
		out.Media = &files
	}
	if s.live != nil {
		out.Ready = s.live.Ready()
		out.Counters = s.live.Counters()
	}
	if err := s.findings(ctx, &out, served, afresh); err != nil {
		return Status{}, err
	}
	return out, nil
}

// statusOf is how an instance is; nil: it has no gateway, and nothing that waits. live: it has one. What is wrong with
// what it was given is added to found.
func (s *observer) statusOf(ctx context.Context, i store.Instance, live bool, found *finding.List) (*InstanceStatus, error) {
	lane, err := s.db.Lanes.State(ctx, i.ID)
	if err != nil || !live && lane.Entries == 0 && lane.Dead == 0 {
		return nil, err
	}
	st := &InstanceStatus{
		ID: i.ID, Tenant: i.Tenant, State: s.state(i), Backlog: lane.Entries,
		OldestAt: lane.OldestAt.UTC(), Dead: lane.Dead, LastSeenAt: i.LastSeenAt.UTC(), Warnings: warnings(i), Revoked: !live,
	}
	*found = append(*found, ofRoom(*st, lane, s.db.Lanes.Limits())...)
	if s.set.Poke != nil {
		st.Poke = s.set.Poke(i.ID)
	}
	if st.Prompts, err = s.db.Prompts.Count(ctx, i.ID); err != nil {
		return nil, err
	}
	if err := s.waits(ctx, st, found); err != nil {
		return nil, err
	}
	if s.set.Files != nil && s.set.Files.NotFetched(i.ID) && s.mayFetch(ctx, i.ID) {
		st.Warning = cmp.Or(st.Warning, "media_not_fetched")
		st.Warnings = append(st.Warnings, s.notFetched())
		found.Add(finding.FilesUnfetched, "gateway "+string(i.ID), "it took many messages with files and fetched none of them", s.howFetched())
	}
	if i.WakeFault != "" {
		found.Add(finding.WakeUnusable, "gateway "+string(i.ID), i.WakeFault, "name a usable wake URL in the gateway's .env and start it again")
	}
	if st.Warning == "" && i.WakeFault != "" {
		st.Warning = "unusable_wake_url"
	}
	return st, nil
}

// waits warns of what waits, or will, because no socket fronts its bot. Only the running server knows.
func (s *observer) waits(ctx context.Context, st *InstanceStatus, found *finding.List) error {
	if s.live == nil {
		return nil
	}
	if st.Warning = s.live.Warning(st.ID); st.Warning == "copied_credential" {
		st.Warnings = append(st.Warnings, "two programs dial with its credential and push each other out: "+copied(st.ID))
	}
	_, bots, err := s.stuck(ctx, st.ID)
	if err != nil {
		return err
	}
	if len(bots) > 0 {
		st.Warning = cmp.Or(st.Warning, warnNotFronted)
		st.Warnings = append(st.Warnings, "messages of "+names(bots)+" wait: "+s.frontLine(bots...))
		found.Add(finding.NotFronted, "gateway "+string(st.ID), "messages of "+names(bots)+" wait", s.frontLine(bots...))
	}
	silent, err := s.silent(ctx, st.ID, bots)
	if err != nil {
		return err
	}
	if len(silent) > 0 {
		st.Warning = cmp.Or(st.Warning, warnNotFronted)
		st.Warnings = append(st.Warnings, "people on "+names(silent)+" are bound to "+string(st.ID)+", and what they write will wait: "+s.frontLine(silent...))
		found.Add(finding.NotFronted, "gateway "+string(st.ID), "people on "+names(silent)+" are bound to it, and it does not serve that bot", s.frontLine(silent...))
	}
	return nil
}

// warnings are what an operator should know about an instance, in sentences.
func warnings(i store.Instance) []string {
	if i.WakeFault == "" {
		return nil
	}
	return []string{i.WakeFault}
}

// warnNotFronted is an instance's warning while messages wait that its gateway could not answer.
const warnNotFronted = "not_fronted"

// stuck are the events that wait because the instance's gateway does not front their bots, and those bots.
func (s *observer) stuck(ctx context.Context, i relay.InstanceID) (map[relay.EventID]relay.Bot, []relay.Bot, error) {
	unfronted := s.live.Unfronted(i)
	if len(unfronted) == 0 {
		return nil, nil, nil
	}
	entries, err := s.db.Lanes.Entries(ctx, i, store.EntryFilter{})
	if err != nil {
		return nil, nil, err
	}
	events := make(map[relay.EventID]relay.Bot)
	var bots []relay.Bot
	for _, e := range entries {
		if !slices.Contains(unfronted, e.About.Bot) {
			continue
		}
		events[e.About.ID] = e.About.Bot
		if !slices.Contains(bots, e.About.Bot) {
			bots = append(bots, e.About.Bot)
		}
	}
	return events, bots, nil
}

// names are bots as people read them.
func names(bots []relay.Bot) string { return strings.Join(each(bots, relay.Bot.String), ", ") }
