package manage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// row returns the audit row of a change to i, made by somebody. Scripts search for the actions; relay/link adds
// "link-code" and "link".
func row(by audit.Actor, action string, i store.Instance, detail string) *audit.Entry {
	return &audit.Entry{Actor: by, Action: action, Tenant: i.Tenant, Instance: i.ID, Detail: detail}
}

// gatewayRow is row for a change to one gateway.
func gatewayRow(by audit.Actor, action string, g store.Gateway, detail string) *audit.Entry {
	return &audit.Entry{Actor: by, Action: action, Tenant: g.Tenant, Instance: g.Instance, Gateway: g.ID, Detail: detail}
}

// AuditQuery says which rows of the audit list are wanted.
type AuditQuery struct {
	Name  string `json:"name,omitempty"`  // an instance or a gateway; empty: all
	Limit int    `json:"limit,omitempty"` // at most so many of the newest rows; 0 means all
}

// AuditRow says who changed what, and when.
type AuditRow struct {
	At        time.Time        `json:"at"`
	ActorKind audit.ActorKind  `json:"actorKind"`
	Actor     string           `json:"actor,omitempty"` // as its kind names it: a user, a gateway, a subject
	Action    string           `json:"action"`
	Tenant    relay.TenantID   `json:"tenant,omitempty"`
	Instance  relay.InstanceID `json:"instanceId,omitempty"`
	Gateway   relay.GatewayID  `json:"gatewayId,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	// Person is the name of the person who made the change, or of the one it is about; Name is the name that the
	// instance was given; empty: there is none.
	Person string `json:"personName,omitempty"`
	Name   string `json:"gatewayName,omitempty"`
}

// Audit lists who changed what, newest last. For a name without changes it returns none. Refused with Usage.
func (s *history) Audit(ctx context.Context, q AuditQuery) ([]AuditRow, error) {
	if q.Limit < 0 {
		return nil, unfit("limit", "a limit of %d shows nothing", q.Limit)
	}
	of, err := s.db.Labels.Find(ctx, q.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	all, err := s.db.Audit.List(ctx, q.Limit, func(e audit.Entry) bool {
		return q.Name == "" || of.ID != "" && e.Instance == of.ID || string(e.Instance) == q.Name || string(e.Gateway) == q.Name
	})
	return each(all, func(e audit.Entry) AuditRow {
		out := AuditRow{
			At: e.At.UTC(), ActorKind: e.Actor.Kind, Actor: e.Actor.Name, Action: e.Action,
			Tenant: e.Tenant, Instance: e.Instance, Gateway: e.Gateway, Detail: e.Detail,
		}
		if e.Instance != "" {
			out.Name = s.label(ctx, e.Instance)
		}
		// The person is in the detail, as Bind.person writes it, or is the actor, as package relay/link names them.
		platform, user, ok := strings.Cut(e.Detail, " person ")
		if !ok && e.Actor.Kind == audit.ActorPerson {
			platform, user, ok = strings.Cut(e.Actor.Name, ":")
		}
		if ok {
			names, _ := s.names(ctx, store.Person{Platform: relay.PlatformID(platform), User: relay.UserID(user)}) // an error means no name
			out.Person = names.Shown()
		}
		return out
	}), err
}
