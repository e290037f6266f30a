// Package restore puts a backup, or the readable records of a damaged file, in the place of the database, while no
// server runs. It does all its work in a new file, which gets the database's name when it is complete.
package restore

import (
	"errors"
	"fmt"
	"io"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Restore puts the backup that is read from r, decrypted, in the place of the database at path, which is kept beside it
// under another name. Every lane gets a new epoch, because otherwise the numbers given out since the backup was made
// would be used again.
//
// Restore carries over from the former database, if that is readable, which events were seen and how far the platforms
// were confirmed, so that delivered events do not come again. Messages that wait in the former database and are not in
// the backup are lost, and counted; whatever would keep a platform from repeating them is not carried over, so that
// they come again from a platform that still has them. The authorship of the agents' messages since, and the new ids of
// chats, are carried over, too. Everything else is as in the backup.
//
// store.ErrLocked: a server runs. store.ErrDamaged: the backup cannot be used; then, as after any error, the database
// is unchanged.
func Restore(path string, r io.Reader, o store.Options) (Restored, error) {
	return replace("restore", path, r, o.File(), accept)
}

// Salvage is Restore with a file that is too damaged to be used, a backup or the database at path itself:
// every record that can be read is copied into a new one. Restored.Unread lists the others.
func Salvage(path string, r io.Reader, o store.Options) (Restored, error) {
	return replace("salvage", path, r, o.File(), salvage)
}

// replace puts the content of r, after usable has checked and changed it, in the place of the file at path. An error
// begins with what.
func replace(what, path string, r io.Reader, o boltfile.Options,
	usable func(*Restored, string, boltfile.Options) error) (out Restored, err error) {
	out.Kept, err = boltfile.Replace(path, r, o, func(temp string, former *bolt.DB) error {
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
			return nil // Compared stays false
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
	if err != nil {
		return Restored{}, fmt.Errorf("%s %s: %w", what, path, err)
	}
	return out, nil
}

// accept checks the file temp, and cuts the backup's trailer off the file, if there is one. It notes in r what it
// found.
func accept(r *Restored, temp string, o boltfile.Options) error {
	got, err := boltfile.Adopt(temp)
	if err == nil {
		err = store.Refusal(got.Bad)
	}
	if err != nil {
		if errors.Is(err, store.ErrDamaged) {
			err = fmt.Errorf("%w; restore --salvage copies what can be read of it", err)
		}
		return err
	}
	r.Damaged, r.FellBack = len(got.Bad), got.FellBack
	return r.dated(temp)
}

// renew gives every lane in the file temp a new epoch, and marks its waiting answers as begun (DoubtAnswers). It
// returns the file's holdings.
func renew(temp string, o boltfile.Options) (has holdings, err error) {
	b, err := openAlone(temp, o)
	if err != nil {
		return has, err
	}
	if has, err = inventory(b); err == nil {
		err = boltfile.Update(b, func(x *bolt.Tx) error {
			e := store.NewEdit(x)
			return errors.Join(e.RenewEpochs(), e.DoubtAnswers())
		})
	}
	return has, errors.Join(err, b.Close())
}

// formerHoldings returns the holdings of the database at path, which is open in b.
func formerHoldings(path string, b *bolt.DB) (h holdings, err error) {
	got, err := boltfile.Adopt(path) // bbolt may panic on files that this check refuses
	if err != nil {
		return h, err
	}
	h, err = inventory(b)
	h.untold = h.untold || got.FellBack
	return h, err
}
