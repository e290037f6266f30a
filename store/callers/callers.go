// Package callers stores the programs that hand over messages for agents: who they are (Caller), what happened to their
// messages (relay.Receipt), and the agents' answers (Reply).
//
// The package does not know which agents a caller may reach: a binding allows that, as it does for a person. A receipt
// is stored in the transaction of its event, and marked as acknowledged in the transaction that deletes the
// acknowledged entry, so that it is still right after a crash.
package callers

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of callers: name -> Caller. The index has them by the MACs of their credentials.
const Bucket = "callers"

// Bounds.
const (
	Max       = 100 // callers
	MaxAgents = 100 // that a caller may reach; people too
	Kept      = 7 * 24 * time.Hour
)

// The purposes name the keys of the MACs of callers' credentials.
const (
	TokenPurpose = "agents-token" // of bearer tokens
	WakePurpose  = "agents-wake"  // of keys that wake one agent
	PushPurpose  = "agents-push"  // of keys with which one person can be sent a message
)

const byMAC = "mac"

// Caller is a program that the operator let in.
type Caller struct {
	Name string `json:"name"`
	// ID is random, so that a new caller with the name of a former one finds nothing that belonged to the former one.
	ID string `json:"id"`
	// Token is the HMAC of its bearer token.
	Token []byte `json:"token"`
	// Signs is the secret with which the caller signs the bodies of its requests, sealed by the vault for Place; nil:
	// the caller does not sign.
	Signs     []byte    `json:"signs,omitempty"`
	Agents    []Agent   `json:"agents,omitempty"`
	People    []Person  `json:"people,omitempty"`
	CreatedAt time.Time `json:"created"`
}

// Agent is an agent that the operator let a caller reach. The binding decides whether it may.
type Agent struct {
	Instance relay.InstanceID `json:"instance"`
	// Wake is the HMAC of the key with which the agent can be woken, and nothing else can be done.
	Wake []byte `json:"wake"`
}

// Person is somebody whom a caller may write to, as long as they are linked to a gateway.
type Person struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"user"`
	// Push is the HMAC of the key with which messages can be sent to this person, and nothing else can be done.
	Push []byte `json:"push"`
	// Muted: the person does not want messages from the caller.
	Muted bool `json:"muted,omitempty"`
}

// String returns the person as people type them.
func (p Person) String() string { return string(p.Platform) + ":" + string(p.User) }

// Person returns the caller's entry for a person to whom it may write; nil: it may not.
func (c *Caller) Person(p relay.PlatformID, u relay.UserID) *Person {
	n := slices.IndexFunc(c.People, func(o Person) bool { return o.Platform == p && o.User == u })
	if n < 0 {
		return nil
	}
	return &c.People[n]
}

// Place returns the bucket and the key of the record with the secret Signs: the vault seals the secret for this place.
func Place(name string) (bucket, key string) { return Bucket, string(table.Key(name)) }

// Index returns the caller's bucket, its key there, and its keys in the index.
func (c Caller) Index() (string, []byte, [][]byte) {
	also := [][]byte{table.IndexKey(Bucket, byMAC, string(c.Token), c.Name)}
	for _, a := range c.Agents {
		also = append(also, table.IndexKey(Bucket, byMAC, string(a.Wake), c.Name))
	}
	for _, p := range c.People {
		also = append(also, table.IndexKey(Bucket, byMAC, string(p.Push), c.Name))
	}
	return Bucket, table.Key(c.Name), also
}

// Agent returns the caller's entry for an agent; ok is false if the operator did not let the caller reach it.
func (c Caller) Agent(i relay.InstanceID) (a Agent, ok bool) {
	n := slices.IndexFunc(c.Agents, func(a Agent) bool { return a.Instance == i })
	if n < 0 {
		return a, false
	}
	return c.Agents[n], true
}

// Sealed returns the kind of the callers, whose secrets the vault has sealed.
func Sealed() rekey.Kind {
	return rekey.Records(Bucket, false, func(c *Caller) []rekey.Value {
		if c.Signs == nil {
			return nil
		}
		bucket, key := Place(c.Name)
		return []rekey.Value{{Bucket: bucket, Key: key, Bytes: &c.Signs}}
	})
}

// Records are those of all callers. Its methods may be called from any goroutine.
type Records struct{ db *table.DB }

// New returns the records of db.
func New(db *table.DB) *Records { return &Records{db: db} }

// All lists the callers by name.
func (rs *Records) All(ctx context.Context) ([]Caller, error) {
	return table.Get(ctx, rs.db, "callers", func(t *bolt.Tx) ([]Caller, error) { return table.List[Caller](t, Bucket, nil) })
}

// Get returns the caller with that name; ok is false if there is none.
func (rs *Records) Get(ctx context.Context, name string) (c Caller, ok bool, err error) {
	return table.Find[Caller](ctx, rs.db, "caller", Bucket, table.Key(name))
}

// ByMAC returns the caller with a credential that has this HMAC; ok is false if there is none.
func (rs *Records) ByMAC(ctx context.Context, mac []byte) (c Caller, ok bool, err error) {
	return table.First(table.Get(ctx, rs.db, "caller", func(t *bolt.Tx) ([]Caller, error) {
		return table.Lookup[Caller](t, Bucket, table.IndexUnder(Bucket, byMAC, string(mac)), "", 1)
	}))
}
