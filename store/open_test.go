package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// sound is the content of a database with a record of every kind.
func sound(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sound.db")
	db := reopen(t, path, Options{Limits: Limits{MaxEntries: 20}})
	enroll(t, db, "i1", "i2")
	for n := range 30 {
		acceptOne(t, db, event(fmt.Sprintf("e%02d", n), 1000), "i1")
	}
	must.Succeed(t,
		db.Bind(ctxOf(t), nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}),
		db.Claim(ctxOf(t), nil, Grant{Platform: "loop", Chat: "c9", Instance: "i1"}),
		db.Codes.Put(ctxOf(t), nil, []byte("mac"), Code{Kind: LinkCode, Instance: "i1", ExpiresAt: time.Now().Add(time.Hour)}),
		db.Codes.Put(ctxOf(t), nil, []byte("mac"), Code{Kind: EnrollCode, Tenant: "home"}),
		db.PutBlob(ctxOf(t), "key", []byte("value")),
		second(db.Accept(ctxOf(t), Accept{Bot: bot, Cursor: []byte("9"), Quarantine: []Quarantined{{Bot: bot, Err: "odd", Raw: []byte("?")}}})),
	)
	closeChecked(t, db)
	return read(t, path)
}

func TestCreation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	leftover := path + ".new-123"
	must.Succeed(t, os.WriteFile(leftover, []byte("half a database"), 0o600))
	reopen(t, path, Options{})
	info, err := os.Stat(path)
	must.Succeed(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v; want the database alone", names, err)
	}
	if got := binary.NativeEndian.Uint32(read(t, path)[pageHeader+8:]); got != 4096 {
		t.Errorf("page size %d, want 4096", got)
	}
}

func TestCreationInAFolderThatIsNotThere(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "no", "test.db"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	_, err := Open(path, Options{LockTimeout: time.Millisecond})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrLocked with the path", err)
	}
	closeChecked(t, db)
	reopen(t, path, Options{})
}

func TestTwoFirstStartsMakeOneDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	var wg sync.WaitGroup
	opened := make(chan *DB, 4)
	for range cap(opened) {
		wg.Go(func() {
			db, err := Open(path, Options{LockTimeout: time.Millisecond})
			if err == nil {
				opened <- db
			} else if !errors.Is(err, ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
		})
	}
	wg.Wait()
	if len(opened) != 1 {
		t.Errorf("%d of them hold the database, want 1", len(opened))
	}
	close(opened)
	for db := range opened {
		if err := db.PutBlob(ctxOf(t), "x", nil); err != nil {
			t.Error(err)
		}
		closeChecked(t, db)
	}
	if names := blobNames(t, reopen(t, path, Options{})); len(names) != 1 {
		t.Errorf("reopened: %v, want x", names)
	}
}

func TestDamagedFilesAreRefused(t *testing.T) { // invariant 8
	good := sound(t)
	used := usedBytes(t, good)
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	b, err := bolt.Open(foreign, 0o600, nil)
	must.Succeed(t, err)
	must.Succeed(t, b.Close())
	zeroed := func(from, to int) []byte {
		c := slices.Clone(good)
		clear(c[from:to])
		return c
	}
	for name, content := range map[string][]byte{
		"empty":                       {},
		"one byte":                    {1},
		"cut within the first page":   good[:100],
		"cut within the second page":  good[:5000],
		"cut in half":                 good[:used/2],
		"cut by one byte":             good[:used-1],
		"short text":                  []byte("hello"),
		"long text":                   bytes.Repeat([]byte("hello world\n"), 10_000),
		"all zero":                    make([]byte, len(good)),
		"both meta pages zeroed":      zeroed(0, 8192),
		"everything but meta is zero": zeroed(8192, used),
		"another program's bbolt":     read(t, foreign),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "test.db")
			must.Succeed(t, os.WriteFile(path, content, 0o600))
			db, err := Open(path, Options{})
			if err == nil {
				closeChecked(t, db)
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "restore a backup") {
				t.Errorf("got %v, want ErrDamaged with what to do", err)
			}
			if !bytes.Equal(read(t, path), content) {
				t.Error("the file was touched")
			}
			if names, _ := os.ReadDir(dir); len(names) != 1 {
				t.Errorf("the folder holds %v", names)
			}
		})
	}
}

// usedBytes is how much of a file its page tree may use.
func usedBytes(t testing.TB, file []byte) int {
	t.Helper()
	return int(newestMeta(t, file).pages) * pageSize
}

// tryFile opens content as a database and reads everything in it. Whatever it is, the outcome
// must be ErrDamaged or an answer.
func tryFile(t *testing.T, path string, content []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	db, err := Open(path, Options{})
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "another version of hermes-connector") {
			t.Errorf("open: %v, want ErrDamaged", err)
		}
		return
	}
	defer db.Close()
	ctx := ctxOf(t)
	for what, err := range map[string]error{
		"instances":     second(db.Instances(ctx)),
		"gateways":      second(db.Gateways(ctx)),
		"tenants":       second(tenantsOf(db)),
		"bindings of":   second(db.Bindings(ctx, BindingFilter{Platform: "loop", User: "u1"})),
		"bindings to":   second(db.Bindings(ctx, BindingFilter{Instance: "i1"})),
		"grants":        second(db.Grants(ctx, GrantFilter{})),
		"conversations": second(db.Conversations(ctx, ConversationFilter{Instance: "i1"})),
		"lane":          second(db.Lanes.State(ctx, "i1")),
		"entries":       second(db.Lanes.Entries(ctx, "i1", EntryFilter{})),
		"dead":          second(db.Lanes.Entries(ctx, "i1", EntryFilter{Dead: true})),
		"quarantine":    second(db.Lanes.Quarantine(ctx)),
		"cursor":        second(db.Cursor(ctx, bot)),
		"sweep":         second(db.Sweep(ctx)),
	} {
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want nil or ErrDamaged", what, err)
		}
	}
	for after := uint64(0); ; {
		e, ok, err := db.Lanes.Next(ctx, "i1", after)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("next delivery: %v", err)
		}
		if !ok {
			break
		}
		if want := event(string(e.About.ID), 1000); !bytes.Equal(e.Frame, frameOf(want)) {
			t.Errorf("entry %s has a text nobody wrote", e.Buffer)
		}
		after = e.Buffer.Seq
	}
}

func TestFlippedBytes(t *testing.T) { // invariant 8
	t.Parallel()
	good := sound(t)
	used := usedBytes(t, good)
	path := filepath.Join(t.TempDir(), "test.db")
	for at := 0; at < used; at += 1499 {
		c := slices.Clone(good)
		c[at] ^= 1 << (at % 8)
		tryFile(t, path, c)
		if t.Failed() {
			t.Fatalf("with a bit flipped at byte %d", at)
		}
	}
}

func FuzzOpen(f *testing.F) {
	good := sound(f)
	used := usedBytes(f, good)
	f.Add(0, uint64(1))
	f.Add(8192, uint64(0xff))
	f.Add(used-100, ^uint64(0))
	f.Add(16+40, uint64(1)<<40)
	f.Add(8216, uint64(484)) // once made bbolt free a page twice
	f.Add(8216, uint64(412))
	f.Fuzz(func(t *testing.T, at int, bits uint64) {
		if at < 0 || at > used-8 {
			t.Skip()
		}
		c := slices.Clone(good)
		for n := range 8 {
			c[at+n] ^= byte(bits >> (8 * n))
		}
		tryFile(t, filepath.Join(t.TempDir(), "test.db"), c)
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	err := db.change(ctxOf(t), nil, "test", func(x *tx) error { return x.Put(BucketMeta, []byte(schemaKey), 99) })
	must.Succeed(t, err)
	closeChecked(t, db)
	before := read(t, path)
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNewer) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "another version of hermes-connector") {
		t.Errorf("got %v, want that a newer version wrote it", err)
	}
	if !bytes.Equal(read(t, path), before) {
		t.Error("the file was touched")
	}
}

func TestMissingBucketIsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	closeChecked(t, reopen(t, path, Options{}))
	b, err := openBolt(path, Options{}.withDefaults())
	must.Succeed(t, err)
	err = boltfile.Update(b, func(x *bolt.Tx) error { return x.DeleteBucket([]byte(bucketDead)) })
	err = errors.Join(err, boltfile.Update(b, func(*bolt.Tx) error { return nil }), b.Close())
	must.Succeed(t, err)
	if _, err := Open(path, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}
