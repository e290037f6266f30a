package vault

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

func mustWrap(t *testing.T, b blobs, v *Vault, k Key) {
	t.Helper()
	wrapped, err := v.Wrapped(k)
	if err != nil {
		t.Fatalf("Wrapped by %s: %v", k.Name(), err)
	}
	b[BlobName] = wrapped
}

func TestAnotherKeyOpensTheSameVault(t *testing.T) {
	dir := t.TempDir()
	file, other, words := FileKey(filepath.Join(dir, "a.key")), FileKey(filepath.Join(dir, "b.key")), smallPassphrase(t, "correct horse")
	b := blobs{}
	v := mustOpen(t, b, file)
	sealed, mac := v.Seal("gateways", "g", secret("value")), v.MAC("link", secret("code"))
	was := file
	for _, next := range []Key{words, other, file} {
		mustWrap(t, b, mustOpen(t, b, was), next)
		if _, err := Existing(t.Context(), b, was); !errors.Is(err, ErrWrongKey) {
			t.Errorf("%s still opens the vault: %v", was.Name(), err)
		}
		v := mustOpen(t, b, next)
		if got, err := v.Unseal("gateways", "g", sealed); err != nil || got.RevealString() != "value" || !bytes.Equal(v.MAC("link", secret("code")), mac) {
			t.Errorf("opened with %s: Unseal %v, or another MAC", next.Name(), err)
		}
		was = next
	}
}

// TestRenewed: twice renewed and wrapped by another key, the kept MACs are the first vault's; all else is new.
func TestRenewed(t *testing.T) {
	key := FileKey(filepath.Join(t.TempDir(), "a.key"))
	b := blobs{}
	first := mustOpen(t, b, key)
	sealed := first.Seal("gateways", "g", secret("value"))
	mustWrap(t, b, first.Renewed("link", "gateway-id"), key)
	mustWrap(t, b, mustOpen(t, b, key).Renewed("link"), key)
	mustWrap(t, b, mustOpen(t, b, key), smallPassphrase(t, "w"))
	v := mustOpen(t, b, smallPassphrase(t, "w"))
	for purpose, kept := range map[string]bool{"link": true, "gateway-id": true, "identity-token": false} {
		if got := bytes.Equal(v.MAC(purpose, secret("code")), first.MAC(purpose, secret("code"))); got != kept {
			t.Errorf("the MAC for %s is the former one: %v, want %v", purpose, got, kept)
		}
	}
	if _, err := v.Unseal("gateways", "g", sealed); !errors.Is(err, ErrUnseal) {
		t.Errorf("what the former data key sealed: %v, want %v", err, ErrUnseal)
	}
	if first.kept != nil {
		t.Error("Renewed changed the vault it was made of")
	}
}

func TestKeptMACKeysAreChecked(t *testing.T) {
	key := FileKey(filepath.Join(t.TempDir(), "a.key"))
	b := blobs{}
	mustWrap(t, b, New().Renewed("link"), key)
	for name, damaged := range map[string]blobs{
		"gone":      change(b, `,"kept"`, `,"was"`),
		"spoilt":    change(b, `"kept":"A`, `"kept":"B`),
		"forgotten": change(b, `"v":2`, `"v":1`), // a vault of the first version would make other MACs
	} {
		if v, err := Existing(t.Context(), damaged, key); v != nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrWrongKey) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestExistingMakesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.key")
	b := blobs{}
	if v, err := Existing(t.Context(), b, FileKey(path)); v != nil || !errors.Is(err, ErrNone) || len(b) > 0 {
		t.Errorf("Existing = %v, %v", v, err)
	}
}
