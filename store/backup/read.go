package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// ageHeader begins every file encrypted with age.
const ageHeader = "age-encryption.org/"

// ErrEncrypted: the backup is encrypted and no identity was given.
var ErrEncrypted = errors.New("it is encrypted")

// Open opens the backup at path for restore.Restore, decrypted. identity is the age key file that decrypts it; empty
// for none. ErrEncrypted: the backup needs an identity. The data is authentic as far as it was read: a file that was
// cut off ends in an error.
func Open(path, identity string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	r, err := decrypted(f, identity)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("backup %s: %w", path, err), f.Close())
	}
	return file{r, f}, nil
}

type file struct {
	io.Reader
	io.Closer
}

// decrypted returns a reader of the content of f, which it decrypts if that is encrypted with age.
func decrypted(f *os.File, identity string) (io.Reader, error) {
	r := bufio.NewReader(f)
	begin, err := r.Peek(len(ageHeader))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(begin, []byte(ageHeader)) {
		return r, nil
	}
	if identity == "" {
		return nil, ErrEncrypted
	}
	keys, err := os.ReadFile(identity)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	var ids []age.Identity
	for line := range strings.Lines(string(keys)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		// Backups are encrypted for keys of this kind only (CheckRecipient).
		id, err := age.ParseX25519Identity(line)
		if err != nil { // err may quote the file
			ids = nil
			break
		}
		ids = append(ids, id)
	}
	if ids == nil {
		return nil, fmt.Errorf("identity: %s holds no age secret key, as age-keygen makes them", identity)
	}
	plain, err := age.Decrypt(r, ids...)
	if err != nil {
		return nil, fmt.Errorf("decrypt with %s: %w", identity, err)
	}
	return plain, nil
}
