package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// BucketBindings is the bucket of bindings: platform|user|instance -> Binding.
const BucketBindings = "bindings"

// Binding says: this person's messages go to that instance.
type Binding struct {
	Tenant   relay.TenantID   `json:"tenant"`
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"user"`
	Instance relay.InstanceID `json:"instance"`
	BoundAt  time.Time        `json:"bound"`
	// Commands are the only messages of the person that go to the instance, each as "/name"; empty: everything that
	// they write.
	Commands []string `json:"commands,omitempty"`
	// DMDefault: among several instances of one person, this one gets the direct messages. It is never set together
	// with Commands.
	DMDefault bool `json:"dmDefault,omitempty"`
	// DMChat is the direct-message chat the person linked in, where the platform cannot derive it.
	DMChat relay.ChatID `json:"dmChat,omitempty"`
	Names               // the person's, the same in all their bindings
}

// CommandTaken is the refusal of a binding with a command that goes to another of the person's instances.
type CommandTaken struct {
	Command  string
	Instance relay.InstanceID // has it
}

func (e *CommandTaken) Error() string { return e.Command + " goes to " + string(e.Instance) }

// bindingKey returns the key of a binding.
func bindingKey(p relay.PlatformID, u relay.UserID, i relay.InstanceID) []byte {
	return table.Key(p, string(u), string(i))
}

// Index returns the binding's bucket, its key there, and its keys in the index.
func (b Binding) Index() (string, []byte, [][]byte) {
	also := [][]byte{table.IndexKey(BucketBindings, byInstance, string(b.Instance), string(b.Platform), string(b.User))}
	if b.DMChat != "" {
		also = append(also, table.IndexKey(BucketBindings, byChat, string(b.Platform), string(b.DMChat), string(b.Instance), string(b.User)))
	}
	return BucketBindings, bindingKey(b.Platform, b.User, b.Instance), also
}

// BindingFilter selects bindings by their fields; empty fields do not matter. It reads little more than the selected
// bindings if it names a user or a direct-message chat of a platform, or an instance.
type BindingFilter struct {
	Platform relay.PlatformID
	User     relay.UserID
	Instance relay.InstanceID
	DMChat   relay.ChatID

	// Limit is how many bindings are picked at most: those with the next users behind After, in the order of the user
	// ids. It counts only with an instance and a platform, and without a user and a chat. 0: all.
	Limit int
	After relay.UserID
}

func (f BindingFilter) picks(b Binding) bool {
	return (f.Platform == "" || f.Platform == b.Platform) && (f.User == "" || f.User == b.User) &&
		(f.Instance == "" || f.Instance == b.Instance) && (f.DMChat == "" || f.DMChat == b.DMChat)
}

// from reads the bindings that f may pick.
func (f BindingFilter) from(t *bolt.Tx) ([]Binding, error) {
	switch {
	case f.Platform != "" && f.User != "" && f.Instance != "":
		return table.AtMostOne[Binding](t, BucketBindings, bindingKey(f.Platform, f.User, f.Instance))
	case f.Platform != "" && f.User != "":
		return table.List[Binding](t, BucketBindings, table.Prefix(f.Platform, string(f.User)))
	case f.Platform != "" && f.DMChat != "" && f.Instance != "":
		return table.Lookup[Binding](t, BucketBindings, table.IndexUnder(BucketBindings, byChat, string(f.Platform), string(f.DMChat), string(f.Instance)), "", 0)
	case f.Platform != "" && f.DMChat != "":
		return table.Lookup[Binding](t, BucketBindings, table.IndexUnder(BucketBindings, byChat, string(f.Platform), string(f.DMChat)), "", 0)
	case f.Instance != "" && f.Platform != "":
		pre := table.IndexUnder(BucketBindings, byInstance, string(f.Instance), string(f.Platform))
		return table.Lookup[Binding](t, BucketBindings, pre, string(f.After), f.Limit)
	case f.Instance != "":
		return table.Lookup[Binding](t, BucketBindings, table.IndexUnder(BucketBindings, byInstance, string(f.Instance)), "", 0)
	}
	return table.List[Binding](t, BucketBindings, nil)
}

// bindings is DB.Bindings in the transaction t.
func bindings(t *bolt.Tx, f BindingFilter) ([]Binding, error) {
	out, err := f.from(t)
	out = slices.DeleteFunc(out, func(b Binding) bool { return !f.picks(b) })
	if f.Limit == 0 {
		slices.SortStableFunc(out, func(a, b Binding) int {
			return cmp.Or(a.BoundAt.Compare(b.BoundAt), cmp.Compare(a.Instance, b.Instance))
		})
	}
	return out, err
}

// Bind adds or refreshes a binding. An existing one keeps its BoundAt and, unless b has Commands, its DMDefault; it
// gets the Commands of b, and the DMChat of b if b has one. For a new one, BoundAt is now unless b has one. A binding
// that was for commands only and is now for everything gets a new BoundAt, because otherwise it would come before the
// bindings that were for everything in the meantime. The names are those of the person's bindings, updated with those
// that the network told in b. The tenant is the instance's; only SetDMDefault sets DMDefault. ErrNotFound: the instance
// does not exist, or was revoked. *CommandTaken: another of the person's instances has one of the commands.
func (db *DB) Bind(ctx context.Context, row *audit.Entry, b Binding) error {
	now := db.now()
	return db.change(ctx, row, "bind", func(t *tx) error { return t.bind(b, now) })
}

// bind is DB.Bind in the transaction.
func (t *tx) bind(b Binding, now time.Time) error {
	inst, err := t.liveInstance(b.Instance)
	if err != nil {
		return err
	}
	old, ok, err := table.Load[Binding](t.Tx, BucketBindings, bindingKey(b.Platform, b.User, b.Instance))
	if err != nil {
		return err
	}
	others, err := table.List[Binding](t.Tx, BucketBindings, table.Prefix(b.Platform, string(b.User)))
	if err != nil {
		return err
	}
	for _, other := range others {
		for _, c := range b.Commands {
			if other.Instance != b.Instance && slices.Contains(other.Commands, c) {
				return &CommandTaken{c, other.Instance}
			}
		}
	}
	b.Tenant, b.DMDefault = inst.Tenant, old.DMDefault && len(b.Commands) == 0
	switch {
	case ok && (len(old.Commands) == 0 || len(b.Commands) > 0):
		b.BoundAt = old.BoundAt
	case b.BoundAt.IsZero():
		b.BoundAt = now
	}
	b.DMChat = cmp.Or(b.DMChat, old.DMChat)
	known, _, _ := First(others, nil) // the names are the same in all
	b.Names = known.Names.told(b.Names)
	return table.PutIndexed(t.Writer, b)
}

// Unbind removes a binding. The person's messages that wait in the instance's lane become dead letters (DeadUnbound).
// ErrNotFound: there is no such binding.
func (db *DB) Unbind(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	now := db.now()
	return db.change(ctx, row, "unbind", func(t *tx) error {
		if !table.Has(t.Tx, BucketBindings, bindingKey(p, u, i)) {
			return ErrNotFound
		}
		return t.unbind(i, p, u, now)
	})
}

// Forget is Unbind for somebody who need not be bound, and also removes them from i's history, in one transaction. The
// history then contains nothing about what they wrote to i or to nobody, nor about i's answers to that, or in their
// direct messages.
func (db *DB) Forget(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, u relay.UserID) (bound bool, err error) {
	now := db.now()
	err = db.change(ctx, row, "forget", func(t *tx) error {
		var dms []relay.ChatID
		if b, ok, err := table.Load[Binding](t.Tx, BucketBindings, bindingKey(p, u, i)); err == nil && ok && b.DMChat != "" {
			dms = append(dms, b.DMChat)
		}
		bound = table.Has(t.Tx, BucketBindings, bindingKey(p, u, i))
		return errors.Join(t.unbind(i, p, u, now), db.History.Forget(t.Writer, &t.history, i, p, u, dms...))
	})
	return bound, err
}

// unbind removes a binding, if there is one.
func (t *tx) unbind(i relay.InstanceID, p relay.PlatformID, u relay.UserID, now time.Time) error {
	if err := dropAll[Binding](t.Writer, BucketBindings, bindingKey(p, u, i)); err != nil {
		return err
	}
	l, err := t.lane(i)
	if err != nil {
		return err
	}
	return l.buryWhere(DeadUnbound, now, func(e About) bool { return e.Bot.Platform == p && e.User == u })
}

// Bindings lists the bindings that f picks, the first made first, or with a limit by user.
func (db *DB) Bindings(ctx context.Context, f BindingFilter) ([]Binding, error) {
	return table.Get(ctx, db.records, "bindings", func(t *bolt.Tx) ([]Binding, error) {
		read := func() ([]Binding, error) { return bindings(t, f) }
		if p := (Person{f.Platform, f.User}); p.Platform != "" && p.User != "" && f == (BindingFilter{Platform: p.Platform, User: p.User}) {
			return db.recents.bindings.get(t, p, read)
		}
		return read()
	})
}

// SetDMDefault makes i, among the instances of the user, the one that gets the user's direct messages. ErrNotFound:
// they are not bound to it. ErrCommandsOnly: they are bound for commands only.
func (db *DB) SetDMDefault(ctx context.Context, row *audit.Entry, i relay.InstanceID, p relay.PlatformID, u relay.UserID) error {
	return db.change(ctx, row, "dm default", func(t *tx) error {
		bs, err := table.List[Binding](t.Tx, BucketBindings, table.Prefix(p, string(u)))
		if err != nil {
			return err
		}
		switch n := slices.IndexFunc(bs, func(b Binding) bool { return b.Instance == i }); {
		case n < 0:
			return ErrNotFound
		case len(bs[n].Commands) > 0:
			return ErrCommandsOnly
		}
		for _, b := range bs {
			b.DMDefault = b.Instance == i
			if err := table.PutIndexed(t.Writer, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// moveBindings is moveChat for the chats that people linked in.
func moveBindings(w *table.Writer, m Move) error {
	all, err := bindings(w.Tx, BindingFilter{Platform: m.Platform, DMChat: m.From})
	for _, b := range all {
		b.DMChat = m.To
		err = errors.Join(err, table.PutIndexed(w, b))
	}
	return err
}
