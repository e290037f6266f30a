package store

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// sameFile reports whether the record of a file says what it said before, apart from who needs it: that follows the
// entries, and damage may have taken one of them. Of a salvaged file it may also have been made anew of an entry, to be fetched
// again, and nobody may read it in the name of an instance that is gone.
func sameFile(t *testing.T, k, is, was string, salvaged map[string]map[string]string) bool {
	t.Helper()
	a, err := table.Decode[media.Record]([]byte(k), []byte(is))
	if err != nil {
		return false
	}
	b, err := table.Decode[media.Record]([]byte(k), []byte(was))
	must.Succeed(t, err)
	for _, r := range []*media.Record{&a, &b} {
		r.Needed, r.Freed = nil, time.Time{}
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	if salvaged == nil {
		return false
	}
	b.For = slices.DeleteFunc(b.For, func(i relay.InstanceID) bool { return salvaged[BucketInstances][string(table.Key(i))] == "" })
	if len(b.For) == 0 {
		b.For = nil
	}
	return reflect.DeepEqual(a, b) || a.State == relay.MediaWaiting && reflect.DeepEqual(a.Attachment, b.Attachment) && a.Event == b.Event && a.Place == b.Place && a.Bot == b.Bot
}

// checkNeeds holds the records of files against the entries: each says who needs it, nobody else does, and no entry
// names a file without a record.
func checkNeeds(t *testing.T, has map[string]map[string]string) {
	t.Helper()
	need, uploads := make(map[relay.MediaID][]relay.InstanceID), make(map[relay.MediaID]bool)
	for k, v := range has[bucketEntries] {
		if ev, ok := namesFiles([]byte(k), []byte(v)); ok {
			for _, a := range ev.Attachments {
				i, _ := entryOwner([]byte(k))
				need[a.ID] = append(need[a.ID], i)
			}
		}
	}
	for k, v := range has[outbox.Bucket] {
		if r, err := table.Decode[outbox.Record]([]byte(k), []byte(v)); err == nil && r.File != "" {
			need[r.File] = append(need[r.File], r.Instance)
			uploads[r.File] = true
		}
	}
	for k, v := range has[media.Bucket] {
		r, err := table.Decode[media.Record]([]byte(k), []byte(v))
		if err != nil {
			continue // it cannot be read, and is nobody's
		}
		want := need[r.ID]
		slices.Sort(want)
		slices.Sort(r.Needed)
		if !slices.Equal(r.Needed, want) || r.Freed.IsZero() != (len(want) > 0) {
			t.Errorf("file %s is needed by %v, let go of at %v; it stands in the entries and answers of %v", r.ID, r.Needed, r.Freed, want)
		}
		delete(need, r.ID)
	}
	maps.DeleteFunc(need, func(id relay.MediaID, _ []relay.InstanceID) bool { return uploads[id] }) // no network gives them again
	for id, of := range need {
		t.Errorf("file %s stands in entries of %v, and has no record", id, of)
	}
}
