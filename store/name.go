package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// maxName is how many characters of a stranger's chosen name are kept.
const maxName = 64

// Names are a person's names. Strangers chose the first two, so both have been through TrimName.
type Names struct {
	// Told is the name that the network reported last; empty: none.
	Told string `json:"name,omitempty"`
	// Handle is the account's own name on the network, without "@"; empty: it has none.
	Handle string `json:"handle,omitempty"`
	// Given is the operator's name for the person, which counts before Told; empty: there is none.
	Given string `json:"given,omitempty"`
}

// Shown returns the name to show; empty: none is known.
func (n Names) Shown() string {
	handle := ""
	if n.Handle != "" {
		handle = "@" + n.Handle
	}
	return cmp.Or(n.Given, n.Told, handle)
}

// NamesIn returns the names of the person in src, as the network told them.
func NamesIn(src relay.Source) Names {
	return Names{
		Told:   TrimName(cmp.Or(src.UserDisplayName, src.UserName)),
		Handle: strings.TrimPrefix(TrimName(src.UserHandle), "@"),
	}
}

// TrimName returns a name fit to be kept and shown: one line of at most 64 characters, without control characters.
func TrimName(s string) string {
	s = relay.Shown(s)
	n := 0
	for at := range s {
		if n++; n > maxName {
			return strings.TrimSpace(s[:at])
		}
	}
	return s
}

// told returns n with the names in by, which the network reported last. If by has no Told, n stays as it was.
func (n Names) told(by Names) Names {
	if by.Told == "" {
		return n
	}
	return Names{Told: by.Told, Handle: by.Handle, Given: n.Given}
}

// People are the names of the people who are linked; each link of a person has the names. Its methods may be called
// from any goroutine.
type People struct {
	db    *DB
	notes table.Notes[Names] // by the prefix of the person's bindings
}

// Heard notes the network's names for a person whose links have the names had. If they have changed, the next commit
// stores them; Heard does not wait for it. If a crash loses them, the person's next message brings them again.
func (p *People) Heard(by Person, had, told Names) {
	if had.told(told) != had {
		p.notes.Set(table.Prefix(by.Platform, string(by.User)), told)
	}
}

// ride stores the names that were heard, in a transaction that is about to be committed. stored is as in table.Notes.
func (p *People) ride(w *table.Writer) (stored func(), err error) {
	return p.notes.Ride(func(notes map[string]Names) error {
		for k, told := range notes {
			if err := rename(w, []byte(k), func(n Names) Names { return n.told(told) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// rename changes the names in all links of a person. pre is the prefix of their keys.
func rename(w *table.Writer, pre []byte, to func(Names) Names) error {
	all, err := table.List[Binding](w.Tx, BucketBindings, pre)
	for _, b := range all {
		if now := to(b.Names); now != b.Names {
			b.Names = now
			err = errors.Join(err, w.Put(BucketBindings, bindingKey(b.Platform, b.User, b.Instance), b))
		}
	}
	return err
}

// Name gives a person the operator's own name; an empty name removes it. ErrNotFound: they are not linked.
func (p *People) Name(ctx context.Context, row *audit.Entry, who Person, given string) error {
	return p.db.change(ctx, row, "name a person", func(t *tx) error {
		pre := table.Prefix(who.Platform, string(who.User))
		if len(table.KeysUnder(t.Tx, BucketBindings, pre)) == 0 {
			return ErrNotFound
		}
		return rename(t.Writer, pre, func(n Names) Names {
			n.Given = TrimName(given)
			return n
		})
	})
}

// Shown returns the instance's name for people: the label it was given, or else its id.
func (i Instance) Shown() string { return cmp.Or(i.Label, string(i.ID)) }

// Labels are the names that instances were given. Its methods may be called from any goroutine.
type Labels struct{ db *DB }

// Give gives an instance its name for people. Its id stays, since credentials, links, grants and buffers refer to it.
// An empty name, or its id, removes the name. ErrExists: another instance or gateway has the name, in any tenant, since
// people type a name without a tenant. ErrNotFound: the instance does not exist, or was revoked.
func (l *Labels) Give(ctx context.Context, row *audit.Entry, id relay.InstanceID, label string) error {
	if label == string(id) {
		label = ""
	}
	return l.db.change(ctx, row, "rename instance", func(t *tx) error {
		i, err := t.liveInstance(id)
		if err != nil {
			return err
		}
		if label != "" {
			err = t.checkUnnamed(label, id)
			if g, ok, damaged := table.Load[Gateway](t.Tx, BucketGateways, table.Key(label)); damaged != nil || ok && g.Instance != id {
				err = errors.Join(damaged, fmt.Errorf("%s: %w", label, ErrExists))
			}
			if table.Has(t.Tx, BucketInstances, table.Key(label)) {
				err = fmt.Errorf("%s: %w", label, ErrExists)
			}
		}
		if err != nil {
			return err
		}
		i.Label = label
		return t.PutChanged(BucketInstances, table.Key(id), i)
	})
}

// checkUnnamed returns ErrExists if an instance other than id has that name.
func (t *tx) checkUnnamed(name string, id relay.InstanceID) error {
	if slices.ContainsFunc(table.Readable[Instance](t.Tx, BucketInstances), func(i Instance) bool { return i.Label == name && i.ID != id }) {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return nil
}

// Find returns the instance with that name. ErrNotFound: there is none.
func (l *Labels) Find(ctx context.Context, name string) (Instance, error) {
	return table.Get(ctx, l.db.records, "instance", func(t *bolt.Tx) (Instance, error) {
		for _, i := range table.Readable[Instance](t, BucketInstances) {
			if i.Label == name && name != "" {
				return i, nil
			}
		}
		return Instance{}, ErrNotFound
	})
}
