package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/metrics"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bird is a bot that does nothing.
type bird struct {
	bot    relay.Bot
	status platforms.Status
}

func (b bird) ID() relay.Bot                              { return b.bot }
func (b bird) Descriptor() relay.Descriptor               { return relay.Bare(b.bot.Platform) }
func (b bird) Status() platforms.Status                   { return b.status }
func (b bird) Run(context.Context, platforms.Inbox) error { return nil }
func (b bird) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}

// source is a connector of which the test says how it is.
type source struct {
	bots     []platforms.Bot
	counters map[string]uint64
	status   manage.Status
	err      error         // instead of the status
	hold     chan struct{} // not nil: Status waits for it, or for its context
	entered  chan struct{} // capacity 2: Status says that it waits
	stats    store.Stats
}

func (s *source) Bots() []platforms.Bot       { return s.bots }
func (s *source) Counters() map[string]uint64 { return maps.Clone(s.counters) }
func (s *source) Stats() store.Stats          { return s.stats }
func (s *source) Status(ctx context.Context, _ struct{}) (manage.Status, error) {
	if s.hold != nil {
		s.entered <- struct{}{}
		select {
		case <-s.hold:
		case <-ctx.Done():
			return manage.Status{}, ctx.Err()
		}
	}
	return s.status, s.err
}

// full is a connector with something of everything.
func full() *source {
	now := time.Now()
	return &source{
		bots: []platforms.Bot{
			bird{relay.Bot{Platform: "pigeon", ID: "1"}, platforms.Status{State: platforms.Connected, Name: "coo", LastEventAt: now.Add(-time.Hour)}},
			bird{relay.Bot{Platform: "raven", ID: "2"}, platforms.Status{State: platforms.Degraded, Reason: "another poller at 10.0.0.7"}},
		},
		counters: map[string]uint64{
			"event_delivered": 7, "event_no_binding": 3, "action_ok": 5, "action_maybe_sent": 1, "wake_sent": 2, "wake_blocked": 4,
			"ack": 6, "ack_ignored": 8, "takeover": 9, "swept_expired_entries": 10, "overflowed": 11, "quarantined": 12, "session_bad_frame": 13,
		},
		status: manage.Status{
			Version: "v1", Ready: true, Running: true,
			Bots: []manage.BotStatus{
				{Platform: "pigeon", ID: "1", Answers: &manage.Waiting{Count: 3, OldestAt: now.Add(-30 * time.Minute)}}, {Platform: "raven", ID: "2"},
			},
			Instances: []manage.InstanceStatus{
				{ID: "attic", Tenant: "home", State: manage.Asleep, Answers: 3, Backlog: 2, OldestAt: now.Add(-time.Minute), Dead: 1, LastSeenAt: now.Add(-2 * time.Minute), Notes: []manage.Note{{Word: "quiet", Says: "quiet until 07:00"}}},
				{ID: "kids", Tenant: "flat", State: manage.Connected, Warning: "copied_credential"},
			},
		},
		stats: store.Stats{Commits: 21, Ops: 22, FileBytes: 23, DeadDropped: 24, Died: map[store.DeadReason]uint64{store.DeadPoison: 25}},
	}
}

// read scrapes m, and returns the values by name and labels.
func read(t *testing.T, m http.Handler) (values map[string]float64, raw string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return parse(t, w.Body.String()), w.Body.String()
}

// sentence is one line that begins as a sentence does, and ends as one.
var sentence = regexp.MustCompile(`^[A-Z1][^.\n]*[a-z0-9]\.$`)

func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	values := make(map[string]float64)
	for name, f := range families {
		if !sentence.MatchString(f.GetHelp()) {
			t.Errorf("the help of %s is no sentence: %q", name, f.GetHelp())
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			key := name + "{" + strings.Join(labels, ",") + "}"
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				values[key] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				values[key] = m.Gauge.GetValue()
			case dto.MetricType_SUMMARY:
				values[key] = float64(m.Summary.GetSampleCount())
			default:
				t.Errorf("%s is a %s", name, f.GetType())
			}
			if isTotal := strings.HasSuffix(name, "_total"); strings.HasPrefix(name, "hermes_") && isTotal != (f.GetType() == dto.MetricType_COUNTER) {
				t.Errorf("%s is a %s", name, f.GetType())
			}
		}
	}
	return values
}

// The names are relied upon: this list only grows. (invariant 3)
func TestEverythingIsShown(t *testing.T) {
	got, _ := read(t, metrics.New(full(), full(), full(), nil))
	const attic, kids = `{instance_id="attic",tenant="home"}`, `{instance_id="kids",tenant="flat"}`
	want := map[string]float64{
		`hermes_connector_events_total{reason="delivered"}`:    7,
		`hermes_connector_events_total{reason="no_binding"}`:   3,
		`hermes_connector_actions_total{outcome="ok"}`:         5,
		`hermes_connector_actions_total{outcome="maybe_sent"}`: 1,
		`hermes_connector_wake_pokes_total{result="sent"}`:     2,
		`hermes_connector_wake_pokes_total{result="blocked"}`:  4,

		`hermes_connector_ack_total{}`:                   6,
		`hermes_connector_ack_ignored_total{}`:           8,
		`hermes_connector_takeover_total{}`:              9,
		`hermes_connector_swept_expired_entries_total{}`: 10,
		`hermes_connector_overflowed_total{}`:            11,
		`hermes_connector_quarantined_total{}`:           12,
		`hermes_connector_session_bad_frame_total{}`:     13,

		`hermes_connector_build_info{version="v1"}`:                  1,
		`hermes_connector_ready{}`:                                   1,
		`hermes_connector_store_readable{}`:                          1,
		`hermes_connector_store_commits_total{}`:                     21,
		`hermes_connector_store_operations_total{}`:                  22,
		`hermes_connector_store_file_bytes{}`:                        23,
		`hermes_connector_store_dead_letters_dropped_total{}`:        24,
		`hermes_connector_store_dead_letters_total{reason="poison"}`: 25,
		`hermes_connector_store_bad_marks_total{}`:                   0,
		`hermes_connector_store_fell_back{}`:                         0,
		`hermes_connector_store_damaged_records{}`:                   0,

		`hermes_connector_bot_last_event_age_seconds{bot_id="1",platform="pigeon"}`: 3600,

		`hermes_connector_instance_backlog_entries` + attic:          2,
		`hermes_connector_instance_backlog_entries` + kids:           0,
		`hermes_connector_instance_oldest_entry_age_seconds` + attic: 60,
		`hermes_connector_instance_oldest_entry_age_seconds` + kids:  0,
		`hermes_connector_instance_last_seen_age_seconds` + attic:    120,
		`hermes_connector_instance_dead_letters` + attic:             1,
		`hermes_connector_instance_dead_letters` + kids:              0,
		`hermes_connector_instance_waiting_answers` + attic:          3,
		`hermes_connector_instance_waiting_answers` + kids:           0,

		`hermes_connector_bot_oldest_answer_age_seconds{bot_id="1",platform="pigeon"}`: 1800,

		`hermes_connector_instance_note{instance_id="attic",note="quiet",tenant="home"}`:                  1,
		`hermes_connector_instance_warning{instance_id="kids",tenant="flat",warning="copied_credential"}`: 1,
	}
	for _, state := range []string{"starting", "connecting", "connected", "degraded", "bad_credentials", "stopped"} {
		want[fmt.Sprintf(`hermes_connector_bot_state{bot_id="1",platform="pigeon",state=%q}`, state)] = flag(state == "connected")
		want[fmt.Sprintf(`hermes_connector_bot_state{bot_id="2",platform="raven",state=%q}`, state)] = flag(state == "degraded")
	}
	for _, state := range []string{"connected", "asleep", "away"} {
		want[fmt.Sprintf(`hermes_connector_instance_state{instance_id="attic",state=%q,tenant="home"}`, state)] = flag(state == "asleep")
		want[fmt.Sprintf(`hermes_connector_instance_state{instance_id="kids",state=%q,tenant="flat"}`, state)] = flag(state == "connected")
	}
	for name, value := range want {
		has, ok := got[name]
		if strings.Contains(name, "_age_seconds") {
			if late := has - value; !ok || late < 0 || late > 60 {
				t.Errorf("%s is %v (there: %v), want about %v", name, has, ok, value)
			}
		} else if !ok || has != value {
			t.Errorf("%s is %v (there: %v), want %v", name, has, ok, value)
		}
	}
	for name := range got {
		if _, ok := want[name]; strings.HasPrefix(name, "hermes_") && !ok {
			t.Errorf("%s is not expected", name)
		}
	}
	for _, name := range []string{"go_goroutines{}", "go_memstats_heap_alloc_bytes{}", "go_memstats_mallocs_total{}", "process_start_time_seconds{}"} {
		if _, ok := got[name]; !ok { // a young process may not have counted anything yet
			t.Errorf("%s is missing", name)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Whatever the store counts is shown.
func TestEveryFigureOfTheStore(t *testing.T) {
	s := full()
	v := reflect.ValueOf(&s.stats).Elem()
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Commit": // says whether something changed; Commits counts
			continue
		case "Squeezed", "Leftover": // what became of a rekey at the last start: the log and doctor say it
			continue
		}
		before, _ := read(t, metrics.New(s, s, s, nil))
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.Uint64:
			f.SetUint(f.Uint() + 1)
		case reflect.Map:
			key := f.MapKeys()[0]
			f.SetMapIndex(key, reflect.ValueOf(f.MapIndex(key).Uint()+1))
		default:
			f.SetInt(f.Int() + 1)
		}
		after, _ := read(t, metrics.New(s, s, s, nil))
		changed := 0
		for name, value := range after {
			if strings.HasPrefix(name, "hermes_connector_store_") && value != before[name] {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("Stats.%s changes %d metrics, want 1", v.Type().Field(i).Name, changed)
		}
	}
}

// What a status page may say in words is not in a label. (invariant 2)
func TestNoWordsInLabels(t *testing.T) {
	_, raw := read(t, metrics.New(full(), full(), full(), nil))
	for _, word := range []string{"coo", "another poller", "10.0.0.7"} {
		if strings.Contains(raw, word) {
			t.Errorf("the metrics contain %q", word)
		}
	}
}

// Two scrapes of one state differ in times only, and what an operator may put into a name survives.
func TestThePageIsStable(t *testing.T) {
	s := full()
	s.status.Instances[0].ID = `a"b\c{},d=` + "é"
	m := metrics.New(s, s, s, nil)
	got, first := read(t, m)
	if got[fmt.Sprintf(`hermes_connector_instance_backlog_entries{instance_id=%q,tenant="home"}`, s.status.Instances[0].ID)] != 2 {
		t.Errorf("the instance is missing in:\n%s", first)
	}
	names := func(raw string) (out []string) {
		for line := range strings.Lines(raw) {
			if !strings.HasPrefix(line, "#") {
				line = line[:strings.LastIndexByte(line, ' ')]
			}
			out = append(out, line)
		}
		return out
	}
	for range 20 {
		if _, again := read(t, m); !slices.Equal(names(first), names(again)) {
			t.Fatalf("first:\n%s\nthen:\n%s", first, again)
		}
	}
}

// How many series there are depends on bots and instances, on nothing people do. (invariant 2)
func TestCardinality(t *testing.T) {
	count := func(bots, instances int) int {
		s := &source{counters: map[string]uint64{"ack": 1}}
		for n := range bots {
			s.bots = append(s.bots, bird{relay.Bot{Platform: "pigeon", ID: relay.BotID(fmt.Sprint(n))}, platforms.Status{LastEventAt: time.Now()}})
			s.status.Bots = append(s.status.Bots, manage.BotStatus{Platform: "pigeon", ID: relay.BotID(fmt.Sprint(n)), Answers: &manage.Waiting{Count: 1, OldestAt: time.Now()}})
		}
		for n := range instances {
			s.status.Instances = append(s.status.Instances, manage.InstanceStatus{ID: relay.InstanceID(fmt.Sprint(n)), LastSeenAt: time.Now()})
		}
		values, _ := read(t, metrics.New(s, s, s, nil))
		own := 0
		for name := range values {
			if strings.HasPrefix(name, "hermes_") {
				own++
			}
		}
		return own
	}
	none := count(0, 0)
	if got := count(3, 0) - none; got != 3*8 {
		t.Errorf("three bots are %d series, want 8 each", got)
	}
	if got := count(0, 100) - none; got != 100*8 {
		t.Errorf("100 instances are %d series, want 8 each", got)
	}
}

func TestTheStoreFails(t *testing.T) { // invariant 1
	s := full()
	s.err = errors.New("input/output error")
	var log bytes.Buffer
	got, _ := read(t, metrics.New(s, s, s, slog.New(slog.NewTextHandler(&log, nil))))
	for name, want := range map[string]float64{
		`hermes_connector_store_readable{}`: 0, `hermes_connector_ready{}`: 0, `hermes_connector_ack_total{}`: 6,
		`hermes_connector_bot_state{bot_id="1",platform="pigeon",state="connected"}`: 1,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", name, value, ok, want)
		}
	}
	for name := range got {
		if strings.Contains(name, "_instance_") {
			t.Errorf("%s is shown", name)
		}
	}
	if !strings.Contains(log.String(), "input/output error") {
		t.Errorf("logged %q, want the error", &log)
	}
}

// The whole of it over a real store: nothing is written, also not when it is closed.
func TestAScrapeWritesNothing(t *testing.T) { // invariant 1
	db, err := store.Open(filepath.Join(t.TempDir(), "test.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := store.Gateway{ID: "home", Secrets: []store.GatewaySecret{{ID: "s1", Sealed: []byte("sealed")}}, DeliveryKey: []byte("key")}
	if err := db.Enroll(t.Context(), nil, g, store.Instance{ID: "home", Tenant: "home"}); err != nil {
		t.Fatal(err)
	}
	service := manage.New(db, nil, nil, nil, nil, nil, manage.Settings{})
	m := metrics.New(&source{}, service, db, nil)
	before := db.Stats()
	for range 10 {
		got, _ := read(t, m)
		if got[`hermes_connector_instance_state{instance_id="home",state="away",tenant="home"}`] != 1 {
			t.Fatalf("the instance is missing in %v", got)
		}
	}
	if after := db.Stats(); after.Commits != before.Commits {
		t.Errorf("%d commits", after.Commits-before.Commits)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := read(t, m); got[`hermes_connector_store_readable{}`] != 0 {
		t.Error("a closed store is readable")
	}
}

func TestOneRoute(t *testing.T) {
	m := metrics.New(full(), full(), full(), nil)
	for name, tc := range map[string]struct {
		method, path string
		want         int
	}{
		"the metrics":     {"GET", "/metrics", 200},
		"with a query":    {"GET", "/metrics?name[]=x", 200},
		"only the header": {"HEAD", "/metrics", 405},
		"posted":          {"POST", "/metrics", 405},
		"deleted":         {"DELETE", "/metrics", 405},
		"the root":        {"GET", "/", 404},
		"below":           {"GET", "/metrics/", 404},
		"not cleaned":     {"GET", "//metrics", 404},
		"profiles":        {"GET", "/debug/pprof/", 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), tc.method, "http://x"+tc.path, nil)
			m.ServeHTTP(w, r)
			if w.Code != tc.want || (tc.want == 405 && w.Header().Get("Allow") != "GET") {
				t.Errorf("status %d, headers %v; want %d", w.Code, w.Header(), tc.want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	s := full()
	s.hold, s.entered = make(chan struct{}), make(chan struct{}, 2)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- metrics.New(s, s, s, nil).Run(ctx, metrics.Door(l, slog.New(slog.DiscardHandler))) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() (int, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		if err != nil {
			return 0, "", err
		}
		res, err := client.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if ct := res.Header.Get("Content-Type"); res.StatusCode == 200 && !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
			t.Errorf("content type %q", ct)
		}
		return res.StatusCode, string(body), err
	}
	type answer struct {
		code int
		body string
		err  error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() { code, body, err := get(); answers <- answer{code, body, err} }()
	}
	<-s.entered
	<-s.entered
	if code, _, err := get(); err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("a third scrape: %d, %v; want 503", code, err)
	}
	close(s.hold)
	for range 2 {
		if a := <-answers; a.err != nil || a.code != 200 || parse(t, a.body)[`hermes_connector_ready{}`] != 1 {
			t.Errorf("scrape: %d, %v", a.code, a.err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, _, err := get(); err == nil {
		t.Error("answered after the end")
	}
}

// piped is a listener whose connections are ends of pipes.
type piped struct {
	conns chan net.Conn
	once  *sync.Once
}

func (l piped) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l piped) Close() error { l.once.Do(func() { close(l.conns) }); return nil }
func (piped) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilentConnectionsAreFew: one too many is turned away, for the door needs file descriptors too.
func TestSilentConnectionsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := piped{make(chan net.Conn), new(sync.Once)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- metrics.New(full(), full(), full(), nil).Run(ctx, metrics.Door(l, slog.New(slog.DiscardHandler)))
		}()
		start := time.Now()
		var last net.Conn
		for range limits.MaxStrangers + 1 {
			near, far := net.Pipe()
			defer near.Close()
			l.conns <- far
			last = near
		}
		if _, err := last.Read(make([]byte, 1)); err != io.EOF || time.Since(start) >= time.Second {
			t.Errorf("one of too many read %v after %s, want EOF within a second", err, time.Since(start))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestRunWithoutAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := metrics.New(full(), full(), full(), nil).Run(t.Context(), metrics.Door(l, slog.New(slog.DiscardHandler))); err == nil {
		t.Error("Run = nil, want the listener's error")
	}
}
