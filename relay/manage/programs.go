package manage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

// programs manages callers, and the agents that they reach.
type programs struct {
	directory
	*surroundings
	people *people
	vault  Vault
}

// CallerFor names a caller and agents.
type CallerFor struct {
	Caller string   `json:"caller"`
	Agents []string `json:"agents,omitempty"` // names of gateways
	People []string `json:"people,omitempty"` // people whom the caller may write to, as PLATFORM:PERSON
	Sign   bool     `json:"hmac,omitempty"`   // for a new caller: it has to sign what it sends
}

// CallerMade is what a caller is told once.
type CallerMade struct {
	Caller string `json:"caller"`
	// Token is its bearer token, and Secret is its signing secret; empty: it keeps its present one, or has none.
	Token  string `json:"token,omitempty"`
	Secret string `json:"hmacSecret,omitempty"`
	URL    string `json:"url"` // of the routes, without a trailing slash
	// Agents are the new agents, each with a key for waking it.
	Agents []CallerAgent `json:"agents"`
	// People are the new people, each with an address at which ntfy's clients write to them.
	People []CallerPerson `json:"people,omitempty"`
	// Env are the lines that AgentConnector's stock client reads.
	Env      map[string]string `json:"env"`
	Warnings []string          `json:"warnings,omitempty"`
}

// CallerAgent is an agent that a caller reaches.
type CallerAgent struct {
	AgentID relay.InstanceID `json:"agent_id"`
	Name    string           `json:"name"`
	WakeURL string           `json:"wakeUrl,omitempty"`
}

// CallerPerson is a person whom a caller may write to.
type CallerPerson struct {
	Person  string `json:"person"` // as PLATFORM:PERSON
	Name    string `json:"name,omitempty"`
	PushURL string `json:"pushUrl,omitempty"`
	Muted   bool   `json:"muted,omitempty"`
}

// EnvLines returns Env as lines of a file.
func (m CallerMade) EnvLines() (out []string) {
	for _, name := range []string{envCallerAgents, envCallerAuth, envCallerSecret} {
		if v := m.Env[name]; v != "" {
			out = append(out, name+"='"+v+"'")
		}
	}
	for _, p := range m.People {
		out = append(out, "# tells "+p.Person+", as: curl -d 'The backup is done.' "+p.PushURL)
	}
	return out
}

// The variables that the stock client of AgentConnector reads.
const (
	envCallerAgents = "HTTP_WEBHOOK_AGENTS"
	envCallerAuth   = "HTTP_WEBHOOK_AUTH"
	envCallerSecret = "HTTP_WEBHOOK_HMAC_SECRET"
)

// AddCaller lets a new program in, and lets it reach agents. Refused with Exists, NotFound or Usage.
func (s *programs) AddCaller(ctx context.Context, by audit.Actor, f CallerFor) (CallerMade, error) {
	if err := relay.CheckCaller(f.Caller); err != nil {
		return CallerMade{}, unfit("caller", "%q: %v", f.Caller, err)
	}
	if len(f.Agents) == 0 && len(f.People) == 0 {
		return CallerMade{}, unfit("agents", "%s needs an agent to reach, or a person: --agent NAME, --person PLATFORM:PERSON", f.Caller)
	}
	return s.change(ctx, by, "agents-add", f, func(m *CallerMade, c *callers.Caller, there bool) error {
		if there {
			return refuse(Exists, "there is a program called %q already", f.Caller).try("agents-allow", f.Caller, "NAME")
		}
		c.ID, c.CreatedAt = relay.RandomText(16), s.set.Now().UTC()
		s.giveToken(m, c, f.Sign)
		return nil
	})
}

// AllowCaller lets a caller reach more agents. Those that it reached before get a new key for waking. Refused with NotFound or
// Usage.
func (s *programs) AllowCaller(ctx context.Context, by audit.Actor, f CallerFor) (CallerMade, error) {
	if len(f.Agents) == 0 && len(f.People) == 0 {
		return CallerMade{}, unfit("agents", "which agent, or which person? --agent NAME, --person PLATFORM:PERSON")
	}
	return s.change(ctx, by, "agents-allow", f, func(_ *CallerMade, _ *callers.Caller, there bool) error {
		if !there {
			return noCaller(f.Caller)
		}
		return nil
	})
}

// RotateCaller gives a caller new credentials, also for waking; the old ones end at once. Refused with NotFound.
func (s *programs) RotateCaller(ctx context.Context, by audit.Actor, f CallerFor) (CallerMade, error) {
	f.Agents, f.People = nil, nil
	return s.change(ctx, by, "agents-rotate", f, func(m *CallerMade, c *callers.Caller, there bool) error {
		if !there {
			return noCaller(f.Caller)
		}
		s.giveToken(m, c, c.Signs != nil)
		for n := range c.Agents {
			s.giveKey(m, &c.Agents[n], s.called(ctx, c.Agents[n].Instance))
		}
		for n := range c.People {
			s.givePush(m, &c.People[n])
		}
		return nil
	})
}

func noCaller(name string) *Error {
	return refuse(NotFound, "no program is called %q", name).try("agents")
}

func callerRow(by audit.Actor, action string, f CallerFor) *audit.Entry {
	return &audit.Entry{Actor: by, Action: action, Detail: strings.Join(slices.Concat([]string{f.Caller}, f.Agents, f.People), " ")}
}

// giveToken gives a caller a new token and, if it signs its calls, a new secret for that.
func (s *programs) giveToken(m *CallerMade, c *callers.Caller, signs bool) {
	m.Token = relay.RandomText(relay.TokenLen)
	c.Token = s.vault.MAC(callers.TokenPurpose, relay.NewSecret([]byte(m.Token)))
	if signs {
		m.Secret = relay.RandomText(relay.TokenLen)
		bucket, key := callers.Place(m.Caller)
		c.Signs = s.vault.Seal(bucket, key, relay.NewSecret([]byte(m.Secret)))
	}
}

// giveKey gives an agent of a caller a new key for waking.
func (s *programs) giveKey(m *CallerMade, a *callers.Agent, name string) {
	key := relay.RandomText(relay.TokenLen / 2)
	a.Wake = s.vault.MAC(callers.WakePurpose, relay.NewSecret([]byte(key)))
	m.Agents = append(m.Agents, CallerAgent{AgentID: a.Instance, Name: name, WakeURL: s.set.URL + "/agents/wakekey/" + key})
}

// givePush gives a person of a caller's a new address.
func (s *programs) givePush(m *CallerMade, p *callers.Person) {
	key := relay.RandomText(relay.TokenLen / 2)
	p.Push = s.vault.MAC(callers.PushPurpose, relay.NewSecret([]byte(key)))
	m.People = append(m.People, CallerPerson{Person: p.String(), PushURL: s.set.URL + "/agents/push/" + key, Muted: p.Muted})
}

// linkedPeople returns the people of those names. It refuses people who are not linked to a gateway, or for commands only.
func (s *programs) linkedPeople(ctx context.Context, names []string) (out []callers.Person, err error) {
	for _, name := range names {
		platform, user, _ := strings.Cut(name, ":")
		who, _, err := s.people.whom(ctx, relay.PlatformID(platform), relay.UserID(user))
		if err != nil {
			return nil, err
		}
		bound, err := s.db.Bindings(ctx, store.BindingFilter{Platform: who.Platform, User: who.User})
		if err != nil {
			return nil, err
		}
		if len(bound) == 0 {
			return nil, refuse(NotFound, "%s person %s is not linked to a gateway", platform, who.User).try("link", "NAME")
		}
		if !slices.ContainsFunc(bound, func(b store.Binding) bool { return len(b.Commands) == 0 }) {
			return nil, refuse(Held, "%s person %s is linked for commands only, and a program writes in the name of a gateway that gets their messages",
				platform, who.User).try("bind", "NAME", platform, string(who.User))
		}
		out = append(out, callers.Person{Platform: who.Platform, User: who.User})
	}
	return out, nil
}

// change changes a caller by do, lets the caller reach the agents and the people of f, and returns what the caller is
// told. do gets the present caller, or a new one if there is none (there says which).
func (s *programs) change(ctx context.Context, by audit.Actor, action string, f CallerFor,
	do func(m *CallerMade, c *callers.Caller, there bool) error,
) (m CallerMade, err error) {
	var link []relay.InstanceID
	names := make(map[relay.InstanceID]string)
	for _, name := range f.Agents {
		i, err := s.served(ctx, name)
		if err != nil {
			return m, err
		}
		if names[i.ID] == "" {
			link = append(link, i.ID)
		}
		names[i.ID] = i.Shown()
	}
	people, err := s.linkedPeople(ctx, f.People)
	if err != nil {
		return m, err
	}
	_, err = s.db.Callers.Change(ctx, callerRow(by, action, f), f.Caller, link, func(c *callers.Caller, there bool) error {
		m = CallerMade{Caller: f.Caller, URL: s.set.URL, Agents: []CallerAgent{}} // made anew each time: the store may call this function again
		if err := do(&m, c, there); err != nil {
			return err
		}
		for _, i := range link {
			n := slices.IndexFunc(c.Agents, func(a callers.Agent) bool { return a.Instance == i })
			if n < 0 {
				n, c.Agents = len(c.Agents), append(c.Agents, callers.Agent{Instance: i})
			}
			s.giveKey(&m, &c.Agents[n], names[i])
		}
		for _, p := range people {
			if c.Person(p.Platform, p.User) == nil {
				c.People = append(c.People, p)
			}
			s.givePush(&m, c.Person(p.Platform, p.User))
		}
		return nil
	})
	if err != nil {
		return m, refusedIn(err)
	}
	if !slices.ContainsFunc(s.bots(), func(p platforms.Bot) bool { return p.ID().IsProgram() }) {
		m.Warnings = []string{"Programs are not let in yet: write enabled = true under [agents] and restart the server."}
	}
	err = m.complete()
	return m, err
}

// refusedIn returns the refusal in err, the error of a change, or else err.
func refusedIn(err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused
	}
	if errors.Is(err, callers.ErrTooMany) {
		return refuse(Usage, "there may be at most %d programs, with %d agents each", callers.Max, callers.MaxAgents)
	}
	return err
}

// complete sets Env.
func (m *CallerMade) complete() error {
	type agent struct {
		URL    string `json:"url"`
		Wake   string `json:"wake_url"`
		Status string `json:"status_url"`
	}
	all := make(map[relay.InstanceID]agent)
	for _, a := range m.Agents {
		all[a.AgentID] = agent{m.URL + "/agents/deliver", a.WakeURL, m.URL + "/agents/health"}
	}
	raw, err := json.Marshal(all)
	m.Env = map[string]string{envCallerSecret: m.Secret}
	if len(all) > 0 { // without agents, the line would replace the one that the program has
		m.Env[envCallerAgents] = string(raw)
	}
	if m.Token != "" {
		m.Env[envCallerAuth] = "Bearer " + m.Token
	}
	return err
}

// Caller is a program that was let in.
type Caller struct {
	Caller    string         `json:"caller"`
	Agents    []CallerAgent  `json:"agents"`
	People    []CallerPerson `json:"people,omitempty"`
	Signs     bool           `json:"hmac"`
	CreatedAt time.Time      `json:"createdAt"`
}

// Callers lists the callers by name, with the agents that they reach.
func (s *programs) Callers(ctx context.Context, _ struct{}) ([]Caller, error) {
	all, err := s.db.Callers.All(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Caller, len(all))
	for n, c := range all {
		if out[n], err = s.show(ctx, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *programs) show(ctx context.Context, c callers.Caller) (Caller, error) {
	out := Caller{Caller: c.Name, Agents: []CallerAgent{}, Signs: c.Signs != nil, CreatedAt: c.CreatedAt.UTC()}
	for _, a := range c.Agents {
		who := relay.Program{Caller: c.Name, Agent: a.Instance}.User()
		bound, err := s.db.Bindings(ctx, store.BindingFilter{Platform: relay.ProgramPlatform, User: who, Instance: a.Instance})
		if err != nil {
			return out, err
		}
		if len(bound) > 0 { // otherwise it was unlinked
			out.Agents = append(out.Agents, CallerAgent{AgentID: a.Instance, Name: s.called(ctx, a.Instance)})
		}
	}
	for _, p := range c.People {
		names, err := s.names(ctx, store.Person{Platform: p.Platform, User: p.User})
		if err != nil {
			return out, err
		}
		out.People = append(out.People, CallerPerson{Person: p.String(), Name: names.Shown(), Muted: p.Muted})
	}
	return out, nil
}

// DenyCaller keeps a caller from agents and people; its messages that wait for those agents become dead letters.
// Refused with Usage, or with NotFound, also if the caller could not reach one of the agents or people.
func (s *programs) DenyCaller(ctx context.Context, by audit.Actor, f CallerFor) (Caller, error) {
	if len(f.Agents) == 0 && len(f.People) == 0 {
		return Caller{}, unfit("agents", "which agent, or which person? --agent NAME, --person PLATFORM:PERSON")
	}
	var gone []relay.InstanceID
	for _, name := range f.Agents {
		i, err := s.instance(ctx, name)
		if err != nil {
			return Caller{}, err
		}
		gone = append(gone, i.ID)
	}
	c, err := s.db.Callers.Change(ctx, callerRow(by, "agents-deny", f), f.Caller, nil, func(c *callers.Caller, there bool) error {
		if !there {
			return noCaller(f.Caller)
		}
		for n, i := range gone {
			if _, ok := c.Agent(i); !ok {
				return refuse(NotFound, "%s does not reach %q", f.Caller, f.Agents[n])
			}
		}
		for _, who := range f.People {
			if !slices.ContainsFunc(c.People, func(p callers.Person) bool { return p.String() == who }) {
				return refuse(NotFound, "%s does not write to %q", f.Caller, who)
			}
		}
		c.Agents = slices.DeleteFunc(c.Agents, func(a callers.Agent) bool { return slices.Contains(gone, a.Instance) })
		c.People = slices.DeleteFunc(c.People, func(p callers.Person) bool { return slices.Contains(f.People, p.String()) })
		return nil
	})
	if err != nil {
		return Caller{}, refusedIn(err)
	}
	return s.show(ctx, c)
}

// RemoveCaller removes a caller, with its receipts and the agents' replies: its messages that wait for agents become
// dead letters. Refused with NotFound.
func (s *programs) RemoveCaller(ctx context.Context, by audit.Actor, f CallerFor) (Caller, error) {
	f.Agents, f.People = nil, nil
	c, err := s.db.Callers.Remove(ctx, callerRow(by, "agents-remove", f), f.Caller)
	if errors.Is(err, store.ErrNotFound) {
		err = noCaller(f.Caller)
	}
	out := Caller{Caller: c.Name, Agents: []CallerAgent{}, Signs: c.Signs != nil, CreatedAt: c.CreatedAt.UTC()}
	for _, a := range c.Agents {
		out.Agents = append(out.Agents, CallerAgent{AgentID: a.Instance, Name: s.called(ctx, a.Instance)})
	}
	return out, err
}
