package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// PutIdentityCode stores a code under its HMAC, in place of the one its instance had. The
// instance need not be enrolled yet; a zero CreatedAt is now. A code that names no instance must
// name a tenant. ErrExists: there is such a code already; draw another one. ErrForeign: the
// instance is another tenant's.
func (db *DB) PutIdentityCode(ctx context.Context, mac []byte, c IdentityCode) error {
	if c.Tenant == "" {
		return errors.New("identity code: no tenant is named")
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = db.now()
	}
	err := db.write(ctx, func(t *tx) error {
		if has(t.Tx, bucketIdentity, mac) {
			return ErrExists
		}
		if c.Instance != "" {
			i, ok, err := load[Instance](t.Tx, bucketInstances, key(c.Instance))
			if err != nil {
				return err
			}
			if ok && i.Tenant != c.Tenant {
				return fmt.Errorf("instance %s: %w", c.Instance, ErrForeign)
			}
			if _, err := t.dropIdentityCodes(c.Instance); err != nil {
				return err
			}
		}
		return t.put(bucketIdentity, mac, c)
	})
	if err != nil {
		return fmt.Errorf("identity code: %w", err)
	}
	return nil
}

// IdentityCode is the code with this HMAC. ErrNotFound: there is none, or it was replaced or
// dropped. ErrExpired: its time is over.
func (db *DB) IdentityCode(ctx context.Context, mac []byte) (IdentityCode, error) {
	var c IdentityCode
	err := db.read(ctx, func(t *bolt.Tx) (err error) {
		c, err = must[IdentityCode](t, bucketIdentity, mac, "identity code")
		return err
	})
	if err != nil {
		return IdentityCode{}, err
	}
	if !c.ExpiresAt.IsZero() && !db.now().Before(c.ExpiresAt) {
		return IdentityCode{}, fmt.Errorf("identity code: %w", ErrExpired)
	}
	return c, nil
}

// DropIdentityCodes makes the codes of an instance worthless and returns how many there were.
func (db *DB) DropIdentityCodes(ctx context.Context, i relay.InstanceID) (int, error) {
	var n int
	err := db.write(ctx, func(t *tx) (err error) {
		n, err = t.dropIdentityCodes(i)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop identity codes of %s: %w", i, err)
	}
	return n, nil
}

func (t *tx) dropIdentityCodes(i relay.InstanceID) (int, error) {
	return dropWhere(t, bucketIdentity, func(c IdentityCode) bool { return c.Instance == i })
}
