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

	each func(bucket string, k, value []byte) error // is called for every sound record, unless it is nil
	lost func(error)                                // is called with all damage, and the walk continues behind it; nil: the first damage ends the walk
}

// walker returns the pages of the commit that the meta page m describes.
func walker(f io.ReaderAt, m meta) *pages {
	return &pages{file: f, size: int64(m.pageSize), n: m.pages, seen: make([]uint64, m.pages/64+1), Found: Found{of: m}}
}

// fail returns err, which ends the walk; or it reports err to lost and returns nil, and the walk continues behind it.
func (p *pages) fail(err error) error {
	if p.lost == nil {
		return err
	}
	p.lost(err)
	return nil
}

// walk checks the page id and everything below it, which belongs to bucket b; "" is the root. Its keys must lie in
// [low, high); nil means no bound.
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

// disown marks the page id, of size bytes, as one that does not belong to any place yet.
func (p *pages) disown(id uint64, size int64) {
	for i := id; i < id+uint64(size/p.size); i++ {
		p.seen[i/64] &^= 1 << (i % 64)
	}
}

// treePage is a page of the tree, or the small page inside a bucket's value: a header, its elements, and behind them
// their keys and values.
type treePage struct {
	id     uint64
	bytes  []byte
	branch bool // its elements are pages below it; else it is a leaf, and they are values
	count  int  // of elements
}

// element is one element of a page.
type element struct {
	key   []byte
	rest  []byte // the rest of the page behind the key, beginning with the value
	value uint64 // bytes of the value; 0 in a branch
	end   uint64 // where the value ends, from the page's begin
	flags uint32 // of a leaf's
	child uint64 // of a branch's: the page below it
}

// element returns element i, or an error if its key does not lie within the page. It does not check whether the value
// does.
func (g treePage) element(i int) (element, error) {
	e := binary.NativeEndian
	at := uint64(pageHeader + i*elementSize)
	raw := g.bytes[at:]
	out := element{flags: e.Uint32(raw)}
	pos, size := uint64(e.Uint32(raw[4:])), uint64(e.Uint32(raw[8:]))
	if g.branch {
		pos, size, out.child = uint64(e.Uint32(raw)), uint64(e.Uint32(raw[4:])), e.Uint64(raw[8:])
	} else {
		out.value = uint64(e.Uint32(raw[12:]))
	}
	if size == 0 || pos < elementSize || pos+size > uint64(len(raw)) {
		return element{}, fmt.Errorf("page %d: element %d points outside", g.id, i)
	}
	out.key, out.rest, out.end = raw[pos:pos+size], raw[pos+size:], at+pos+size+out.value
	return out, nil
}

// elements checks the elements of the page id, or of the small page inside a bucket's value, and everything below them.
// b, low and high are as in walk. end is where the last element ends.
func (p *pages) elements(id uint64, page []byte, b string, low, high []byte) (end uint64, err error) {
	if len(page) < pageHeader {
		return end, p.fail(fmt.Errorf("page %d: a bucket in it is cut off", id))
	}
	e := binary.NativeEndian
	g := treePage{id: id, bytes: page, branch: e.Uint16(page[8:]) == flagBranch, count: int(e.Uint16(page[10:]))}
	if len(page) < pageHeader+g.count*elementSize || g.branch && g.count == 0 {
		return end, p.fail(fmt.Errorf("page %d: its element count makes no sense", id))
	}
	end = uint64(pageHeader + g.count*elementSize)
	for i := range g.count {
		el, err := g.element(i)
		if err != nil {
			if err := p.fail(err); err != nil {
				return end, err
			}
			continue
		}
		// bbolt writes keys and values behind the elements, in their order and without a gap. A size that was not
		// written shows as a gap or an overlap, or else in the checksum of a record.
		if end += uint64(len(el.key)) + el.value; el.end != end {
			if err := p.fail(fmt.Errorf("page %d: element %d overlaps another", id, i)); err != nil {
				return end, err
			}
		}
		// The first key of a page is the one under which the page is listed: bbolt looks for it there when the page
		// changes, and would otherwise leave a pointer to a freed page.
		order := bytes.Compare(low, el.key)
		if low != nil && i == 0 && order != 0 { // the whole page may belong to another bucket, which keeps the right to it
			p.disown(id, int64(len(page)))
			return end, p.fail(fmt.Errorf("page %d: it stands under another key than its first", id))
		}
		if low != nil && i > 0 && order >= 0 || high != nil && bytes.Compare(el.key, high) >= 0 {
			if err := p.fail(fmt.Errorf("page %d: element %d is out of order", id, i)); err != nil {
				return end, err
			}
		}
		low = el.key
		if g.branch {
			err = p.below(g, i, b, el, high)
		} else if err = p.value(id, b, el.key, el.flags, el.value, el.rest); err != nil {
			err = p.fail(fmt.Errorf("page %d: element %d: %w", id, i, err))
		}
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// below walks the page below el, which is element i of the branch g. Its keys end before those of the next element.
func (p *pages) below(g treePage, i int, b string, el element, high []byte) error {
	if i+1 < g.count {
		next, err := g.element(i + 1)
		if err != nil && p.lost == nil {
			return err
		}
		high = next.key
	}
	return p.walk(el.child, b, el.key, high)
}

// value checks the value of a leaf element: the first size bytes of rest. Directly below the root there are only
// buckets, and in a bucket only records.
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
	// The number in a small page must be 0: when the bucket outgrows its place, bbolt frees the page that has this
	// number.
	if len(inner) >= pageHeader && (binary.NativeEndian.Uint16(inner[8:]) != flagLeaf || binary.NativeEndian.Uint64(inner) != 0) {
		return errors.New("the bucket in it is no leaf")
	}
	end, err := p.elements(id, inner, string(k), nil, nil)
	if err == nil && end != uint64(len(inner)) {
		err = errors.New("the bucket in it is not as large as it says")
	}
	return err
}
