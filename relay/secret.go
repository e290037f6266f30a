package relay

import (
	"bytes"
	"fmt"
	"io"
)

// Redacted is how a Secret prints.
const Redacted = "[secret]"

// Secret is a value that fmt, slog and encoding/json cannot print, also inside another struct. It holds its
// bytes in a closure, because fmt prints unexported fields without calling any method.
type Secret struct{ reveal func() []byte }

// NewSecret wraps a copy of b.
func NewSecret(b []byte) Secret {
	c := append([]byte(nil), b...)
	return Secret{reveal: func() []byte { return c }}
}

// Reveal returns a copy of the value. It is the only way to get it: look at every call in a review.
func (s Secret) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return append([]byte(nil), s.reveal()...)
}

// RevealString returns the value as text.
func (s Secret) RevealString() string { return string(s.Reveal()) }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.reveal == nil || len(s.reveal()) == 0 }

// Same reports whether o is the same value.
func (s Secret) Same(o Secret) bool {
	if s.IsZero() || o.IsZero() {
		return s.IsZero() && o.IsZero()
	}
	return bytes.Equal(s.reveal(), o.reveal())
}

// Format prints Redacted for every verb.
func (Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, Redacted) }

// MarshalText renders Redacted, for slog and encoding/json.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MACer authenticates values that are only ever compared. *vault.Vault implements it.
type MACer interface {
	MAC(purpose string, token Secret) []byte
}
