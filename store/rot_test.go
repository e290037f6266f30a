package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// realistic is a file with history: every bucket is filled, there are branch pages, pages with
// overflow and small buckets inside others, and free pages that hold what once was.
func realistic(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "realistic.db")
	db := reopen(t, path, Options{Limits: Limits{MaxEntries: 40}})
	ctx := ctxOf(t)
	insts := []relay.InstanceID{"i1", "i2", "i3"}
	enroll(t, db, insts...)
	enroll(t, db, "gone")
	for n := range 60 {
		size := 400
		if n%20 == 0 {
			size = 6000 // over a page
		}
		e := event(fmt.Sprintf("event-%03d", n), size)
		e.Source.ChatID = relay.ChatID(fmt.Sprintf("chat-%02d", n))
		a := acceptFor(e, insts...)
		switch c := capabilityOf(string(e.ID), insts[n%2], time.Now()); n % 4 {
		case 1:
			a.Items[0].Capability = c
		case 2:
			a.Items[0].Delivery = relay.Forward{Event: e, Body: []byte("body"), Until: c.ExpiresAt}
			a.Items[0].Forward = &Forward{Frame: []byte("a forward\n"), Until: c.ExpiresAt}
		}
		occupies := func(AcceptOutcome) error { return nil }
		if n%4 == 3 {
			occupies = occupy(t, db, insts[0], n/4, &a)
		}
		out, err := db.Accept(ctx, a)
		if err == nil {
			err = occupies(out)
		}
		if err == nil && n%3 == 0 {
			err = acknowledge(ctx, db, "i2", out.Items[0].Buffers[1])
		}
		must.Succeed(t, err)
	}
	soon := time.Now().Add(time.Hour)
	check := func(errs ...error) {
		t.Helper()
		must.Succeed(t, errs...)
	}
	for n := range 40 {
		name := fmt.Sprintf("%04d", n)
		check(
			db.Bind(ctx, nil, Binding{Platform: "loop", User: relay.UserID("user" + name), Instance: "i1"}),
			db.Claim(ctx, nil, Grant{Platform: "loop", Chat: relay.ChatID("grant" + name), Instance: "i2"}),
			db.Codes.Put(ctx, nil, []byte("code"+name), Code{Kind: LinkCode, Instance: "i1", ExpiresAt: soon}),
			db.Codes.Put(ctx, nil, []byte("token"+name), Code{Kind: EnrollCode, Tenant: "home", ExpiresAt: soon}),
			db.PutBlob(ctx, "blob"+name, bytes.Repeat([]byte("v"), 50)),
			db.Codes.Put(ctx, nil, []byte("identity"+name), Code{Kind: IdentityCode, Tenant: "home", Instance: relay.InstanceID("i" + name)}),
			second(db.Routes.Set(ctx, &audit.Entry{Actor: audit.Actor{Kind: audit.ActorGateway, Name: name}, Action: "routes", Tenant: "home"}, "i1", relay.PlatformID("p"+name), []string{"guild"})),
			second(db.Accept(ctx, Accept{
				Bot: relay.Bot{Platform: "loop", ID: relay.BotID("bot" + name)}, Cursor: []byte(name),
				Quarantine: []Quarantined{{Bot: bot, Err: "odd", Raw: []byte("raw" + name)}},
			})),
		)
	}
	check(second(db.Revoke(ctx, nil, "gone")))
	check(occupied(recordsOf(t, db)))
	// The newest commit is one that would be missed.
	acceptOne(t, db, event("last", 700), "i1")
	closeChecked(t, db)
	return read(t, path)
}

// recordsIn are all records there are, as they stand: bucket and key, and the value.
func recordsIn(x *bolt.Tx) (map[string]map[string]string, error) {
	out := make(map[string]map[string]string)
	err := x.ForEach(func(name []byte, bk *bolt.Bucket) error {
		in := make(map[string]string)
		out[string(name)] = in
		return bk.ForEach(func(k, v []byte) error {
			if string(name) != boltfile.MetaBucket { // the digest goes with the others
				in[string(k)] = string(v)
			}
			return nil
		})
	})
	return out, err
}

// recordsOf are the records of an open database.
func recordsOf(t *testing.T, db *DB) (out map[string]map[string]string) {
	t.Helper()
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) (err error) {
		out, err = recordsIn(x)
		return err
	})
	must.Succeed(t, err)
	return out
}

// rot opens damaged content and holds what is in it against what was accepted. It returns what
// became of it in a word.
func rot(t *testing.T, path string, content []byte, want map[string]map[string]string) string {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	var text strings.Builder
	db, err := Open(path, Options{Log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "another version of hermes-connector") {
			t.Errorf("open: %v, want ErrDamaged", err)
		}
		salvageRot(t, path, want)
		return "refused"
	}
	if e := binary.NativeEndian; e.Uint64(content) == 0 && e.Uint64(content[pageSize:]) == 1 && e.Uint16(content[8:]) == 4 && e.Uint16(content[pageSize+8:]) == 4 {
		defer closeChecked(t, db) // what was repaired is sound again
	} else { // bbolt minds the headers of the meta pages when it checks them, and only then
		defer db.Close()
	}
	if db.Stats().FellBack {
		if !strings.Contains(text.String(), "newest commit is lost") {
			t.Error("a lost commit is not in the log")
		}
		return "fell back"
	}
	has, outcome := recordsOf(t, db), "nothing lost"
	for b, all := range want {
		lost := 0
		for k, v := range all {
			if is := has[b][k]; is != v && (b != media.Bucket || !sameFile(t, k, is, v, nil)) {
				lost++
			}
		}
		named := strings.Count(text.String(), fmt.Sprintf("bucket %s,", b))
		if b == bucketLanes {
			for _, b := range []string{bucketEntries, bucketDead} { // the lane has one less
				named += strings.Count(text.String(), fmt.Sprintf("bucket %s,", b))
			}
		}
		if b == audit.Counts { // it says what the rows say, of the tenant and of the credential
			named += 2 * strings.Count(text.String(), fmt.Sprintf("bucket %s,", audit.Rows))
		}
		if b == table.Index { // it says what the conversations, the prompts and the answers say
			for _, b := range []string{bucketConversations, prompt.Bucket, outbox.Bucket} {
				named += strings.Count(text.String(), fmt.Sprintf("bucket %s,", b))
			}
		}
		if lost > named {
			t.Errorf("%d records of %s are not what they were, %d of them named:\n%s", lost, b, named, &text)
		}
		if lost > 0 {
			outcome = "named"
		}
	}
	checkNeeds(t, has)
	for _, i := range []relay.InstanceID{"i1", "i2", "i3"} {
		deliverAll(t, db, i, has[bucketEntries])
	}
	if text.Len() > 0 && db.Stats().Damaged == 0 {
		t.Errorf("in the log and not in Stats: %s", &text)
	}
	return outcome
}

// salvageRot holds what is salvaged of the file at path against what was accepted: nothing else is in it, and
// what is missing is listed.
func salvageRot(t *testing.T, path string, want map[string]map[string]string) {
	t.Helper()
	got, err := Salvage(path, bytes.NewReader(read(t, path)), Options{})
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "another version of hermes-connector") {
			t.Errorf("salvage: %v, want ErrDamaged", err)
		}
		return
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Errorf("open what was salvaged: %v", err)
		return
	}
	defer closeChecked(t, db)
	has, missing, all := recordsOf(t, db), 0, 0
	for b, records := range want {
		for k, v := range records {
			all++
			if is, ok := has[b][k]; !ok {
				missing++
			} else if b == dedupe.Newest && len(unmade(is, k, want)) == 0 { // older, with fewer marks
			} else if b == media.Bucket && sameFile(t, k, is, v, has) {
			} else if b == history.Newest { // as it once was: its checksum fits
			} else if b == outbox.Bucket && sameAnswer(t, k, is, v) {
			} else if is != v && b != bucketLanes && b != audit.Counts && b != BucketInstances && b != BucketTenants {
				t.Errorf("bucket %s, key %q: nobody wrote this", b, k)
			}
		}
	}
	checkNeeds(t, has)
	if missing > 0 && len(got.Unread) == 0 {
		t.Errorf("%d of %d records are missing, and nothing is listed", missing, all)
	}
}

// sameAnswer reports whether is is the answer that was, but that it may have been sent meanwhile, as of all that was restored.
func sameAnswer(t *testing.T, k, is, was string) bool {
	t.Helper()
	a, err1 := table.Decode[outbox.Record]([]byte(k), []byte(is))
	b, err2 := table.Decode[outbox.Record]([]byte(k), []byte(was))
	if b.Begun.IsZero() {
		b.Begun = a.Begun
	}
	return errors.Join(err1, err2) == nil && reflect.DeepEqual(a, b)
}

// deliverAll empties the lane of i and counts: everything in the file must come out.
func deliverAll(t *testing.T, db *DB, i relay.InstanceID, entries map[string]string) {
	t.Helper()
	if _, err := Only(db.Instances(ctxOf(t), i)); err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		return
	}
	if _, err := db.Bindings(ctxOf(t), BindingFilter{Instance: i}); err != nil {
		t.Errorf("bindings to %s: %v", i, err)
	}
	want := 0
	for k := range entries {
		if of, _ := entryOwner([]byte(k)); of == i {
			want++
		}
	}
	got := 0
	for after := uint64(0); ; got++ {
		e, ok, err := db.Lanes.Next(ctxOf(t), i, after)
		if err != nil {
			t.Errorf("next delivery of %s: %v", i, err)
			return
		}
		if !ok {
			break
		}
		after = e.Buffer.Seq
	}
	if got != want {
		t.Errorf("%d of %d entries of %s are delivered", got, want, i)
	}
}

func TestBitRot(t *testing.T) { // invariants 5 and 8
	t.Parallel()
	good := realistic(t)
	used := usedBytes(t, good)
	path := filepath.Join(t.TempDir(), "test.db")
	must.Succeed(t, os.WriteFile(path, good, 0o600))
	b, err := openBolt(path, Options{}.withDefaults())
	must.Succeed(t, err)
	var want map[string]map[string]string
	err = b.View(func(x *bolt.Tx) (err error) {
		want, err = recordsIn(x)
		return err
	})
	must.Succeed(t, err, b.Close())
	type spoilt struct {
		what    string
		content func() []byte
	}
	var cases []spoilt
	var flips []int // bits
	dice := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < used; at += max(used/long.Pick(100, 600), 1) { // everywhere
		flips = append(flips, 8*at+dice.IntN(8))
	}
	for range long.Pick(20, 150) { // the meta pages
		flips = append(flips, 8*(4096*dice.IntN(2)+pageHeader+dice.IntN(metaSize))+dice.IntN(8))
	}
	for _, at := range pointers(t, good) { // what points to a page: to one that was once the same, say
		for bit := range long.Pick(1, 9) {
			flips = append(flips, 8*at+bit)
		}
	}
	for _, bit := range flips {
		cases = append(cases, spoilt{fmt.Sprintf("with bit %d of byte %d flipped, page %d", bit%8, bit/8, bit/8/4096), func() []byte {
			c := slices.Clone(good)
			c[bit/8] ^= 1 << (bit % 8)
			return c
		}})
	}
	for n := 0; n < used; n += max(used/long.Pick(10, 40), 1) { // cuts, at page borders and elsewhere
		for _, at := range []int{n, n / 4096 * 4096} {
			cases = append(cases, spoilt{fmt.Sprintf("cut at %d", at), func() []byte { return good[:at] }})
		}
	}
	const parts = 8 // at a time, for most of it is waiting for the disk
	var mu sync.Mutex
	outcomes := make(map[string]int)
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "test.db")
				for n := part; n < len(cases); n += parts {
					outcome := rot(t, path, cases[n].content(), want)
					mu.Lock()
					outcomes[outcome]++
					mu.Unlock()
					if t.Failed() {
						t.Fatal(cases[n].what)
					}
				}
			})
		}
	})
	t.Logf("%d flips, %d bytes in use: %v", len(flips), used, outcomes)
	for _, o := range []string{"refused", "named", "nothing lost", "fell back"} {
		if outcomes[o] == 0 {
			t.Errorf("no case was %s: %v", o, outcomes)
		}
	}
}

// A small bucket inside another's page has no page of its own. If its page had a number, bbolt would
// free the page of that number, whosever it is, when the bucket outgrows its place.
func TestSmallBucketWithANumber(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	for n := range 30 {
		acceptOne(t, db, event(fmt.Sprint("event", n), 400), "i1")
	}
	var entries uint64
	err := db.records.File.Read(ctxOf(t), func(x *bolt.Tx) error {
		entries = uint64(x.Bucket([]byte(bucketEntries)).Root())
		return nil
	})
	must.Succeed(t, err)
	closeChecked(t, db)
	file := read(t, path)
	for at := 0; ; { // in every copy, of which one is in use
		next := bytes.Index(file[at:], []byte(bucketQuarantine))
		if next < 0 {
			break
		}
		at += next + len(bucketQuarantine)
		binary.NativeEndian.PutUint64(file[at+bucketHeader:], entries)
	}
	must.Succeed(t, os.WriteFile(path, file, 0o600))
	db, err = Open(path, Options{})
	if err == nil {
		_ = db.Close()
	}
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v, want ErrDamaged", err)
	}
}

// pointers are the offsets of all page numbers in the pages in use of a file: of branch elements
// and of buckets.
func pointers(t *testing.T, file []byte) (out []int) {
	t.Helper()
	e := binary.NativeEndian
	todo := []uint64{newestMeta(t, file).root}
	for root := true; len(todo) > 0; root = false {
		at := int(todo[0]) * pageSize
		todo = todo[1:]
		page := file[at:]
		for n := range int(e.Uint16(page[10:])) {
			el := page[pageHeader+n*elementSize:]
			if e.Uint16(page[8:]) == flagBranch {
				out = append(out, at+pageHeader+n*elementSize+8)
				todo = append(todo, e.Uint64(el[8:]))
				continue
			}
			if !root || e.Uint32(el) != flagBucket {
				continue
			}
			value := int(e.Uint32(el[4:]) + e.Uint32(el[8:]))
			if child := e.Uint64(el[value:]); child != 0 {
				out = append(out, at+pageHeader+n*elementSize+value)
				todo = append(todo, child)
			}
		}
	}
	return out
}

// unmade are the marks in the record is under k that are nowhere in want.
func unmade(is, k string, want map[string]map[string]string) (out []dedupe.Mark) {
	made := make(map[dedupe.Mark]bool)
	for _, b := range []string{dedupe.Newest, dedupe.Runs} {
		for k, v := range want[b] {
			ms, _ := dedupe.Decode([]byte(k), []byte(v))
			for _, m := range ms {
				made[m] = true
			}
		}
	}
	ms, err := dedupe.Decode([]byte(k), []byte(is))
	if err != nil {
		return []dedupe.Mark{{}}
	}
	return slices.DeleteFunc(ms, func(m dedupe.Mark) bool { return made[m] })
}
