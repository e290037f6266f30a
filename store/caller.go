package store

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Callers are the programs that reach agents, with their receipts and replies. Its methods may be called from any
// goroutine.
type Callers struct {
	*callers.Records
	db *DB
}

// Change lets fn change the record of a caller, or fill in a new one (there is false). Then it binds the caller to the
// agents in link, which must be live and in the record that fn left, and unbinds it from the agents that fn removed:
// the caller's entries in their lanes become dead letters (DeadUnbound), and its scheduled messages for them are
// dropped. Errors are fn's, ErrNotFound, or callers.ErrTooMany.
func (cs *Callers) Change(ctx context.Context, row *audit.Entry, name string, link []relay.InstanceID, fn func(c *callers.Caller, there bool) error) (out callers.Caller, err error) {
	now := cs.db.now()
	err = cs.db.change(ctx, row, "caller "+name, func(t *tx) error {
		old, there, err := table.Load[callers.Caller](t.Tx, callers.Bucket, table.Key(name))
		if err != nil {
			return err
		}
		out = old
		out.Name, out.Agents = name, slices.Clone(old.Agents)
		out.People = slices.Clone(old.People)
		if err := fn(&out, there); err != nil {
			return err
		}
		if len(out.Agents) > callers.MaxAgents || len(out.People) > callers.MaxAgents || !there && len(table.KeysUnder(t.Tx, callers.Bucket, nil)) >= callers.Max {
			return callers.ErrTooMany
		}
		for _, i := range link {
			who := relay.Program{Caller: name, Agent: i}.User()
			if err := t.bind(Binding{Platform: relay.ProgramPlatform, User: who, Instance: i, Names: Names{Told: name}}, now); err != nil {
				return err
			}
		}
		for _, a := range old.Agents {
			if _, stays := out.Agent(a.Instance); stays {
				continue
			}
			if err := t.takeAgent(out, a.Instance, now); err != nil {
				return err
			}
		}
		return table.PutIndexed(t.Writer, out)
	}, callers.Size)
	return out, err
}

// takeAgent drops the caller's scheduled messages for an agent, and unbinds the caller from the agent.
func (t *tx) takeAgent(c callers.Caller, i relay.InstanceID, now time.Time) error {
	if err := callers.Strip(t.Writer, c, i); err != nil {
		return err
	}
	return t.unbind(i, relay.ProgramPlatform, relay.Program{Caller: c.Name, Agent: i}.User(), now)
}

// Remove removes a caller with its receipts and replies, after removing all its agents. ErrNotFound: there is none.
func (cs *Callers) Remove(ctx context.Context, row *audit.Entry, name string) (was callers.Caller, err error) {
	now := cs.db.now()
	err = cs.db.change(ctx, row, "caller "+name, func(t *tx) error {
		c, err := table.Must[callers.Caller](t.Tx, callers.Bucket, table.Key(name), "caller "+name)
		if err != nil {
			return err
		}
		was = c
		for _, a := range c.Agents {
			if err := t.takeAgent(c, a.Instance, now); err != nil {
				return err
			}
		}
		if err := callers.Strip(t.Writer, c, ""); err != nil {
			return err
		}
		return table.DeleteIndexed(t.Writer, c)
	})
	return was, err
}
