package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const (
	bucketCodes    = "codes"    // HMAC -> link Code
	bucketTokens   = "tokens"   // HMAC -> enrollment Code, and codes and sessions of the web pages
	bucketIdentity = "identity" // HMAC -> identity Code; at most one per instance
)

// CodeKind is the purpose of a code.
type CodeKind string

// The kinds of codes.
const (
	LinkCode   CodeKind = "link"   // it binds its sender to an instance
	EnrollCode CodeKind = "enroll" // a gateway enrolls itself with it, once: an enrollment token
	// IdentityCode is behind an identity URL, which hands out identity tokens for the code's instance or, if it names
	// none, for enrolling in the tenant.
	IdentityCode CodeKind = "identity"
	// WebCode logs a person in at the web pages, once; WebSession identifies them from then on.
	WebCode    CodeKind = "web"
	WebSession CodeKind = "session"
)

// Code gives a right to everybody who knows it. The database stores only its HMAC.
type Code struct {
	Kind     CodeKind         `json:"-"`
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instance,omitempty"`
	// Platform is the platform of a link code; empty: any.
	Platform relay.PlatformID `json:"platform,omitempty"`
	// Commands are the commands of a link code; empty: everything.
	Commands []string `json:"commands,omitempty"`
	// Gateway is the gateway for which an enrollment token was made; empty: any.
	Gateway   relay.GatewayID `json:"gateway,omitempty"`
	WakeURL   string          `json:"wake,omitempty"` // of an enrollment token
	CreatedAt time.Time       `json:"created,omitzero"`
	ExpiresAt time.Time       `json:"expires,omitzero"` // zero: an identity code that does not expire
	// RedeemedBy makes a second try of a link code by the same person succeed again, so that a crash between the
	// binding and the answer does not read as a wrong code.
	RedeemedBy *Person `json:"redeemedBy,omitempty"`
	Used       bool    `json:"used,omitempty"` // an enrollment token
	// Web is the kind of a code that is stored in the bucket of the enrollment tokens but is none. Codes sets it.
	Web CodeKind `json:"web,omitempty"`
}

// bucket returns the bucket with the codes of a kind, under their HMACs.
func (k CodeKind) bucket() string {
	switch k {
	case EnrollCode, WebCode, WebSession:
		return bucketTokens
	case IdentityCode:
		return bucketIdentity
	}
	return bucketCodes
}

// shared returns the mark, for Code.Web, of a kind whose codes are stored among the enrollment tokens: the kind itself.
// It is empty for enrollment tokens, and for the kinds that have a bucket of their own.
func (k CodeKind) shared() CodeKind {
	if k == WebCode || k == WebSession {
		return k
	}
	return ""
}

// Codes are the codes of all kinds, by their HMACs. Its methods may be called from any goroutine.
type Codes struct{ db *DB }

// Put stores a code under its HMAC. ErrExists: there is such a code already; the caller must draw another. The instance
// of a link code must exist (ErrNotFound: it does not, or was revoked). An identity code must name a tenant, and
// replaces the former identity codes of its instance. That instance need not be enrolled yet (ErrForeign: it belongs to
// another tenant). If the CreatedAt of an identity code is zero, it becomes now.
func (cs *Codes) Put(ctx context.Context, row *audit.Entry, mac []byte, c Code) error {
	if c.Kind == IdentityCode && c.Tenant == "" {
		return errors.New("identity code: no tenant is named")
	}
	if c.Kind == IdentityCode && c.CreatedAt.IsZero() {
		c.CreatedAt = cs.db.now()
	}
	return cs.db.change(ctx, row, fmt.Sprintf("%s code", c.Kind), func(t *tx) error {
		if c.Kind == LinkCode {
			if _, err := t.live(c.Instance); err != nil {
				return err
			}
		}
		if table.Has(t.Tx, c.Kind.bucket(), mac) {
			return ErrExists
		}
		if c.Kind == IdentityCode && c.Instance != "" {
			if err := replaceIdentity(t.Writer, c); err != nil {
				return err
			}
		}
		c.Web = c.Kind.shared()
		return t.Put(c.Kind.bucket(), mac, c)
	})
}

// replaceIdentity drops the former identity codes of c's instance.
func replaceIdentity(w *table.Writer, c Code) error {
	i, ok, err := table.Load[Instance](w.Tx, BucketInstances, table.Key(c.Instance))
	if err != nil {
		return err
	}
	if ok && i.Tenant != c.Tenant {
		return fmt.Errorf("instance %s: %w", c.Instance, ErrForeign)
	}
	return dropCodes(w, IdentityCode, c.Instance)
}

// Get returns the code of that kind with this HMAC; a link code or an enrollment token whether or not it is still
// valid. ErrNotFound: there is none, or it was replaced or dropped. ErrExpired: a code of another kind has expired.
func (cs *Codes) Get(ctx context.Context, k CodeKind, mac []byte) (c Code, err error) {
	c, err = table.Get(ctx, cs.db.records, string(k)+" code", func(t *bolt.Tx) (Code, error) { return table.Found[Code](t, k.bucket(), mac) })
	// judged: Get itself checks whether the code has expired. That holds for identity codes and for the codes of the
	// web pages, which are the kinds that equal their own mark; for the others the caller checks.
	switch judged := k == IdentityCode || k == k.shared(); {
	case err == nil && c.Web != k.shared():
		err = fmt.Errorf("%s code: %w", k, ErrNotFound)
	case err == nil && judged && !c.ExpiresAt.IsZero() && !cs.db.now().Before(c.ExpiresAt):
		err = fmt.Errorf("%s code: %w", k, ErrExpired)
	}
	if err != nil {
		return Code{}, err
	}
	c.Kind = k
	return c, nil
}

// Prolong makes the code of that kind with this HMAC expire at until. ErrNotFound: there is none any more.
func (cs *Codes) Prolong(ctx context.Context, k CodeKind, mac []byte, until time.Time) error {
	return cs.db.change(ctx, nil, "prolong "+string(k)+" code", func(t *tx) error {
		c, err := table.Found[Code](t.Tx, k.bucket(), mac)
		if err != nil {
			return err
		}
		if c.Web != k.shared() {
			return ErrNotFound
		}
		c.ExpiresAt = until
		return t.Put(k.bucket(), mac, c)
	})
}

// Redeem binds the person to a link code's instance and marks the code, in one transaction. dm is the chat in which the
// code was sent. If the same person redeems it again while the binding exists, the answer is the same, and nothing
// changes. ErrNotFound: the code is unknown or for another platform, or its instance is gone. ErrUsed: somebody else
// redeemed it before. ErrExpired: its time is over. *CommandTaken: another of the person's instances has one of its
// commands; the code stays valid.
func (cs *Codes) Redeem(ctx context.Context, row *audit.Entry, mac []byte, by Person, dm relay.ChatID) (out Code, err error) {
	now := cs.db.now()
	err = cs.db.change(ctx, row, "redeem link code", func(t *tx) error {
		c, ok, err := table.Load[Code](t.Tx, bucketCodes, mac)
		if err != nil {
			return err
		}
		switch {
		case !ok, c.Platform != "" && c.Platform != by.Platform:
			return ErrNotFound
		case c.RedeemedBy != nil && *c.RedeemedBy == by && table.Has(t.Tx, BucketBindings, bindingKey(by.Platform, by.User, c.Instance)):
			out = c
			return nil
		case c.RedeemedBy != nil:
			return ErrUsed
		case !now.Before(c.ExpiresAt):
			return ErrExpired
		}
		c.RedeemedBy = &by
		out = c
		t.concerns(c.Tenant, c.Instance, "")
		b := Binding{Platform: by.Platform, User: by.User, Instance: c.Instance, Commands: c.Commands, DMChat: dm}
		if err := t.bind(b, now); err != nil {
			return err
		}
		return t.Put(bucketCodes, mac, c)
	})
	return out, err
}

// CodeFilter picks codes of a kind: the code with the HMAC MAC or, if that is nil, the codes of Instance.
type CodeFilter struct {
	Kind     CodeKind
	MAC      []byte
	Instance relay.InstanceID
}

// Identity reports whether an instance has an identity code that is still good.
func (cs *Codes) Identity(ctx context.Context, i relay.InstanceID) (bool, error) {
	now := cs.db.now()
	return table.Get(ctx, cs.db.records, "identity codes", func(t *bolt.Tx) (bool, error) {
		all, err := table.List[Code](t, bucketIdentity, nil)
		return slices.ContainsFunc(all, func(c Code) bool {
			return c.Instance == i && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
		}), err
	})
}

// Drop makes the codes that f picks worthless, and returns how many there were.
func (cs *Codes) Drop(ctx context.Context, row *audit.Entry, f CodeFilter) (n int, err error) {
	err = cs.db.change(ctx, row, fmt.Sprintf("drop %s codes", f.Kind), func(t *tx) (err error) {
		before := t.Changes
		if f.MAC == nil {
			err = dropCodes(t.Writer, f.Kind, f.Instance)
		} else if table.Has(t.Tx, f.Kind.bucket(), f.MAC) {
			err = t.Delete(f.Kind.bucket(), f.MAC)
		}
		n = t.Changes - before
		return err
	})
	return n, err
}

func dropCodes(w *table.Writer, k CodeKind, i relay.InstanceID) error {
	return table.DropWhere(w, k.bucket(), func(c Code) bool { return c.Instance == i && c.Web == k.shared() })
}
