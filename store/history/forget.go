package history

import (
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// person is somebody to be forgotten, with the events that belong to them.
type person struct {
	platform, user, instance string
	chats                    map[string]bool // by id: the chats that are direct messages with them
	events                   map[string]bool // the events that they wrote, by chat and event
	seqs                     map[uint64]bool // the numbers of their messages in the instance's lane
}

// Forget removes a person from i's history, and from the rest of the transaction: what they wrote to i or to nobody,
// and what i said in answer or in their direct messages. dms are chats that are known to be direct messages with them.
// It reads the whole history.
func (r *Records) Forget(w *table.Writer, b *Batch, i relay.InstanceID, p relay.PlatformID, u relay.UserID, dms ...relay.ChatID) error {
	who := person{
		string(p), string(u), string(i), map[string]bool{string(u): true}, make(map[string]bool), make(map[uint64]bool),
	}
	for _, c := range dms {
		who.chats[string(c)] = true
	}
	var d decoder
	buckets := []string{Older, Newest} // in the order of their notes
	for _, bucket := range buckets {
		for k, v := range table.Under(w.Tx, bucket, nil) {
			if d.read(k, v) != nil {
				continue // every reader skips a damaged record
			}
			for _, n := range d.notes {
				who.meet(d.note(n))
			}
		}
	}
	for _, n := range append(r.snapshot(), b.notes...) {
		who.meet(n)
	}
	for _, bucket := range buckets {
		for _, k := range table.KeysUnder(w.Tx, bucket, nil) {
			if err := who.leave(w, &d, bucket, k); err != nil {
				return err
			}
		}
	}
	left := contentOf(w.Tx)
	w.Changes++ // notes that wait for a commit are forgotten, too: so there must be one
	b.gone, b.left = append(b.gone, who.owns), &left
	return nil
}

// leave removes the person's notes from the record under k, and deletes the record if no note is left.
func (who person) leave(w *table.Writer, d *decoder, bucket string, k []byte) error {
	if d.read(k, w.Bucket([]byte(bucket)).Get(k)) != nil {
		return nil
	}
	var e encoder
	kept := 0
	for _, n := range d.notes {
		if n := d.note(n); !who.owns(n) {
			e.add(n)
			kept++
		}
	}
	switch kept {
	case len(d.notes):
		return nil
	case 0:
		return w.Delete(bucket, k)
	}
	return w.PutSealed(bucket, slices.Clone(k), boltfile.Seal(k, e.payload))
}

// meet learns from n which events belong to the person. It is called for all notes, in their order.
func (who person) meet(n *note) {
	switch n.kind {
	case cameNote, judgedNote:
		if !who.owns(n) {
			return
		}
		who.events[n.words[ofChat]+"\x00"+n.words[cameEvent]] = true
		if relay.ChatType(n.words[cameType]) == relay.ChatDM {
			who.chats[n.words[ofChat]] = true
		}
		if n.words[cameInstance] == who.instance && n.numbers[0] != 0 {
			who.seqs[n.numbers[0]] = true
		}
	case replayedNote:
		if n.words[itsInstance] == who.instance && who.seqs[n.numbers[1]] {
			who.seqs[n.numbers[0]] = true
		}
	}
}

// owns reports whether n is about the person, according to the notes that meet has learned from.
func (who person) owns(n *note) bool {
	switch n.kind {
	case cameNote, judgedNote:
		i := n.words[cameInstance]
		return n.words[ofPlatform] == who.platform && n.words[cameUser] == who.user && (i == who.instance || i == "")
	case saidNote:
		return n.words[ofPlatform] == who.platform && n.words[saidInstance] == who.instance &&
			(who.chats[n.words[ofChat]] || who.events[n.words[ofChat]+"\x00"+n.words[saidTo]])
	}
	return n.words[itsInstance] == who.instance && who.seqs[n.numbers[0]]
}
