package manage_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/vault"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var (
	operator = audit.Actor{Kind: audit.ActorCLI, Name: "ann"}
	system   audit.Actor // nobody asked
)

// world is a Service over a real database and vault, with what it publishes.
type world struct {
	*manage.Service
	db    *store.DB
	path  string
	auth  *token.Authority
	vault *vault.Vault
	desk  *link.Desk
	bus   bus.Bus
	live  manage.Live
	set   manage.Settings
	now   time.Time
	notes []bus.Note
}

// change makes the Service anew with other settings.
func (w *world) change(set func(*manage.Settings)) {
	set(&w.set)
	w.Service = manage.New(w.db, w.auth, w.desk, w.vault, w.bus, w.live, w.set)
}

func newWorld(t *testing.T, live manage.Live, bots ...platforms.Bot) *world {
	t.Helper()
	return newWorldWithin(t, store.Limits{}, live, bots...)
}

// newWorldWithin is newWorld with other limits of buffers.
func newWorldWithin(t *testing.T, most store.Limits, live manage.Live, bots ...platforms.Bot) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{path: filepath.Join(dir, "connector.db"), live: live, bus: &bus.Local{}, now: noon}
	now := func() time.Time { return w.now }
	var err error
	if w.db, err = store.Open(w.path, store.Options{Now: now, Limits: most}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.vault, err = vault.Open(t.Context(), w.db, vault.FileKey(filepath.Join(dir, "vault.key"))); err != nil {
		t.Fatal(err)
	}
	w.auth = token.NewAuthority(w.db, w.vault, now)
	t.Cleanup(w.bus.Subscribe(func(n bus.Note) { w.notes = append(w.notes, n) }))
	w.desk = link.NewDesk(w.db, w.vault, now)
	w.change(func(s *manage.Settings) {
		*s = manage.Settings{
			Version: "v1", URL: "https://relay.example.net", Bots: bots, Networks: []platforms.Network{{Name: "pigeon"}, {Name: "raven"}},
			IdentityURLs: true, CheckWake: checkWake, Words: words.Words{}, Now: now,
		}
	})
	return w
}

// checkWake refuses one host.
func checkWake(raw string) error {
	if strings.Contains(raw, "inside.example") {
		return errors.New("it points inside")
	}
	return nil
}

// enroll makes gateways that the test takes for granted.
func (w *world) enroll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := w.Enroll(t.Context(), system, manage.Enroll{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
}

// put delivers events to an instance's buffer.
func (w *world) put(t *testing.T, i relay.InstanceID, ids ...relay.EventID) []relay.BufferID {
	t.Helper()
	return w.putFrame(t, []byte("{}\n"), i, ids...)
}

// putFrame is put with that frame for each event.
func (w *world) putFrame(t *testing.T, frame []byte, i relay.InstanceID, ids ...relay.EventID) []relay.BufferID {
	t.Helper()
	a := store.Accept{Bot: relay.Bot{Platform: "pigeon", ID: "1"}}
	for _, id := range ids {
		a.Items = append(a.Items, store.AcceptItem{
			Delivery: relay.Event{
				ID: id, Bot: a.Bot, Type: relay.TypeText, Text: "coo", MessageID: "m",
				Source: relay.Source{Platform: "pigeon", ChatID: "loft", ChatType: relay.ChatDM, UserID: "ann"},
			},
			Frame: frame, To: []store.Recipient{{Instance: i}},
		})
	}
	out, err := w.db.Accept(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	var buffers []relay.BufferID
	for _, item := range out.Items {
		buffers = append(buffers, item.Buffers...)
	}
	return buffers
}

// wantRefusal fails unless err is a refusal of that kind.
func wantRefusal(t *testing.T, err error, kind manage.Why) {
	t.Helper()
	refused, ok := errors.AsType[*manage.Error](err)
	if !ok || refused.Why != kind {
		t.Errorf("error %v; want a refusal of kind %s", err, kind)
	} else if len(refused.Help) > 0 && refused.Help[0] != "serve" {
		if _, known := ops.Operators(refused.Help[0]); !known {
			t.Errorf("%v: %s is no operation of the operator's", err, refused.Help[0])
		}
	}
}

// inDatabase reports whether the file holds s.
func (w *world) inDatabase(t *testing.T, s string) bool {
	t.Helper()
	raw, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(raw, []byte(s))
}

// bird is a bot with a deep link once it has a name.
type bird struct {
	bot    relay.Bot
	status platforms.Status
}

func newBird(p relay.PlatformID, id relay.BotID) *bird {
	return &bird{relay.Bot{Platform: p, ID: id}, platforms.Status{
		State: platforms.Degraded, Reason: "another poller", Name: "coo", LastEventAt: noon.Add(-time.Hour),
	}}
}

func (b *bird) ID() relay.Bot                              { return b.bot }
func (b *bird) Descriptor() relay.Descriptor               { return relay.Bare(b.bot.Platform) }
func (b *bird) Status() platforms.Status                   { return b.status }
func (b *bird) Run(context.Context, platforms.Inbox) error { return nil }
func (b *bird) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}

func (b *bird) DeepLink(code string) (string, bool) {
	return "https://" + b.status.Name + ".example/" + code, b.status.Name != ""
}

// server is a running server of which the test says how it is.
type server struct {
	bots      []platforms.Bot
	connected relay.InstanceID
	serving   relay.GatewayID // by which gateway; empty: by all
	silent    bool            // that gateway gives no sign of life
	decisions []gate.Decision
	manages   places // what its owners see and manage
	unfronted map[relay.InstanceID][]relay.Bot
	fronts    func(relay.InstanceID, relay.Bot) bool // nil: everything
}

func (s *server) Bots() []platforms.Bot             { return s.bots }
func (s *server) Connected(i relay.InstanceID) bool { return i == s.connected }
func (s *server) Serves(g relay.GatewayID, i relay.InstanceID) bool {
	return i == s.connected && (s.serving == "" || s.serving == g)
}
func (s *server) Answers(_ context.Context, g relay.GatewayID, i relay.InstanceID) bool {
	return s.Serves(g, i) && !s.silent
}
func (s *server) Counters() map[string]uint64 { return map[string]uint64{"delivered": 7} }
func (s *server) Decisions() []gate.Decision  { return s.decisions }
func (s *server) Forget(i relay.InstanceID, p relay.PlatformID, u relay.UserID) {
	s.decisions = slices.DeleteFunc(s.decisions, func(d gate.Decision) bool { return d.Instance == i && d.Platform == p && d.User == u })
}
func (s *server) Ready() bool { return true }
func (s *server) MayClaim(_ context.Context, _ relay.InstanceID, _ relay.PlatformID, _ relay.ScopeID, c relay.ChatID) (relay.Place, bool) {
	place, ok := s.manages[c]
	return place, ok
}

func (s *server) Unfronted(i relay.InstanceID) []relay.Bot { return s.unfronted[i] }

func (s *server) Fronts(i relay.InstanceID, bots ...relay.Bot) bool {
	return s.fronts == nil || slices.ContainsFunc(bots, func(b relay.Bot) bool { return s.fronts(i, b) })
}

func (s *server) Warning(i relay.InstanceID) string {
	if i == s.connected {
		return "copied_credential"
	}
	return ""
}

// wantField fails unless err is a refusal of kind Usage about that argument.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	refused, ok := errors.AsType[*manage.Error](err)
	if !ok || refused.Why != manage.Usage || refused.Field != field {
		t.Errorf("error %v; want a refusal about %s", err, field)
	}
}

// places are chats, and where they lie.
type places map[relay.ChatID]relay.Place
