package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// maxNamed is how many damaged records are named one by one; the others are counted.
const maxNamed = 20

// setAside moves the damaged records bad to the quarantine. A sound database is not written to.
func setAside(b *bolt.DB, bad []boltfile.Damaged, now time.Time, log *slog.Logger) error {
	if len(bad) == 0 {
		return nil
	}
	for _, r := range bad[:min(len(bad), maxNamed)] {
		log.Error("a damaged record was set aside", "err", r.Err) // or made again, if it is a filler
	}
	if more := len(bad) - maxNamed; more > 0 {
		log.Error("more damaged records were set aside", "records", more)
	}
	err := boltfile.Update(b, func(x *bolt.Tx) error {
		t := table.Edit(x)
		for _, r := range bad {
			if string(r.Key) == table.Filler { // it is made below
				continue
			}
			value := bytes.Clone(x.Bucket([]byte(r.Bucket)).Get(r.Key))
			if b := r.Bucket; b == dedupe.Newest || b == dedupe.Runs { // the marks in it that can be believed stay
				if err := dedupe.Believe(t, []dedupe.Bad{dedupe.Damaged(b, r.Key, value, r.Err)}); err != nil {
					return err
				}
				continue
			}
			if err := t.Delete(r.Bucket, r.Key); err != nil {
				return err
			}
			if err := quarantine(t, Quarantined{At: now, Err: r.Err.Error(), Raw: value}); err != nil {
				return err
			}
		}
		return errors.Join(recountLanes(t), audit.Recount(t), reindex(t), table.Fill(x, cold()), recountFiles(t, now))
	})
	if err != nil {
		return fmt.Errorf("set aside what is damaged: %w", err)
	}
	return nil
}
