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

// maxName is how many characters of a name are kept that a stranger chose.
const maxName = 64

// Names are what a person is called. Strangers chose the first two; TrimName was applied to both.
type Names struct {
	// Told is the name that the network told last; empty: it has told none.
	Told string `json:"name,omitempty"`
	// Handle is the account's own name on the network, without "@"; empty: it has none.
	Handle string `json:"handle,omitempty"`
	// Given is the operator's name for the person, which counts before Told; empty: there is none.
	Given string `json:"given,omitempty"`
}

// Shown is the name to show; empty: none is known.
func (n Names) Shown() string {
	handle := ""
	if n.Handle != "" {
		handle = "@" + n.Handle
	}
	return cmp.Or(n.Given, n.Told, handle)
}

// NamesIn are the names of whoever did something, as their network told them.
func NamesIn(src relay.Source) Names {
	return Names{
		Told:   TrimName(cmp.Or(src.UserDisplayName, src.UserName)),
		Handle: strings.TrimPrefix(TrimName(src.UserHandle), "@"),
	}
}

// TrimName is a name fit to be kept and shown: one line of at most 64 characters, without control characters.
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

// told is n with what the network told anew. An event without a name changes nothing.
func (n Names) told(by Names) Names {
	if by.Told == "" {
		return n
	}
	return Names{Told: by.Told, Handle: by.Handle, Given: n.Given}
}

// People are the names of those who are linked; each link has them. All methods: any goroutine.
type People struct {
	db    *DB
	notes table.Notes[Names] // by the prefix of the person's bindings
}

// Heard notes what the network calls a person whose links have the names had. It does not block, writes nothing when they
// have not changed, and else writes with the next commit. What a crash loses, the person's next message brings again.
func (p *People) Heard(by Person, had, told Names) {
	if had.told(told) != had {
		p.notes.Set(table.Prefix(by.Platform, string(by.User)), told)
	}
}

// ride stores what was heard in a transaction that is about to be committed.
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

// rename changes the names in all links of a person, which begin with pre.
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

// Name gives a person the operator's own name; an empty one takes it back. ErrNotFound: they are not linked.
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

// namesOf are the names of a person who has links; those of the first one.
func namesOf(t *bolt.Tx, who Person) (Names, error) {
	all, err := table.List[Binding](t, BucketBindings, table.Prefix(who.Platform, string(who.User)))
	if len(all) == 0 {
		return Names{}, err
	}
	return all[0].Names, err
}

// Shown is the instance's name as people read it: the one it was given, or its id.
func (i Instance) Shown() string { return cmp.Or(i.Label, string(i.ID)) }

// Labels are the names that instances were given. All methods: any goroutine.
type Labels struct{ db *DB }

// Give gives an instance the name that people know it by, besides its id, which stays: credentials, links, grants and
// buffers hang on that. Its id, or nothing, takes the name back. ErrExists: the name is another instance's or gateway's,
// in whatever tenant: whoever types a name names no tenant. ErrNotFound: no such instance, or it was revoked.
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
			err = t.unnamed(label, id)
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

// unnamed is ErrExists if an instance besides id was given that name.
func (t *tx) unnamed(name string, id relay.InstanceID) error {
	if slices.ContainsFunc(table.Readable[Instance](t.Tx, BucketInstances), func(i Instance) bool { return i.Label == name && i.ID != id }) {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return nil
}

// Find is the instance that was given that name. ErrNotFound: none was.
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
