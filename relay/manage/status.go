package manage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// observer knows the state of everything, and the faults.
type observer struct {
	directory
	*surroundings
	auth    *token.Authority
	answers *answers
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
	// Warnings are sentences for the operator about the database and its copies.
	Warnings []string `json:"warnings,omitempty"`
	// Findings are the faults, the worst first: those of doctor's checks that are cheap.
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
	Since       time.Time        `json:"since,omitzero"`     // when the state began
	RetryAt     time.Time        `json:"retryAt,omitzero"`   // when the connection is tried again
	Hook        *HookStatus      `json:"hook,omitempty"`     // nil: its network does not call it over HTTP
	Warnings    []string         `json:"warnings,omitempty"` // faults of its network's calls, in sentences
	Answers     *Waiting         `json:"answers,omitempty"`  // answers that wait until its network takes them; nil: none
}

// InstanceStatus is one agent's connection and buffer.
type InstanceStatus struct {
	ID         relay.InstanceID `json:"instanceId"`
	Name       string           `json:"name,omitempty"` // the name that it was given; empty: none
	Tenant     relay.TenantID   `json:"tenant"`
	State      State            `json:"state"`
	Revoked    bool             `json:"revoked,omitempty"` // nobody can connect: all its gateways are revoked
	Backlog    int              `json:"backlog"`           // entries not acknowledged
	OldestAt   time.Time        `json:"oldestAt,omitzero"`
	Dead       int              `json:"dead"`    // dead letters
	Prompts    int              `json:"prompts"` // questions with buttons that nobody has answered yet
	LastSeenAt time.Time        `json:"lastSeenAt,omitzero"`
	RefusedAt  time.Time        `json:"refusedAt,omitzero"` // when a dial in its gateway's name was last refused; zero: not since that gateway's last good dial
	Warning    string           `json:"warning,omitempty"`  // "copied_credential", "not_fronted", "media_not_fetched" or "unusable_wake_url"
	Warnings   []string         `json:"warnings,omitempty"` // faults, and how to fix them, in sentences
	Poke       *wake.Poke       `json:"poke,omitempty"`     // the result of the newest wake poke; nil: none since the start
	Notes      []Note           `json:"notes,omitempty"`    // why messages wait although nothing is wrong
	Answers    int              `json:"answers,omitempty"`  // how many answers wait until a network takes them
}

// Note is a reason why messages for an instance wait although nothing is wrong: somebody wants them to wait.
type Note struct {
	Word string `json:"note"` // of a closed set: "quiet"
	Says string `json:"says"` // the reason in words, which continue a sentence that begins with "it is"
}

// Status returns the state of bots and instances. Instances whose gateways are all revoked appear only while their
// buffers hold something.
func (s *observer) Status(ctx context.Context, _ struct{}) (Status, error) {
	return s.status(ctx, false)
}

// status returns what Status does. afresh demands new findings about the machine.
func (s *observer) status(ctx context.Context, afresh bool) (Status, error) {
	out := Status{
		Version: s.set.Version, Running: s.live != nil,
		Bots: []BotStatus{}, Instances: []InstanceStatus{}, Counters: map[string]uint64{},
	}
	for _, p := range s.bots() {
		bot := p.ID()
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
	seen := Seen{Now: s.set.Now(), URL: s.set.URL, Limits: s.db.Lanes.Limits()}
	for _, i := range all {
		if err := s.statusOf(ctx, i, live[i.ID], &out, &seen); err != nil {
			return Status{}, err
		}
	}
	if seen.Late, err = s.answers.show(ctx, &out); err != nil {
		return Status{}, err
	}
	if s.set.Files != nil {
		files := s.set.Files.Stats()
		out.Media = &files
	}
	if s.live != nil {
		out.Ready = s.live.Ready()
		out.Counters = s.live.Counters()
	}
	if err := s.findings(ctx, &out, seen, live, afresh); err != nil {
		return Status{}, err
	}
	return out, nil
}

// statusOf adds the state of an instance to out and to seen. live: it has a gateway that is not revoked; an instance
// without one is added only while its buffer holds something.
func (s *observer) statusOf(ctx context.Context, i store.Instance, live bool, out *Status, seen *Seen) error {
	lane, err := s.db.Lanes.State(ctx, i.ID)
	if err != nil || !live && lane.Entries == 0 && lane.Dead == 0 {
		return err
	}
	st := InstanceStatus{
		ID: i.ID, Name: i.Label, Tenant: i.Tenant, State: s.state(i), Backlog: lane.Entries,
		OldestAt: lane.OldestAt.UTC(), Dead: lane.Dead, LastSeenAt: i.LastSeenAt.UTC(), Warnings: warnings(i), Revoked: !live,
	}
	its := SeenInstance{Instance: i, Lane: lane}
	if s.set.Poke != nil {
		st.Poke = s.set.Poke(i.ID)
	}
	if st.Prompts, err = s.db.Prompts.Count(ctx, i.ID); err != nil {
		return err
	}
	if lane.Dead > 0 {
		if its.Dead, err = s.db.Lanes.Reasons(ctx, i.ID); err != nil {
			return err
		}
	}
	if s.live != nil { // only the running server knows which events wait, or will, because no socket fronts their bot
		st.Warning = s.live.Warning(i.ID)
		bots, err := s.stuck(ctx, i.ID)
		if err != nil {
			return err
		}
		silent, err := s.silent(ctx, i.ID, bots)
		if err != nil {
			return err
		}
		its.Waiting, its.People = s.unserved(bots...), s.unserved(silent...)
		if len(bots)+len(silent) > 0 {
			st.Warning = cmp.Or(st.Warning, warnNotFronted)
		}
	}
	if its.NotFetched = s.set.Files != nil && s.set.Files.NotFetched(i.ID) && s.mayFetch(ctx, i.ID); its.NotFetched {
		st.Warning = cmp.Or(st.Warning, "media_not_fetched")
	}
	if i.WakeFault != "" {
		st.Warning = cmp.Or(st.Warning, "unusable_wake_url")
	}
	out.Instances, seen.Instances = append(out.Instances, st), append(seen.Instances, its)
	return nil
}

// warnings returns sentences for the operator about an instance.
func warnings(i store.Instance) []string {
	if i.WakeFault == "" {
		return nil
	}
	return []string{i.WakeFault}
}

// warnNotFronted is the warning of an instance whose gateway does not serve a bot to which linked people can write, so
// that their messages wait or would wait.
const warnNotFronted = "not_fronted"

// stuck returns the bots whose events wait because the instance's gateway does not serve those bots.
func (s *observer) stuck(ctx context.Context, i relay.InstanceID) (bots []relay.Bot, err error) {
	unfronted := s.live.Unfronted(i)
	if len(unfronted) == 0 {
		return nil, nil
	}
	entries, err := s.db.Lanes.Entries(ctx, i, store.EntryFilter{})
	for _, e := range entries {
		if slices.Contains(unfronted, e.About.Bot) && !slices.Contains(bots, e.About.Bot) {
			bots = append(bots, e.About.Bot)
		}
	}
	return bots, err
}
