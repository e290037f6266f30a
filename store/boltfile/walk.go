package boltfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The file format (version 2) is bbolt's, in the byte order of the host.
const (
	elementSize  = 16
	flagBranch   = 1
	flagLeaf     = 2
	flagBucket   = 1 // of a leaf element: its value is a bucket
	bucketHeader = 16
)

// pages walks the page tree of a file.
type pages struct {
	file io.ReaderAt
	size int64    // of a page
	n    uint64   // pages in use
	seen []uint64 // a bit for each: every page belongs to one place
	Found

	each func(bucket string, k, value []byte) error // of every sound record, unless it is nil
	lost func(error)                                // what is damaged, to go on behind it; nil: it ends the walk
}

func walker(f io.ReaderAt, m meta) *pages {
	return &pages{file: f, size: int64(m.pageSize), n: m.pages, seen: make([]uint64, m.pages/64+1), Found: Found{of: m}}
}

// fail is err, unless the walk goes on behind it.
func (p *pages) fail(err error) error {
	if p.lost == nil {
		return err
	}
	p.lost(err)
	return nil
}

// walk checks the page id and everything below it, which belongs to bucket b; "" is the root.
// Its keys must lie in [low, high); nil is open.
func (p *pages) walk(id uint64, b string, low, high []byte) error {
	page, err := p.read(id)
	if err != nil {
		return p.fail(fmt.Errorf("bucket %s: %w", cmp.Or(b, "of all"), err))
	}
	// bbolt keeps an empty bucket inside another page, and no empty page below a branch.
	if b != "" && binary.NativeEndian.Uint16(page[10:]) == 0 {
		return p.fail(fmt.Errorf("page %d: its element count makes no sense", id))
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

// disown makes the page of that many bytes one that has no place yet.
func (p *pages) disown(id uint64, size int64) {
	for i := id; i < id+uint64(size/p.size); i++ {
		p.seen[i/64] &^= 1 << (i % 64)
	}
}

// elements checks the elements of a page, or of the small page inside a bucket's value. end is
// where the last one ends.
func (p *pages) elements(id uint64, page []byte, b string, low, high []byte) (end uint64, err error) {
	if len(page) < pageHeader {
		return end, p.fail(fmt.Errorf("page %d: a bucket in it is cut off", id))
	}
	e := binary.NativeEndian
	branch, count := e.Uint16(page[8:]) == flagBranch, int(e.Uint16(page[10:]))
	if len(page) < pageHeader+count*elementSize || branch && count == 0 {
		return end, p.fail(fmt.Errorf("page %d: its element count makes no sense", id))
	}
	at := func(i int) []byte { return page[pageHeader+i*elementSize:] }
	// span is where element i's key begins, from the element on, and how long key and value are.
	span := func(i int) (pos, key, value uint64) {
		el := at(i)
		if branch {
			return uint64(e.Uint32(el)), uint64(e.Uint32(el[4:])), 0
		}
		return uint64(e.Uint32(el[4:])), uint64(e.Uint32(el[8:])), uint64(e.Uint32(el[12:]))
	}
	keyOf := func(i int) (k, rest []byte, err error) {
		el := at(i)
		pos, size, _ := span(i)
		if size == 0 || pos < elementSize || pos+size > uint64(len(el)) {
			return nil, nil, fmt.Errorf("page %d: element %d points outside", id, i)
		}
		return el[pos : pos+size], el[pos+size:], nil
	}
	end = uint64(pageHeader + count*elementSize)
	for i := range count {
		k, rest, err := keyOf(i)
		if err != nil {
			if err := p.fail(err); err != nil {
				return end, err
			}
			continue
		}
		// bbolt writes keys and values behind the elements, in their order and without a gap. A size that was not
		// written shows as a gap or an overlap, or else in the checksum of a record.
		pos, keySize, size := span(i)
		end += keySize + size
		if uint64(pageHeader+i*elementSize)+pos+keySize+size != end {
			if err := p.fail(fmt.Errorf("page %d: element %d overlaps another", id, i)); err != nil {
				return end, err
			}
		}
		// The first key of a page is the one it stands under: bbolt looks for it there when the page
		// changes, and would otherwise leave a pointer to what it has freed.
		c := bytes.Compare(low, k)
		if low != nil && i == 0 && c != 0 { // all of it may be another bucket's, which keeps the right to it
			p.disown(id, int64(len(page)))
			return end, p.fail(fmt.Errorf("page %d: it stands under another key than its first", id))
		}
		if low != nil && i > 0 && c >= 0 || high != nil && bytes.Compare(k, high) >= 0 {
			if err := p.fail(fmt.Errorf("page %d: element %d is out of order", id, i)); err != nil {
				return end, err
			}
		}
		low = k
		if branch {
			next := high
			if i+1 < count {
				if next, _, err = keyOf(i + 1); err != nil && p.lost == nil {
					return end, err
				}
			}
			if err := p.walk(e.Uint64(at(i)[8:]), b, k, next); err != nil {
				return end, err
			}
			continue
		}
		if err := p.value(id, b, k, e.Uint32(at(i)), size, rest); err != nil {
			if err := p.fail(fmt.Errorf("page %d: element %d: %w", id, i, err)); err != nil {
				return end, err
			}
		}
	}
	return end, nil
}

// value checks a leaf element's value of size bytes, which rest begins with. Directly below the
// root there are only buckets, and in a bucket only records.
func (p *pages) value(id uint64, b string, k []byte, flags uint32, size uint64, rest []byte) error {
	if size > uint64(len(rest)) {
		return errors.New("its value is cut off")
	}
	if b != "" {
		if flags != 0 {
			return errors.New("it is no record")
		}
		if isDigest(b, k) {
			if d, ok := loadDigest(k, rest[:size]); ok {
				p.expected = &d
			}
		} else {
			p.records = p.records.with(k, rest[:size])
		}
		if _, err := Unseal(k, rest[:size]); err != nil {
			k := bytes.Clone(k)
			p.Bad = append(p.Bad, Damaged{Bucket: b, Key: k, Err: DamagedRecord(b, k, err)})
		} else if p.each != nil {
			return p.each(b, k, rest[:size])
		}
		return nil
	}
	if flags != flagBucket || size < bucketHeader {
		return errors.New("it is no bucket")
	}
	p.records = p.records.numbered(string(k), 0, binary.NativeEndian.Uint64(rest[8:]))
	if root := binary.NativeEndian.Uint64(rest); root != 0 {
		if size != bucketHeader {
			return errors.New("the bucket in it is neither small nor large")
		}
		return p.walk(root, string(k), nil, nil)
	}
	inner := rest[bucketHeader:size]
	// It has no number: when the bucket outgrows its place, bbolt frees the page of that number.
	if len(inner) >= pageHeader && (binary.NativeEndian.Uint16(inner[8:]) != flagLeaf || binary.NativeEndian.Uint64(inner) != 0) {
		return errors.New("the bucket in it is no leaf")
	}
	end, err := p.elements(id, inner, string(k), nil, nil)
	if err == nil && end != uint64(len(inner)) {
		err = errors.New("the bucket in it is not as large as it says")
	}
	return err
}
