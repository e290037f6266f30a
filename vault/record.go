package vault

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/hermes-connector/hermes-connector/relay"
)

// A sealed record is version (1) | id of the data key (4) | nonce (24) | ciphertext and tag.
const (
	recordVersion = 1
	idSize        = 4
	headSize      = 1 + idSize + chacha20poly1305.NonceSizeX
)

// errBucket is a mistake of the caller: bucket names are constants.
var errBucket = errors.New("bucket name contains a NUL byte")

// Seal encrypts plain for the record (bucket, key). The same value sealed twice gives different
// bytes. bucket must not contain a NUL byte; key may be any string.
func (v *Vault) Seal(bucket, key string, plain relay.Secret) ([]byte, error) {
	aead, err := v.aead(bucket)
	if err != nil {
		return nil, fmt.Errorf("seal %s record: %w", bucket, err)
	}
	text := plain.Reveal()
	out := make([]byte, headSize, headSize+len(text)+aead.Overhead())
	out[0] = recordVersion
	copy(out[1:], v.id[:])
	nonce := out[1+idSize : headSize]
	_, _ = rand.Read(nonce) // never fails: it ends the process instead
	return aead.Seal(out, nonce, text, associated(bucket, key, recordVersion)), nil
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
	aead, err := v.aead(bucket)
	if err != nil {
		return relay.Secret{}, fmt.Errorf("unseal %s record: %w", bucket, err)
	}
	text, err := aead.Open(nil, sealed[1+idSize:headSize], sealed[headSize:], associated(bucket, key, recordVersion))
	if err != nil {
		return fail("it was changed, or belongs to another record")
	}
	return relay.NewSecret(text), nil
}

// MAC authenticates token under a key of purpose's own (HMAC-SHA256, 32 bytes). Codes and tokens
// that are only ever compared are stored as this instead of being sealed.
func (v *Vault) MAC(purpose string, token relay.Secret) []byte {
	h := hmac.New(sha256.New, v.derive("mac", purpose))
	_, _ = h.Write(token.Reveal())
	return h.Sum(nil)
}

func (v *Vault) aead(bucket string) (cipher.AEAD, error) {
	if strings.Contains(bucket, "\x00") {
		return nil, errBucket
	}
	return chacha20poly1305.NewX(v.derive("seal", bucket))
}

// associated ties a ciphertext to its place. bucket is free of NUL bytes and the version is one
// byte, so that no two places share the same bytes.
func associated(bucket, key string, version byte) []byte {
	return append([]byte(bucket+"\x00"+key+"\x00"), version)
}
