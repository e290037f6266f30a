package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/restore"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// phrase is in the database, so what contains it is not encrypted.
const phrase = "nobody but the key's owner reads this"

func openDB(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Open(t, t.TempDir(), store.Options{})
	change(t, db, phrase)
	return db
}

func change(t *testing.T, db *store.DB, value string) {
	t.Helper()
	must.Succeed(t, db.PutBlob(context.WithoutCancel(t.Context()), "blob", []byte(value)))
}

// newKey makes a key pair; the secret half is in the file.
func newKey(t *testing.T) (file, recipient string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	must.Succeed(t, err)
	file = filepath.Join(t.TempDir(), "age.key")
	must.Succeed(t, os.WriteFile(file, []byte("# a comment\n"+id.String()+"\n"), 0o600))
	return file, id.Recipient().String()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

func TestWrite(t *testing.T) { // invariants 1 and 3
	key, recipient := newKey(t)
	for name, tc := range map[string]struct{ recipient, key string }{
		"plain":     {"", ""},
		"encrypted": {recipient, key},
	} {
		t.Run(name, func(t *testing.T) {
			db := openDB(t)
			path := filepath.Join(t.TempDir(), "backup.db")
			made, err := Write(t.Context(), db, path, tc.recipient)
			must.Succeed(t, err)
			info, err := os.Stat(path)
			must.Succeed(t, err)
			if info.Mode() != 0o600 || made.Path != path || made.Bytes != info.Size() || made.Encrypted != (tc.recipient != "") || made.At.IsZero() {
				t.Errorf("%+v, file of %d bytes, mode %v", made, info.Size(), info.Mode())
			}
			content, err := os.ReadFile(path)
			must.Succeed(t, err)
			if got := bytes.Contains(content, []byte(phrase)); got != (tc.recipient == "") {
				t.Errorf("the text is in the file: %v", got)
			}
			if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"backup.db"}) {
				t.Errorf("the folder holds %v", got)
			}
			r, err := Open(path, tc.key)
			must.Succeed(t, err)
			defer r.Close()
			restored := filepath.Join(t.TempDir(), "connector.db")
			got, err := restore.Restore(restored, r, store.Options{})
			if err != nil || !got.MadeAt.Equal(made.At) {
				t.Errorf("restored %+v, %v; made at %v", got, err, made.At)
			}
		})
	}
}

// failing gives half a backup.
type failing struct{ err error }

func (f failing) Backup(_ context.Context, w io.Writer) (store.BackupInfo, error) {
	_, _ = w.Write(make([]byte, 100_000))
	return store.BackupInfo{}, f.err
}

func TestWriteFails(t *testing.T) { // invariants 1 and 2
	_, recipient := newKey(t)
	trouble := errors.New("trouble")
	for name, tc := range map[string]struct {
		src       Source
		recipient string
		want      error
	}{
		"the database":            {failing{trouble}, "", trouble},
		"the database, encrypted": {failing{trouble}, recipient, trouble},
		"what came is no backup":  {failing{nil}, "", store.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backup.db")
			if _, err := Write(t.Context(), tc.src, path, tc.recipient); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := names(t, filepath.Dir(path)); len(got) != 0 {
				t.Errorf("the folder holds %v", got)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	must.Succeed(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Write(t.Context(), openDB(t), path, ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want fs.ErrExist", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "precious" {
		t.Error("the file was overwritten")
	}
}

func TestAppearedMeanwhile(t *testing.T) { // invariant 2
	path := filepath.Join(t.TempDir(), "backup.db")
	db := openDB(t)
	src := sourceFunc(func(ctx context.Context, w io.Writer) (store.BackupInfo, error) {
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			return store.BackupInfo{}, err
		}
		return db.Backup(ctx, w)
	})
	if _, err := Write(t.Context(), src, path, ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"backup.db"}) {
		t.Errorf("the folder holds %v", got)
	}
}

type sourceFunc func(context.Context, io.Writer) (store.BackupInfo, error)

func (f sourceFunc) Backup(ctx context.Context, w io.Writer) (store.BackupInfo, error) {
	return f(ctx, w)
}

func TestOpenEncrypted(t *testing.T) {
	key, recipient := newKey(t)
	other, _ := newKey(t)
	path := filepath.Join(t.TempDir(), "backup.age")
	if _, err := Write(t.Context(), openDB(t), path, recipient); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	must.Succeed(t, err)
	cut := filepath.Join(t.TempDir(), "cut.age")
	must.Succeed(t, os.WriteFile(cut, content[:len(content)/2], 0o600))
	secret, err := os.ReadFile(key)
	must.Succeed(t, err)
	half := filepath.Join(t.TempDir(), "half.key")
	must.Succeed(t, os.WriteFile(half, secret[:len(secret)-9], 0o600))
	for name, tc := range map[string]struct{ path, key, want string }{
		"no key":        {path, "", "it is encrypted"},
		"another key":   {path, other, "decrypt"},
		"a missing key": {path, key + "x", "no such file"},
		"half a key":    {path, half, "holds no age secret key"},
		"no key at all": {path, path, "holds no age secret key"},
		"half a backup": {cut, key, "decrypt"},
		"nothing":       {path + "x", "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(tc.path, tc.key)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "AGE-SECRET") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func TestCheckRecipient(t *testing.T) {
	_, good := newKey(t)
	for r, want := range map[string]bool{"": true, good: true, "age1x": false, "AGE-SECRET-KEY-1XYZ": false} {
		err := CheckRecipient(r)
		if (err == nil) != want || err != nil && strings.Contains(err.Error(), "XYZ") {
			t.Errorf("%q: %v", r, err)
		}
	}
}
