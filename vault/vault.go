// Package vault seals values that must not be in the database in the clear. One random data key per database is stored
// wrapped by a key that lives elsewhere: a key file, a systemd credential or a passphrase. Every use gets a key of its
// own, derived from the data key.
//
// It is not a store: its callers keep the sealed bytes. It imports nothing of the store, and only declares the two
// methods it needs for the wrapped data key.
//
// Invariants:
//
//  1. A sealed record opens only under the bucket and key it was sealed for, and unchanged.
//  2. A key file that exists is never replaced or written to.
//  3. Open never gives a vault that exists a new key: without the old one, it fails.
//  4. Neither key nor plaintext appears in an error.
//
// Rekeying makes two values: a vault whose data key may be new (Renewed), and its wrapped form (Wrapped). The caller
// stores them in one transaction. Of codes and identity addresses only MACs are stored, not their texts, so a new MAC
// key would make all of them worthless. So Renewed keeps the MAC keys of the purposes that the caller names: 256 bits
// each, which unseal nothing.
package vault

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
)

// The errors that callers test for. Each comes wrapped in a message that says what to do.
var (
	// ErrKeyLost: the database holds a vault, but the key it was made with is not there.
	ErrKeyLost = errors.New("the vault key is missing")
	// ErrWrongKey: a key is there, but it is not the one the vault was made with.
	ErrWrongKey = errors.New("the vault key does not match the database")
	// ErrKeyRefused: a key is there and cannot be used: it is damaged, readable by others, or no regular file.
	ErrKeyRefused = errors.New("the vault key is refused")
	// ErrKeyGarbage: the key file or the credential holds no key. The error is an ErrKeyRefused, too.
	ErrKeyGarbage = errors.New("is damaged")
	// ErrDamaged: the database's record of the vault makes no sense.
	ErrDamaged = errors.New("the vault in the database is damaged")
	// ErrUnseal: sealed bytes were changed, moved, cut, or sealed by another vault.
	ErrUnseal = errors.New("sealed record does not open")
	// ErrNone: Existing found no vault.
	ErrNone = errors.New("the database holds no vault")
)

// keySize is the size of every key here, in bytes.
const keySize = 32

// Vault seals, opens and authenticates. Its methods may be called from any goroutine.
type Vault struct {
	data relay.Secret      // the data key
	id   [idSize]byte      // names the data key inside sealed records
	kept map[string][]byte // the MAC keys of former data keys, by purpose
}

// New returns a vault with a new data key. It is stored nowhere.
func New() *Vault { return newVault(randomKey()) }

func newVault(data relay.Secret) *Vault {
	v := &Vault{data: data}
	copy(v.id[:], v.derive("id", ""))
	return v
}

// derive returns the key for one use of the data key. use is one of this package's own words without a NUL, so that
// (use, name) cannot be read in two ways.
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
