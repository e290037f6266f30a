package boltfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// Leftovers returns a pattern that matches the names under which databases for path are made.
func Leftovers(path string) string { return filepath.Base(path) + ".new-*" }

// create makes an empty database at path. It makes the file under another name first, because a power cut in the middle
// can leave a file that never opens again. If another process was quicker, that process's file stays, and create
// returns nil, even if the other has removed ours as a leftover.
func create(path string, o Options) error {
	err := files.Create(path, Leftovers(path), func(f *os.File) error {
		files.Give(f, path)
		return files.Aside(path, Leftovers(path), func(made *os.File) error {
			b, err := OpenBolt(made.Name(), o)
			if err != nil {
				return err
			}
			return errors.Join(Update(b, o.Format.Fill), b.Close())
		}, func(made string) error { return inPages(f, made) })
	})
	if errors.Is(err, fs.ErrExist) || err != nil && files.Exists(path) {
		return nil
	}
	return err
}

// inPages copies the file named from into to, page by page. bbolt writes its first pages in one piece, and the kernel
// may keep such a piece as one: then each commit's meta page would be written back, or counted, with its neighbours.
// The file's bytes are not all in memory at once, because a fresh server's heap would then be allowed to grow to twice
// their size. Empty parts stay holes, as where bbolt lets a file grow.
func inPages(to *os.File, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	page, empty := make([]byte, PageSize), make([]byte, PageSize)
	at := int64(0)
	for err == nil {
		n, end := io.ReadFull(in, page)
		if !bytes.Equal(page[:n], empty[:n]) {
			_, err = to.WriteAt(page[:n], at)
		}
		at += int64(n)
		if errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF) {
			err = errors.Join(err, to.Truncate(at))
			break
		}
		err = errors.Join(err, end)
	}
	return errors.Join(err, in.Close())
}
