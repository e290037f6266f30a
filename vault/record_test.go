package vault

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// fixedVault has a known data key, so that fuzz inputs keep their meaning.
func fixedVault() *Vault { return newVault(relay.NewSecret(bytes.Repeat([]byte{7}, keySize))) }

func TestSealedRecordShowsNothing(t *testing.T) {
	const plain = "the quick brown fox"
	v := fixedVault()
	one, two := v.Seal("b", "k", secret(plain)), v.Seal("b", "k", secret(plain))
	if bytes.Equal(one, two) {
		t.Error("the same value sealed twice gives the same bytes")
	}
	for i := range len(plain) - 3 {
		if bytes.Contains(one, []byte(plain[i:i+4])) {
			t.Errorf("sealed record contains %q", plain[i:i+4])
		}
	}
	if want := headSize + len(plain) + 16; len(one) != want {
		t.Errorf("sealed record has %d bytes, want %d", len(one), want)
	}
	if one[0] != recordVersion || !bytes.Equal(one[1:5], v.id[:]) {
		t.Errorf("sealed record begins with %x, want version and key id", one[:5])
	}
}

// Invariant 1.
func TestRecordOpensOnlyInItsPlace(t *testing.T) {
	v := fixedVault()
	sealed := v.Seal("gateways", "g1", secret("value"))
	other := newVault(randomKey())
	sameID := newVault(randomKey())
	sameID.id = v.id // as if the ids of two data keys were equal
	for name, tc := range map[string]struct {
		vault       *Vault
		bucket, key string
		sealed      []byte
	}{
		"another key":               {v, "gateways", "g2", sealed},
		"another bucket":            {v, "codes", "g1", sealed},
		"boundary moved":            {v, "gateway", "sg1", sealed},
		"another vault":             {other, "gateways", "g1", sealed},
		"another vault, same id":    {sameID, "gateways", "g1", sealed},
		"nothing":                   {v, "gateways", "g1", nil},
		"cut":                       {v, "gateways", "g1", sealed[:len(sealed)-1]},
		"longer":                    {v, "gateways", "g1", append(bytes.Clone(sealed), 0)},
		"only a head":               {v, "gateways", "g1", sealed[:headSize]},
		"a version from the future": {v, "gateways", "g1", append([]byte{recordVersion + 1}, sealed[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.vault.Unseal(tc.bucket, tc.key, tc.sealed)
			if !errors.Is(err, ErrUnseal) || !got.IsZero() {
				t.Errorf("Unseal = %q, %v; want nothing and %v", got.RevealString(), err, ErrUnseal)
			}
		})
	}
	for bit := range len(sealed) * 8 {
		changed := bytes.Clone(sealed)
		changed[bit/8] ^= 1 << (bit % 8)
		if _, err := v.Unseal("gateways", "g1", changed); !errors.Is(err, ErrUnseal) {
			t.Fatalf("Unseal with bit %d turned: %v, want %v", bit, err, ErrUnseal)
		}
	}
}

func TestPlacesWithNULs(t *testing.T) {
	v := fixedVault()
	sealed := v.Seal("a", "b\x00c", secret("x"))
	if _, err := v.Unseal("a", "b\x00c", sealed); err != nil {
		t.Errorf("Unseal under a key with a NUL byte: %v", err)
	}
	if _, err := v.Unseal("a\x00b", "c", sealed); err == nil {
		t.Error("Unseal read the same bytes as another place")
	}
}

func TestEmptySecretSeals(t *testing.T) {
	v := fixedVault()
	got, err := v.Unseal("b", "", v.Seal("b", "", secret("")))
	if err != nil || !got.IsZero() {
		t.Errorf("Unseal = %q, %v; want an empty secret", got.RevealString(), err)
	}
}

func TestMAC(t *testing.T) {
	v := fixedVault()
	ref := v.MAC("link", secret("7KQ29F4M"))
	if len(ref) != 32 {
		t.Errorf("MAC has %d bytes, want 32", len(ref))
	}
	if !bytes.Equal(ref, v.MAC("link", secret("7KQ29F4M"))) {
		t.Error("MAC of the same value differs")
	}
	for name, mac := range map[string][]byte{
		"another purpose": v.MAC("enroll", secret("7KQ29F4M")),
		"another token":   v.MAC("link", secret("7KQ29F4N")),
		"boundary moved":  v.MAC("link7", secret("KQ29F4M")),
		"another vault":   newVault(randomKey()).MAC("link", secret("7KQ29F4M")),
		"no key at all":   fixedVault().derive("mac", "link"),
	} {
		if bytes.Equal(mac, ref) {
			t.Errorf("%s: the same MAC", name)
		}
	}
}

// Invariant 4.
func TestVaultPrintsNoKey(t *testing.T) {
	v := fixedVault()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if got := fmt.Sprintf(verb, v); strings.Contains(strings.ReplaceAll(got, " ", ""), "777777") || strings.Contains(got, "0707") {
			t.Errorf("%s prints the data key: %s", verb, got)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	v := fixedVault()
	good := unhex(f, goldenSealed) // constant: fuzz workers are processes of their own
	f.Add("gateways", goldenPlace, good)
	f.Add("gateways", "", []byte{})
	f.Add("a\x00b", "c", good)
	f.Add("gateways", goldenPlace, good[:headSize])
	f.Fuzz(func(t *testing.T, bucket, key string, sealed []byte) {
		got, err := v.Unseal(bucket, key, sealed)
		if (err == nil) != (bytes.Equal(sealed, good) && bucket == "gateways" && key == goldenPlace) {
			t.Errorf("Unseal(%q, %q, %x) = %q, %v", bucket, key, sealed, got.RevealString(), err)
		}
		if err != nil && !got.IsZero() {
			t.Error("both a value and an error")
		}
		own := v.Seal(bucket, key, relay.NewSecret(sealed))
		if again, err := v.Unseal(bucket, key, own); err != nil || !bytes.Equal(again.Reveal(), sealed) {
			t.Errorf("what was sealed for (%q, %q) does not open: %v", bucket, key, err)
		}
	})
}
