package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Replace replaces the file at path by the content of r, and keeps the former file beside it under another name.
// prepare is called with the new file, which nobody else knows of, and with the former one, locked; former is nil if
// there is none that bbolt can open. After any error the file at path is unchanged.
func Replace(path string, r io.Reader, o Options, prepare func(temp string, former *bolt.DB) error) (kept string, err error) {
	// The former file is locked to the end, so that no server can start meanwhile. No server uses a file that cannot be
	// opened.
	former, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: o.LockTimeout})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return "", fmt.Errorf("%w; stop it first", ErrLocked)
	case errors.Is(err, os.ErrPermission):
		return "", err
	case err == nil:
		defer func() { err = errors.Join(err, former.Close()) }()
	default:
		former = nil
	}
	err = files.Aside(path, Leftovers(path), func(f *os.File) error {
		files.Give(f, path)
		_, err := io.Copy(f, r)
		return err
	}, func(temp string) error {
		if err := prepare(temp, former); err != nil {
			return err
		}
		if files.Exists(path) {
			base := path + ".before-restore-" + o.Now().UTC().Format("20060102T150405Z")
			kept = base
			for n := 2; files.Exists(kept); n++ {
				kept = base + "-" + strconv.Itoa(n)
			}
		}
		return files.Replace(temp, path, kept)
	})
	return kept, err
}

// A backup is the file as one commit left it, and a trailer behind its last page that says when it was made. A database
// is never read that far, so a backup can be opened like a database.
const (
	trailerMagic = "hermes-connector backup\n"
	// TrailerSize is the size of the magic, the time in Unix seconds and the checksum of both.
	TrailerSize = int64(len(trailerMagic) + 8 + 4)
)

// Trailer returns the trailer of a backup; at is when the backup was made.
func Trailer(at time.Time) []byte {
	b := binary.BigEndian.AppendUint64([]byte(trailerMagic), uint64(at.Unix()))
	return binary.BigEndian.AppendUint32(b, Checksum(b, nil))
}

// CutTrailer cuts the trailer off the backup at path, and returns when the backup was made; ok is false if it has no
// trailer, like a copy of the file that was made by hand.
func CutTrailer(path string) (made time.Time, ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return made, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return made, false, err
	}
	b := make([]byte, TrailerSize)
	if _, err := f.ReadAt(b, info.Size()-TrailerSize); err != nil && !errors.Is(err, io.EOF) {
		return made, false, nil
	}
	made = time.Unix(int64(binary.BigEndian.Uint64(b[len(trailerMagic):])), 0).UTC()
	if string(b) != string(Trailer(made)) {
		return time.Time{}, false, nil
	}
	return made, true, f.Truncate(info.Size() - TrailerSize)
}
