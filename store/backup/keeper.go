package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// Database is the database of a Keeper. *store.DB implements it.
type Database interface {
	Source
	Stats() store.Stats
}

// Options of a Keeper. Dir is required; otherwise the zero value is the default.
type Options struct {
	Dir       string // made when it is missing, mode 0700
	Keep      int    // snapshots kept; 0 means 3
	Recipient string // as in CheckRecipient; empty: not encrypted
	Hour      int    // of the night, local time, 1 to 23; 0 means 3
	Now       func() time.Time
	Count     func(count.Counter) // called for every try; nil: not counted
	Log       *slog.Logger        // nil means discard
}

const (
	defaultKeep = 3
	defaultHour = 3
	retryAfter  = time.Hour
	lookAgain   = time.Hour // at the latest: the clock may be set, and a machine may have slept
)

// Keeper takes a snapshot every night and keeps the newest few. A machine that is off at night takes the snapshot when
// it is on again. Run is for one goroutine; Stats may be called from any.
type Keeper struct {
	// Set once, by NewKeeper.
	db Database
	o  Options

	// Run's own.
	looked time.Time // when a snapshot was last due and not taken, because nothing had changed

	mu    sync.Mutex // guards stats
	stats Stats
}

// Stats is the result of the snapshots so far.
type Stats struct {
	LastAt time.Time // of the newest existing snapshot; zero: there is none
	// CoveredAt is when the Keeper last saw that the newest snapshot holds the whole database; zero: not yet.
	CoveredAt time.Time
	Err       error // of the last try; nil: it worked
}

// NewKeeper makes a Keeper. It checks only the recipient.
func NewKeeper(db Database, o Options) (*Keeper, error) {
	if err := CheckRecipient(o.Recipient); err != nil {
		return nil, fmt.Errorf("recipient: %w", err)
	}
	o.Keep = cmp.Or(max(o.Keep, 0), defaultKeep)
	if o.Hour <= 0 || o.Hour > 23 {
		o.Hour = defaultHour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(count.Counter) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Keeper{db: db, o: o}, nil
}

// Stats returns the result of the snapshots so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Run takes snapshots until ctx ends, and returns nil then.
func (k *Keeper) Run(ctx context.Context) error {
	k.clean()
	for {
		t := time.NewTimer(k.step(ctx))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// step takes a snapshot if one is due, and returns how long to wait before it looks again.
func (k *Keeper) step(ctx context.Context) time.Duration {
	next, err := k.keep(ctx)
	if ctx.Err() != nil {
		return retryAfter
	}
	k.mu.Lock()
	k.stats.Err = err
	k.mu.Unlock()
	if err != nil {
		k.o.Count(count.SnapshotFailed)
		k.o.Log.Error("no snapshot was taken; the older ones stay, and it is tried again", "in", retryAfter, "err", err)
		return retryAfter
	}
	return min(lookAgain, next.Sub(k.o.Now()))
}

// keep takes a snapshot if one is due and the database has changed since the newest one, and returns when the next is
// due.
func (k *Keeper) keep(ctx context.Context) (next time.Time, err error) {
	now, last := k.o.Now().Round(0), k.looked // by the clock on the wall, which may be set
	if last.After(now) {
		last = time.Time{}
	}
	all, err := list(k.o.Dir, now)
	if err != nil {
		return next, err
	}
	if len(all) > 0 {
		newest := all[len(all)-1]
		k.noteNewest(newest)
		if newest.at.After(last) && !newest.at.After(now) { // if the newest is from the future, all are
			last = newest.at
		}
		if due := k.due(last); now.Before(due) {
			return due, nil
		}
		if newest.commit == k.db.Stats().Commit {
			k.looked = now
			k.mu.Lock()
			k.stats.CoveredAt = now
			k.mu.Unlock()
			return k.due(now), nil
		}
	}
	if err := os.MkdirAll(k.o.Dir, 0o700); err != nil {
		return next, err
	}
	taken := snapshot{at: now.UTC().Truncate(time.Second), commit: k.db.Stats().Commit, encrypted: k.o.Recipient != ""}
	m, err := Write(ctx, k.db, filepath.Join(k.o.Dir, taken.name()), k.o.Recipient)
	if err != nil {
		return next, err
	}
	k.noteNewest(taken)
	k.o.Count(count.SnapshotTaken)
	k.o.Log.Info("snapshot taken", "file", m.Path, "bytes", m.Bytes, "encrypted", m.Encrypted)
	return k.due(now), k.prune(append(all, taken)) // taken is the newest of all
}

func (k *Keeper) noteNewest(s snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.LastAt = s.at
	if s.at.After(k.stats.CoveredAt) {
		k.stats.CoveredAt = s.at
	}
}

// due returns when the snapshot after one that was taken at the time last is due: the next time it is Hour o'clock, at
// most a day later.
func (k *Keeper) due(last time.Time) time.Time {
	last = last.In(k.o.Now().Location())
	at := func(day int) time.Time {
		return time.Date(last.Year(), last.Month(), day, k.o.Hour, 0, 0, 0, last.Location())
	}
	if next := at(last.Day()); next.After(last) {
		return next
	}
	return at(last.Day() + 1)
}

// prune removes surplus snapshots from all, which begins with the oldest.
func (k *Keeper) prune(all []snapshot) error {
	var errs []error
	for _, s := range all[:max(0, len(all)-k.o.Keep)] {
		errs = append(errs, os.Remove(filepath.Join(k.o.Dir, s.name())))
	}
	return errors.Join(errs...)
}

// list returns the snapshots in the folder, oldest first. A snapshot from the future was taken while the clock was
// ahead, or before it was set back: it is sorted as older than any that is taken now.
func list(dir string, now time.Time) ([]snapshot, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []snapshot
	for _, f := range files {
		if s, ok := parseName(f.Name()); ok {
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.at.After(now) == b.at.After(now) {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.commit, b.commit)) < 0
		}
		return b.at.Before(a.at)
	})
	return all, nil
}

// Newest returns the newest snapshot in dir, and when it was taken. An empty path: there is none.
func Newest(dir string, now time.Time) (path string, at time.Time, err error) {
	all, err := list(dir, now)
	if err != nil || len(all) == 0 {
		return "", at, err
	}
	s := all[len(all)-1]
	return filepath.Join(dir, s.name()), s.at, nil
}

// clean removes the unfinished files of a process that died.
func (k *Keeper) clean() {
	if err := files.RemoveLeftovers(k.o.Dir, tempPattern("connector-*")); err != nil {
		k.o.Log.Warn("an unfinished snapshot stays", "err", err)
	}
}

// snapshot is the information in a snapshot's name.
type snapshot struct {
	at        time.Time // UTC, to the second
	commit    uint64    // the newest one in it
	encrypted bool
}

const (
	nameTime = "20060102T150405Z"
	suffix   = ".db"
	sealed   = ".age"
)

func (s snapshot) name() string {
	name := "connector-" + s.at.Format(nameTime) + "-" + strconv.FormatUint(s.commit, 10) + suffix
	if s.encrypted {
		name += sealed
	}
	return name
}

// parseName is the inverse of name. ok is false for the names of files that are not snapshots.
func parseName(name string) (s snapshot, ok bool) {
	rest, isSealed := strings.CutSuffix(name, sealed)
	rest, _ = strings.CutPrefix(rest, "connector-")
	rest, _ = strings.CutSuffix(rest, suffix)
	at, commit, _ := strings.Cut(rest, "-")
	var err1, err2 error
	s.at, err1 = time.Parse(nameTime, at)
	s.commit, err2 = strconv.ParseUint(commit, 10, 64)
	s.encrypted = isSealed
	return s, err1 == nil && err2 == nil && s.name() == name
}
