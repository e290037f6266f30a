package vault

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestNewKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vault.key")
	mustOpen(t, blobs{}, FileKey(path))

	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != 0o600 {
		t.Errorf("mode %v, want -rw-------", got)
	}
	text := readFile(t, path)
	key, err := hex.DecodeString(strings.TrimSuffix(text, "\n"))
	if err != nil || len(key) != keySize || len(text) != keyText {
		t.Errorf("key file holds %d bytes, want %d hexadecimal digits and a newline", len(text), 2*keySize)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("%d files in the folder, want only the key: %v", len(left), left)
	}
}

// What a crash while the key was written leaves behind may be the key itself.
func TestKeyFileLeftovers(t *testing.T) {
	for _, died := range []string{"before the key was there", "after it"} {
		t.Run(died, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "vault.key")
			key := strings.Repeat("5a", keySize) + "\n"
			writeFile(t, path+".new-123", key, 0o600)
			writeFile(t, path+".mine", key, 0o600)
			if died == "after it" {
				writeFile(t, path, key, 0o600)
			}
			mustOpen(t, blobs{}, FileKey(path))
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 2 || left[0].Name() != "vault.key" || left[1].Name() != "vault.key.mine" {
				t.Errorf("the folder holds %v, %v; want vault.key and vault.key.mine", left, err)
			}
		})
	}
}

// Invariant 2: neither a key file that is refused nor one that is fine is ever written to.
func TestKeyFileRefused(t *testing.T) {
	good := strings.Repeat("5a", keySize) + "\n"
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"empty":                      {"", 0o600, "empty"},
		"only a newline":             {"\n", 0o600, "empty"},
		"too short":                  {good[:62], 0o600, "damaged"},
		"a digit missing":            {good[1:], 0o600, "damaged"},
		"too long":                   {good + good, 0o600, "too long"},
		"a blank at the end":         {good[:64] + " ", 0o600, "too long"},
		"two newlines":               {good + "\n", 0o600, "too long"},
		"zeros, as after power loss": {strings.Repeat("\x00", keyText), 0o600, "damaged"},
		"no digits":                  {strings.Repeat("x", 2*keySize), 0o600, "other characters"},
		"readable by all":            {good, 0o644, "chmod 600"},
		"readable by everyone":       {good, 0o604, "chmod 600"},
		"writable by the group":      {good, 0o620, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vault.key")
			writeFile(t, path, tc.text, tc.mode)
			for _, stored := range []string{"a new vault", "an existing vault"} {
				b := blobs{}
				if stored == "an existing vault" {
					mustOpen(t, b, FileKey(filepath.Join(t.TempDir(), "other.key")))
				}
				_, err := Open(t.Context(), b, FileKey(path))
				if !errors.Is(err, ErrKeyRefused) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("Open of %s: %v, want %v, and %q in it", stored, err, ErrKeyRefused, tc.says)
				}
				if len(tc.text) > 8 && err != nil && strings.Contains(err.Error(), strings.TrimSpace(tc.text)[:8]) {
					t.Errorf("Open of %s: %q repeats what is in the file", stored, err)
				}
			}
			if got := readFile(t, path); got != tc.text {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
}

func TestKeyFileThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, blobs{}, FileKey(filepath.Join(dir, "real.key")))
	for name, target := range map[string]string{
		"a link to a key":     filepath.Join(dir, "real.key"),
		"a link to nothing":   filepath.Join(dir, "nothing"),
		"a link to a folder":  dir,
		"a folder in its way": "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vault.key")
			var err error
			if target == "" {
				err = os.Mkdir(path, 0o700)
			} else {
				err = os.Symlink(target, path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), blobs{}, FileKey(path)); !errors.Is(err, ErrKeyRefused) {
				t.Errorf("Open: %v, want %v", err, ErrKeyRefused)
			}
			if _, err := os.Lstat(filepath.Join(dir, "nothing")); err == nil {
				t.Error("a key was made through the link")
			}
		})
	}
}

// Invariant 2, when several processes start at once: one key wins, and all have that one.
func TestKeyFileMadeByManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "vault.key")
	var keys [16]string
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			s, _, err := fileKey{path}.create()
			if err != nil {
				t.Errorf("create: %v", err)
			}
			keys[i] = s.RevealString()
		})
	}
	wg.Wait()
	for i, k := range keys {
		if k != keys[0] || k == "" {
			t.Errorf("process %d has another key", i)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v; want only the key", left, err)
	}
}

func TestKeyFileInAMissingFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "vault.key")
	if _, err := Open(t.Context(), blobs{}, FileKey(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open: %v, want %v", err, os.ErrNotExist)
	}
}
