package cli_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// reloader is the operator's other hand: it changes the configuration of a server that is killed meanwhile, and has
// it read again, by command and by signal. The bot is changed, called instead of polling, removed and added again.
type reloader struct {
	*victim
	rand *rand.Rand

	// The bot is removed no more: what is left when nobody kills the server waits for no bot that comes and goes, however slow
	// the machine is.
	steady atomic.Bool

	mu   sync.Mutex // guards the fields below
	as   setup
	made int // how often the file was written

	done, failed int // run's own
}

// setup is what changes in the file.
type setup struct {
	updates string // "poll" or "webhook"
	hosted  bool   // the bot is there
	another bool   // a second one too
}

// configure changes the file, as a whole: a server may be reading it.
func (r *reloader) configure(change func(*setup)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.as)
	r.made++
	text := r.head
	if r.as.hosted {
		text += fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = \"token\"\napi_base = %q\nupdates = %q\nretry_max = \"%ds\"\n",
			r.bot.url, r.as.updates, 60+r.made%2)
	}
	if r.as.another {
		text += "[[bots]]\nplatform = \"loopback\"\ndir = \"loop\"\n"
	}
	path := filepath.Join(r.dir, "connector.toml")
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		r.t.Error(err)
	}
}

// run changes and reloads until talking ends; then the bot is there.
func (r *reloader) run(ctx, talking context.Context) {
	for talking.Err() == nil {
		switch dice := r.rand.IntN(10); {
		case dice < 3:
			r.configure(func(*setup) {})
		case dice < 5:
			updates := []string{"poll", "webhook"}[r.rand.IntN(2)]
			r.configure(func(s *setup) { s.updates = updates })
		case dice < 7:
			r.configure(func(s *setup) { s.another = !s.another })
		case r.steady.Load():
			r.configure(func(*setup) {})
		default:
			r.configure(func(s *setup) { s.hosted = false })
			r.reload(ctx)
			<-time.After(time.Duration(r.rand.IntN(60)) * time.Millisecond)
			r.configure(func(s *setup) { s.hosted = true })
		}
		r.reload(ctx)
		<-time.After(time.Duration(r.rand.IntN(100)) * time.Millisecond)
	}
	r.configure(func(s *setup) { s.hosted = true })
	for ctx.Err() == nil && !r.reload(ctx) {
	}
}

// reload has the server read the file, if one runs: one that starts reads it by itself.
func (r *reloader) reload(ctx context.Context) (done bool) {
	p := r.serving.Load()
	if p != nil && r.rand.IntN(2) == 0 {
		_ = p.Signal(syscall.SIGHUP) // it may be dead
	}
	done = r.command("reload").Run() == nil
	if done {
		r.done++
	} else {
		r.failed++
	}
	return done && ctx.Err() == nil
}

func (r *reloader) judge(t *testing.T) {
	if r.done == 0 {
		t.Error("no reload came to its end")
	}
	t.Logf("%d reloads, %d more died with the server or found none", r.done, r.failed)
}
