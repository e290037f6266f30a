package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// PutLinkCode stores a code under its HMAC. ErrExists: there is such a code already; draw
// another one. ErrNotFound: no such instance, or it was revoked.
func (db *DB) PutLinkCode(ctx context.Context, mac []byte, c LinkCode) error {
	err := db.write(ctx, func(t *tx) error {
		if _, err := t.live(c.Instance); err != nil {
			return err
		}
		if has(t.Tx, bucketCodes, mac) {
			return ErrExists
		}
		return t.put(bucketCodes, mac, c)
	})
	if err != nil {
		return fmt.Errorf("link code: %w", err)
	}
	return nil
}

// RedeemLinkCode binds the person to the code's instance and marks the code, in one transaction.
// dm is the chat it was sent in. The same person again, while the binding stands: the same answer,
// and nothing changes. ErrNotFound: unknown, for another platform, or its instance is gone.
// ErrUsed: someone redeemed it before. ErrExpired: its time is over.
func (db *DB) RedeemLinkCode(ctx context.Context, mac []byte, by Person, dm relay.ChatID) (LinkCode, error) {
	now := db.now()
	var out LinkCode
	err := db.write(ctx, func(t *tx) error {
		c, ok, err := load[LinkCode](t.Tx, bucketCodes, mac)
		if err != nil {
			return err
		}
		switch {
		case !ok, c.Platform != "" && c.Platform != by.Platform:
			return ErrNotFound
		case c.RedeemedBy != nil && *c.RedeemedBy == by && has(t.Tx, bucketBindings, bindingKey(by.Platform, by.User, c.Instance)):
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
		return t.put(bucketCodes, mac, c)
	})
	if err != nil {
		return LinkCode{}, fmt.Errorf("redeem link code: %w", err)
	}
	return out, nil
}

// BurnLinkCode makes a code worthless. One that is not there is nil.
func (db *DB) BurnLinkCode(ctx context.Context, mac []byte) error {
	err := db.write(ctx, func(t *tx) error {
		if !has(t.Tx, bucketCodes, mac) {
			return nil
		}
		return t.del(bucketCodes, mac)
	})
	if err != nil {
		return fmt.Errorf("burn link code: %w", err)
	}
	return nil
}

// PutEnrollmentToken stores a token under its HMAC. ErrExists: there is such a token already.
func (db *DB) PutEnrollmentToken(ctx context.Context, mac []byte, e EnrollmentToken) error {
	err := db.write(ctx, func(t *tx) error {
		if has(t.Tx, bucketTokens, mac) {
			return ErrExists
		}
		return t.put(bucketTokens, mac, e)
	})
	if err != nil {
		return fmt.Errorf("enrollment token: %w", err)
	}
	return nil
}

// EnrollmentToken is the token with this HMAC, whether or not it is still good. ErrNotFound:
// there is none.
func (db *DB) EnrollmentToken(ctx context.Context, mac []byte) (e EnrollmentToken, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		e, err = must[EnrollmentToken](t, bucketTokens, mac, "enrollment token")
		return err
	})
	return e, err
}
