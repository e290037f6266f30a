// Package binding is whose messages go to which instance.
package binding

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of bindings: platform|user|instance -> Record.
const Bucket = "bindings"

// What the index finds bindings by.
const (
	byInstance = "instance"
	byChat     = "chat"
)

// Record says: this person's messages go to that instance.
type Record struct {
	Tenant   relay.TenantID   `json:"tenant"`
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"user"`
	Instance relay.InstanceID `json:"instance"`
	BoundAt  time.Time        `json:"bound"`
	// DMDefault: of several instances of one person, this one gets the direct messages.
	DMDefault bool `json:"dmDefault,omitempty"`
	// DMChat is the direct-message chat the person linked in, where the platform cannot derive it.
	DMChat relay.ChatID `json:"dmChat,omitempty"`
}

// Key is where the binding stands.
func Key(p relay.PlatformID, u relay.UserID, i relay.InstanceID) []byte {
	return table.Key(p, string(u), string(i))
}

// At is the binding's place, and its keys in the index.
func (r Record) At() (string, []byte, [][]byte) {
	also := [][]byte{table.IndexKey(Bucket, byInstance, string(r.Instance), string(r.Platform), string(r.User))}
	if r.DMChat != "" {
		also = append(also, table.IndexKey(Bucket, byChat, string(r.Platform), string(r.DMChat), string(r.Instance), string(r.User)))
	}
	return Bucket, Key(r.Platform, r.User, r.Instance), also
}

// Of is what the index has the bindings of an instance under.
func Of(i relay.InstanceID) []byte { return table.IndexUnder(Bucket, byInstance, string(i)) }

// Filter picks bindings by what they have; what is empty does not matter. Read is little more than what
// is picked where it says who or whom: a user or a direct-message chat of a platform, or an instance.
type Filter struct {
	Platform relay.PlatformID
	User     relay.UserID
	Instance relay.InstanceID
	DMChat   relay.ChatID

	// Limit picks so many, those with the next users behind After, in their order; with an instance and a
	// platform only. 0: all.
	Limit int
	After relay.UserID
}

func (f Filter) picks(r Record) bool {
	return (f.Platform == "" || f.Platform == r.Platform) && (f.User == "" || f.User == r.User) &&
		(f.Instance == "" || f.Instance == r.Instance) && (f.DMChat == "" || f.DMChat == r.DMChat)
}

// from reads the bindings that f may pick.
func (f Filter) from(t *bolt.Tx) ([]Record, error) {
	switch {
	case f.Platform != "" && f.User != "" && f.Instance != "":
		return table.AtMostOne[Record](t, Bucket, Key(f.Platform, f.User, f.Instance))
	case f.Platform != "" && f.User != "":
		return table.List[Record](t, Bucket, table.Prefix(f.Platform, string(f.User)))
	case f.Platform != "" && f.DMChat != "" && f.Instance != "":
		return table.Lookup[Record](t, Bucket, table.IndexUnder(Bucket, byChat, string(f.Platform), string(f.DMChat), string(f.Instance)), "", 0)
	case f.Platform != "" && f.DMChat != "":
		return table.Lookup[Record](t, Bucket, table.IndexUnder(Bucket, byChat, string(f.Platform), string(f.DMChat)), "", 0)
	case f.Instance != "" && f.Platform != "":
		pre := table.IndexUnder(Bucket, byInstance, string(f.Instance), string(f.Platform))
		return table.Lookup[Record](t, Bucket, pre, string(f.After), f.Limit)
	case f.Instance != "":
		return table.Lookup[Record](t, Bucket, Of(f.Instance), "", 0)
	}
	return table.List[Record](t, Bucket, nil)
}

// List lists the bindings that f picks, the first made first, or with a limit by user.
func List(t *bolt.Tx, f Filter) ([]Record, error) {
	out, err := f.from(t)
	out = slices.DeleteFunc(out, func(r Record) bool { return !f.picks(r) })
	if f.Limit == 0 {
		sort.SliceStable(out, func(i, j int) bool {
			return cmp.Or(out[i].BoundAt.Compare(out[j].BoundAt), cmp.Compare(out[i].Instance, out[j].Instance)) < 0
		})
	}
	return out, err
}
