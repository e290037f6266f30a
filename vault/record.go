package vault

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A sealed record is version (1) | id of the data key (4) | nonce (24) | ciphertext and tag.
const (
	recordVersion = 1
	idSize        = 4
	headSize      = 1 + idSize + chacha20poly1305.NonceSizeX
)

// Seal encrypts plain for the record (bucket, key). The same value sealed twice gives different bytes.
func (v *Vault) Seal(bucket, key string, plain relay.Secret) []byte {
	aead, text := newAEAD(v.derive("seal", bucket)), plain.Reveal()
	out := make([]byte, headSize, headSize+len(text)+aead.Overhead())
	out[0] = recordVersion
	copy(out[1:], v.id[:])
	nonce := out[1+idSize : headSize]
	_, _ = rand.Read(nonce) // never fails: it ends the process instead
	return aead.Seal(out, nonce, text, associated(bucket, key))
}

// Unseal is the inverse of Seal. Its errors wrap ErrUnseal and do not contain the bytes.
func (v *Vault) Unseal(bucket, key string, sealed []byte) (relay.Secret, error) {
	fail := func(why string) (relay.Secret, error) {
		return relay.Secret{}, fmt.Errorf("%s record: %w: %s", bucket, ErrUnseal, why)
	}
	switch {
	case len(sealed) < headSize+chacha20poly1305.Overhead:
		return fail("too short")
	case sealed[0] != recordVersion:
		return fail(fmt.Sprintf("version %d is unknown to this program", sealed[0]))
	case [idSize]byte(sealed[1:1+idSize]) != v.id:
		return fail("it was sealed with another data key")
	}
	aead := newAEAD(v.derive("seal", bucket))
	text, err := aead.Open(nil, sealed[1+idSize:headSize], sealed[headSize:], associated(bucket, key))
	if err != nil {
		return fail("it was changed, or belongs to another record")
	}
	return relay.NewSecret(text), nil
}

// MAC returns the HMAC-SHA256 of token, 32 bytes, under a key that only this purpose has. Of codes and tokens that are
// only ever compared, the MAC is stored instead of a sealed record.
func (v *Vault) MAC(purpose string, token relay.Secret) []byte {
	h := hmac.New(sha256.New, v.macKey(purpose))
	_, _ = h.Write(token.Reveal())
	return h.Sum(nil)
}

// newAEAD returns the cipher for a key.
func newAEAD(key []byte) cipher.AEAD {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic("vault: " + err.Error()) // all our keys have keySize bytes
	}
	return aead
}

// associated returns the associated data of a record, so that it opens only under this bucket and key. A bucket with a
// NUL could give two places the same bytes, but each bucket also has a cipher key of its own.
func associated(bucket, key string) []byte {
	return append([]byte(bucket+"\x00"+key+"\x00"), recordVersion)
}

// macKey returns the key of purpose's MACs.
func (v *Vault) macKey(purpose string) []byte {
	if k, ok := v.kept[purpose]; ok {
		return k
	}
	return v.derive("mac", purpose)
}
