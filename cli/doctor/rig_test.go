package doctor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/vault"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bird is a bot of which the network says nothing but what is in it.
type bird struct{ says platforms.Examination }

func (*bird) ID() relay.Bot                              { return relay.Bot{Platform: "pigeon", ID: "1"} }
func (*bird) Descriptor() relay.Descriptor               { return relay.Bare("pigeon") }
func (*bird) Status() platforms.Status                   { return platforms.Status{} }
func (*bird) Run(context.Context, platforms.Inbox) error { return nil }
func (*bird) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}
func (b *bird) Examine(context.Context, []relay.Place) platforms.Examination { return b.says }

// newHouse are Options of a stopped server about whose machine, files and records there is nothing to say.
func newHouse(t *testing.T) Options {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	cfg := &config.Config{
		DataDir: dir, Listen: "127.0.0.1:0",
		Backup: config.Backup{Nightly: true, Dir: filepath.Join(dir, "snapshots"), Keep: 3},
		Vault:  config.Vault{KeyFile: filepath.Join(dir, "vault.key")},
		Bots:   make([]config.Bot, 1),
	}
	bots := func() ([]platforms.Bot, error) { return []platforms.Bot{&bird{}}, nil }
	o := Options{
		Config: cfg, Bots: bots, Now: time.Now, Start: "`hermes-connector serve`", Check: "hermes-connector check",
		Service: func(db *store.DB, v *vault.Vault) (*manage.Service, error) {
			all, err := bots()
			return manage.New(db, token.NewAuthority(db, v, time.Now), link.NewDesk(db, v, time.Now), v, &bus.Local{}, nil,
				manage.Settings{Words: words.Words{}, Bots: all, Networks: []platforms.Network{{Name: "pigeon"}}, URL: "https://relay.example.net"}), err
		},
		machine: machine{
			proc: t.TempDir(),
			disk: func(string) (disk, error) {
				return disk{kind: 0xef53, free: 1 << 40, inodes: 1 << 20, left: 1 << 19}, nil
			},
			listen: func(string, string) error { return nil },
			boxed:  func() bool { return false },
		},
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o.records(t, func(svc *manage.Service, db *store.DB) {
		if _, err := svc.Enroll(t.Context(), operator, manage.Enroll{Name: "home"}); err != nil {
			t.Fatal(err)
		}
		if _, err := svc.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}); err != nil {
			t.Fatal(err)
		}
		if err := db.UpdateGateway(t.Context(), nil, "home", store.CameOrWent(time.Now(), true)); err != nil {
			t.Fatal(err)
		}
	})
	return o
}

// records changes the database of the stopped server.
func (o Options) records(t *testing.T, change func(*manage.Service, *store.DB)) {
	t.Helper()
	db, err := store.Open(o.Config.Database(), store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(t.Context(), db, vault.FileKey(o.Config.Vault.KeyFile))
	if err != nil {
		t.Fatal(errors.Join(err, db.Close()))
	}
	svc, err := o.Service(db, v)
	if err == nil {
		change(svc, db)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// codes are what was found, as "HC301 about", the folder of the data left out of it, without what says that no server
// runs.
func codes(o Options, all finding.List) (out []string) {
	for _, f := range all {
		if f.Code == finding.NotRunning.Code {
			continue
		}
		about := strings.ReplaceAll(f.About, o.Config.DataDir, "DATA")
		out = append(out, strings.TrimSpace(f.Code+" "+about))
	}
	return out
}

// wantFound fails unless that is what Run finds, and every finding says all.
func wantFound(t *testing.T, o Options, want ...string) finding.List {
	t.Helper()
	begin := time.Now()
	r := Run(t.Context(), o)
	if took := time.Since(begin); took > 5*time.Second { // invariant 1; nothing here takes that long
		t.Errorf("it took %v", took)
	}
	if r.Findings == nil {
		t.Error("the list of findings is null in JSON")
	}
	if diff := cmp.Diff(want, codes(o, r.Findings)); diff != "" {
		t.Errorf("found (-want +got):\n%s\n%+v", diff, r.Findings)
	}
	for _, f := range r.Findings {
		if fault := finding.Misworded(f); fault != "" {
			t.Errorf("%+v: %s", f, fault)
		}
	}
	return r.Findings
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}
