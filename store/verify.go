package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// bbolt reads every page of the file when it opens it, in a goroutine whose panics nobody can
// catch, and through a mapping that faults behind the end of the file. So the page tree is
// checked here first, with plain reads. The file format (version 2) is bbolt's, in the byte
// order of the host.
const (
	metaMagic    = 0xED0CDAED
	pageHeader   = 16
	elementSize  = 16
	metaSize     = 64
	flagBranch   = 1
	flagLeaf     = 2
	flagBucket   = 1 // of a leaf element: its value is a bucket
	bucketHeader = 16
)

// verify reports why bbolt must not be given the file at path: ErrDamaged or ErrLocked.
func verify(path string, o Options) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is no regular file", ErrDamaged)
	}
	if info.Size() == 0 { // bbolt would take it for a new one
		return fmt.Errorf("%w: it is empty; %s", ErrDamaged, remedy)
	}
	// Opened for reading, bbolt takes the lock and judges the meta pages, and reads no other.
	lock, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: o.LockTimeout})
	if err != nil {
		if errors.Is(err, berrors.ErrTimeout) || errors.Is(err, os.ErrPermission) {
			return boltError(err)
		}
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, remedy)
	}
	if err := errors.Join(verifyPages(path, info.Size(), o), lock.Close()); err != nil {
		return fmt.Errorf("%w; %s", err, remedy)
	}
	return nil
}

// pages walks the page tree of a file.
type pages struct {
	file io.ReaderAt
	size int64           // of a page
	n    uint64          // pages in use
	seen map[uint64]bool // every page belongs to one place
}

func verifyPages(path string, size int64, o Options) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, second, err := newestMeta(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if !second {
		o.Log.Warn("the database's newest or last but one commit is unreadable, as after a power cut; going on with the other")
	}
	p := pages{file: f, size: int64(m.pageSize), n: m.pages, seen: make(map[uint64]bool)}
	if want := p.size * int64(p.n); p.n > 1<<40 || size < want {
		return fmt.Errorf("%w: it is cut off: %d bytes of %d", ErrDamaged, size, want)
	}
	if err := p.walk(m.root, nil, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

type meta struct {
	pageSize          uint32
	root, pages, txid uint64
}

// newestMeta is the meta page bbolt will go by; both is false when the other one is broken.
func newestMeta(f io.ReaderAt) (m meta, both bool, err error) {
	first, err1 := readMeta(f, 0)
	at := int64(first.pageSize)
	if err1 != nil {
		at = 4096 // what openBolt creates
	}
	second, err2 := readMeta(f, at)
	switch {
	case err1 != nil && err2 != nil:
		return m, false, err1
	case err2 != nil || err1 == nil && first.txid > second.txid:
		return first, err2 == nil, nil
	default:
		return second, err1 == nil, nil
	}
}

func readMeta(f io.ReaderAt, at int64) (meta, error) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := f.ReadAt(b, at); err != nil {
		return meta{}, fmt.Errorf("meta page: %w", err)
	}
	b = b[pageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	e := binary.NativeEndian
	if e.Uint32(b) != metaMagic || e.Uint64(b[metaSize-8:]) != h.Sum64() {
		return meta{}, errors.New("no intact meta page")
	}
	m := meta{pageSize: e.Uint32(b[8:]), root: e.Uint64(b[16:]), pages: e.Uint64(b[40:]), txid: e.Uint64(b[48:])}
	if m.pageSize < 1024 || m.pageSize > 1<<20 {
		return meta{}, errors.New("the page size makes no sense")
	}
	return m, nil
}

// walk checks the page id and everything below it. Its keys must lie in [low, high); nil is open.
func (p *pages) walk(id uint64, low, high []byte) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	return p.elements(id, page, low, high)
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
		if p.seen[i] {
			return nil, fmt.Errorf("page %d: it belongs to two places", i)
		}
		p.seen[i] = true
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

// elements checks the elements of a page, or of the small page inside a bucket's value.
func (p *pages) elements(id uint64, page, low, high []byte) error {
	if len(page) < pageHeader {
		return fmt.Errorf("page %d: a bucket in it is cut off", id)
	}
	e := binary.NativeEndian
	branch, count := e.Uint16(page[8:]) == flagBranch, int(e.Uint16(page[10:]))
	if len(page) < pageHeader+count*elementSize || branch && count == 0 {
		return fmt.Errorf("page %d: its element count makes no sense", id)
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
	end := uint64(pageHeader + count*elementSize)
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
			return err
		}
		if !adjacent(i) {
			return fmt.Errorf("page %d: element %d overlaps another", id, i)
		}
		if c := bytes.Compare(low, k); low != nil && (c > 0 || c == 0 && i > 0) || high != nil && bytes.Compare(k, high) >= 0 {
			return fmt.Errorf("page %d: element %d is out of order", id, i)
		}
		low = k
		if branch {
			next := high
			if i+1 < count {
				if next, _, err = keyOf(i + 1); err != nil {
					return err
				}
			}
			if err := p.walk(e.Uint64(at(i)[8:]), k, next); err != nil {
				return err
			}
			continue
		}
		if err := p.value(id, e.Uint32(at(i)), uint64(e.Uint32(at(i)[12:])), rest); err != nil {
			return fmt.Errorf("page %d: element %d: %w", id, i, err)
		}
	}
	return nil
}

// value checks a leaf element's value of size bytes, which rest begins with.
func (p *pages) value(id uint64, flags uint32, size uint64, rest []byte) error {
	if size > uint64(len(rest)) {
		return errors.New("its value is cut off")
	}
	switch {
	case flags == 0:
		return nil
	case flags != flagBucket || size < bucketHeader:
		return errors.New("it is neither a value nor a bucket")
	}
	if root := binary.NativeEndian.Uint64(rest); root != 0 {
		if size != bucketHeader {
			return errors.New("the bucket in it is neither small nor large")
		}
		return p.walk(root, nil, nil)
	}
	inner := rest[bucketHeader:size]
	if len(inner) >= pageHeader && binary.NativeEndian.Uint16(inner[8:]) != flagLeaf {
		return errors.New("the bucket in it is no leaf")
	}
	return p.elements(id, inner, nil, nil)
}
