package vault

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/hermes-connector/hermes-connector/relay"
)

// The versions of an envelope. The second one also has the MAC keys of former data keys, in Kept.
const wrapVersion, keptVersion = 1, 2

// envelope is the stored form of a vault.
type envelope struct {
	Version int    `json:"v"`
	Origin  origin `json:"origin"`
	KDF     *kdf   `json:"kdf,omitempty"` // only for originPassphrase
	Nonce   []byte `json:"nonce"`
	Wrapped []byte `json:"wrapped"`        // the data key
	Kept    []byte `json:"kept,omitempty"` // sealed with the data key
}

// associated returns the associated data of the encryption: a wrapped key opens only with its own version and origin.
func (e envelope) associated() []byte {
	return fmt.Appendf(nil, "hermes-connector/wrap/v%d\x00%s", e.Version, e.Origin)
}

// Wrapped returns v's data key, encrypted with key, in the form to store under BlobName. It makes a missing key file.
func (v *Vault) Wrapped(key Key) ([]byte, error) {
	kek, params, err := key.create()
	if err != nil {
		return nil, err
	}
	e := envelope{Version: wrapVersion, Origin: key.origin(), KDF: params, Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	if len(v.kept) > 0 {
		e.Version, e.Kept = keptVersion, v.sealKept()
	}
	_, _ = rand.Read(e.Nonce) // never fails: it ends the process instead
	e.Wrapped = newAEAD(kek.Reveal()).Seal(nil, e.Nonce, v.data.Reveal(), e.associated())
	return json.Marshal(e)
}

// unwrap is the inverse of Wrapped, with a key that must exist.
func unwrap(stored []byte, key Key) (*Vault, error) {
	var e envelope
	damaged := fmt.Errorf("%w; restore the database from a backup", ErrDamaged)
	// The decoder's error may quote what it read, so it is not returned.
	if json.Unmarshal(stored, &e) != nil || len(e.Nonce) != chacha20poly1305.NonceSizeX ||
		len(e.Wrapped) != keySize+chacha20poly1305.Overhead {
		return nil, damaged
	}
	if e.Version != wrapVersion && e.Version != keptVersion {
		return nil, fmt.Errorf(
			"the database holds a vault of version %d, this program knows those up to %d: run the version of hermes-connector that made it",
			e.Version, keptVersion)
	}
	if e.Origin != key.origin() {
		return nil, fmt.Errorf("%w: it was made with %s, but %s was given; start with the one it was made with, or change over: hermes-connector vault rekey --help",
			ErrWrongKey, e.Origin.noun(), key.origin().noun())
	}
	kek, err := key.open(e.KDF)
	if err != nil {
		return nil, err
	}
	data, err := newAEAD(kek.Reveal()).Open(nil, e.Nonce, e.Wrapped, e.associated())
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not the one this database was made with. Start with the right one; %s",
			ErrWrongKey, key.Name(), ifGone)
	}
	v := newVault(relay.NewSecret(data))
	if e.Version == keptVersion && !v.unsealKept(e.Kept) {
		return nil, damaged
	}
	return v, nil
}
