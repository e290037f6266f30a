// Package backup keeps copies of the database: on demand, and every night. It handles files, names and encryption;
// package store defines the content of a copy. The command writes the file, from a stream of the server: so the file
// belongs to the operator, and a sandboxed server needs no place for it.
//
// Invariants, each held by the test that names its number:
//
//  1. A backup gets its name when it is whole, verified and synced. Before that it is a leftover.
//  2. No file is overwritten, and an old snapshot goes only when a newer one is in place.
//  3. With a recipient, nothing unencrypted is written.
//  4. When nothing was committed, nothing is written.
//  5. Trouble with backups never ends Run.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// Source gives a copy of the database; *store.DB does, and a client of a running server.
type Source interface {
	// Backup writes a whole copy to w, or returns an error.
	Backup(ctx context.Context, w io.Writer) (store.BackupInfo, error)
}

// Made is a backup that is on the disk.
type Made struct {
	Path      string    `json:"path"`
	Bytes     int64     `json:"bytes"` // of the file
	At        time.Time `json:"at"`
	Encrypted bool      `json:"encrypted"`
}

// CheckRecipient returns what is wrong with a recipient: nil for "" and for an age X25519 public key ("age1…"), the one
// kind of key with which age encrypts files.
func CheckRecipient(recipient string) error {
	if recipient == "" {
		return nil
	}
	_, err := age.ParseX25519Recipient(recipient)
	if err != nil { // age's own error quotes the value, which may be the secret key
		return errors.New("want an age recipient: the line that begins with age1, as age-keygen prints it; never the secret key")
	}
	return nil
}

// Write makes a backup of src in the file path (mode 0600), encrypted if there is a recipient. It returns fs.ErrExist
// if the file exists, and does not change it. After any error nothing is left behind.
func Write(ctx context.Context, src Source, path, recipient string) (m Made, err error) {
	err = fs.ErrExist
	if !files.Exists(path) {
		err = files.Create(path, tempPattern(path), func(f *os.File) error {
			m, err = fill(ctx, f, src, recipient)
			return err
		})
	}
	if err != nil {
		return Made{}, fmt.Errorf("write %s: %w", path, err)
	}
	m.Path = path
	return m, nil
}

// tempPattern matches the names of unfinished backups for path.
func tempPattern(path string) string { return "." + filepath.Base(path) + ".tmp-*" }

// fill writes the backup into the empty file f and checks it.
func fill(ctx context.Context, f *os.File, src Source, recipient string) (m Made, err error) {
	if recipient == "" {
		info, err := src.Backup(ctx, f)
		if err == nil {
			err = store.VerifyFile(f.Name())
		}
		return Made{Bytes: info.Bytes, At: info.At}, err
	}
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return m, fmt.Errorf("recipient: %w", CheckRecipient(recipient))
	}
	// The store has checked what it hands out. This checks that the disk gives it back, because an encrypted backup
	// cannot be decrypted here.
	given := sha256.New()
	w, err := age.Encrypt(io.MultiWriter(f, given), to)
	if err != nil {
		return m, err
	}
	info, err := src.Backup(ctx, w)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return m, err
	}
	n, err := readBack(f, given)
	return Made{Bytes: n, At: info.At, Encrypted: true}, err
}

// readBack compares f with what was written to it, and returns its size.
func readBack(f *os.File, given hash.Hash) (int64, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	read := sha256.New()
	n, err := io.Copy(read, f)
	if err == nil && !bytes.Equal(read.Sum(nil), given.Sum(nil)) {
		err = errors.New("the disk does not give back what was written")
	}
	return n, err
}
