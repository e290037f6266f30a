// Package audit is the list of who changed what, and when.
//
// Rows are stored under their tenant and a number that runs through all rows. So many rows of one tenant push out no
// row of another, and the order across tenants does not depend on the clock. Rows without a tenant belong to the
// operator and the connector, and count as one more tenant. Counts are kept of the rows of each tenant and of each
// credential in it; beyond the limit the oldest rows are dropped. A wrong count is made anew: no change may fail
// because of it.
package audit

import (
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// How many rows are kept.
const (
	MaxRows       = 10_000 // of a tenant
	MaxCredential = 2_000  // of a tenant's rows, from one credential
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
	ActorWeb      ActorKind = "web"      // somebody who is logged in at the web pages
	ActorSystem   ActorKind = "system"   // the connector itself
)

// Actor is who makes a change; the zero Actor is the connector itself.
type Actor struct {
	Kind ActorKind `json:"kind"`
	Name string    `json:"name,omitempty"`
}

// Entry is one row of the audit list: who changed what, and when. It holds ids and short words, never a secret and
// nothing people wrote. The write fills in the time, and those empty ids that it finds out, such as whose link code was
// used.
type Entry struct {
	At       time.Time        `json:"at"`
	Actor    Actor            `json:"actor"`
	Action   string           `json:"action"`
	Tenant   relay.TenantID   `json:"tenant,omitempty"`
	Instance relay.InstanceID `json:"instance,omitempty"`
	Gateway  relay.GatewayID  `json:"gateway,omitempty"`
	Detail   string           `json:"detail,omitempty"` // such as "telegram chat -100500"
}

// Stamped returns e as it is stored: with the time at, with the connector as the actor if none is named, and with texts
// cut to 512 bytes. For nil it returns nil.
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

// Attrs returns the row as attributes of a log line, without its time and its empty fields.
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
