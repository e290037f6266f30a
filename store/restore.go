package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Restored says what a Restore has changed.
type Restored struct {
	MadeAt   time.Time `json:"madeAt,omitzero"` // of the backup; zero when it does not say
	Kept     string    `json:"kept,omitempty"`  // where the former database is; empty when there was none
	Compared bool      `json:"compared"`        // the former database could be read; otherwise Lost and Back say nothing
	Lost     Content   `json:"lost"`            // what is in the former database and not in the backup
	Back     Content   `json:"back"`            // what is in the backup and was deleted since
	// Carried: what was delivered since the backup does not come again, but what is in Back. Otherwise nobody
	// knows what that was: what came since MadeAt may come again.
	Carried bool `json:"carried"`
	Damaged int  `json:"damaged"` // records of the backup that are; the next Open names them and sets them aside
	// FellBack: the newest commit of the backup was unreadable, and the one before it is used. Not in
	// one that Backup wrote, where both say the same.
	FellBack bool `json:"fellBack,omitempty"`
	// Unread is what a Salvage could not read, a line each, and what had to go with it.
	Unread []string `json:"unread,omitempty"`
}

// Content is what a database holds of what people would miss.
type Content struct {
	Messages map[relay.InstanceID]int `json:"messages,omitempty"` // waiting, per instance; without those where none do
	Dead     map[relay.InstanceID]int `json:"dead,omitempty"`     // dead letters, likewise
	Gateways []relay.GatewayID        `json:"gateways,omitempty"` // that are not revoked, by name
	Bindings int                      `json:"bindings"`
	Grants   int                      `json:"grants"`
}

// Restore puts the backup that r gives, decrypted, in the place of the database at path, which is
// kept beside it under another name. Every lane gets a new epoch: the numbers given out since the
// backup was made would come again.
//
// What was seen and how far the platforms were confirmed is carried over from the former database, where
// that can be read, so that what was delivered since does not come again. Messages that wait in it and
// not in the backup are lost, and counted; what would keep a platform from repeating them is not
// carried, so that they come again from one that still has them. What the agents sent since, and the
// new ids of chats, are carried too. All else is as the backup says.
//
// ErrLocked: a server runs. ErrDamaged: the backup cannot be
// used; then, as on any error, the database is what it was.
func Restore(path string, r io.Reader, o Options) (Restored, error) {
	o = o.withDefaults()
	out, err := restore(path, r, o, accept)
	if err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", path, err)
	}
	return out, nil
}

// Salvage is Restore with a file that is too damaged to be used, a backup or the database at path itself:
// every record that can be read is copied into a new one. Restored.Unread lists the others.
func Salvage(path string, r io.Reader, o Options) (Restored, error) {
	o = o.withDefaults()
	out, err := restore(path, r, o, salvage)
	if err != nil {
		return Restored{}, fmt.Errorf("salvage %s: %w", path, err)
	}
	return out, nil
}

func restore(path string, r io.Reader, o Options, usable func(*Restored, string, Options) error) (out Restored, err error) {
	out.Kept, err = boltfile.Replace(path, r, o.file(), func(temp string, former *bolt.DB) error {
		if err := usable(&out, temp, o); err != nil {
			return fmt.Errorf("the file to restore from: %w", err)
		}
		has, err := renew(temp, o)
		if err != nil {
			return fmt.Errorf("the file to restore from: %w", err)
		}
		if former == nil {
			return nil
		}
		had, err := formerHoldings(path, former)
		if err != nil {
			return nil // said by Compared
		}
		out.Compared, out.Lost, out.Back = true, had.without(has), has.without(had)
		if out.Carried = !had.untold; !out.Carried {
			return nil
		}
		if err := carry(temp, former, had, has, out.Damaged == 0, o); err != nil {
			return fmt.Errorf("carry over what was seen: %w", err)
		}
		return nil
	})
	return out, err
}

// accept checks the file temp, and cuts off the trailer if it has one.
func accept(r *Restored, temp string, _ Options) error {
	got, err := boltfile.Adopt(temp, checkFile)
	if err == nil {
		err = refusal(got.Bad)
	}
	if err != nil {
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w; restore --salvage copies what can be read of it", err)
		}
		return err
	}
	r.Damaged, r.FellBack = len(got.Bad), got.FellBack
	return r.dated(temp)
}

// dated notes when the backup temp was made, if it has a trailer, and cuts that off.
func (r *Restored) dated(temp string) error {
	made, ok, err := boltfile.CutTrailer(temp)
	if ok {
		r.MadeAt, r.FellBack = made, false
	}
	return err
}

// renew gives every lane in the file temp a new epoch. It returns what it holds.
func renew(temp string, o Options) (has holdings, err error) {
	b, err := openAlone(temp, o)
	if err != nil {
		return has, err
	}
	if has, err = inventory(b, false); err == nil {
		err = boltfile.Update(b, func(x *bolt.Tx) error {
			t := edit(x)
			for _, k := range table.KeysUnder(x, bucketLanes, nil) {
				l, err := table.Decode[lane](k, x.Bucket([]byte(bucketLanes)).Get(k))
				if err != nil {
					return boltfile.DamagedRecord(bucketLanes, k, err)
				}
				if l.Epoch == 0 { // never used
					continue
				}
				l.Epoch = newEpoch()
				if err := t.Put(bucketLanes, k, l); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return has, errors.Join(err, b.Close())
}

// openAlone opens a file that nobody else knows of.
func openAlone(temp string, o Options) (*bolt.DB, error) {
	o.OpenFile = os.OpenFile // what a test wants to hear of is the database
	return boltfile.OpenBolt(temp, o.file())
}

// formerHoldings are those of the database at path, which is open in b.
func formerHoldings(path string, b *bolt.DB) (holdings, error) {
	got, err := boltfile.Adopt(path, checkFile) // bbolt may panic on what this finds
	if err != nil {
		return holdings{}, err
	}
	return inventory(b, got.FellBack)
}

// holdings are the keys of what a Content counts. A message goes by its event: its buffer id is another
// one after every restore.
type holdings struct {
	open     map[string]openEvent // by instance and seen mark: what was not delivered
	untold   bool                 // damage keeps from telling all that was not
	messages map[string]relay.InstanceID
	dead     map[string]relay.InstanceID
	gateways map[string]bool
	bindings map[string]bool
	grants   map[string]bool
}

// openEvent is an event that was not delivered to everybody it is for, or not judged.
type openEvent struct {
	bot relay.Bot
	id  relay.EventID
}

// holds notes that e is open for i, and returns under which key.
func (h *holdings) holds(i relay.InstanceID, e About) string {
	m := seen.Of(e.Bot, e.ID)
	k := string(append(table.Prefix(i), m[:]...))
	h.open[k] = openEvent{e.Bot, e.ID}
	h.untold = h.untold || e.ID == ""
	return k
}

// inventory lists what the database b holds. Damaged records do not count. untold: it is known already that
// not all that was can be told.
func inventory(b *bolt.DB, untold bool) (h holdings, err error) {
	v, err := version(b)
	if err == nil && v > 1+len(migrations()) {
		err = errors.New("a newer hermes-connector wrote it; run that version")
	}
	if err != nil {
		return h, err
	}
	h = holdings{
		open: make(map[string]openEvent), untold: untold,
		messages: make(map[string]relay.InstanceID), dead: make(map[string]relay.InstanceID),
		gateways: make(map[string]bool), bindings: make(map[string]bool), grants: make(map[string]bool),
	}
	err = b.View(func(t *bolt.Tx) error {
		for _, name := range []string{bucketEntries, bucketLanes, bucketDead, bucketGateways, bucketBindings, bucketGrants} {
			if t.Bucket([]byte(name)) == nil {
				return fmt.Errorf("%w: bucket %s is missing", ErrDamaged, name)
			}
		}
		h.each(t, bucketEntries, func(k, v []byte) error {
			e, _, err := decodeEntry(k, v)
			if err != nil || len(k) < 9 {
				return ErrDamaged
			}
			i := relay.InstanceID(k[:len(k)-9])
			h.messages[h.holds(i, e.About)] = i
			return nil
		})
		if t.Bucket([]byte(bucketUndecided)) != nil { // since schema 3
			h.each(t, bucketUndecided, func(k, v []byte) error {
				u, err := decodeUndecided(k, v)
				if err == nil {
					h.messages[h.holds(u.Instance, aboutOf(*u.event()))] = u.Instance
				}
				return err
			})
		}
		h.each(t, bucketDead, func(k, v []byte) error {
			_, e, _, err := decodeDead(k, v)
			if err != nil || len(k) < 25 {
				return ErrDamaged
			}
			// The buffer id: replayed and dead again it has another number, and is the same message.
			name := k[:len(k)-25]
			h.dead[string(name)+":"+string(k[len(k)-16:])] = relay.InstanceID(name)
			h.holds(relay.InstanceID(name), e.About)
			return nil
		})
		for _, g := range table.Readable[Gateway](t, bucketGateways) {
			if !g.Revoked {
				h.gateways[string(g.ID)] = true
			}
		}
		for k := range intact(t, bucketBindings) {
			h.bindings[string(k)] = true
		}
		for k := range intact(t, bucketGrants) {
			h.grants[string(k)] = true
		}
		return nil
	})
	return h, err
}

// each calls fn for the records of b. Where one is not readable it cannot be told what was not delivered.
func (h *holdings) each(t *bolt.Tx, b string, fn func(k, v []byte) error) {
	for k, v := range table.Under(t, b, nil) {
		if fn(k, v) != nil {
			h.untold = true
		}
	}
}

// without is what is in h and not in other.
func (h holdings) without(other holdings) Content {
	c := Content{
		Messages: perInstance(h.messages, other.messages), Dead: perInstance(h.dead, other.dead),
		Bindings: len(missing(h.bindings, other.bindings)), Grants: len(missing(h.grants, other.grants)),
	}
	for _, g := range missing(h.gateways, other.gateways) {
		c.Gateways = append(c.Gateways, relay.GatewayID(g))
	}
	return c
}

// perInstance counts what is in a and not in b.
func perInstance(a, b map[string]relay.InstanceID) (n map[relay.InstanceID]int) {
	for _, k := range missing(a, b) {
		if n == nil {
			n = make(map[relay.InstanceID]int)
		}
		n[a[k]]++
	}
	return n
}

// missing is what is in a and not in b, sorted.
func missing[V any](a, b map[string]V) (out []string) {
	for k := range a {
		if _, ok := b[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
