package vault

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"testing"
)

// What the first version wrote. These bytes lie in people's databases: later versions must open
// them, so they are never rewritten.
const (
	goldenPlace   = "g1/secret/00" // in bucket "gateways"
	goldenPlain   = "value"
	goldenSealed  = "016591f0577fd334c1135b6a3cd41e958135148858275237f06aaea5a3d64d2ad0bd66d7aad4a5d0dd91ffbd11991d925be7"
	goldenMAC     = "33d9656200d5473385fd436d4b2dff30939127aa4773499624e7fe6549ad66c2" // of "7KQ29F4M" for "link"
	goldenKeyFile = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
	goldenByKey   = `{"v":1,"origin":"key","nonce":"wf3eo3ZVLtdtDcsGdke7WrzChdUo27kf","wrapped":"9kp03QshrKN0u/FKD/4QcQTRO5a4PcwsftcJ5KyBOn8Wt4CIiLwYLDLS0tDn+aJg"}`
	goldenByWords = `{"v":1,"origin":"passphrase","kdf":{"t":4,"m":19456,"p":1,"salt":"Iq+JwFoGzEQEqfjBFpvEOQ=="},"nonce":"3C2bsTALMl7S16RZBtLcvhrvQ0gsuNIh","wrapped":"/XvY7qCtP1H55hJjoi6N8WVr3KIK8c0CKyoUKeqZ7OkE4mFp4/hZkRaXtzHVxMLt"}`
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatTheFirstVersionWroteOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault.key")
	writeFile(t, path, goldenKeyFile, 0o600)
	for name, tc := range map[string]struct {
		stored string
		key    Key
	}{
		"key file":   {goldenByKey, FileKey(path)},
		"passphrase": {goldenByWords, PassphraseKey(secret("correct horse"))},
	} {
		t.Run(name, func(t *testing.T) {
			v := mustOpen(t, blobs{BlobName: []byte(tc.stored)}, tc.key)
			got, err := v.Unseal("gateways", goldenPlace, unhex(t, goldenSealed))
			if err != nil || got.RevealString() != goldenPlain {
				t.Errorf("Unseal = %q, %v; want %q", got.RevealString(), err, goldenPlain)
			}
			if got := v.MAC("link", secret("7KQ29F4M")); !bytes.Equal(got, unhex(t, goldenMAC)) {
				t.Errorf("MAC = %x, want %s", got, goldenMAC)
			}
		})
	}
}

// FuzzUnwrap: whatever the database holds, Open does not panic and accepts only what was wrapped.
func FuzzUnwrap(f *testing.F) {
	path := filepath.Join(f.TempDir(), "vault.key")
	if err := (fileKey{path}).write(randomKey()); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(goldenByKey))
	f.Add([]byte(goldenByWords))
	f.Add([]byte(`{"v":1,"origin":"key"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		if s, err := unwrap(stored, FileKey(path)); err == nil || s != nil {
			t.Errorf("unwrap(%q) opened with a key it was not made with: %v", stored, err)
		}
	})
}
