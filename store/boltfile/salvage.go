package boltfile

import (
	"errors"
	"os"
)

// Salvage calls each for every readable record of the file at path. The records are those of the newest commit, or of
// the commit before it, if less of that one is damaged. lost lists what cannot be read; the error comes from each, or
// says that there is nothing to begin with.
func Salvage(path string, each func(bucket string, k, value []byte) error) (lost []error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := readMetas(f)
	if err != nil {
		return nil, unsound(err)
	}
	walk := func(m meta, each func(bucket string, k, value []byte) error) (lost []error, err error) {
		m.pages = min(m.pages, uint64(info.Size())/uint64(m.pageSize)+1) // the file may be cut off
		p := walker(f, m)
		p.each, p.lost = each, func(err error) { lost = append(lost, err) }
		err = p.walk(m.root, "", nil, nil)
		for _, r := range p.Bad {
			lost = append(lost, r.Err)
		}
		if err := p.Misses(); err != nil {
			lost = append(lost, err)
		}
		if p.expected == nil {
			lost = append(lost, errors.New("the digest: whether more records are missing cannot be told"))
		}
		return lost, err
	}
	best, fellBack := m.intact[0], m.lost
	if len(m.intact) == 2 {
		newest, _ := walk(best, nil)
		if before, _ := walk(m.intact[1], nil); len(before) < len(newest) {
			best, fellBack = m.intact[1], true
		}
	}
	lost, err = walk(best, each)
	if fellBack {
		lost = append(lost, errFellBack)
	}
	return lost, err
}
