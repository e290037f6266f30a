package identity

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeyFile(t *testing.T) {
	a, b := only(t, "a", keyA()), only(t, "b", keyB())
	path := filepath.Join(t.TempDir(), "jwks.json")
	synctest.Test(t, func(t *testing.T) {
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			// Every content has a time of its own, however coarse the file system's clock is.
			if err := os.Chtimes(path, time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		write(a)
		var log bytes.Buffer
		o := jwksOptions()
		o.JWKSURL, o.JWKSFile, o.Log = "", path, slog.New(slog.NewTextHandler(&log, nil))
		s := &served{Verifier: newVerifier(t, &blobs{}, o)}
		s.check(t, "first", keyA(), "a", nil)
		s.check(t, "not in it", keyB(), "b", ErrUnauthorized)

		time.Sleep(time.Second)
		write(b)
		s.check(t, "not looked yet", keyA(), "a", nil)
		s.check(t, "new, at once", keyB(), "b", nil)
		s.check(t, "removed", keyA(), "a", ErrUnauthorized)

		for what, spoil := range map[string]func(){
			"garbage":   func() { write("x") },
			"half":      func() { write(a[:200]) },
			"huge":      func() { write(strings.Repeat(" ", maxAnswer) + a) },
			"not there": func() { _ = os.Remove(path) },
		} {
			log.Reset()
			spoil()
			for range 5 {
				time.Sleep(lookEvery)
				s.check(t, what, keyB(), "b", nil)
			}
			if n := strings.Count(log.String(), "key file cannot be used"); n != 1 {
				t.Errorf("%s: %d lines in the log, want one: %s", what, n, &log)
			}
			write(b)
			time.Sleep(lookEvery)
			s.check(t, what+", repaired", keyB(), "b", nil)
		}

		write(a)
		time.Sleep(lookEvery)
		s.check(t, "changed", keyA(), "a", nil)
		write(`{"keys":[]}`)
		time.Sleep(lookEvery)
		s.check(t, "emptied", keyA(), "a", ErrUnauthorized)
	})
}

func TestKeyFileIsNotReadWithoutNeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, []byte(only(t, "a", keyA())), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		k, err := openKeyFile(path, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := k.current(t.Context())
		time.Sleep(lookEvery)
		if set, err := k.current(t.Context()); set != first || err != nil {
			t.Errorf("an unchanged file was read again, %v", err)
		}
		if set := k.newer(t.Context(), first); set != first {
			t.Error("an unchanged file has a newer set")
		}
	})
}

func TestKeyFileThatCannotBeOpened(t *testing.T) {
	if _, err := openKeyFile(t.TempDir(), time.Now, nil); err == nil {
		t.Error("a folder was read as a key file")
	}
	_, err := openKeyFile(filepath.Join(t.TempDir(), "none"), time.Now, nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("openKeyFile = %v, want %v", err, os.ErrNotExist)
	}
}
