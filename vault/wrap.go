package vault

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/hermes-connector/hermes-connector/relay"
)

// origin tells how a wrapping key comes about. A key file's content can be moved into a credential.
type origin string

const (
	originKey        origin = "key"        // 256 random bits kept somewhere
	originPassphrase origin = "passphrase" // stretched from what a person remembers
)

// wrapVersion is the version of envelope.
const wrapVersion = 1

// envelope is the stored form of the data key.
type envelope struct {
	Version int    `json:"v"`
	Origin  origin `json:"origin"`
	KDF     *kdf   `json:"kdf,omitempty"` // only for originPassphrase
	Nonce   []byte `json:"nonce"`
	Wrapped []byte `json:"wrapped"`
}

// associated ties the wrapped key to its role.
func (e envelope) associated() []byte {
	return fmt.Appendf(nil, "hermes-connector/wrap/v%d\x00%s", e.Version, e.Origin)
}

// wrap makes the stored form of data under a key that may have to be made first.
func wrap(data relay.Secret, key Key) ([]byte, error) {
	kek, params, err := key.create()
	if err != nil {
		return nil, err
	}
	e := envelope{Version: wrapVersion, Origin: key.origin(), KDF: params, Nonce: make([]byte, chacha20poly1305.NonceSizeX)}
	_, _ = rand.Read(e.Nonce) // never fails: it ends the process instead
	e.Wrapped = newAEAD(kek.Reveal()).Seal(nil, e.Nonce, data.Reveal(), e.associated())
	return json.Marshal(e)
}

// unwrap is the inverse of wrap, with a key that must exist.
func unwrap(stored []byte, key Key) (relay.Secret, error) {
	var e envelope
	// The decoder's words may quote what it read, so they stay here.
	if json.Unmarshal(stored, &e) != nil || len(e.Nonce) != chacha20poly1305.NonceSizeX ||
		len(e.Wrapped) != keySize+chacha20poly1305.Overhead {
		return relay.Secret{}, fmt.Errorf("%w; restore the database from a backup", ErrDamaged)
	}
	if e.Version != wrapVersion {
		return relay.Secret{}, fmt.Errorf(
			"the database holds a vault of version %d, this program knows version %d: run the version of hermes-connector that made it",
			e.Version, wrapVersion)
	}
	if e.Origin != key.origin() {
		return relay.Secret{}, fmt.Errorf("%w: it was made with %s, but %s was given; start with the one it was made with",
			ErrWrongKey, e.Origin.noun(), key.origin().noun())
	}
	kek, err := key.open(e.KDF)
	if err != nil {
		return relay.Secret{}, err
	}
	data, err := newAEAD(kek.Reveal()).Open(nil, e.Nonce, e.Wrapped, e.associated())
	if err != nil {
		return relay.Secret{}, fmt.Errorf("%w: %s is not the one this database was made with. Start with the right one; %s",
			ErrWrongKey, key.name(), ifGone)
	}
	return relay.NewSecret(data), nil
}

// ifGone ends every message about a key that may be gone.
const ifGone = "if it is gone for good, nobody can read the gateway secrets sealed with it: " +
	"move the database file away, start anew, enroll every gateway and link every person again"

func (o origin) noun() string {
	switch o {
	case originKey:
		return "a key file or credential"
	case originPassphrase:
		return "a passphrase"
	}
	return "a key of an origin that this program does not know"
}
