package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
)

// bbolt keeps two meta pages and writes them in turn: the newest intact one says where the last
// commit begins, the other one where the commit before it did.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	pageHeader  = 16
	pageSize    = 4096 // of a new file; the host's may be 16 KiB, which quadruples what a message costs
)

type meta struct {
	pageSize          uint32
	root, pages, txid uint64
}

// metas are the meta pages of a file.
type metas struct {
	newest meta // of the intact ones: what bbolt will go by
	// broken: the other one is not what was written. A power cut while it was being written does
	// that to a commit nobody was told of; anything else to one that counted.
	broken bool
	at     int64 // where the broken one stands, without its page's header
	// lost: the broken one may be the newer of the two.
	lost bool
	// mended is the broken one, if it is the newer and one flipped bit is all that is wrong.
	mended []byte
}

func readMetas(f io.ReaderAt) (m metas, err error) {
	var at [2]int64
	var raw [2][]byte
	var page [2]meta
	var bad [2]error
	at[1] = pageSize
	for i := range 2 {
		raw[i], bad[i] = make([]byte, metaSize), nil
		if _, err := f.ReadAt(raw[i], at[i]+pageHeader); err != nil {
			return m, fmt.Errorf("meta page: %w", err)
		}
		if page[i], bad[i] = parseMeta(raw[i]); i == 0 && bad[0] == nil {
			at[1] = int64(page[0].pageSize)
		}
	}
	switch {
	case bad[0] != nil && bad[1] != nil:
		return m, bad[0]
	case bad[0] == nil && bad[1] == nil:
		m.newest = page[0]
		if page[1].txid > page[0].txid {
			m.newest = page[1]
		}
		return m, nil
	}
	broken := 0
	if bad[1] != nil {
		broken = 1
	}
	m.newest, m.broken, m.at = page[1-broken], true, at[broken]+pageHeader
	// Only when it still says so itself is it the older one.
	m.lost = binary.NativeEndian.Uint64(raw[broken][48:]) != m.newest.txid-1
	if whole, was := mend(raw[broken]); whole != nil {
		switch was.txid {
		case m.newest.txid - 1:
			m.lost = false
		case m.newest.txid + 1:
			m.mended = whole
		}
	}
	return m, nil
}

func parseMeta(b []byte) (meta, error) {
	e := binary.NativeEndian
	if e.Uint32(b) != metaMagic || e.Uint32(b[4:]) != metaVersion || e.Uint64(b[metaSize-8:]) != metaSum(b) {
		return meta{}, errors.New("no intact meta page")
	}
	m := meta{pageSize: e.Uint32(b[8:]), root: e.Uint64(b[16:]), pages: e.Uint64(b[40:]), txid: e.Uint64(b[48:])}
	if m.pageSize < 1024 || m.pageSize > 1<<20 {
		return meta{}, errors.New("the page size makes no sense")
	}
	return m, nil
}

func metaSum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	return h.Sum64()
}

// mend looks for the one bit that, flipped back, makes a meta page fit its checksum again. nil:
// there is none.
func mend(broken []byte) ([]byte, meta) {
	b := slices.Clone(broken)
	stored := binary.NativeEndian.Uint64(b[metaSize-8:])
	if sum := metaSum(b); bits.OnesCount64(sum^stored) == 1 {
		binary.NativeEndian.PutUint64(b[metaSize-8:], sum)
		if m, err := parseMeta(b); err == nil {
			return b, m
		}
		return nil, meta{}
	}
	for bit := range 8 * (metaSize - 8) {
		b[bit/8] ^= 1 << (bit % 8)
		if m, err := parseMeta(b); err == nil {
			return b, m
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	return nil, meta{}
}
