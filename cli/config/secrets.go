package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const maxSecretFile = 64 << 10 // bytes: more than any credential needs

// secretFile returns the credential in the file at the path v of the configuration. The file may be among those that
// are to be written (Source.Pending), or be handed in by systemd.
func (l *loader) secretFile(v string) (none relay.Secret, err error) {
	path, err := l.abs(v)
	if err != nil {
		return none, err
	}
	if s, ok := l.pending[path]; ok {
		return s, nil
	}
	return SecretFile(l.handedIn(path))
}

// handedIn returns path if this process can read that file. Otherwise it returns the path of the credential into which
// systemd copied the file for the service, if there is one. A unit names the credential after the file
// (LoadCredential=NAME:FILE) or after its folder (LoadCredential=FOLDER:PATH).
func (l *loader) handedIn(path string) string {
	dir := l.env["CREDENTIALS_DIRECTORY"]
	if dir == "" || readable(path) {
		return path
	}
	name := filepath.Base(path)
	for _, id := range []string{name, filepath.Base(filepath.Dir(path)) + "_" + name} {
		if c := filepath.Join(dir, id); readable(c) {
			return c
		}
	}
	return path
}

func readable(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err == nil {
		err = f.Close()
	}
	return err == nil
}

// exists reports whether a setting names something that is there.
func (l *loader) exists(v string) bool {
	path, err := l.abs(v)
	if err == nil {
		_, err = os.Stat(path)
	}
	return err == nil
}

// SecretFile returns the credential in a file that no other user can read.
func SecretFile(path string) (none relay.Secret, err error) {
	if st, e := os.Stat(path); e == nil {
		err = private(path, st)
	}
	if err != nil {
		return none, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return none, unread(err)
	}
	return secret(string(raw), "the file is empty")
}

func (l *loader) secretEnv(name string) (relay.Secret, error) {
	return secret(l.env[name], "that variable is not set")
}

// secret returns raw without the spaces around it. If nothing is left, the error has the text missing.
func secret(raw, missing string) (relay.Secret, error) {
	s := relay.NewSecret([]byte(strings.TrimSpace(raw)))
	if s.IsZero() {
		return s, errors.New(missing)
	}
	return s, nil
}

// private returns why the file at path must not hold a credential; nil: it may.
func private(path string, st os.FileInfo) error {
	switch {
	case !st.Mode().IsRegular():
		return errors.New("is no ordinary file")
	case st.Size() > maxSecretFile:
		return errors.New("the file is too large to be a credential")
	}
	return files.Private(path, st)
}

// shared returns why a certificate's key must not be in the file at path; nil: it may. Unlike private it lets the
// owner's group read the file: a group of services often shares a certificate.
func shared(path string, st os.FileInfo) error {
	if st.Mode().Perm()&0o007 != 0 && files.Private(path, st) != nil {
		return errors.New("anyone on this machine can read or change that file: chmod o= it")
	}
	return nil
}
