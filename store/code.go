package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// bucket is where the codes of a kind are, under their HMACs.
func (k CodeKind) bucket() string {
	switch k {
	case EnrollCode:
		return bucketTokens
	case IdentityCode:
		return bucketIdentity
	}
	return bucketCodes
}

// PutCode stores a code under its HMAC. ErrExists: there is such a code already; draw another one. Of a link
// code the instance must be there (ErrNotFound: it is not, or was revoked). An identity code must name a
// tenant, and takes the place of the one its instance had, which need not be enrolled yet (ErrForeign: it is another
// tenant's); a zero CreatedAt of one is now.
func (db *DB) PutCode(ctx context.Context, row *audit.Entry, mac []byte, c Code) error {
	if c.Kind == IdentityCode && c.Tenant == "" {
		return errors.New("identity code: no tenant is named")
	}
	if c.Kind == IdentityCode && c.CreatedAt.IsZero() {
		c.CreatedAt = db.now()
	}
	return db.change(ctx, row, fmt.Sprintf("%s code", c.Kind), func(t *tx) error {
		if c.Kind == LinkCode {
			if _, err := t.live(c.Instance); err != nil {
				return err
			}
		}
		if table.Has(t.Tx, c.Kind.bucket(), mac) {
			return ErrExists
		}
		if c.Kind == IdentityCode && c.Instance != "" {
			if err := t.replaceIdentity(c); err != nil {
				return err
			}
		}
		return t.Put(c.Kind.bucket(), mac, c)
	})
}

// replaceIdentity drops the former identity codes of the instance that c is for.
func (t *tx) replaceIdentity(c Code) error {
	i, ok, err := table.Load[Instance](t.Tx, bucketInstances, table.Key(c.Instance))
	if err != nil {
		return err
	}
	if ok && i.Tenant != c.Tenant {
		return fmt.Errorf("instance %s: %w", c.Instance, ErrForeign)
	}
	_, err = t.dropIdentityCodes(c.Instance)
	return err
}

// Code is the code of that kind with this HMAC; a link code or an enrollment token whether or not it is still
// good. ErrNotFound: there is none, or it was replaced or dropped. ErrExpired: an identity code's time is over.
func (db *DB) Code(ctx context.Context, k CodeKind, mac []byte) (c Code, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		c, err = table.Must[Code](t, k.bucket(), mac, string(k)+" code")
		return err
	})
	if err == nil && k == IdentityCode && !c.ExpiresAt.IsZero() && !db.now().Before(c.ExpiresAt) {
		err = fmt.Errorf("identity code: %w", ErrExpired)
	}
	if err != nil {
		return Code{}, err
	}
	c.Kind = k
	return c, nil
}

// RedeemLinkCode binds the person to the code's instance and marks the code, in one transaction.
// dm is the chat it was sent in. The same person again, while the binding stands: the same answer,
// and nothing changes. ErrNotFound: unknown, for another platform, or its instance is gone.
// ErrUsed: someone redeemed it before. ErrExpired: its time is over.
func (db *DB) RedeemLinkCode(ctx context.Context, row *audit.Entry, mac []byte, by Person, dm relay.ChatID) (Code, error) {
	now := db.now()
	var out Code
	err := db.write(ctx, row, func(t *tx) error {
		c, ok, err := table.Load[Code](t.Tx, bucketCodes, mac)
		if err != nil {
			return err
		}
		switch {
		case !ok, c.Platform != "" && c.Platform != by.Platform:
			return ErrNotFound
		case c.RedeemedBy != nil && *c.RedeemedBy == by && table.Has(t.Tx, bucketBindings, bindingKey(by.Platform, by.User, c.Instance)):
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
		b := Binding{Platform: by.Platform, User: by.User, Instance: c.Instance, DMChat: dm}
		if err := t.bind(b, now); err != nil {
			return err
		}
		return t.Put(bucketCodes, mac, c)
	})
	if err != nil {
		return Code{}, fmt.Errorf("redeem link code: %w", err)
	}
	return out, nil
}

// BurnLinkCode makes a code worthless. One that is not there is nil.
func (db *DB) BurnLinkCode(ctx context.Context, mac []byte) error {
	return db.change(ctx, nil, "burn link code", func(t *tx) error {
		if !table.Has(t.Tx, bucketCodes, mac) {
			return nil
		}
		return t.Delete(bucketCodes, mac)
	})
}

// DropIdentityCodes makes the codes of an instance worthless and returns how many there were.
func (db *DB) DropIdentityCodes(ctx context.Context, row *audit.Entry, i relay.InstanceID) (int, error) {
	var n int
	err := db.write(ctx, row, func(t *tx) (err error) {
		n, err = t.dropIdentityCodes(i)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop identity codes of %s: %w", i, err)
	}
	return n, nil
}

func (t *tx) dropIdentityCodes(i relay.InstanceID) (int, error) {
	return table.DropWhere(t.Writer, bucketIdentity, func(c Code) bool { return c.Instance == i })
}
