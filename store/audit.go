package store

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	maxAudit      = 10_000 // rows kept of a tenant
	maxCredential = 2_000  // of which one credential's
	auditText     = 512    // bytes of a free text kept in a row
)

// ActorKind says what sort of caller made a change.
type ActorKind string

// The kinds of actors.
const (
	ActorCLI      ActorKind = "cli"      // a user of this machine; the name is the operating system's
	ActorGateway  ActorKind = "gateway"  // a gateway with its own credential; the name is its id
	ActorJWT      ActorKind = "jwt"      // the bearer of a managed token; the name is its subject
	ActorIdentity ActorKind = "identity" // the bearer of an identity token; the name is its instance, or tenant
	ActorPerson   ActorKind = "person"   // someone on a platform; the name is platform:user
	ActorSystem   ActorKind = "system"   // the connector itself
)

// Actor is who makes a change.
type Actor struct {
	Kind ActorKind `json:"kind"`
	Name string    `json:"name,omitempty"`
}

// AuditEntry is one row of the audit list (auditlist.go): who changed what, and when. It holds ids and short
// words, never a secret and nothing people wrote.
type AuditEntry struct {
	At       time.Time        `json:"at"`
	Actor    Actor            `json:"actor"`
	Action   string           `json:"action"`
	Tenant   relay.TenantID   `json:"tenant,omitempty"`
	Instance relay.InstanceID `json:"instance,omitempty"`
	Gateway  relay.GatewayID  `json:"gateway,omitempty"`
	Detail   string           `json:"detail,omitempty"` // such as "telegram chat -100500"
}

type (
	actorKey struct{}
	auditKey struct{}
)

// WithActor says who makes the changes under ctx. Without it, it is the connector itself.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Audited makes a write under ctx leave e in the audit list: in the same transaction, and only if
// the write changes something. Every write with this context leaves a row, except Accept, so it
// belongs to the one that makes the change. Time and actor are filled in by the write, and so are
// the tenant, the instance and the gateway where they are empty and the write finds them out:
// RedeemLinkCode, Enroll, EnrollByToken, Revoke and RevokeInstance do. Texts are cut at 512 bytes.
func Audited(ctx context.Context, e AuditEntry) context.Context {
	return context.WithValue(ctx, auditKey{}, e)
}

// auditRow is the row a write under ctx is to leave; nil for none.
func auditRow(ctx context.Context, now func() time.Time) *AuditEntry {
	e, ok := ctx.Value(auditKey{}).(AuditEntry)
	if !ok {
		return nil
	}
	e.At, e.Actor = now(), Actor{Kind: ActorSystem}
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		e.Actor = a
	}
	for _, text := range []*string{&e.Actor.Name, &e.Action, &e.Detail} {
		if len(*text) > auditText {
			*text = strings.ToValidUTF8((*text)[:auditText], "")
		}
	}
	return &e
}

// run runs o, and leaves its audit row if it has one and changed something.
func (t *tx) run(o *op) error {
	t.row = nil
	if o.row != nil {
		row := *o.row // o may run again
		t.row = &row
	}
	before := t.Changes
	if err := o.fn(t); err != nil || t.row == nil || t.Changes == before {
		return err
	}
	return t.audit(*t.row)
}

// concerns completes the audit row of the op that runs with what it found out.
func (t *tx) concerns(tenant relay.TenantID, i relay.InstanceID, g relay.GatewayID) {
	if t.row == nil {
		return
	}
	if t.row.Tenant == "" {
		t.row.Tenant = tenant
	}
	if t.row.Instance == "" {
		t.row.Instance = i
	}
	if t.row.Gateway == "" {
		t.row.Gateway = g
	}
}
