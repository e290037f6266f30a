package dedupe

import (
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Carry copies the marks of another database, without those that are too old at now and those in lost. into returns the
// transaction into which the next record is to be written.
func Carry(from *bolt.Tx, now time.Time, lost map[Mark]bool, into func() (*table.Writer, error)) error {
	for _, b := range []string{Newest, Runs} {
		for k, v := range table.Under(from, b, nil) {
			day := keyDay(k)
			ms, err := Decode(k, v)
			if err != nil || day < Day(now)-Days {
				continue
			}
			w, err := into()
			if err != nil {
				return err
			}
			ms = slices.DeleteFunc(ms, func(m Mark) bool {
				has, _ := Has(w.Tx, m)
				return has || lost[m]
			})
			if len(ms) == 0 {
				continue
			}
			if err := addRun(w, day, 0, ms); err != nil {
				return err
			}
		}
	}
	return nil
}
