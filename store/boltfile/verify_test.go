package boltfile

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestVerifyTakesWhatBboltWrites: the rules verify goes by are stricter than bbolt's own check, so
// they are held against whatever bbolt makes of random changes.
func TestVerifyTakesWhatBboltWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	o := options()
	b, err := OpenBolt(path, o)
	must.Succeed(t, err)
	defer b.Close()
	b.NoSync = true
	names := []string{"one", "two", "three"}
	for seed := range long.Pick[uint64](1, 6) {
		dice := rand.New(rand.NewPCG(7, seed))
		for commit := range 150 {
			puts := 0.3 + 0.4*float64(commit/30%2) // it grows, and shrinks again
			err := b.Update(func(x *bolt.Tx) error {
				for range 1 + dice.IntN(60) {
					bk, err := x.CreateBucketIfNotExists([]byte(names[dice.IntN(len(names))]))
					if err != nil {
						return err
					}
					if dice.IntN(3) == 0 {
						bk.FillPercent = 1
					}
					k := []byte(fmt.Sprintf("%0*d", 1+dice.IntN(40), dice.IntN(700)))
					if dice.Float64() > puts {
						// Mostly the first keys of pages go, as in a lane.
						if c := bk.Cursor(); dice.IntN(2) == 0 {
							k, _ = c.First()
						}
						if err := bk.Delete(k); err != nil {
							return err
						}
						continue
					}
					if err := bk.Put(k, Seal(k, make([]byte, dice.IntN(2)*dice.IntN(3000)+dice.IntN(40)))); err != nil {
						return err
					}
				}
				return nil
			})
			must.Succeed(t, err)
			f, err := os.Open(path)
			must.Succeed(t, err)
			got, err := look(f)
			if err == nil {
				err = Named(got.Bad)
			}
			_ = f.Close()
			if err != nil {
				t.Fatalf("seed %d, commit %d: %v", seed, commit, err)
			}
		}
	}
}
