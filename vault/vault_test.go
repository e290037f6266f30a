package vault

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// blobs is the two methods of the store that the vault needs, in memory.
type blobs map[string][]byte

func (b blobs) Blob(_ context.Context, name string) ([]byte, bool, error) {
	v, ok := b[name]
	return bytes.Clone(v), ok, nil
}

func (b blobs) PutBlob(_ context.Context, name string, value []byte) error {
	b[name] = bytes.Clone(value)
	return nil
}

// brokenBlobs fails to write.
type brokenBlobs struct{ blobs }

var errDisk = errors.New("disk full")

func (brokenBlobs) PutBlob(context.Context, string, []byte) error { return errDisk }

func secret(s string) relay.Secret { return relay.NewSecret([]byte(s)) }

func mustOpen(t *testing.T, b Blobs, k Key) *Vault {
	t.Helper()
	v, err := Open(t.Context(), b, k)
	if err != nil {
		t.Fatalf("Open with %s: %v", k.Name(), err)
	}
	return v
}

// smallPassphrase stretches as on a small host, to spare the machine the tests run on.
func smallPassphrase(t *testing.T, words string) Key {
	t.Helper()
	info := filepath.Join(t.TempDir(), "meminfo")
	writeFile(t, info, "MemFree: 12 kB\nMemTotal:         948304 kB\n", 0o600)
	return passphraseKey{secret(words), info}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func TestVaultOpensAgain(t *testing.T) {
	creds := t.TempDir()
	writeFile(t, filepath.Join(creds, "master.key"), strings.Repeat("0aF9", 16), 0o440)
	for name, key := range map[string]Key{
		"key file":   FileKey(filepath.Join(t.TempDir(), "vault.key")),
		"credential": CredentialKey(creds, "master.key"),
		"passphrase": smallPassphrase(t, "correct horse"),
	} {
		t.Run(name, func(t *testing.T) {
			b := blobs{}
			first := mustOpen(t, b, key)
			sealed := first.Seal("gateways", "g1", secret("opaque value"))
			stored := bytes.Clone(b[BlobName])

			again := mustOpen(t, b, key)
			got, err := again.Unseal("gateways", "g1", sealed)
			if err != nil || got.RevealString() != "opaque value" {
				t.Errorf("Unseal after opening again = %q, %v; want the value", got.RevealString(), err)
			}
			if want := first.MAC("link", secret("c")); !bytes.Equal(again.MAC("link", secret("c")), want) {
				t.Error("MAC after opening again differs")
			}
			if !bytes.Equal(b[BlobName], stored) {
				t.Error("opening again wrote the wrapped key")
			}
			if bytes.Contains(stored, first.data.Reveal()) {
				t.Error("the data key is stored in the clear")
			}
		})
	}
}

// Invariant 3, and what each failure says.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	withFile, withPassphrase := blobs{}, blobs{}
	mustOpen(t, withFile, FileKey(path("right.key")))
	mustOpen(t, withPassphrase, smallPassphrase(t, "correct horse"))
	mustOpen(t, blobs{}, FileKey(path("other.key")))

	for name, tc := range map[string]struct {
		blobs blobs
		key   Key
		want  error
		says  string
	}{
		"key file is missing":               {withFile, FileKey(path("gone.key")), ErrKeyLost, "vault rekey --lost"},
		"key file of another vault":         {withFile, FileKey(path("other.key")), ErrWrongKey, "vault rekey --lost"},
		"passphrase where a file was":       {withFile, smallPassphrase(t, "correct horse"), ErrWrongKey, "made with a key file or credential, but a passphrase was given"},
		"file where a passphrase was":       {withPassphrase, FileKey(path("gone.key")), ErrWrongKey, "made with a passphrase, but a key file or credential was given"},
		"existing file, passphrase was":     {withPassphrase, FileKey(path("other.key")), ErrWrongKey, "made with a passphrase"},
		"wrong passphrase":                  {withPassphrase, smallPassphrase(t, "correct house"), ErrWrongKey, "Start with the right one"},
		"empty passphrase":                  {blobs{}, smallPassphrase(t, ""), ErrKeyRefused, "empty"},
		"credential is missing":             {blobs{}, CredentialKey(dir, "gone.key"), ErrKeyLost, "LoadCredential"},
		"no credentials at all":             {blobs{}, CredentialKey("", "gone.key"), ErrKeyLost, "LoadCredential"},
		"credential outside the folder":     {blobs{}, CredentialKey(path("sub"), "../right.key"), ErrKeyRefused, "plain file name"},
		"stored vault is no JSON":           {blobs{BlobName: []byte("\x00\x01")}, FileKey(path("right.key")), ErrDamaged, "backup"},
		"stored vault is empty":             {blobs{BlobName: {}}, FileKey(path("right.key")), ErrDamaged, "backup"},
		"stored vault without its key":      {blobs{BlobName: []byte("null")}, FileKey(path("right.key")), ErrDamaged, "backup"},
		"passphrase vault without its salt": {change(withPassphrase, `"kdf"`, `"was"`), smallPassphrase(t, "correct horse"), ErrDamaged, "argon2"},
		"passphrase vault, no passes":       {change(withPassphrase, `"t":4`, `"t":0`), smallPassphrase(t, "correct horse"), ErrDamaged, "argon2"},
		"passphrase vault, no threads":      {change(withPassphrase, `"p":1`, `"p":0`), smallPassphrase(t, "correct horse"), ErrDamaged, "argon2"},
		"passphrase vault, much memory":     {change(withPassphrase, `"m":19456`, `"m":4000000000`), smallPassphrase(t, "correct horse"), ErrDamaged, "argon2"},
		"stored vault of a newer version":   {change(withFile, `"v":1`, `"v":3`), FileKey(path("right.key")), nil, "version 3"},
	} {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(tc.blobs[BlobName])
			v, err := Open(t.Context(), tc.blobs, tc.key)
			if err == nil || v != nil {
				t.Fatalf("Open = %v, %v; want an error and no vault", v, err)
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("Open: %v, want it to be: %v", err, tc.want)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Open: %q does not say %q", err, tc.says)
			}
			if strings.Contains(err.Error(), "correct ho") {
				t.Errorf("Open: %q repeats the passphrase", err)
			}
			if !bytes.Equal(tc.blobs[BlobName], before) {
				t.Error("Open wrote to the store")
			}
			if _, err := os.Lstat(path("gone.key")); err == nil {
				t.Error("Open made a key for a vault that has one")
			}
		})
	}
}

// change is a copy of b with the stored vault altered.
func change(b blobs, old, new string) blobs {
	if !bytes.Contains(b[BlobName], []byte(old)) {
		panic("the stored vault has no " + old)
	}
	return blobs{BlobName: bytes.Replace(b[BlobName], []byte(old), []byte(new), 1)}
}

func TestKeyLeftByACrashIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vault.key")
	if _, err := Open(t.Context(), brokenBlobs{blobs{}}, FileKey(path)); !errors.Is(err, errDisk) {
		t.Fatalf("Open on a full disk: %v, want %v", err, errDisk)
	}
	before := readFile(t, path)
	mustOpen(t, blobs{}, FileKey(path))
	if after := readFile(t, path); after != before {
		t.Error("Open replaced a key file that was there")
	}
}

func TestFileAndCredentialAreInterchangeable(t *testing.T) {
	dir := t.TempDir()
	b := blobs{}
	mustOpen(t, b, FileKey(filepath.Join(dir, "vault.key")))
	mustOpen(t, b, CredentialKey(dir, "vault.key"))
}

func TestPassphraseParametersFollowTheHostOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		meminfo string
		want    kdf
	}{
		"a small host":            {"MemTotal:  1048575 kB\n", kdf{Time: 4, Memory: 19456, Threads: 1}},
		"a host with 1 GiB":       {"MemTotal:  1048576 kB\n", kdf{Time: 3, Memory: 65536, Threads: 4}},
		"a host that cannot tell": {"MemTotal: lots\n", kdf{Time: 3, Memory: 65536, Threads: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			info := filepath.Join(t.TempDir(), "meminfo")
			writeFile(t, info, tc.meminfo, 0o600)
			_, got, err := passphraseKey{secret("w"), info}.create()
			if err != nil {
				t.Fatal(err)
			}
			if got.Time != tc.want.Time || got.Memory != tc.want.Memory || got.Threads != tc.want.Threads {
				t.Errorf("parameters %+v, want %+v", *got, tc.want)
			}
			if len(got.Salt) != saltSize || bytes.Equal(got.Salt, make([]byte, saltSize)) {
				t.Errorf("salt %x, want %d random bytes", got.Salt, saltSize)
			}
		})
	}
	t.Run("a vault moved to a larger host", func(t *testing.T) {
		b := blobs{}
		mustOpen(t, b, smallPassphrase(t, "w"))
		mustOpen(t, b, passphraseKey{secret("w"), filepath.Join(t.TempDir(), "absent")})
	})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
