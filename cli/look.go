package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/doctor"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/media"
)

const (
	firstLook  = time.Minute     // the time from the start to the first look for faults: until then bots connect
	nextLook   = time.Hour       // the pause between two looks
	hostFresh  = 2 * time.Second // how long a look at the machine is good: a page may ask every second
	hostWithin = 3 * time.Second // how long a caller waits for a look: a slow answer does not mean a dead disk
)

// machineLook keeps what the running server found about its machine, its database and its snapshots.
type machineLook struct {
	// Set once.
	core  *core
	cfg   *config.Config
	began time.Time

	mu      sync.Mutex    // guards the fields below; not held while anything is looked at
	looking chan struct{} // closed when the look under way is done; nil: there is none
	looked  time.Time     // when the last look was done; zero: none was
	host    finding.List  // the findings of that look
	free    int64         // bytes free on the data folder's disk at that look; negative: not known
}

// findings returns the present findings. afresh demands a new look, for somebody who has just fixed something. It may
// be called from any goroutine.
func (l *machineLook) findings(afresh bool) finding.List {
	now := time.Now()
	host, _ := l.machine(afresh)
	return append(append(host, l.database()...), l.snapshots(now)...)
}

// machine returns the findings about the machine, and how many bytes its disk has free.
func (l *machineLook) machine(afresh bool) (finding.List, int64) {
	return l.shared(afresh, func() (finding.List, int64) {
		free, err := media.Free(l.cfg.DataDir)
		if err != nil {
			free = -1
		}
		return doctor.Host(l.cfg, time.Now()), free
	})
}

// shared returns the result of a look at the machine that is at most two seconds old. If a look hangs on a disk that
// does not answer, the caller waits some seconds for it, and no other look begins until it has ended.
func (l *machineLook) shared(afresh bool, look func() (finding.List, int64)) (finding.List, int64) {
	l.mu.Lock()
	looking := l.looking
	if looking == nil && (afresh || l.looked.IsZero() || time.Since(l.looked) >= hostFresh) {
		looking = make(chan struct{})
		l.looking = looking
		go func() { // no context ends a stat on a dead disk
			host, free := look()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.looked, l.host, l.free, l.looking = time.Now(), host, free, nil
			close(looking)
		}()
	}
	l.mu.Unlock()
	if looking != nil {
		select {
		case <-looking:
		case <-time.After(hostWithin):
			return finding.NotLookedAt.Alone(l.cfg.DataDir, "the data folder did not answer in time", "check the disk it is on"), -1
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.host), l.free
}

// database returns the findings about the open database.
func (l *machineLook) database() (out finding.List) {
	file, db := l.cfg.Database(), l.core.db
	if err := db.Probe(); err != nil {
		out.Add(finding.DatabaseStopped, file, "no message is accepted: "+err.Error(), "make room on its disk; if there is room, restart the server: its start says more"+doctor.Meanwhile(l.cfg))
	}
	st := db.Stats()
	if st.FellBack {
		out.Add(finding.FellBack, file,
			"at the start the newest commit was incomplete, so the one before it is used: after a power cut nothing is lost; otherwise compare with the last snapshot",
			"after a power cut you need do nothing; otherwise run `hermes-connector restore FILE`")
	}
	if st.Leftover {
		out.Add(finding.Leftover, file, "data that a rekey replaced is still in its free pages: the start could not make a copy without them, and the log says why",
			"make room on its disk and restart the server")
	}
	if st.Damaged > 0 {
		out.Add(finding.SetAside, file,
			fmt.Sprintf("%d of its records were damaged when it was opened, and were set aside; the log and buffer quarantine name them", st.Damaged),
			"hermes-connector buffer quarantine")
	}
	return out
}

// snapshots returns the findings about the nightly snapshots; none if they are off.
func (l *machineLook) snapshots(now time.Time) finding.List {
	if l.core.keeper == nil {
		return nil
	}
	st := l.core.keeper.Stats()
	if st.Err != nil {
		return finding.SnapshotFailed.Alone(l.cfg.Backup.Dir, "the last nightly snapshot failed: "+st.Err.Error(), "fix that; it is retried every hour")
	}
	return doctor.Overdue(l.cfg, st.CoveredAt, l.began, now)
}

// watch looks for faults every hour, and whenever there is news. It logs findings that are new and findings that are
// gone. It returns nil when ctx ends.
func watch(ctx context.Context, svc *manage.Service, news <-chan struct{}, shard string, log *slog.Logger) error {
	known := make(map[[2]string]bool)
	t := time.NewTimer(firstLook)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-news:
		}
		t.Reset(nextLook)
		st, err := svc.Status(ctx, struct{}{})
		if err != nil {
			continue // the database cannot be read; a database that has failed ends the server, with this error in the log
		}
		known = changes(log, known, inShard(st.Findings, shard))
	}
}

// inShard returns the findings with their fixes for one of several shards: the commands in them name the shard.
func inShard(all finding.List, shard string) finding.List {
	all = slices.Clone(all)
	for n := range all {
		all[n].Fix = relay.InShard(all[n].Fix, shard)
	}
	return all
}

// changes logs which faults in found are new and which of known are gone. It returns the faults in found, by code and
// by what they are about, as the next call's known.
func changes(log *slog.Logger, known map[[2]string]bool, found finding.List) map[[2]string]bool {
	now := make(map[[2]string]bool, len(found))
	for _, f := range found {
		if !f.Wrong() {
			continue
		}
		k := [2]string{f.Code, f.About}
		if !known[k] && !now[k] {
			log.Warn("found wrong", "code", f.Code, "about", f.About, "what", f.What, "fix", f.Fix)
		}
		now[k] = true
	}
	for k := range known {
		if !now[k] {
			log.Info("fixed", "code", k[0], "about", k[1])
		}
	}
	return now
}
