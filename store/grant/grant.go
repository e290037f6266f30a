// Package grant is which chat belongs to which instance.
package grant

import (
	"bytes"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of grants: platform|scope|chat -> Record.
const Bucket = "grants"

// What the index finds grants by.
const (
	byInstance = "instance"
	byChat     = "chat"
)

// ErrHeld: another instance holds the chat, or the scope it lies in. It names nothing about the holder.
var ErrHeld = errors.New("another instance holds it")

// Record says: this chat belongs to that instance. At most one instance holds a (platform, scope,
// chat); an empty Chat is the whole scope.
type Record struct {
	Platform  relay.PlatformID `json:"platform"`
	Scope     relay.ScopeID    `json:"scope,omitempty"`
	Chat      relay.ChatID     `json:"chat,omitempty"`
	Instance  relay.InstanceID `json:"instance"`
	Tenant    relay.TenantID   `json:"tenant"`
	GrantedAt time.Time        `json:"granted"`
}

// Key is where the grant stands.
func Key(p relay.PlatformID, s relay.ScopeID, c relay.ChatID) []byte {
	return table.Key(p, string(s), string(c))
}

// At is the grant's place, and its keys in the index.
func (r Record) At() (string, []byte, [][]byte) {
	return Bucket, Key(r.Platform, r.Scope, r.Chat), [][]byte{
		table.IndexKey(Bucket, byInstance, string(r.Instance), string(r.Platform), string(r.Scope), string(r.Chat)),
		table.IndexKey(Bucket, byChat, string(r.Platform), string(r.Chat), string(r.Scope)),
	}
}

// Of is what the index has the grants of an instance under.
func Of(i relay.InstanceID) []byte { return table.IndexUnder(Bucket, byInstance, string(i)) }

// On lists the grants on a chat, in whatever scope.
func On(t *bolt.Tx, p relay.PlatformID, c relay.ChatID) ([]Record, error) {
	return table.Lookup[Record](t, Bucket, table.IndexUnder(Bucket, byChat, string(p), string(c)), "", 0)
}

// Claimable is nil when nobody else's grant stands in r's way, else ErrHeld. mine: r's instance has it already.
func Claimable(t *bolt.Tx, r Record) (mine bool, err error) {
	rivals, err := table.AtMostOne[Record](t, Bucket, Key(r.Platform, r.Scope, r.Chat))
	mine = len(rivals) > 0
	var others []Record
	switch {
	case err != nil || r.Scope == "":
	case r.Chat == "":
		others, err = table.List[Record](t, Bucket, table.Prefix(r.Platform, string(r.Scope)))
	default:
		others, err = table.AtMostOne[Record](t, Bucket, Key(r.Platform, r.Scope, ""))
	}
	held := func(o Record) bool { return o.Instance != r.Instance }
	if err == nil && slices.ContainsFunc(append(rivals, others...), held) {
		err = ErrHeld
	}
	return mine && err == nil, err
}

// covering is at most one grant; see Filter.Covering.
func covering(t *bolt.Tx, place relay.Place) ([]Record, error) {
	now, err := moved.Current(t, place.Platform, place.Chat)
	if err != nil {
		return nil, err
	}
	for n, c := range []relay.ChatID{place.Chat, now, place.Parent, ""} {
		if c == "" && (n < 3 || place.Scope == "") {
			continue
		}
		if one, err := table.AtMostOne[Record](t, Bucket, Key(place.Platform, place.Scope, c)); err != nil || len(one) > 0 {
			return one, err
		}
	}
	return nil, nil
}

// Filter picks grants by what they have; what is empty does not matter. Read is little more than what is
// picked where it names an instance, or a platform and a chat.
type Filter struct {
	Instance relay.InstanceID
	Platform relay.PlatformID
	Chat     relay.ChatID // grants that may cover it: on it in whatever scope, and on whole scopes
	Limit    int          // picks so many at most, of an instance; 0: all
	// Covering picks, by itself, the grant that covers the place: on its chat, else on the chat that one is a
	// thread of, else on its whole scope. A chat that has moved is looked for under its new id too.
	Covering *relay.Place
}

func (f Filter) picks(r Record) bool {
	return (f.Instance == "" || f.Instance == r.Instance) && (f.Platform == "" || f.Platform == r.Platform) &&
		(f.Chat == "" || f.Chat == r.Chat || r.Chat == "")
}

// from reads the grants that f may pick.
func (f Filter) from(t *bolt.Tx) ([]Record, error) {
	switch {
	case f.Covering != nil:
		return covering(t, *f.Covering)
	case f.Instance != "" && f.Platform != "":
		pre := table.IndexUnder(Bucket, byInstance, string(f.Instance), string(f.Platform))
		return table.Lookup[Record](t, Bucket, pre, "", f.Limit)
	case f.Instance != "":
		return table.Lookup[Record](t, Bucket, Of(f.Instance), "", f.Limit)
	case f.Platform != "" && f.Chat != "":
		on, err1 := On(t, f.Platform, f.Chat)
		around, err2 := On(t, f.Platform, "")
		return append(on, around...), errors.Join(err1, err2)
	case f.Platform != "":
		return table.List[Record](t, Bucket, table.Prefix(f.Platform))
	}
	return table.List[Record](t, Bucket, nil)
}

// List lists the grants that f picks, by platform, scope and chat.
func List(t *bolt.Tx, f Filter) ([]Record, error) {
	out, err := f.from(t)
	out = slices.DeleteFunc(out, func(r Record) bool { return !f.picks(r) })
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return bytes.Compare(Key(a.Platform, a.Scope, a.Chat), Key(b.Platform, b.Scope, b.Chat)) < 0
	})
	return out, err
}
