package dedupe

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// maxKnown is how many marks are remembered: those of three days at two events a second, in some 15 MB. If there are
// more, none are remembered from then on, and lookups read the file.
const maxKnown = 1 << 19

// known are the marks as the newest commit has them. Only the writer changes it.
type known struct {
	mu   sync.RWMutex                 // guards days against the writer's changes
	days map[uint32]map[Mark]struct{} // nil: none are remembered, and lookups read the file
	n    int                          // how many marks days has; only the writer uses it
}

// has reports whether m is remembered. If sure is false, no marks are remembered, and the file must be read.
func (kn *known) has(m Mark) (seen, sure bool) {
	kn.mu.RLock()
	defer kn.mu.RUnlock()
	for _, marks := range kn.days {
		if _, ok := marks[m]; ok {
			return true, true
		}
	}
	return false, kn.days != nil
}

// add notes a mark of a day. mu must be locked.
func (kn *known) add(day uint32, m Mark) {
	if kn.days == nil {
		return
	}
	if kn.days[day] == nil {
		kn.days[day] = make(map[Mark]struct{})
	}
	before := len(kn.days[day])
	kn.days[day][m] = struct{}{}
	if kn.n += len(kn.days[day]) - before; kn.n > maxKnown {
		kn.days = nil
	}
}

// Load remembers the marks that are in the file. It is called before anybody else uses ms.
func (ms *Marks) Load(t *bolt.Tx) {
	ms.known.days = make(map[uint32]map[Mark]struct{})
	for _, b := range []string{Newest, Runs} {
		for k, v := range table.Under(t, b, nil) {
			all, _ := Decode(k, v) // of a damaged record, the marks that can be believed
			for _, m := range all {
				ms.known.add(keyDay(k), m)
			}
		}
	}
}

// Forget drops the remembered marks: from now on lookups read the file.
func (ms *Marks) Forget() {
	ms.known.mu.Lock()
	defer ms.known.mu.Unlock()
	ms.known.days = nil
}

// Stored applies a transaction's changes of the marks, once they are on disk.
func (ms *Marks) Stored(b Batch) {
	ms.known.mu.Lock()
	defer ms.known.mu.Unlock()
	for day, marks := range ms.known.days {
		if day < b.from {
			ms.known.n -= len(marks)
			delete(ms.known.days, day)
		}
	}
	for m, day := range b.made {
		ms.known.add(day, m)
	}
}
