package outbound

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/store"
)

// slowFile is found when it is closed.
type slowFile struct {
	asked, found chan struct{}
	let          int // go of
}

func (f *slowFile) Source(context.Context, relay.InstanceID, string, string) (relay.File, func(), error) {
	close(f.asked)
	<-f.found
	return relay.File{}, func() { f.let++ }, nil
}

func (f *slowFile) Put(context.Context, relay.InstanceID, string, int64, io.Reader) (relay.MediaID, int64, error) {
	return "", 0, errors.New("nothing is kept here")
}

// TestARightThatWentWhileTheFileCame: the gate is asked once more before the file leaves.
func TestARightThatWentWhileTheFileCame(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	i := store.Instance{ID: "home", Tenant: relay.DefaultTenant, CreatedAt: time.Now()}
	if err := db.Enroll(t.Context(), nil, store.Gateway{ID: "home", Instance: i.ID, Tenant: i.Tenant, CreatedAt: i.CreatedAt}, i); err != nil {
		t.Fatal(err)
	}
	if err := db.Bind(t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "ann", Instance: "home", BoundAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	p := &answerer{Loopback: local.NewLoopback(local.NewNetwork(), nil)}
	file := &slowFile{asked: make(chan struct{}), found: make(chan struct{})}
	out := New(Options{
		DB: db, Facts: &facts.Facts{Stored: db}, Bots: hosts{p}, Counters: new(count.Totals), Files: file, Log: slog.New(slog.DiscardHandler),
	})
	home := out.Caller(attached{p.ID()}, "home", i.Tenant, i.ID)
	a := home.Action(t.Context(), relay.Request{Action: relay.SendMedia{Chat: "@ann", SourceURL: "slow"}}).(*action)
	if err := a.Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.at = a.at.Add(-allowedFor) // that long it waited
	done := make(chan error)
	go func() {
		_, err := a.Do(t.Context(), func() (context.Context, relay.Request, bool) { return t.Context(), a.request, true })
		done <- err
	}()
	<-file.asked
	if err := db.Unbind(t.Context(), nil, "home", local.LoopbackID, "ann"); err != nil {
		t.Fatal(err)
	}
	close(file.found)
	if err := <-done; relay.Explain(err) == nil || relay.Explain(err).Code != relay.CodeEgressDeclined || p.files != 0 {
		t.Errorf("%v, and %d files were sent", err, p.files)
	}
	if file.let != 1 {
		t.Errorf("the file was let go of %d times", file.let)
	}
}
