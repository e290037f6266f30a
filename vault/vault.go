// Package vault seals what must not lie in the database in the clear. One random data key per
// database is stored wrapped by a key that lives elsewhere: a key file, a systemd credential or
// a passphrase. Every use gets a key of its own, derived from the data key.
//
// It is not a store: whoever seals keeps the sealed bytes. It imports nothing of the store, only
// declares the two methods it needs for the wrapped data key.
//
// Invariants:
//
//  1. A sealed record opens only under the bucket and key it was sealed for, and unchanged.
//  2. A key file that exists is never replaced or written to.
//  3. A vault that exists is never given a new key in passing: without the old one, Open fails.
//  4. Neither key nor plaintext appears in an error.
//
// Rekeying makes two values and leaves storing them, in one transaction, to the caller: a vault whose data key may be
// new (Renewed), and its wrapped form (Wrapped). What a MAC was stored of is not known any more, so a new data key
// would make every code and identity address worthless; Renewed takes the MAC keys of the purposes it is told along,
// as 256 random bits each that open nothing.
package vault

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// What callers test for. Each comes wrapped in a message that says what to do.
var (
	// ErrKeyLost: the database holds a vault, but the key it was made with is not there.
	ErrKeyLost = errors.New("the vault key is missing")
	// ErrWrongKey: a key is there, but it is not the one the vault was made with.
	ErrWrongKey = errors.New("the vault key does not match the database")
	// ErrKeyRefused: the key cannot be used as it lies there: damaged, readable by others, or no
	// regular file.
	ErrKeyRefused = errors.New("the vault key is refused")
	// ErrKeyGarbage: what lies there is no key. It is an ErrKeyRefused too.
	ErrKeyGarbage = errors.New("is damaged")
	// ErrDamaged: what the database holds about the vault makes no sense.
	ErrDamaged = errors.New("the vault in the database is damaged")
	// ErrUnseal: sealed bytes were changed, moved, cut, or sealed by another vault.
	ErrUnseal = errors.New("sealed record does not open")
	// ErrNone: Existing found no vault.
	ErrNone = errors.New("the database holds no vault")
)

// Blobs is where the wrapped data key rests. *store.DB satisfies it.
type Blobs interface {
	// Blob returns the value stored under name; false when there is none.
	Blob(ctx context.Context, name string) ([]byte, bool, error)
	// PutBlob returns once value is on disk under name.
	PutBlob(ctx context.Context, name string, value []byte) error
}

// BlobName is the name of the wrapped data key among the blobs.
const BlobName = "vault"

// keySize is the size of every key here, in bytes.
const keySize = 32

// Vault seals, opens and authenticates. Its methods may be called from any goroutine.
type Vault struct {
	data relay.Secret // the data key
	id   [idSize]byte // names the data key inside sealed records
	kept keptMACs     // from former data keys
}

// Open opens the vault that blobs hold, or makes one if they hold none. Errors wrap ErrKeyLost,
// ErrWrongKey, ErrKeyRefused or ErrDamaged, and say what to do; others come from blobs. With a
// passphrase it takes a noticeable moment and up to 64 MiB of memory.
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

// Existing is Open, but makes no vault: ErrNone.
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

// New is a vault with a new data key. It is stored nowhere.
func New() *Vault { return newVault(randomKey()) }

func newVault(data relay.Secret) *Vault {
	v := &Vault{data: data}
	copy(v.id[:], v.derive("id", ""))
	return v
}

// derive is the key for one use of the data key. use is one of this package's own words without
// a NUL, so that (use, name) cannot be read in two ways.
func (v *Vault) derive(use, name string) []byte {
	k, err := hkdf.Key(sha256.New, v.data.Reveal(), nil, "hermes-connector/"+use+"/v1\x00"+name, keySize)
	if err != nil {
		panic("vault: HKDF refuses 32 bytes: " + err.Error()) // its bound is 8160
	}
	return k
}

func randomKey() relay.Secret {
	k := make([]byte, keySize)
	_, _ = rand.Read(k) // never fails: it ends the process instead
	return relay.NewSecret(k)
}
