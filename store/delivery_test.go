package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// laneOf and deadOf are what is stored, as event ids in order.
func laneOf(t testing.TB, db *DB, i relay.InstanceID) string {
	t.Helper()
	es, err := db.Lanes.Entries(ctxOf(t), i, EntryFilter{})
	must.Succeed(t, err)
	return ids(es, func(e Entry) relay.EventID { return e.About.ID })
}

func deadOf(t testing.TB, db *DB, i relay.InstanceID) string {
	t.Helper()
	ds, err := db.Lanes.Entries(ctxOf(t), i, EntryFilter{Dead: true})
	must.Succeed(t, err)
	return ids(ds, func(d Entry) relay.EventID { return d.About.ID + ":" + relay.EventID(d.Reason) })
}

func TestAccept(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	e1, e2 := event("e1", 300), event("e2", 300)
	both := []Recipient{{Instance: "i1"}, {Instance: "nobody"}, {Instance: "i2", Oversize: true}}
	out, err := db.Accept(ctx, Accept{
		Bot: bot, Cursor: []byte("5"),
		Items: []AcceptItem{
			{Delivery: e1, Frame: frameOf(e1), To: both},
			{Delivery: e1, Frame: frameOf(e1), To: both}, // the same event twice in a batch
			{Delivery: e2}, // consumed: nobody gets it
		},
		Quarantine: []Quarantined{{Bot: bot, At: c.now(), Err: "odd", Raw: []byte{0xff}}},
	})
	must.Succeed(t, err)
	lane, err := db.Lanes.State(ctx, "i1")
	must.Succeed(t, err)
	want := AcceptOutcome{Items: []ItemOutcome{
		{Buffers: []relay.BufferID{{Epoch: lane.Epoch, Seq: 1}, {}, {}}}, {Duplicate: true}, {Buffers: []relay.BufferID{}},
	}}
	if !cmp.Equal(out, want) {
		t.Error(cmp.Diff(want, out))
	}
	if lane.Epoch == 0 || lane.NextSeq != 2 || lane.Entries != 1 || lane.Bytes < 300 || !lane.OldestAt.Equal(c.now()) || lane.Dead != 0 {
		t.Errorf("lane %+v", lane)
	}
	got, ok, err := db.Lanes.Next(ctx, "i1", 0)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	wantEntry := Entry{Buffer: relay.BufferID{Epoch: lane.Epoch, Seq: 1}, At: c.now(), Bytes: int(lane.Bytes), About: AboutOf(e1), Frame: frameOf(e1)}
	if !cmp.Equal(got, wantEntry) {
		t.Error(cmp.Diff(wantEntry, got))
	}
	if got := deadOf(t, db, "i2"); got != "[e1:oversize]" {
		t.Errorf("dead letters of i2: %s", got)
	}
	if got := db.Stats().Died; got[DeadOversize] != 1 {
		t.Errorf("counted %v, want one oversize", got)
	}
	for id, want := range map[relay.EventID]bool{"e1": true, "e2": true, "e3": false} { // invariant 7
		if seen, err := db.Seen.Has(ctx, bot, id); err != nil || seen != want {
			t.Errorf("seen %s: %v %v, want %v", id, seen, err, want)
		}
		if seen, err := db.Seen.Has(ctx, relay.Bot{Platform: "loop", ID: "other"}, id); err != nil || seen {
			t.Errorf("another bot has seen %s: %v %v", id, seen, err)
		}
	}
	if cur, err := db.Cursor(ctx, bot); err != nil || string(cur) != "5" {
		t.Errorf("cursor %q %v", cur, err)
	}
	if cur, err := db.Cursor(ctx, relay.Bot{Platform: "loop", ID: "other"}); err != nil || cur != nil {
		t.Errorf("another bot's cursor %q %v", cur, err)
	}
	if q, err := db.Lanes.Quarantine(ctx); err != nil || len(q) != 1 || q[0].Err != "odd" {
		t.Errorf("quarantine %v %v", q, err)
	}
	if _, err := db.Accept(ctx, acceptFor(event("", 300), "i1")); err == nil {
		t.Error("an event without an id was accepted")
	}
	if l, err := db.Lanes.State(ctx, "never"); err != nil || l != (Lane{}) {
		t.Errorf("lane of nobody: %+v %v", l, err)
	}
}

func TestNextDeliveryGoesThroughTheLaneInOrder(t *testing.T) { // invariant 6
	t.Parallel()
	db := openTest(t, Options{})
	enroll(t, db, "i", "i1", "i2") // neighbours whose names begin alike
	var want []string
	for n := range 300 { // past one byte of the sequence number
		id := fmt.Sprintf("e%d", n)
		want = append(want, id)
		acceptOne(t, db, event(id, 10), "i1", "i")
	}
	acceptOne(t, db, event("other", 10), "i2")
	var got []string
	for after := uint64(0); ; {
		e, ok, err := db.Lanes.Next(ctxOf(t), "i1", after)
		must.Succeed(t, err)
		if !ok {
			break
		}
		got = append(got, string(e.About.ID))
		after = e.Buffer.Seq
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if es, err := db.Lanes.Entries(ctxOf(t), "i1", EntryFilter{Limit: 2}); err != nil || len(es) != 2 || es[0].About.ID != "e0" {
		t.Errorf("the first two: %v %v", es, err)
	}
}

func TestDrop(t *testing.T) { // invariant 5
	db := openTest(t, Options{Limits: Limits{MaxEntries: 2}})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	var bufs []relay.BufferID
	for n := range 3 {
		bufs = append(bufs, acceptOne(t, db, event(fmt.Sprintf("e%d", n), 100), "i1").Buffers[0])
	}
	if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != "[e1 e2]" || dead != "[e0:overflow]" {
		t.Fatalf("lane %s, dead %s", lane, dead)
	}
	for _, b := range []relay.BufferID{
		bufs[0], // overflowed while it was in flight
		bufs[2],
		bufs[2],                            // twice
		{Epoch: bufs[1].Epoch + 1, Seq: 2}, // of another life
		{Epoch: bufs[1].Epoch, Seq: bufs[1].Seq + 50}, // never given out
	} {
		if err := acknowledge(ctx, db, "i1", b); err != nil {
			t.Error(err)
		}
	}
	if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != "[e1]" || dead != "[]" {
		t.Errorf("lane %s, dead %s", lane, dead)
	}
	must.Succeed(t, acknowledge(ctx, db, "i1", bufs[1]))
	if id := acceptOne(t, db, event("e9", 100), "i1").Buffers[0]; id.Seq != 4 || id.Epoch != bufs[0].Epoch { // invariant 4
		t.Errorf("the next id after the lane ran empty is %v", id)
	}
}

func TestOverflow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits     Limits
		sizes      []int
		lane, dead string
		overflowed int // by the last one
	}{
		"none":                   {Limits{MaxEntries: 3}, []int{300, 300, 300}, "[e0 e1 e2]", "[]", 0},
		"by entries":             {Limits{MaxEntries: 2}, []int{300, 300, 300}, "[e1 e2]", "[e0:overflow]", 1},
		"by bytes":               {Limits{MaxBytes: 2500}, []int{1000, 1000, 1000}, "[e1 e2]", "[e0:overflow]", 1},
		"a big one drives many":  {Limits{MaxBytes: 2400}, []int{500, 500, 500, 2000}, "[e3]", "[e0:overflow e1:overflow e2:overflow]", 3},
		"one that never fits":    {Limits{MaxBytes: 2500}, []int{500, 5000}, "[]", "[e0:overflow e1:overflow]", 2},
		"zero means the default": {Limits{}, []int{1000, 1000}, "[e0 e1]", "[]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{Limits: tc.limits})
			enroll(t, db, "i1")
			var out AcceptOutcome
			for n, size := range tc.sizes {
				var err error
				if out, err = db.Accept(ctxOf(t), acceptFor(event(fmt.Sprintf("e%d", n), size), "i1")); err != nil {
					t.Fatal(err)
				}
			}
			if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != tc.lane || dead != tc.dead {
				t.Errorf("lane %s, dead %s; want %s, %s", lane, dead, tc.lane, tc.dead)
			}
			if out.Overflowed["i1"] != tc.overflowed {
				t.Errorf("overflowed %v, want %d", out.Overflowed, tc.overflowed)
			}
		})
	}
}

func TestDeathsAndBurial(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now, Limits: Limits{MaxDeaths: 2}})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	b1 := acceptOne(t, db, event("e1", 300), "i1").Buffers[0]
	b2 := acceptOne(t, db, event("e2", 300), "i1").Buffers[0]
	if dead, err := db.Lanes.Died(ctx, "i1", b1); dead || err != nil {
		t.Errorf("first death: %v %v", dead, err)
	}
	if e, _, err := db.Lanes.Next(ctx, "i1", 0); err != nil || e.Deaths != 1 || e.Buffer != b1 {
		t.Errorf("entry %+v %v, want one death", e, err)
	}
	c.add(time.Minute)
	if dead, err := db.Lanes.Died(ctx, "i1", b1); !dead || err != nil {
		t.Errorf("last death: %v %v", dead, err)
	}
	if _, err := db.Lanes.Died(ctx, "i1", b1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a death after the last: %v, want ErrNotFound", err)
	}
	for _, want := range []error{nil, ErrNotFound} { // the second time it is not in the lane any more
		if err := db.Lanes.Bury(ctx, "i1", b2, DeadPoison); !errors.Is(err, want) {
			t.Fatalf("buried: %v; want %v", err, want)
		}
	}
	ds, err := db.Lanes.Entries(ctx, "i1", EntryFilter{Dead: true})
	if err != nil || len(ds) != 2 {
		t.Fatal(ds, err)
	}
	if d := ds[0]; d.Buffer != b1 || d.Reason != DeadDeaths || d.Deaths != 2 || !d.DiedAt.Equal(c.now()) || !d.At.Equal(c.now().Add(-time.Minute)) || d.Bytes < 300 {
		t.Errorf("letter %+v", d)
	}
	if got := deadOf(t, db, "i1"); got != "[e1:deaths e2:poison]" {
		t.Errorf("dead %s", got)
	}
}

func TestReplayAndDropBuffered(t *testing.T) {
	db := openTest(t, Options{Limits: Limits{MaxDeaths: 1}})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	var bufs []relay.BufferID
	for n := range 5 {
		bufs = append(bufs, acceptOne(t, db, event(fmt.Sprintf("e%d", n), 300), "i1").Buffers[0])
	}
	for _, b := range bufs[:3] {
		if dead, err := db.Lanes.Died(ctx, "i1", b); !dead || err != nil {
			t.Fatal(dead, err)
		}
	}
	check := func(what, lane, dead string) {
		t.Helper()
		if l, d := laneOf(t, db, "i1"), deadOf(t, db, "i1"); l != lane || d != dead {
			t.Errorf("%s: lane %s, dead %s; want %s, %s", what, l, d, lane, dead)
		}
	}
	check("at first", "[e3 e4]", "[e0:deaths e1:deaths e2:deaths]")
	if got := db.Stats().Died; got[DeadDeaths] != 3 || got[DeadOverflow] != 0 {
		t.Errorf("counted %v, want three deaths", got)
	}
	for what, err := range map[string]error{
		"replay of an unknown id":    second(db.Lanes.Replay(ctx, nil, "i1", bufs[1], relay.BufferID{Epoch: 1, Seq: 1})),
		"replay of a living one":     second(db.Lanes.Replay(ctx, nil, "i1", bufs[3])),
		"replay of the same twice":   second(db.Lanes.Replay(ctx, nil, "i1", bufs[1], bufs[1])),
		"drop with an unknown id":    second(db.Lanes.Drop(ctx, nil, "i1", bufs[1], relay.BufferID{Epoch: 1, Seq: 1})),
		"replay for an unknown name": second(db.Lanes.Replay(ctx, nil, "zz")),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
	check("after refusals", "[e3 e4]", "[e0:deaths e1:deaths e2:deaths]") // invariant 3
	if n, err := db.Lanes.Replay(ctx, nil, "i1", bufs[1]); n.Moved != 1 || err != nil {
		t.Error(n, err)
	}
	check("one replayed", "[e3 e4 e1]", "[e0:deaths e2:deaths]")
	es, err := db.Lanes.Entries(ctx, "i1", EntryFilter{})
	if err != nil || es[2].Buffer.Seq != 6 || es[2].Deaths != 0 {
		t.Errorf("replayed entry %+v %v; want a new id and no deaths", es[2], err)
	}
	if n, err := db.Lanes.Replay(ctx, nil, "i1", bufs[2], bufs[0]); n.Moved != 2 || err != nil {
		t.Error(n, err)
	}
	check("all replayed, in the order they died", "[e3 e4 e1 e0 e2]", "[]")
	if n, err := db.Lanes.Replay(ctx, nil, "i1"); n.Moved != 0 || err != nil {
		t.Errorf("nothing to replay: %v %v", n, err)
	}
	must.Succeed(t, db.Lanes.Bury(ctx, "i1", bufs[4], DeadPoison))
	if n, err := db.Lanes.Drop(ctx, nil, "i1", bufs[4], bufs[3]); n != 2 || err != nil {
		t.Error(n, err)
	}
	check("two dropped", "[e1 e0 e2]", "[]")
	must.Succeed(t, db.Lanes.Bury(ctx, "i1", es[2].Buffer, DeadPoison))
	if n, err := db.Lanes.Drop(ctx, nil, "i1"); n != 1 || err != nil {
		t.Error(n, err)
	}
	check("the dead dropped", "[e0 e2]", "[]")
}

// TestReplayLeavesWhatIsTooLarge: it would only come back. What lies around it goes.
func TestReplayLeavesWhatIsTooLarge(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	bury := func(id string, why DeadReason) {
		must.Succeed(t, db.Lanes.Bury(ctx, "i1", acceptOne(t, db, event(id, 300), "i1").Buffers[0], why))
	}
	bury("e1", DeadPoison)
	big := event("e2", 300)
	if _, err := db.Accept(ctx, Accept{Bot: bot, Items: []AcceptItem{{Delivery: big, Frame: []byte("{}\n"), To: []Recipient{{Instance: "i1", Oversize: true}}}}}); err != nil {
		t.Fatal(err)
	}
	bury("e3", DeadAge)
	if got, err := db.Lanes.Reasons(ctx, "i1"); err != nil || got[DeadPoison] != 1 || got[DeadOversize] != 1 || got[DeadAge] != 1 || len(got) != 3 {
		t.Errorf("reasons %v, %v; want one of each", got, err)
	}
	if n, err := db.Lanes.Replay(ctx, nil, "i1"); n != (Replayed{Moved: 2, Oversize: 1}) || err != nil {
		t.Errorf("replayed %+v, %v; want two, and one that is too large", n, err)
	}
	if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != "[e1 e3]" || dead != "[e2:oversize]" {
		t.Errorf("lane %s, dead %s", lane, dead)
	}
}

func TestReplayKeepsToTheLimits(t *testing.T) {
	db := openTest(t, Options{Limits: Limits{MaxEntries: 2}})
	enroll(t, db, "i1")
	var third relay.BufferID
	for n := range 4 {
		if b := acceptOne(t, db, event(fmt.Sprintf("e%d", n), 300), "i1").Buffers[0]; n == 2 {
			third = b
		}
	}
	for n, want := range []string{"[e2 e3], [e0:overflow e1:overflow]", "[e3 e0], [e1:overflow]", "[e3 e0], [e1:overflow]"} {
		if got, err := db.Lanes.Replay(ctxOf(t), nil, "i1"); got.Moved != n%2 || err != nil {
			t.Errorf("round %d: %v replayed, %v; want %d", n, got, err, n%2)
		}
		if got := laneOf(t, db, "i1") + ", " + deadOf(t, db, "i1"); got != want {
			t.Errorf("round %d: lane and dead letters %s, want %s", n, got, want)
		}
		if n == 0 { // room for one
			must.Succeed(t, acknowledge(ctxOf(t), db, "i1", third))
		}
	}
}

func TestDeadLettersAreBounded(t *testing.T) {
	db := openTest(t, Options{Limits: Limits{MaxEntries: 1}})
	enroll(t, db, "i1")
	const over = 7
	for n := 0; n < maxDead+over+1; n += 100 {
		a := Accept{Bot: bot}
		for k := n; k < min(n+100, maxDead+over+1); k++ {
			a.Items = append(a.Items, acceptFor(event(fmt.Sprintf("e%d", k), 10), "i1").Items...)
		}
		if _, err := db.Accept(ctxOf(t), a); err != nil {
			t.Fatal(err)
		}
	}
	dead := deadOf(t, db, "i1")
	if l, err := db.Lanes.State(ctxOf(t), "i1"); err != nil || l.Dead != maxDead || !strings.HasPrefix(dead, fmt.Sprintf("[e%d:", over)) {
		t.Errorf("%d dead letters, %v, beginning %.20s; want %d, beginning with e%d", l.Dead, err, dead, maxDead, over)
	}
	if got := db.Stats().DeadDropped; got != over {
		t.Errorf("%d counted as dropped, want %d", got, over)
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	db := openTest(t, Options{})
	for range 3 {
		q := make([]Quarantined, maxQuarantined/2)
		for n := range q {
			q[n].Err = fmt.Sprint(n)
		}
		if _, err := db.Accept(ctxOf(t), Accept{Bot: bot, Quarantine: q}); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := db.Lanes.Quarantine(ctxOf(t)); err != nil || len(q) != maxQuarantined {
		t.Errorf("%d in quarantine, %v; want %d", len(q), err, maxQuarantined)
	}
}

// What came while the clock was behind is not too old once it is right.
func TestSweepAfterTheClockWasBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		happened time.Duration // after the clock was put right
		want     Swept
	}{
		"just now":                  {0, Swept{SeenDays: 1}},
		"by a clock a little ahead": {time.Minute, Swept{SeenDays: 1}},
		"long ago":                  {-11 * day, Swept{SeenDays: 1, Expired: 1}},
		"in a time that cannot be":  {1000 * day, Swept{SeenDays: 1, Expired: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			db := openTest(t, Options{Now: c.now, Limits: Limits{MaxAge: 10 * day}})
			enroll(t, db, "i1")
			right := c.now()
			c.add(-20 * day)
			ev := event("e", 300)
			ev.At = right.Add(tc.happened)
			acceptOne(t, db, ev, "i1")
			c.add(20 * day)
			if got, err := db.Sweep(ctxOf(t)); err != nil || got != tc.want {
				t.Errorf("swept %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestSweep(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now, Limits: Limits{MaxDeaths: 1, MaxAge: 10 * day}})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	b := acceptOne(t, db, event("dies", 300), "i1").Buffers[0]
	if _, err := db.Lanes.Died(ctx, "i1", b); err != nil {
		t.Fatal(err)
	}
	acceptOne(t, db, event("old", 300), "i1")
	until := c.now().Add(time.Hour)
	must.Succeed(t,
		db.Codes.Put(ctx, nil, []byte("m"), Code{Kind: LinkCode, Instance: "i1", ExpiresAt: until}),
		db.Codes.Put(ctx, nil, []byte("m"), Code{Kind: EnrollCode, ExpiresAt: until}),
		db.UpdateGateway(ctx, nil, "i1", func(g *Gateway, _ *Instance) error {
			g.Secrets = append(g.Secrets, GatewaySecret{ID: "out", ExpiresAt: until})
			return nil
		}),
	)
	sweep := func(want Swept) {
		t.Helper()
		if got, err := db.Sweep(ctx); err != nil || got != want {
			t.Errorf("swept %+v %v, want %+v", got, err, want)
		}
		if got, err := db.Sweep(ctx); err != nil || got != (Swept{}) {
			t.Errorf("swept again: %+v %v", got, err)
		}
	}
	secrets := func() (out []string) {
		g, err := Only(db.Gateways(ctx, "i1"))
		must.Succeed(t, err)
		for _, s := range g.Secrets {
			out = append(out, s.ID)
		}
		return out
	}
	sweep(Swept{})
	if got := secrets(); len(got) != 2 {
		t.Errorf("secrets %v, want both", got)
	}
	c.add(24 * time.Hour) // the codes have expired, and are kept to say so
	sweep(Swept{})
	if got := secrets(); !slices.Equal(got, []string{"s1"}) {
		t.Errorf("secrets %v, want s1", got)
	}
	if _, err := db.Codes.Redeem(ctx, nil, []byte("m"), Person{"loop", "u"}, ""); !errors.Is(err, ErrExpired) {
		t.Errorf("the expired code: %v", err)
	}
	c.add(2 * day) // day 3
	acceptOne(t, db, event("new", 300), "i1")
	sweep(Swept{Codes: 2})
	if _, err := db.Codes.Redeem(ctx, nil, []byte("m"), Person{"loop", "u"}, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("the swept code: %v", err)
	}
	for _, id := range []relay.EventID{"old", "new"} { // both days are still there
		if seen, err := db.Seen.Has(ctx, bot, id); err != nil || !seen {
			t.Errorf("seen %s on the third day: %v %v", id, seen, err)
		}
	}
	if out := acceptOne(t, db, event("old", 300), "i1"); !out.Duplicate { // invariant 7
		t.Error("an event three days old was accepted twice")
	}
	c.add(day)
	sweep(Swept{SeenDays: 1})
	if seen, err := db.Seen.Has(ctx, bot, "old"); err != nil || seen {
		t.Errorf("seen on the fourth day: %v %v", seen, err)
	}
	c.add(6 * day) // day 10: exactly MaxAge
	sweep(Swept{SeenDays: 1})
	c.add(time.Second)
	sweep(Swept{Expired: 1})
	if lane, dead := laneOf(t, db, "i1"), deadOf(t, db, "i1"); lane != "[new]" || dead != "[dies:deaths old:age]" {
		t.Errorf("lane %s, dead %s", lane, dead)
	}
	c.add(4 * day)
	sweep(Swept{DeadDropped: 1, Expired: 1})
	c.add(day * 30)
	sweep(Swept{DeadDropped: 2, Conversations: 1})
	if cs, err := db.Conversations(ctx, ConversationFilter{Instance: "i1"}); err != nil || len(cs) != 0 {
		t.Errorf("conversations %v %v", cs, err)
	}
}
