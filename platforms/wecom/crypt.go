package wecom

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1" //nolint:gosec // the signature is WeCom's
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// errCipher is the only error about encrypted text, whatever is wrong with it.
var errCipher = errors.New("it cannot be decrypted")

// padTo is the block size to which messages are padded, in bytes: more than a block of AES.
const padTo = 32

// aesKey returns the key that an EncodingAESKey of 43 characters spells. The last character may carry stray bits.
func aesKey(s relay.Secret) ([]byte, error) {
	text := s.RevealString()
	key, err := base64.StdEncoding.DecodeString(text + "=")
	if err != nil || len(text) != 43 || len(key) != 32 {
		return nil, errors.New("the EncodingAESKey has 43 letters and digits")
	}
	return key, nil
}

// signature returns WeCom's signature over encrypted text.
func signature(token, timestamp, nonce, encrypted string) string {
	parts := []string{token, timestamp, nonce, encrypted}
	slices.Sort(parts)
	h := sha1.New()
	for _, s := range parts {
		_, _ = io.WriteString(h, s) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// signed reports whether given is the signature, as lower-case hex.
func signed(given, token, timestamp, nonce, encrypted string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(signature(token, timestamp, nonce, encrypted))) == 1
}

// decrypt returns the message that was encrypted for receiver.
func decrypt(key []byte, encrypted, receiver string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(encrypted)
	if err != nil || len(raw) < padTo || len(raw)%aes.BlockSize != 0 {
		return nil, errCipher
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(raw))
	cipher.NewCBCDecrypter(block, key[:aes.BlockSize]).CryptBlocks(plain, raw)
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > padTo || pad > len(plain) || !bytes.Equal(plain[len(plain)-pad:], bytes.Repeat([]byte{byte(pad)}, pad)) {
		return nil, errCipher
	}
	plain = plain[:len(plain)-pad]
	if len(plain) < 20 { // 16 random bytes and the length
		return nil, errCipher
	}
	n, rest := uint64(binary.BigEndian.Uint32(plain[16:])), plain[20:]
	if n > uint64(len(rest)) || string(rest[n:]) != receiver {
		return nil, errCipher
	}
	return rest[:n], nil
}
