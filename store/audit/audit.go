// Package audit is the list of who changed what, and when.
//
// Rows stand under their tenant and a number that runs through all of them, so that one tenant's many rows push
// out none of another's, and the order over tenants is known whatever the clock did. Rows without a tenant are
// the operator's and the connector's, and are kept as one more. A count says how many rows there are of a
// tenant, and of each credential in it; what is too many goes, the oldest first. A count that turns out wrong
// is made anew: no change may fail for it.
package audit

import (
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// How many rows are kept.
const (
	MaxRows       = 10_000 // of a tenant
	MaxCredential = 2_000  // of which one credential's
)

const maxText = 512 // bytes of a free text kept in a row

// ActorKind says what sort of caller made a change.
type ActorKind string

// The kinds of actors.
const (
	ActorCLI      ActorKind = "cli"      // a user of this machine; the name is the operating system's
	ActorGateway  ActorKind = "gateway"  // a gateway with its own credential; the name is its id
	ActorJWT      ActorKind = "jwt"      // the bearer of a managed token; the name is its subject
	ActorIdentity ActorKind = "identity" // the bearer of an identity token; the name is its instance, or tenant
	ActorPerson   ActorKind = "person"   // someone on a platform; the name is platform:user
	ActorWeb      ActorKind = "web"      // who is logged in at the web pages
	ActorSystem   ActorKind = "system"   // the connector itself
)

// Actor is who makes a change; the zero Actor is the connector itself.
type Actor struct {
	Kind ActorKind `json:"kind"`
	Name string    `json:"name,omitempty"`
}

// Entry is one row of the audit list: who changed what, and when. It holds ids and short
// words, never a secret and nothing people wrote. Time and the ids that are left empty and that the write
// finds out (whose link code it was, say) are filled in by the write.
type Entry struct {
	At       time.Time        `json:"at"`
	Actor    Actor            `json:"actor"`
	Action   string           `json:"action"`
	Tenant   relay.TenantID   `json:"tenant,omitempty"`
	Instance relay.InstanceID `json:"instance,omitempty"`
	Gateway  relay.GatewayID  `json:"gateway,omitempty"`
	Detail   string           `json:"detail,omitempty"` // such as "telegram chat -100500"
}

// Stamped is e as a write leaves it in the list: at this moment, in the connector's own name when no actor is named,
// and with texts of at most 512 bytes. Nil stays nil.
func (e *Entry) Stamped(at time.Time) *Entry {
	if e == nil {
		return nil
	}
	row := *e
	row.At = at
	if row.Actor == (Actor{}) {
		row.Actor.Kind = ActorSystem
	}
	for _, text := range []*string{&row.Actor.Name, &row.Action, &row.Detail} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "")
		}
	}
	return &row
}

// Attrs is the row for a log, without its time and what is empty.
func (e *Entry) Attrs() (out []any) {
	for _, a := range [][2]string{
		{"action", e.Action}, {"by", e.Actor.Name}, {"tenant", string(e.Tenant)}, {"instance", string(e.Instance)},
		{"gateway", string(e.Gateway)}, {"detail", e.Detail},
	} {
		if a[1] != "" {
			out = append(out, a[0], a[1])
		}
	}
	return out
}
