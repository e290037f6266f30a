package store

import (
	"bytes"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// BucketMeta is the bucket for facts about the file: "schema" -> version, "digest" -> digest, "squeeze" -> true.
const BucketMeta = boltfile.MetaBucket

// kind describes a bucket. The bucket's name, keys and values are documented where its records are; there "|" stands
// for a zero byte. There are no nested buckets.
//
// Records that are found damaged when the file is opened are either set aside or prevent the start. Records whose
// absence harms nobody else are set aside, raw, in the quarantine, and named in the log: a message, what is remembered
// of a chat, a code. They would block those behind them, or be refused whenever they are read. The other records say
// who is who and who may see what: without such a record another tenant could take a name, a person would reach nobody,
// or a credential would be worthless. Nothing can make them anew; the operator restores a backup, or salvages the
// readable records.
type kind struct {
	bucket string
	// hot: every message changes it. bbolt keeps a bucket of less than a quarter page inside the root page, so that the
	// digest, lane states, cursors and new seen marks cost no page of their own. A filler (table.Fill) keeps the other
	// buckets out of it.
	hot     bool
	aside   bool // a damaged record is set aside
	derived bool // follows from others, so that it is made anew and not copied
	// own reports whether a record itself says that it belongs under k or, if the key is only a number, that it is of
	// this kind; nil: it does not say. This finds damage that puts a page into another bucket's place, because each
	// record on that page is sound.
	own func(k, value []byte) bool
}

var kinds = []kind{
	{bucket: BucketMeta, hot: true},
	{bucket: BucketCursors, hot: true, aside: true},
	{bucket: bucketLanes, hot: true},
	{bucket: bucketEntries, hot: true, aside: true},
	{bucket: dedupe.Newest, hot: true, aside: true},
	{bucket: dedupe.Runs, aside: true},
	{bucket: history.Newest, hot: true, aside: true},
	{bucket: history.Older, aside: true, own: history.Reads},
	{bucket: bucketDead, aside: true},
	{bucket: bucketPending, aside: true},
	{bucket: bucketQuarantine, aside: true, own: readsQuarantined},
	{bucket: media.Bucket, aside: true, own: own(fileKey)},
	{bucket: capability.Bucket, aside: true, own: own(func(r capability.Record) []byte { return capability.Key(r.Instance, r.Bot, r.Event) })},
	{bucket: outbox.Bucket, aside: true, own: own(indexed[outbox.Record])},
	{bucket: prompt.Bucket, aside: true, own: own(indexed[prompt.Record])},
	{bucket: authors.Bucket, aside: true},
	{bucket: bucketConversations, aside: true, own: own(indexed[Conversation])},
	{bucket: BucketTenants, own: own(func(r Tenant) []byte { return table.Key(r.ID) })},
	{bucket: BucketInstances, own: own(instanceKey)},
	{bucket: BucketGateways, own: own(gatewayKey)},
	{bucket: BucketBindings, own: own(indexed[Binding])},
	{bucket: BucketGrants, own: own(indexed[Grant])},
	{bucket: bucketRoutes, own: own(routeKey)},
	{bucket: callers.Bucket, own: own(func(c callers.Caller) []byte { return table.Key(c.Name) })},
	{bucket: callers.Receipts, aside: true},
	{bucket: callers.Due, aside: true},
	{bucket: callers.Latest, aside: true},
	{bucket: callers.Replies, aside: true},
	{bucket: BucketMoves, aside: true},
	{bucket: bucketCommands, aside: true},
	{bucket: bucketCodes, aside: true},
	{bucket: bucketTokens, aside: true},
	{bucket: bucketIdentity, aside: true},
	{bucket: bucketBlobs},
	{bucket: bucketTold, aside: true},
	{bucket: audit.Rows, aside: true},
	{bucket: audit.Counts, aside: true, derived: true},
	{bucket: table.Index, derived: true},
}

// own returns the field own of a kind whose records are of type T: key returns the key under which a record says that
// it belongs.
func own[T any](key func(T) []byte) func(k, value []byte) bool {
	return func(k, value []byte) bool {
		r, err := table.Decode[T](k, value)
		return err == nil && bytes.Equal(key(r), k)
	}
}

// An id alone does not show a record's kind: the record of a tenant, for example, has an id, too, and little else. So
// these three functions return a key only if a field is set that only records of the kind have.
func fileKey(r media.Record) []byte { return keyIf(r.State != "", r.ID) }
func instanceKey(r Instance) []byte { return keyIf(r.Tenant != "", r.ID) }
func gatewayKey(r Gateway) []byte   { return keyIf(r.Instance != "", r.ID) }

func readsQuarantined(k, value []byte) bool {
	q, err := table.Decode[Quarantined](k, value)
	return err == nil && q.Err != ""
}

func keyIf[ID ~string](ok bool, id ID) []byte {
	if !ok {
		return nil
	}
	return table.Key(id)
}

func indexed[T table.Indexed](r T) []byte {
	_, k, _ := r.Index()
	return k
}

// kindOf returns the kind of a bucket; ok is false if a database of this version has none of that name.
func kindOf(bucket string) (k kind, ok bool) {
	n := slices.IndexFunc(kinds, func(k kind) bool { return k.bucket == bucket })
	if n < 0 {
		return k, false
	}
	return kinds[n], true
}

// IsOurs reports whether a database of this version has the bucket.
func IsOurs(bucket string) bool {
	_, ok := kindOf(bucket)
	return ok
}

// Derived reports whether a record follows from others, so that it is made anew and not copied.
func Derived(bucket string, key []byte) bool {
	k, _ := kindOf(bucket)
	return k.derived || bucket == BucketMeta && string(key) != schemaKey
}

// cold returns the buckets with a filler.
func cold() (out []string) {
	for _, k := range kinds {
		if !k.hot {
			out = append(out, k.bucket)
		}
	}
	return out
}

// room returns how many bytes of the root page all buckets but one leave to the records of that one; the parameter but
// is its name. If its records need more bytes, bbolt splits the root page, and the root stays split until the next
// start.
func (t *tx) room(but string) int {
	used := nodeHeader
	for _, k := range kinds {
		used += nodeHeader + len(k.bucket) + ofBucket
		if !k.hot || k.bucket == but {
			continue
		}
		inline := nodeHeader
		for key, value := range table.Under(t.Tx, k.bucket, nil) {
			if inline += nodeHeader + len(key) + len(value); inline > boltfile.PageSize/4 { // then it has its own page
				inline = 0
				break
			}
		}
		used += inline
	}
	return boltfile.PageSize - used
}

// nodeHeader is how many bytes bbolt puts in front of a page, and in front of each element in a page; ofBucket is how
// many it puts in front of a bucket.
const nodeHeader, ofBucket = 16, 16

// Refusal returns nil, or an error that says why a database with the damaged records bad is not used.
func Refusal(bad []boltfile.Damaged) error {
	var worst []boltfile.Damaged
	for _, r := range bad {
		if k, _ := kindOf(r.Bucket); !k.aside && string(r.Key) != table.Filler {
			worst = append(worst, r)
		}
	}
	return boltfile.Named(worst)
}
