package vault

import (
	"context"
	"errors"
	"fmt"
)

// Blobs stores the wrapped data key. *store.DB implements it.
type Blobs interface {
	// Blob returns the value stored under name; false if there is none.
	Blob(ctx context.Context, name string) ([]byte, bool, error)
	// PutBlob returns once value is on disk under name.
	PutBlob(ctx context.Context, name string, value []byte) error
}

// BlobName is the name of the wrapped data key among the blobs.
const BlobName = "vault"

// Open opens the vault in blobs, or makes one if there is none. Errors wrap ErrKeyLost, ErrWrongKey, ErrKeyRefused or
// ErrDamaged, and say what to do; others come from blobs. With a passphrase it takes a noticeable moment and up to 64
// MiB of memory.
func Open(ctx context.Context, blobs Blobs, key Key) (*Vault, error) {
	v, err := Existing(ctx, blobs, key)
	if !errors.Is(err, ErrNone) {
		return v, err
	}
	v = New()
	wrapped, err := v.Wrapped(key)
	if err == nil {
		err = blobs.PutBlob(ctx, BlobName, wrapped)
	}
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return v, nil
}

// Existing is Open, but makes no vault: it returns ErrNone if there is none.
func Existing(ctx context.Context, blobs Blobs, key Key) (*Vault, error) {
	stored, ok, err := blobs.Blob(ctx, BlobName)
	if err == nil && !ok {
		err = ErrNone
	}
	var v *Vault
	if err == nil {
		v, err = unwrap(stored, key)
	}
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return v, nil
}
