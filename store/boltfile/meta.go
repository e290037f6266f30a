package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt keeps two meta pages and writes them in turn: the newer one says where the tree of the last commit begins, the
// other one where that of the commit before it does. bbolt uses the newest that is intact.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	metaTx      = 48 // the offset of the number of the commit
	metaSumAt   = metaSize - 8
	pageHeader  = 16
)

// meta is what a meta page says about its commit.
type meta struct {
	at                int64 // in the file, without its page's header
	pageSize          uint32
	root, pages, txid uint64
}

// metas are the meta pages of a file.
type metas struct {
	intact []meta // the newest first; bbolt uses that one
	// broken: the other meta page has wrong content. A power cut during its write does that to a commit of which nobody
	// was told; any other cause damages a commit that counted.
	broken bool
	// lost: the broken meta page may be the newer of the two.
	lost bool
}

// readMetas reads both meta pages. It returns an error if neither is intact, or if one cannot be read.
func readMetas(f io.ReaderAt) (m metas, err error) {
	at, size := int64(0), int64(PageSize)
	var raw []byte // the content of the broken meta page
	for i := range int64(2) {
		b := make([]byte, metaSize)
		at = i*size + pageHeader
		if _, err := f.ReadAt(b, at); err != nil {
			return m, fmt.Errorf("meta page: %w", err)
		}
		page, bad := parseMeta(b)
		if bad != nil {
			raw, err = b, bad
			continue
		}
		page.at, size = at, int64(page.pageSize)
		m.intact = append(m.intact, page)
	}
	switch len(m.intact) {
	case 0:
		return m, err
	case 1:
		m.broken, m.lost = true, !isBefore(raw, m.intact[0].txid)
	case 2:
		if m.intact[1].txid > m.intact[0].txid {
			m.intact[0], m.intact[1] = m.intact[1], m.intact[0]
		}
	}
	return m, nil
}

// isBefore reports whether the broken meta page b belongs to the commit before tx: it has that commit's number, or its
// checksum is right with that number in place of its own.
func isBefore(b []byte, tx uint64) bool {
	e := binary.NativeEndian
	if e.Uint64(b[metaTx:]) == tx-1 {
		return true
	}
	e.PutUint64(b[metaTx:], tx-1)
	_, err := parseMeta(b)
	return err == nil
}

func parseMeta(b []byte) (meta, error) {
	e := binary.NativeEndian
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSumAt])
	if e.Uint32(b) != metaMagic || e.Uint32(b[4:]) != metaVersion || e.Uint64(b[metaSumAt:]) != h.Sum64() {
		return meta{}, errors.New("no intact meta page")
	}
	m := meta{pageSize: e.Uint32(b[8:]), root: e.Uint64(b[16:]), pages: e.Uint64(b[40:]), txid: e.Uint64(b[metaTx:])}
	if m.pageSize < 1024 || m.pageSize > 1<<20 {
		return meta{}, errors.New("the page size makes no sense")
	}
	return m, nil
}

// retract overwrites the checksum of the meta page at the offset at with zeros: then bbolt does not use that page. All
// other fields of the page stay. If retract is stopped in the middle, the page may still be intact.
func retract(f *os.File, at int64) error {
	if _, err := f.WriteAt(make([]byte, metaSize-metaSumAt), at+metaSumAt); err != nil {
		return err
	}
	return f.Sync()
}
