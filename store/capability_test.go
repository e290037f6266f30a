package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"pgregory.net/rapid"
)

const capabilityLife = 15 * time.Minute

// capabilityOf is what comes in the event of the instance, at a time. Its credential has the length of Discord's, sealed.
func capabilityOf(id string, i relay.InstanceID, came time.Time) *capability.Record {
	c := capability.Record{
		Instance: i, Bot: bot, Event: relay.EventID(id), Tenant: relay.DefaultTenant, Chat: "c1", Kind: "kind", ID: id, Placeholder: true,
		ExpiresAt: came.Add(capabilityLife), Sealed: make([]byte, 260),
	}
	for n := range 4 {
		c.Sessions = append(c.Sessions, relay.SessionKey(fmt.Sprintf("agent:main:discord:group:290926798626357%03d:53908232506183680", n)))
	}
	return &c
}

// withCapability stores one event for the instance, and the capability that came in it.
func withCapability(t testing.TB, db *DB, id string, i relay.InstanceID, came time.Time) AcceptOutcome {
	t.Helper()
	a := acceptFor(event(id, 300), i)
	a.Items[0].Capability = capabilityOf(id, i, came)
	out, err := db.Accept(ctxOf(t), a)
	must.Succeed(t, err)
	return out
}

// capabilitiesOf are the events of those of the instance, the oldest first.
func capabilitiesOf(t testing.TB, db *DB, i relay.InstanceID) (out []relay.EventID) {
	t.Helper()
	all, err := db.Capabilities.Of(ctxOf(t), i)
	must.Succeed(t, err)
	for _, c := range all {
		out = append(out, c.Event)
	}
	return out
}

func wantCapabilities(t testing.TB, db *DB, when string, i relay.InstanceID, want ...relay.EventID) {
	t.Helper()
	if got := capabilitiesOf(t, db, i); !slices.Equal(got, want) {
		t.Errorf("%s: capabilities of %s are %q, want %q", when, i, got, want)
	}
}

func TestACapabilityIsStoredWithItsEvent(t *testing.T) {
	ctx, clock := ctxOf(t), newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	commits := db.Stats().Commits
	withCapability(t, db, "late", "home", clock.now())
	withCapability(t, db, "early", "home", clock.now().Add(-time.Minute))
	withCapability(t, db, "other", "kids", clock.now())
	if n := db.Stats().Commits - commits; n != 3 {
		t.Errorf("%d commits for three events", n)
	}
	withCapability(t, db, "late", "kids", clock.now()) // seen before: nothing is stored
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	wantCapabilities(t, db, "after a restart", "home", "early", "late")
	wantCapabilities(t, db, "after a restart", "kids", "other")
	wantCapabilities(t, db, "after a restart", "hom")
	got, ok, err := db.Capabilities.In(ctx, "home", bot, "late")
	if err != nil || !ok || got.ID != "late" || len(got.Sealed) != 260 || len(got.Sessions) != 4 || got.Answered || got.Undecided {
		t.Errorf("In = %+v, %v, %v", got, ok, err)
	}
	if b, k := got.Place(); b != "capabilities" || k != "home\x00loop\x00bot\x00late" {
		t.Errorf("its place is %q in %s", k, b)
	}
	if _, ok, err := db.Capabilities.In(ctx, "kids", bot, "late"); ok || err != nil {
		t.Errorf("another instance has it: %v", err)
	}
	if _, err := db.Revoke(ctx, nil, "home"); err != nil {
		t.Fatal(err)
	}
	wantCapabilities(t, db, "after its revocation", "home")
	wantCapabilities(t, db, "after another's revocation", "kids", "other")
	withCapability(t, db, "too late", "home", clock.now())
	wantCapabilities(t, db, "for a revoked one", "home")
}

// TestAFailedAcceptStoresNoCapability, for they share a transaction.
func TestAFailedAcceptStoresNoCapability(t *testing.T) {
	clock := newClock()
	db := openTest(t, Options{Now: clock.now, MaxSize: 1 << 20})
	enroll(t, db, "home")
	for n := 0; ; n++ {
		a := acceptFor(event(fmt.Sprint("e", n), 16<<10), "home")
		a.Items[0].Capability = capabilityOf(fmt.Sprint("e", n), "home", clock.now())
		before := len(capabilitiesOf(t, db, "home"))
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			if !errors.Is(err, ErrFull) || len(capabilitiesOf(t, db, "home")) != before {
				t.Errorf("%v, and %d capabilities, want %d", err, len(capabilitiesOf(t, db, "home")), before)
			}
			return
		}
	}
}

func TestExpiredCapabilitiesGoWithoutAWriteOfTheirOwn(t *testing.T) {
	clock := newClock()
	db := openTest(t, Options{Now: clock.now})
	enroll(t, db, "home")
	for n := range capability.Max {
		withCapability(t, db, fmt.Sprint("e", n), "home", clock.now())
	}
	commits := db.Stats().Commits
	clock.add(capabilityLife - time.Second)
	if n := len(capabilitiesOf(t, db, "home")); n != capability.Max {
		t.Errorf("%d are left, want all", n)
	}
	if s, err := db.Sweep(ctxOf(t)); err != nil || s.Capabilities != 0 {
		t.Errorf("swept %+v, %v", s, err)
	}
	clock.add(time.Second)
	wantCapabilities(t, db, "when they expired", "home")
	if n := db.Stats().Commits - commits; n != 0 {
		t.Errorf("%d commits while nothing happened", n)
	}
	if n := keysIn(t, db, capability.Bucket); n != capability.Max {
		t.Errorf("%d are on disk", n)
	}
	if s, err := db.Sweep(ctxOf(t)); err != nil || s.Capabilities != capability.Max || keysIn(t, db, capability.Bucket) != 0 {
		t.Errorf("swept %+v, %v", s, err)
	}
}

// TestOfOneInstanceSoManyCapabilitiesAreKept: the oldest go, those that expired before the others, and nobody else's.
func TestOfOneInstanceSoManyCapabilitiesAreKept(t *testing.T) {
	t.Parallel()
	clock := newClock()
	db := openTest(t, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	withCapability(t, db, "kid", "kids", clock.now())
	withCapability(t, db, "old", "home", clock.now().Add(-capabilityLife))
	for n := range capability.Max - 1 {
		withCapability(t, db, fmt.Sprint("e", n), "home", clock.now())
		clock.add(time.Second)
	}
	if out := withCapability(t, db, "new", "home", clock.now()); len(out.Lost) != 0 || keysIn(t, db, capability.Bucket) != capability.Max+1 {
		t.Errorf("%d are on disk, lost %+v; want the expired one gone without a word", keysIn(t, db, capability.Bucket), out.Lost)
	}
	if out := withCapability(t, db, "newer", "home", clock.now()); len(out.Lost) != 1 || out.Lost[0].Event != "e0" {
		t.Errorf("lost %+v, want e0", out.Lost)
	}
	all := capabilitiesOf(t, db, "home")
	if len(all) != capability.Max || all[0] != "e1" || !slices.Contains(all, "new") || !slices.Contains(all, "newer") {
		t.Errorf("%d of home: %q", len(all), all)
	}
	wantCapabilities(t, db, "all the time", "kids", "kid")
}

// TestTheOldestCapabilitiesGoOnceForABatch: however many come together, those there are are read once.
func TestTheOldestCapabilitiesGoOnceForABatch(t *testing.T) {
	clock := newClock()
	db := openTest(t, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	n := 0
	batch := func(size int) AcceptOutcome {
		t.Helper()
		a := Accept{Bot: bot}
		for range size {
			id := fmt.Sprint("e", n)
			item := acceptFor(event(id, 300), "home").Items[0]
			item.Capability = capabilityOf(id, "home", clock.now())
			a.Items = append(a.Items, item)
			n++
			clock.add(time.Second)
		}
		out, err := db.Accept(ctxOf(t), a)
		must.Succeed(t, err)
		return out
	}
	withCapability(t, db, "kid", "kids", clock.now())
	if out := batch(capability.Max - 10); len(out.Lost) != 0 {
		t.Errorf("lost %+v", out.Lost)
	}
	out := batch(100)
	all := capabilitiesOf(t, db, "home")
	if len(out.Lost) != 90 || out.Lost[0].Event != "e0" || out.Lost[89].Event != "e89" || len(all) != capability.Max || all[0] != "e90" {
		t.Errorf("lost %d, kept %d: %q", len(out.Lost), len(all), all)
	}
	if out := withCapability(t, db, "late", "home", clock.now().Add(-capabilityLife+time.Minute)); len(out.Lost) != 1 || out.Lost[0].Event != "e90" {
		t.Errorf("lost %+v: what just came stays, though it is the oldest", out.Lost)
	}
	one := testing.AllocsPerRun(3, func() { batch(1) })
	if many := testing.AllocsPerRun(3, func() { batch(20) }); many > 4*one {
		t.Errorf("20 together take %.0f allocations, one alone %.0f", many, one)
	}
	wantCapabilities(t, db, "all the time", "kids", "kid")
}

// TestWhatBecameOfACapabilityRidesAlong with the next commit, whoever's, and makes none.
func TestWhatBecameOfACapabilityRidesAlong(t *testing.T) {
	ctx, clock := ctxOf(t), newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	for _, id := range []string{"a", "b", "c"} {
		withCapability(t, db, id, "home", clock.now())
	}
	get := func(id relay.EventID) capability.Record {
		t.Helper()
		c, _, err := db.Capabilities.In(ctx, "home", bot, id)
		must.Succeed(t, err)
		return c
	}
	commits := db.Stats().Commits
	a, b := get("a"), get("b")
	db.Capabilities.Became(a, capability.Answered)
	db.Capabilities.Became(b, capability.Useless)
	db.Capabilities.Became(b, capability.Answered) // it is of no use all the same
	db.Capabilities.Became(*capabilityOf("never", "home", clock.now()), capability.Answered)
	if n := db.Stats().Commits - commits; n != 0 || get("a").Answered {
		t.Errorf("%d commits, answered %v", n, get("a").Answered)
	}
	acceptOne(t, db, event("e1", 300), "kids")
	if n := db.Stats().Commits - commits; n != 1 || !get("a").Answered || get("c").Answered {
		t.Errorf("%d commits, answered %v and %v", n, get("a").Answered, get("c").Answered)
	}
	wantCapabilities(t, db, "after the commit", "home", "a", "c")
	db.Capabilities.Became(get("c"), capability.Answered) // rides with the stop
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	if !get("a").Answered || !get("c").Answered {
		t.Error("a restart forgot what was answered")
	}
}

func TestACapabilityWaitsForItsEventsVerdict(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	for _, id := range []string{"yes", "no", "large"} {
		c := capabilityOf(id, "home", clock.now())
		c.Undecided = true
		item := AcceptItem{Delivery: event(id, 300), Undecided: []relay.InstanceID{"home"}, Capability: c}
		if _, err := db.Accept(ctxOf(t), Accept{Bot: bot, Items: []AcceptItem{item}}); err != nil {
			t.Fatal(err)
		}
	}
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	all, err := db.Capabilities.Of(ctxOf(t), "home")
	if err != nil || len(all) != 3 || !all[0].Undecided {
		t.Fatalf("%+v, %v", all, err)
	}
	us, err := db.Pending.List(ctxOf(t), PendingFilter{})
	must.Succeed(t, err)
	var vs []Verdict
	for _, u := range us {
		v := Verdict{Number: u.Number, Instance: u.Instance, Delivery: u.Delivery, Frame: frameOf(u.Delivery)}
		if id := u.Delivery.About().ID; id != "no" {
			v.To = &Recipient{Instance: "home", Oversize: id == "large"}
		}
		vs = append(vs, v)
	}
	commits := db.Stats().Commits
	if _, err := db.Pending.Decide(ctxOf(t), relay.Chat{Bot: bot, ID: "c1"}, vs); err != nil {
		t.Fatal(err)
	}
	all, err = db.Capabilities.Of(ctxOf(t), "home")
	if err != nil || len(all) != 1 || all[0].Event != "yes" || all[0].Undecided || len(all[0].Sealed) == 0 || db.Stats().Commits != commits+1 {
		t.Errorf("%+v, %v, %d commits", all, err, db.Stats().Commits-commits)
	}
}

// TestADamagedCapabilityIsSetAside, and the others are of use.
func TestADamagedCapabilityIsSetAside(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home")
	withCapability(t, db, "a", "home", clock.now())
	withCapability(t, db, "b", "home", clock.now())
	spoil(t, db, capability.Bucket, capability.Key("home", bot, "a"))
	wantCapabilities(t, db, "damaged", "home", "b")
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	wantCapabilities(t, db, "after a restart", "home", "b")
	if s := db.Stats(); s.Damaged != 1 || keysIn(t, db, capability.Bucket) != 1 {
		t.Errorf("%d damaged, %d on disk", s.Damaged, keysIn(t, db, capability.Bucket))
	}
	all, err := db.Capabilities.Of(ctxOf(t), "")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if err := db.Capabilities.Remove(ctxOf(t), all); err != nil || keysIn(t, db, capability.Bucket) != 0 {
		t.Errorf("removed: %v, %d left", err, keysIn(t, db, capability.Bucket))
	}
}

// TestAnInteractionWritesFewPages: it costs the one commit of a message, and a few pages more: the leaf its
// capability is in, the page above, and what leaves that were full are split into: that one, and the last one of entries.
func TestAnInteractionWritesFewPages(t *testing.T) {
	clock := newClock()
	db := openTest(t, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	withCapability(t, db, "first", "home", clock.now())
	acceptOne(t, db, event("first of kids", 300), "kids")
	var most, sum, all, n int
	for range 4 * dedupe.MaxNewest {
		recent, older := keysIn(t, db, dedupe.Newest), keysIn(t, db, history.Older)
		message := pagesOf(t, db, func() { acceptOne(t, db, event(fmt.Sprint("m", n), 300), "kids") })
		commits := db.Stats().Commits
		interaction := pagesOf(t, db, func() { withCapability(t, db, fmt.Sprint("i", n), "home", clock.now()) })
		clock.add(4 * time.Second) // 225 live at a time
		if n++; db.Stats().Commits != commits+1 {
			t.Fatalf("%d commits", db.Stats().Commits-commits)
		}
		if now := keysIn(t, db, dedupe.Newest); now > 0 && now >= recent && keysIn(t, db, history.Older) == older { // else one of them made a run of the marks, or a record of notes
			most = max(most, interaction-message)
			sum += interaction - message
			all++
		}
	}
	t.Logf("%d pages more at most, %.2f on average", most, float64(sum)/float64(all))
	if most > 5 || sum > 3*all || all == 0 {
		t.Error("want at most 5, and 3 on average")
	}
}

// capSim drives the capabilities of two instances against a model made of a slice.
type capSim struct {
	t     *testing.T
	path  string
	clock *clock
	db    *DB
	have  []capability.Record // on disk, oldest first
	notes map[string]capability.Became
	next  int
}

// TestCapabilitySimulation: what is stored, bound, lost, answered, swept and revoked is what the model says, over restarts.
func TestCapabilitySimulation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &capSim{t: t, path: filepath.Join(t.TempDir(), "test.db"), clock: newClock(), notes: map[string]capability.Became{}}
		s.open(t)
		defer func() { closeChecked(t, s.db) }()
		enroll(t, s.db, "i1", "i2")
		if rapid.IntRange(0, 4).Draw(rt, "room") == 0 { // every step looks at all there are
			s.fill(t)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":        s.check,
			"accept":  s.accept,
			"accept2": s.accept,
			"message": func(*rapid.T) { acceptOne(t, s.db, event(s.name(), 300), "i2"); s.committed() },
			"note":    s.note,
			"revoke":  s.revoke,
			"sweep":   s.sweep,
			"time":    func(t *rapid.T) { s.clock.add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second) },
			"reopen":  func(*rapid.T) { closeChecked(t, s.db); s.committed(); s.open(t) },
			"crash":   func(*rapid.T) { s.crash(t) },
		})
	})
}

func (s *capSim) open(t *testing.T) {
	t.Helper()
	db, err := Open(s.path, Options{Now: s.clock.now})
	must.Succeed(t, err)
	s.db = db
}

func (s *capSim) name() string {
	s.next++
	return fmt.Sprintf("e%03d", s.next)
}

// fill gives i1 almost as many as it may have.
func (s *capSim) fill(t *testing.T) {
	err := s.db.change(ctxOf(t), nil, "test", func(x *tx) error {
		for range capability.Max - 3 {
			c := *capabilityOf(s.name(), "i1", s.clock.now())
			if _, err := capability.Hold(x.Writer, s.clock.now(), c); err != nil {
				return err
			}
			s.have = append(s.have, c)
			s.clock.add(time.Second)
		}
		return nil
	})
	must.Succeed(t, err)
}

// committed takes along what waited.
func (s *capSim) committed() {
	for k, b := range s.notes {
		if n := slices.IndexFunc(s.have, func(c capability.Record) bool { _, is := c.Place(); return is == k }); n >= 0 {
			if s.have[n].Answered = true; b == capability.Useless {
				s.have = slices.Delete(s.have, n, n+1)
			}
		}
	}
	clear(s.notes)
}

func (s *capSim) accept(t *rapid.T) {
	i := rapid.SampledFrom([]relay.InstanceID{"i1", "i2"}).Draw(t, "instance")
	came := s.clock.now().Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds ago")) * time.Second)
	id := s.name()
	out := withCapability(s.t, s.db, id, i, came)
	now := s.clock.now()
	mine := slices.DeleteFunc(slices.Clone(s.have), func(c capability.Record) bool { return c.Instance != i })
	var lost []relay.EventID
	if len(mine) >= capability.Max {
		mine = slices.DeleteFunc(mine, func(c capability.Record) bool { return !now.Before(c.ExpiresAt) })
		for len(mine) >= capability.Max {
			lost, mine = append(lost, mine[0].Event), mine[1:]
		}
		s.have = slices.DeleteFunc(s.have, func(c capability.Record) bool {
			return c.Instance == i && !slices.ContainsFunc(mine, func(m capability.Record) bool { return m.Event == c.Event })
		})
	}
	var got []relay.EventID
	for _, c := range out.Lost {
		got = append(got, c.Event)
	}
	if !slices.Equal(got, lost) {
		t.Fatalf("lost %q, want %q", got, lost)
	}
	s.have = append(s.have, *capabilityOf(id, i, came))
	slices.SortStableFunc(s.have, func(a, b capability.Record) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.Event, b.Event))
	})
	s.committed()
}

func (s *capSim) note(t *rapid.T) {
	if len(s.have) == 0 {
		t.Skip("there is none")
	}
	c := rapid.SampledFrom(s.have).Draw(t, "which")
	_, k := c.Place()
	if rapid.Bool().Draw(t, "useless") {
		s.db.Capabilities.Became(c, capability.Useless)
		s.notes[k] = capability.Useless
	} else {
		s.db.Capabilities.Became(c, capability.Answered)
		s.notes[k] = max(s.notes[k], capability.Answered)
	}
}

func (s *capSim) revoke(t *rapid.T) {
	i := rapid.SampledFrom([]relay.InstanceID{"i1", "i2"}).Draw(t, "instance")
	if _, err := s.db.Revoke(t.Context(), nil, i); err != nil {
		t.Fatal(err)
	}
	s.have = slices.DeleteFunc(s.have, func(c capability.Record) bool { return c.Instance == i })
	s.committed()
	must.Succeed(t, s.db.Enroll(t.Context(), nil, Gateway{ID: relay.GatewayID(i)}, Instance{ID: i, Tenant: relay.DefaultTenant}))
}

func (s *capSim) sweep(t *rapid.T) {
	now := s.clock.now()
	before := len(s.have)
	s.have = slices.DeleteFunc(s.have, func(c capability.Record) bool { return !now.Before(c.ExpiresAt) })
	got, err := s.db.Sweep(t.Context())
	if err != nil || got.Capabilities != before-len(s.have) {
		t.Fatalf("swept %+v, %v; want %d", got, err, before-len(s.have))
	}
	if before > len(s.have) { // otherwise nothing was written
		s.committed()
	}
}

// crash goes on with the file as it is: what waits for a commit is lost, and nothing else.
func (s *capSim) crash(t *testing.T) {
	file := read(t, s.path)
	closeChecked(t, s.db)
	clear(s.notes)
	must.Succeed(t, os.WriteFile(s.path, file, 0o600))
	s.open(t)
}

func (s *capSim) check(t *rapid.T) {
	now := s.clock.now()
	for _, i := range []relay.InstanceID{"i1", "i2", ""} {
		var want []string
		for _, c := range s.have {
			if (i == "" || c.Instance == i) && now.Before(c.ExpiresAt) {
				want = append(want, fmt.Sprint(c.Instance, c.Event, c.Answered))
			}
		}
		all, err := s.db.Capabilities.Of(t.Context(), i)
		must.Succeed(t, err)
		var got []string
		for _, c := range all {
			got = append(got, fmt.Sprint(c.Instance, c.Event, c.Answered))
		}
		if i == "" { // by age only
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("capabilities of %q are %q, want %q", i, got, want)
		}
	}
}
