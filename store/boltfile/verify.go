package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// bbolt reads every page of the file when it opens it, in a goroutine whose panics nobody can catch, and through a
// mapping that faults behind the end of the file. So plain reads check the page tree and every record first.

// Found is the result of checking a whole file.
type Found struct {
	// Bad are the damaged records, by their pages.
	Bad []Damaged
	// FellBack: the newest commit is unreadable; everything here is about the commit before it.
	FellBack bool
	torn     *meta // the meta page of the unreadable commit, if bbolt would still use it
	broken   bool  // a meta page is damaged, and nothing is lost with it
	of       meta  // the commit that was checked
	records  Digest
	expected *Digest // the digest stored in the file; nil if none can be read
}

// Damaged is a record with other content than was written.
type Damaged struct {
	Bucket string
	Key    []byte
	Err    error // ErrDamaged, with the bucket and the key
}

// Misses returns nil, or an error: the digest counts fewer or more records, or other content that no damaged record
// explains, or the whole tree belongs to an older commit.
func (f Found) Misses() error {
	d := f.expected
	if d == nil { // the digest is a damaged record, and named as one
		return nil
	}
	if d.Tx < f.of.txid || d.N != f.records.N || d.Sum != f.records.Sum && len(f.Bad) == 0 {
		return fmt.Errorf("%w: %w (%d records, expected %d)", ErrDamaged, errOtherRecords, f.records.N, d.N)
	}
	return nil
}

// How much of a commit is there.
const (
	whole      = iota
	badRecords // some records are damaged, and none are missing
	recordsLost
	pagesLost
)

// grade rates how much of a commit is there. f and err are the result of walkTree for that commit.
func (f Found) grade(err error) int {
	switch {
	case err != nil:
		return pagesLost
	case f.Misses() != nil, f.expected == nil: // of two commits, one without a digest is an older tree
		return recordsLost
	case len(f.Bad) > 0:
		return badRecords
	}
	return whole
}

// Verify checks the file at path. It returns nil, or ErrDamaged with the damage named. The answer can be wrong only if
// a server writes to the file at the same time.
func Verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := look(f)
	switch {
	case err != nil:
		return err
	case got.broken, got.FellBack && got.torn == nil:
		return fmt.Errorf("%w: one of its two meta pages is unreadable", ErrDamaged)
	case got.FellBack:
		return fmt.Errorf("%w: its newest commit is not whole", ErrDamaged)
	case got.Misses() != nil:
		return got.Misses()
	}
	return Named(got.Bad)
}

// Named returns nil, or an error in one line about all of bad.
func Named(bad []Damaged) error {
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return bad[0].Err
	}
	return fmt.Errorf("%w, and %d more records", bad[0].Err, len(bad)-1)
}

// Adopt checks the file at path, which nobody writes to, and makes sure that bbolt uses the commit that was found.
// ErrDamaged: bbolt cannot be given the file, or records are missing in it.
func Adopt(path string) (got Found, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if got, err = look(f); err == nil {
		err = got.Misses()
	}
	if err == nil && got.torn != nil {
		err = retract(f, got.torn.at)
	}
	return got, err
}

// verify checks the file at path as Adopt does, under the lock that bbolt uses. An error says why bbolt must not be
// given the file: ErrDamaged, ErrLocked, or the system's error.
func verify(path string, o Options) (Found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Found{}, err
	}
	if !info.Mode().IsRegular() {
		return Found{}, fmt.Errorf("%w: it is no regular file", ErrDamaged)
	}
	if info.Size() == 0 { // bbolt would make a new database of it
		return Found{}, Advised(fmt.Errorf("%w: it is empty", ErrDamaged))
	}
	// Opened for reading only, bbolt locks the file and reads no pages but the meta pages.
	lock, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: o.LockTimeout})
	if err != nil {
		if errors.Is(err, berrors.ErrTimeout) || errors.Is(err, os.ErrPermission) {
			return Found{}, boltError(err)
		}
		return Found{}, Advised(unsound(err))
	}
	got, err := Adopt(path) // nobody writes: the lock is shared only with others who check
	return got, Advised(errors.Join(err, lock.Close()))
}

// InUse returns ErrLocked if another process uses the file at path.
func InUse(path string, o Options) error {
	lock, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: o.LockTimeout})
	if errors.Is(err, berrors.ErrTimeout) {
		return boltError(err)
	}
	if err != nil {
		return nil // the check of the file will report this error
	}
	return lock.Close()
}

// unsound returns the error for a check of a file that ended with err: ErrDamaged, unless the system prevented the
// check.
func unsound(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Advised adds what to do about damage.
func Advised(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; %s", err, Remedy)
}

// look reads the whole file. An error says that the page tree is damaged or could not be read: bbolt cannot be given
// the file. If the newest commit is incomplete, and the commit before it is less so, the result is about the commit
// before it.
func look(f *os.File) (got Found, err error) {
	m, err := readMetas(f)
	if err != nil {
		return got, unsound(err)
	}
	got, err = walkTree(f, m.intact[0])
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return got, err
	}
	if is := got.grade(err); is != whole && len(m.intact) == 2 {
		before, err2 := walkTree(f, m.intact[1])
		if was := before.grade(err2); was < is && was <= badRecords {
			before.FellBack, before.torn = true, &m.intact[0]
			return before, nil
		}
	}
	got.FellBack, got.broken = m.lost, m.broken && !m.lost
	return got, err
}

// walkTree checks the page tree that m begins, and every record in it.
func walkTree(f *os.File, m meta) (Found, error) {
	info, err := f.Stat()
	if err == nil && (m.pages > 1<<40 || info.Size() < int64(m.pageSize)*int64(m.pages)) {
		err = fmt.Errorf("%w: it is cut off: %d bytes, %d pages", ErrDamaged, info.Size(), m.pages)
	}
	if err != nil {
		return Found{}, err
	}
	return walkPages(f, m)
}

// walkPages is walkTree without the check of the size of the file.
func walkPages(f io.ReaderAt, m meta) (Found, error) {
	p := walker(f, m)
	if err := p.walk(m.root, "", nil, nil); err != nil {
		return Found{}, unsound(err)
	}
	return p.Found, nil
}
