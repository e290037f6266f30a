package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func backupOf(t *testing.T, db *DB) []byte {
	t.Helper()
	var b bytes.Buffer
	info, err := db.Backup(ctxOf(t), &b)
	must.Succeed(t, err)
	if info.Bytes != int64(b.Len()) || info.Commit != db.Stats().Commit {
		t.Errorf("info %+v for %d bytes of commit %d", info, b.Len(), db.Stats().Commit)
	}
	return b.Bytes()
}

func TestBackupWhileItIsUsed(t *testing.T) {
	t.Parallel()
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	enroll(t, db, "i1")
	for n := range 50 {
		acceptOne(t, db, event(fmt.Sprintf("e%02d", n), 5000), "i1")
	}
	had := laneOf(t, db, "i1")
	var b bytes.Buffer
	// The one who receives it is slow, and everything changes meanwhile.
	slow := writerFunc(func(p []byte) (int, error) {
		for range 3 {
			e, ok, err := db.Lanes.Next(ctxOf(t), "i1", 0)
			if err != nil {
				return 0, err
			}
			if ok {
				if err := acknowledge(ctxOf(t), db, "i1", e.Buffer); err != nil {
					return 0, err
				}
			}
			acceptOne(t, db, event(fmt.Sprintf("late-%d-%d", b.Len(), db.Stats().Commits), 5000), "i1")
		}
		return b.Write(p)
	})
	info, err := db.Backup(ctxOf(t), slow)
	must.Succeed(t, err)
	if !info.At.Equal(c.now()) {
		t.Errorf("made at %v, want %v", info.At, c.now())
	}
	path := filepath.Join(t.TempDir(), "backup.db")
	must.Succeed(t, os.WriteFile(path, b.Bytes(), 0o600))
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	if got := laneOf(t, reopen(t, path, Options{}), "i1"); got != had { // as it stands
		t.Errorf("the backup holds %s, want %s", got, had)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBackupThatEndsEarly(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	for n := range 30 {
		acceptOne(t, db, event(fmt.Sprint(n), 50_000), "i1")
	}
	full := errors.New("no space")
	if _, err := db.Backup(ctxOf(t), writerFunc(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("got %v, want the writer's error", err)
	}
	ctx, cancel := context.WithCancel(ctxOf(t))
	_, err := db.Backup(ctx, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context canceled", err)
	}
	acceptOne(t, db, event("next", 300), "i1")
}

func TestBackupOfDamage(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	b := acceptOne(t, db, event("e1", 300), "i1").Buffers[0]
	spoil(t, db, bucketEntries, keyOf(t, db, "i1", b.Seq))
	var got bytes.Buffer
	_, err := db.Backup(ctxOf(t), &got)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "hot/entries") || got.Len() > 0 {
		t.Errorf("%d bytes, %v; want none, and the damaged record named", got.Len(), err)
	}
}

func TestVerifyFile(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 3000), "i1")
	good := backupOf(t, db)
	at := bytes.Index(good, []byte("frame of")) // in the entry
	for name, tc := range map[string]struct {
		change func([]byte) []byte
		want   string // in the error; empty: none
	}{
		"sound":               {func(b []byte) []byte { return b }, ""},
		"without the trailer": {func(b []byte) []byte { return b[:len(b)-int(boltfile.TrailerSize)] }, ""},
		"cut off":             {func(b []byte) []byte { return b[:len(b)-int(boltfile.TrailerSize)-1] }, "cut off"},
		"a record":            {func(b []byte) []byte { b[at] ^= 1; return b }, "hot/entries"},
		"a page":              {func(b []byte) []byte { clear(b[at/4096*4096:][:16]); return b }, "page"},
		"a meta page":         {func(b []byte) []byte { b[30] ^= 1; return b }, "meta page"},
		"no database":         {func([]byte) []byte { return []byte(strings.Repeat("hello ", 5000)) }, "meta page"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backup.db")
			must.Succeed(t, os.WriteFile(path, tc.change(bytes.Clone(good)), 0o600))
			err := VerifyFile(path)
			if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// restorable is a database that has gone on since its backup was made.
func restorable(t *testing.T, c *clock) (path string, backup []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2", "gone")
	first := acceptOne(t, db, event("e1", 300), "i1", "i2").Buffers
	acceptOne(t, db, event("e2", 300), "i1")
	check := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}
	check(db.Bind(ctx, nil, Binding{Platform: "loop", User: "old", Instance: "i1", Commands: []string{"/add"}}))
	backup = backupOf(t, db)
	c.add(time.Hour)
	check(acknowledge(ctx, db, "i1", first[0]))
	acceptOne(t, db, event("e3", 300), "i1", "i2")
	acceptOne(t, db, event("e4", 300), "i2")
	enroll(t, db, "late")
	check(second(db.Revoke(ctx, nil, "gone")))
	check(db.Unbind(ctx, nil, "i1", "loop", "old"))
	check(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u1", Instance: "i1"}))
	check(db.Bind(ctx, nil, Binding{Platform: "loop", User: "u2", Instance: "i1"}))
	check(db.Claim(ctx, nil, Grant{Platform: "loop", Chat: "c1", Instance: "i1"}))
	closeChecked(t, db)
	return path, backup
}

func TestRestore(t *testing.T) { // invariant 4
	c := newClock()
	made := c.now()
	path, backup := restorable(t, c)
	former := read(t, path)
	got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now})
	must.Succeed(t, err)
	want := Restored{
		MadeAt: made, Kept: path + ".before-restore-20261121T130000Z", Compared: true, Carried: true,
		Lost: Content{
			Messages: map[relay.InstanceID]int{"i1": 1, "i2": 2}, Gateways: []relay.GatewayID{"late"}, Bindings: 2, Grants: 1,
		},
		Back: Content{Messages: map[relay.InstanceID]int{"i1": 1}, Gateways: []relay.GatewayID{"gone"}, Bindings: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !bytes.Equal(read(t, got.Kept), former) {
		t.Error("the former database is not what it was")
	}
	db, was := reopen(t, path, Options{}), reopen(t, got.Kept, Options{})
	if got := laneOf(t, db, "i1"); got != "[e1 e2]" {
		t.Errorf("restored lane %s, want e1 e2", got)
	}
	if b, err := Only(db.Bindings(ctxOf(t), BindingFilter{Instance: "i1"})); err != nil || b.User != "old" || !slices.Equal(b.Commands, []string{"/add"}) {
		t.Errorf("restored binding %+v, %v; want it to be for /add", b, err)
	}
	for _, i := range []relay.InstanceID{"i1", "i2"} {
		a, err1 := db.Lanes.State(ctxOf(t), i)
		b, err2 := was.Lanes.State(ctxOf(t), i)
		if err1 != nil || err2 != nil || a.Epoch == b.Epoch || a.Epoch == 0 {
			t.Errorf("lane %s: epoch %d, before %d (%v, %v); want a new one", i, a.Epoch, b.Epoch, err1, err2)
		}
	}
	// Again, over what is there now.
	closeChecked(t, db)
	again, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now})
	if err != nil || again.Kept == got.Kept || !files.Exists(again.Kept) || !files.Exists(got.Kept) {
		t.Errorf("restored again: %+v, %v; want both former files", again, err)
	}
	if diff := cmp.Diff([]Content{{}, {}}, []Content{again.Lost, again.Back}); diff != "" {
		t.Errorf("restored again, what is lost and what is back (-want +got):\n%s", diff)
	}
}

// The operator restores as root, the server runs as somebody else.
func TestRestoredFileBelongsToTheServer(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else can give a file away
	}
	const server = 12345
	for name, over := range map[string]bool{"over a database": true, "into an empty folder": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.db")
			db := reopen(t, path, Options{})
			backup := backupOf(t, db)
			closeChecked(t, db)
			for _, of := range []string{dir, path} {
				must.Succeed(t, os.Chown(of, server, server))
			}
			if !over {
				must.Succeed(t, os.Remove(path))
			}
			if _, err := Restore(path, bytes.NewReader(backup), Options{}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			must.Succeed(t, err)
			if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != server || owner.Gid != server {
				t.Errorf("it belongs to %+v, want %d", info.Sys(), server)
			}
		})
	}
}

func TestRestoreRefuses(t *testing.T) {
	c := newClock()
	path, backup := restorable(t, c)
	before := read(t, path)
	broken := errors.New("cut off")
	newer := filepath.Join(t.TempDir(), "newer.db")
	db := reopen(t, newer, Options{})
	must.Succeed(t, db.change(ctxOf(t), nil, "test", func(x *tx) error { return x.Put(BucketMeta, []byte(schemaKey), 99) }))
	for name, tc := range map[string]struct {
		r    io.Reader
		want string
	}{
		"nothing":           {bytes.NewReader(nil), "meta page"},
		"half a backup":     {bytes.NewReader(backup[:len(backup)/2]), "cut off"},
		"trouble with it":   {io.MultiReader(bytes.NewReader(backup), readerFunc(func([]byte) (int, error) { return 0, broken })), "cut off"},
		"a newer version's": {bytes.NewReader(backupOf(t, db)), "another version of hermes-connector"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Restore(path, tc.r, Options{Now: c.now})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if !bytes.Equal(read(t, path), before) || !slices.Equal(filesIn(t, path), []string{"test.db"}) {
				t.Errorf("the folder holds %v, and the database may have changed", filesIn(t, path))
			}
		})
	}
	reopen(t, path, Options{})
	if _, err := Restore(path, bytes.NewReader(backup), Options{LockTimeout: time.Millisecond}); !errors.Is(err, ErrLocked) {
		t.Errorf("under a running server: %v, want ErrLocked", err)
	}
}

// TestABucketOfAnotherName: no checksum is over the name. Such a file is not restored, nor anything carried over from it.
func TestABucketOfAnotherName(t *testing.T) { // invariant 8
	c := newClock()
	path, backup := restorable(t, c)
	before := read(t, path)
	for _, k := range kinds {
		spoilt := func(file []byte) []byte {
			out := bytes.Clone(file)
			root := out[int(newestMeta(t, out).root)*pageSize:][:pageSize]
			at := bytes.LastIndex(root, []byte(k.bucket)) + len(k.bucket) - 1 // keys lie behind what tells of them
			root[at] ^= 4
			return out
		}
		t.Run(k.bucket, func(t *testing.T) {
			must.Succeed(t, os.WriteFile(path, spoilt(before), 0o600))
			if _, err := Restore(path, bytes.NewReader(spoilt(backup)), Options{Now: c.now}); !errors.Is(err, ErrDamaged) {
				t.Errorf("restore from it: %v", err)
			}
			if got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now}); err != nil || got.Carried {
				t.Errorf("restore over it: %+v, %v", got, err)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRestoreOverNothingAndOverRuins(t *testing.T) {
	c := newClock()
	_, backup := restorable(t, c)
	for name, tc := range map[string]struct {
		content []byte // nil: no file
		kept    bool
	}{
		"nothing": {nil, false},
		"empty":   {[]byte{}, true},
		"ruins":   {[]byte("no database"), true},
		"half":    {backup[:len(backup)/2], true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			if tc.content != nil {
				must.Succeed(t, os.WriteFile(path, tc.content, 0o600))
			}
			got, err := Restore(path, bytes.NewReader(backup), Options{Now: c.now})
			if err != nil || got.Compared || (got.Kept != "") != tc.kept {
				t.Fatalf("%+v, %v", got, err)
			}
			if tc.kept && !bytes.Equal(read(t, got.Kept), tc.content) {
				t.Error("what was there is not what it was")
			}
			if got := laneOf(t, reopen(t, path, Options{}), "i1"); got != "[e1 e2]" {
				t.Errorf("restored lane %s", got)
			}
		})
	}
}

func TestRestoreOfDamagedRecords(t *testing.T) {
	_, backup := restorable(t, newClock())
	backup = bytes.ReplaceAll(backup, []byte("\x02e2\x04loop"), []byte("\x02e7\x04loop")) // in what once was, too
	path := filepath.Join(t.TempDir(), "test.db")
	got, err := Restore(path, bytes.NewReader(backup), Options{})
	if err != nil || got.Damaged != 1 {
		t.Fatalf("%+v, %v; want one damaged record", got, err)
	}
	db := reopen(t, path, Options{})
	if lane, n := laneOf(t, db, "i1"), db.Stats().Damaged; lane != "[e1]" || n != 1 {
		t.Errorf("lane %s, %d damaged", lane, n)
	}
}

// TestRestoreOfACopyWithABrokenMetaPage: of a database that somebody copied by hand, the newest commit
// may be lost, which is said.
func TestRestoreOfACopyWithABrokenMetaPage(t *testing.T) { // invariant 8
	path := filepath.Join(t.TempDir(), "copy.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	acceptOne(t, db, event("e2", 300), "i1")
	made := backupOf(t, db)
	closeChecked(t, db)
	file := read(t, path)
	newest := newestMeta(t, file).at
	for name, tc := range map[string]struct {
		file     []byte
		flips    []int
		want     string
		fellBack bool
	}{
		"one bit":           {file, []int{newest + 20}, "[e1]", true},
		"two bits":          {file, []int{newest + 20, newest + 40}, "[e1]", true},
		"two of a backup's": {made, []int{pageHeader + 20, pageHeader + 40}, "[e1 e2]", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := bytes.Clone(tc.file)
			for _, at := range tc.flips {
				c[at] ^= 1
			}
			path := filepath.Join(t.TempDir(), "test.db")
			got, err := Restore(path, bytes.NewReader(c), Options{})
			if err != nil || got.FellBack != tc.fellBack {
				t.Errorf("%+v, %v, want FellBack %v", got, err, tc.fellBack)
			}
			if lane := laneOf(t, reopen(t, path, Options{}), "i1"); lane != tc.want {
				t.Errorf("lane %s, want %s", lane, tc.want)
			}
		})
	}
}

func TestRestoreTellsDeadLetters(t *testing.T) {
	c := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: c.now})
	enroll(t, db, "i1")
	bury := func(id string) {
		must.Succeed(t, db.Lanes.Bury(ctxOf(t), "i1", acceptOne(t, db, event(id, 300), "i1").Buffers[0], DeadPoison))
	}
	bury("e1")
	made := backupOf(t, db)
	bury("e2")
	bury("e3")
	closeChecked(t, db)
	got, err := Restore(path, bytes.NewReader(made), Options{Now: c.now})
	if err != nil || got.Lost.Dead["i1"] != 2 || len(got.Back.Dead) != 0 {
		t.Errorf("%+v, %v, want two lost dead letters", got, err)
	}
}

// TestFilesBelongToTheServer: what root puts in the place of a database must be the server's to open.
func TestFilesBelongToTheServer(t *testing.T) {
	owner := func(path string) uint32 {
		info, err := os.Stat(path)
		must.Succeed(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	server := os.Geteuid()
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	if server == 0 { // others can only see that nothing is given away
		server = 65534
		must.Succeed(t, os.Chown(dir, server, server))
	}
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	made := backupOf(t, db)
	closeChecked(t, db)
	if got := owner(path); got != uint32(server) {
		t.Errorf("a new database belongs to %d, want %d", got, server)
	}
	if _, err := Restore(path, bytes.NewReader(made), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := owner(path); got != uint32(server) {
		t.Errorf("a restored database belongs to %d, want %d", got, server)
	}
}
