package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// bbolt reads every page of the file when it opens it, in a goroutine whose panics nobody can
// catch, and through a mapping that faults behind the end of the file. So the page tree is
// checked here first, with plain reads, and every record's checksum with it: a record whose key
// changed would otherwise just not be found. The file format (version 2) is bbolt's, in the byte
// order of the host.
const (
	elementSize  = 16
	flagBranch   = 1
	flagLeaf     = 2
	flagBucket   = 1 // of a leaf element: its value is a bucket
	bucketHeader = 16
)

// found is what a look at a whole file has shown.
type found struct {
	metas
	records  digest
	expected *digest // what the file says of its records; nil when it says nothing
	bad      []badRecord
}

// badRecord is a record that is not what was once written.
type badRecord struct {
	bucket bucket
	key    []byte
	meant  []byte // the key it was written under, when that alone is damaged; for repair
	err    error  // ErrDamaged, with the bucket and the key
}

// maxNamed is how many damaged records are named one by one; the others are counted.
const maxNamed = 20

// err names what is damaged among the records; nil when nothing is.
func (f found) err() error {
	var all []error
	for _, b := range f.bad[:min(len(f.bad), maxNamed)] {
		all = append(all, b.err)
	}
	if more := len(f.bad) - maxNamed; more > 0 {
		all = append(all, fmt.Errorf("%w: %d more records", ErrDamaged, more))
	}
	if f.misses() {
		all = append(all, fmt.Errorf("%w: %w", ErrDamaged, errOtherRecords))
	}
	return errors.Join(all...)
}

// VerifyFile reports what is wrong with the database file at path, or with a backup of one that
// is not encrypted: nil, or ErrDamaged with everything damaged named (of records the first 20).
// Nothing but a server that writes to it meanwhile may mislead it.
func VerifyFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer f.Close()
	got, err := look(f)
	switch {
	case err != nil:
	case got.broken:
		err = fmt.Errorf("%w: one of its two meta pages is unreadable", ErrDamaged)
	default:
		err = got.err()
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	return nil
}

// unsound says that a look at a file has met err: damage, unless the system kept us from looking.
func unsound(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// verify reports why bbolt must not be given the file at path: ErrDamaged, ErrLocked, or what the
// system says.
func verify(path string, o Options) (found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return found{}, err
	}
	if !info.Mode().IsRegular() {
		return found{}, fmt.Errorf("%w: it is no regular file", ErrDamaged)
	}
	if info.Size() == 0 { // bbolt would take it for a new one
		return found{}, fmt.Errorf("%w: it is empty; %s", ErrDamaged, remedy)
	}
	// Opened for reading, bbolt takes the lock and judges the meta pages, and reads no other.
	lock, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: o.LockTimeout})
	if err != nil {
		if errors.Is(err, berrors.ErrTimeout) || errors.Is(err, os.ErrPermission) {
			return found{}, boltError(err)
		}
		return found{}, advised(unsound(err))
	}
	f, err := os.Open(path)
	if err != nil {
		return found{}, errors.Join(err, lock.Close())
	}
	got, err := look(f)
	if err := errors.Join(err, f.Close(), lock.Close()); err != nil {
		return found{}, advised(err)
	}
	return got, nil
}

// advised adds what to do about damage.
func advised(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}

// look reads the whole file. Its error is about the page tree, or that it could not be read: bbolt
// cannot be given the file.
func look(f *os.File) (found, error) {
	info, err := f.Stat()
	if err != nil {
		return found{}, err
	}
	m, err := readMetas(f)
	if err != nil {
		return found{}, unsound(err)
	}
	if n := m.newest; n.pages > 1<<40 || info.Size() < int64(n.pageSize)*int64(n.pages) {
		return found{}, fmt.Errorf("%w: it is cut off: %d bytes, %d pages", ErrDamaged, info.Size(), n.pages)
	}
	got, err := walkPages(f, m.newest)
	got.metas = m
	return got, err
}

// walkPages checks the page tree that m begins, and every record in it.
func walkPages(f io.ReaderAt, m meta) (found, error) {
	p := pages{file: f, size: int64(m.pageSize), n: m.pages, seen: make([]uint64, m.pages/64+1)}
	if err := p.walk(m.root, "", nil, nil); err != nil {
		return found{}, unsound(err)
	}
	return p.found, nil
}

// pages walks the page tree of a file.
type pages struct {
	file io.ReaderAt
	size int64    // of a page
	n    uint64   // pages in use
	seen []uint64 // a bit for each: every page belongs to one place
	found
}

// walk checks the page id and everything below it, which belongs to bucket b; "" is the root.
// Its keys must lie in [low, high); nil is open.
func (p *pages) walk(id uint64, b bucket, low, high []byte) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	// bbolt keeps an empty bucket inside another page, and no empty page below a branch.
	if b != "" && binary.NativeEndian.Uint16(page[10:]) == 0 {
		return fmt.Errorf("page %d: its element count makes no sense", id)
	}
	_, err = p.elements(id, page, b, low, high)
	return err
}

// read returns the whole page, with its overflow.
func (p *pages) read(id uint64) ([]byte, error) {
	if id < 2 || id >= p.n {
		return nil, fmt.Errorf("page %d: there is no such page", id)
	}
	head := make([]byte, p.size)
	if _, err := p.file.ReadAt(head, int64(id)*p.size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	e := binary.NativeEndian
	flags, overflow := e.Uint16(head[8:]), uint64(e.Uint32(head[12:]))
	if e.Uint64(head) != id || flags != flagBranch && flags != flagLeaf || id+overflow >= p.n {
		return nil, fmt.Errorf("page %d: its header is none", id)
	}
	for i := id; i <= id+overflow; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, fmt.Errorf("page %d: it belongs to two places", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	if overflow == 0 {
		return head, nil
	}
	whole := make([]byte, int64(1+overflow)*p.size)
	if _, err := p.file.ReadAt(whole, int64(id)*p.size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return whole, nil
}

// elements checks the elements of a page, or of the small page inside a bucket's value. end is
// where the last one ends.
func (p *pages) elements(id uint64, page []byte, b bucket, low, high []byte) (end uint64, err error) {
	if len(page) < pageHeader {
		return end, fmt.Errorf("page %d: a bucket in it is cut off", id)
	}
	e := binary.NativeEndian
	branch, count := e.Uint16(page[8:]) == flagBranch, int(e.Uint16(page[10:]))
	if len(page) < pageHeader+count*elementSize || branch && count == 0 {
		return end, fmt.Errorf("page %d: its element count makes no sense", id)
	}
	at := func(i int) []byte { return page[pageHeader+i*elementSize:] }
	keyOf := func(i int) (k, rest []byte, err error) {
		el := at(i)
		pos, size := uint64(e.Uint32(el[4:])), uint64(e.Uint32(el[8:]))
		if branch {
			pos, size = uint64(e.Uint32(el)), uint64(e.Uint32(el[4:]))
		}
		if size == 0 || pos < elementSize || pos+size > uint64(len(el)) {
			return nil, nil, fmt.Errorf("page %d: element %d points outside", id, i)
		}
		return el[pos : pos+size], el[pos+size:], nil
	}
	// bbolt writes keys and values behind the elements, in their order and without a gap. A size
	// that was not written shows as a gap or an overlap, or else in the checksum of a record.
	end = uint64(pageHeader + count*elementSize)
	adjacent := func(i int) bool {
		el, start := at(i), uint64(pageHeader+i*elementSize)
		if branch {
			start, end = start+uint64(e.Uint32(el)), end+uint64(e.Uint32(el[4:]))
			return start+uint64(e.Uint32(el[4:])) == end
		}
		size := uint64(e.Uint32(el[8:])) + uint64(e.Uint32(el[12:]))
		start, end = start+uint64(e.Uint32(el[4:])), end+size
		return start+size == end
	}
	for i := range count {
		k, rest, err := keyOf(i)
		if err != nil {
			return end, err
		}
		if !adjacent(i) {
			return end, fmt.Errorf("page %d: element %d overlaps another", id, i)
		}
		// The first key of a page is the one it stands under: bbolt looks for it there when the page
		// changes, and would otherwise leave a pointer to what it has freed.
		c := bytes.Compare(low, k)
		if low != nil && (i == 0 && c != 0 || i > 0 && c >= 0) || high != nil && bytes.Compare(k, high) >= 0 {
			return end, fmt.Errorf("page %d: element %d is out of order", id, i)
		}
		low = k
		if branch {
			next := high
			if i+1 < count {
				if next, _, err = keyOf(i + 1); err != nil {
					return end, err
				}
			}
			if err := p.walk(e.Uint64(at(i)[8:]), b, k, next); err != nil {
				return end, err
			}
			continue
		}
		if err := p.value(id, b, k, e.Uint32(at(i)), uint64(e.Uint32(at(i)[12:])), rest); err != nil {
			return end, fmt.Errorf("page %d: element %d: %w", id, i, err)
		}
	}
	return end, nil
}

// value checks a leaf element's value of size bytes, which rest begins with. Directly below the
// root there are only buckets, and in a bucket only records.
func (p *pages) value(id uint64, b bucket, k []byte, flags uint32, size uint64, rest []byte) error {
	if size > uint64(len(rest)) {
		return errors.New("its value is cut off")
	}
	if b != "" {
		if flags != 0 {
			return errors.New("it is no record")
		}
		if isDigest(b, k) {
			if d, err := decode[digest](k, rest[:size]); err == nil {
				p.expected = &d
			}
		} else {
			p.records = p.records.with(k, rest[:size])
		}
		if err := checkRecord(b, k, rest[:size]); err != nil {
			k := bytes.Clone(k)
			p.bad = append(p.bad, badRecord{bucket: b, key: k, err: damaged(b, k, err)})
		}
		return nil
	}
	if flags != flagBucket || size < bucketHeader {
		return errors.New("it is no bucket")
	}
	if root := binary.NativeEndian.Uint64(rest); root != 0 {
		if size != bucketHeader {
			return errors.New("the bucket in it is neither small nor large")
		}
		return p.walk(root, bucket(k), nil, nil)
	}
	inner := rest[bucketHeader:size]
	// It has no number: when the bucket outgrows its place, bbolt frees the page of that number.
	if len(inner) >= pageHeader && (binary.NativeEndian.Uint16(inner[8:]) != flagLeaf || binary.NativeEndian.Uint64(inner) != 0) {
		return errors.New("the bucket in it is no leaf")
	}
	end, err := p.elements(id, inner, bucket(k), nil, nil)
	if err == nil && end != uint64(len(inner)) {
		err = errors.New("the bucket in it is not as large as it says")
	}
	return err
}

// checkRecord looks at the checksum of a record of bucket b.
func checkRecord(b bucket, k, value []byte) error {
	if isMarkDay(b) {
		return checkMark(k, value)
	}
	_, err := unseal(k, value)
	return err
}
