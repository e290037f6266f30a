package store

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// numbers are the undecided events of the chat c1, by event.
func undecidedIDs(t *testing.T, db *DB) (ids []relay.EventID) {
	t.Helper()
	us, err := db.Pending.List(ctxOf(t), PendingFilter{Chat: relay.Chat{Bot: bot, ID: "c1"}})
	must.Succeed(t, err)
	for _, u := range us {
		ids = append(ids, u.Delivery.About().ID)
	}
	return ids
}

func postponeOne(t *testing.T, db *DB, e relay.Event, i relay.InstanceID) ItemOutcome {
	t.Helper()
	out, err := db.Accept(ctxOf(t), Accept{Bot: bot, Items: []AcceptItem{{Delivery: e, Undecided: []relay.InstanceID{i}}}})
	must.Succeed(t, err)
	return out.Items[0]
}

func TestUndecidedEvents(t *testing.T) {
	ctx, clock := ctxOf(t), newClock()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{Now: clock.now})
	enroll(t, db, "home", "kids")
	for _, id := range []string{"e1", "e2", "e3"} {
		postponeOne(t, db, event(id, 300), "home")
	}
	if out := postponeOne(t, db, event("e1", 300), "home"); !out.Duplicate {
		t.Error("an undecided event was stored twice")
	}
	if n, err := db.Pending.Count(ctx, PendingFilter{Chat: relay.Chat{Bot: bot, ID: "c1"}, Instance: "kids", Limit: 10}); n != 0 || err != nil {
		t.Errorf("kids waits for %d, %v", n, err)
	}
	if n, err := db.Pending.Count(ctx, PendingFilter{Chat: relay.Chat{Bot: bot, ID: "c1"}, Instance: "home", Limit: 2}); n != 2 || err != nil {
		t.Errorf("counted %d, %v, want no more than 2", n, err)
	}
	closeChecked(t, db)
	db = reopen(t, path, Options{Now: clock.now})
	if got, want := undecidedIDs(t, db), []relay.EventID{"e1", "e2", "e3"}; !slices.Equal(got, want) {
		t.Fatalf("after a restart %q, want %q", got, want)
	}
	all, err := db.Pending.List(ctx, PendingFilter{})
	must.Succeed(t, err)
	chat := relay.Chat{Bot: bot, ID: "c1"}
	deliver := &Recipient{Instance: "home", Conversation: Conversation{ByGrant: true}}
	vs := []Verdict{
		{Number: all[0].Number, Instance: "home", Delivery: all[0].Delivery, Frame: frameOf(all[0].Delivery), To: deliver},
		{Number: all[1].Number, Instance: "home", Delivery: all[1].Delivery},
		{Number: all[2].Number, Instance: "home", Delivery: all[2].Delivery, To: &Recipient{Instance: "home", Oversize: true}},
	}
	out, err := db.Pending.Decide(ctx, chat, vs)
	if err != nil || out.Items[0].Buffers[0].IsZero() || out.Items[1].Buffers != nil || !out.Items[2].Buffers[0].IsZero() {
		t.Fatalf("settled as %+v, %v", out, err)
	}
	if out, err := db.Pending.Decide(ctx, chat, vs[:1]); err != nil || !out.Items[0].Duplicate {
		t.Errorf("settled again: %+v, %v", out, err)
	}
	entries, err := db.Lanes.Entries(ctx, "home", EntryFilter{})
	dead, err2 := db.Lanes.Entries(ctx, "home", EntryFilter{Dead: true})
	if err != nil || err2 != nil || len(entries) != 1 || entries[0].About.ID != "e1" || len(dead) != 1 || dead[0].About.ID != "e3" || dead[0].Reason != DeadOversize {
		t.Errorf("lane %+v, dead %+v, %v, %v", entries, dead, err, err2)
	}
	if c, ok, err := First(db.Conversations(ctx, ConversationFilter{Instance: "home", Chat: chat})); !ok || err != nil || !c.ByGrant {
		t.Errorf("conversation %+v, %t, %v", c, ok, err)
	}
	if got := undecidedIDs(t, db); len(got) != 0 {
		t.Errorf("undecided still: %q", got)
	}
	if out := postponeOne(t, db, event("e2", 300), "home"); !out.Duplicate {
		t.Error("what was decided against came again")
	}
}

// TestDecideForARevokedInstance: it gets nothing, and the event is decided all the same.
func TestDecideForARevokedInstance(t *testing.T) {
	ctx := ctxOf(t)
	db := openTest(t, Options{})
	enroll(t, db, "home")
	postponeOne(t, db, event("e1", 300), "home")
	all, err := db.Pending.List(ctx, PendingFilter{})
	must.Succeed(t, err)
	if _, err := db.Revoke(ctx, nil, "home"); err != nil {
		t.Fatal(err)
	}
	out, err := db.Pending.Decide(ctx, relay.Chat{Bot: bot, ID: "c1"}, []Verdict{
		{Number: all[0].Number, Instance: "home", Delivery: all[0].Delivery, To: &Recipient{Instance: "home"}},
	})
	if err != nil || !out.Items[0].Buffers[0].IsZero() || len(undecidedIDs(t, db)) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestUndecidedEventsMoveWithTheirChat(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "home")
	postponeOne(t, db, event("e1", 300), "home")
	for range 2 { // the second time there is nothing to move
		must.Succeed(t, db.MoveChat(ctxOf(t), Move{Platform: bot.Platform, From: "c1", To: "c2"}))
	}
	us, err := db.Pending.List(ctxOf(t), PendingFilter{Chat: relay.Chat{Bot: bot, ID: "c2"}})
	if err != nil || len(us) != 1 || us[0].Delivery.About().Source.ChatID != "c2" || len(undecidedIDs(t, db)) != 0 {
		t.Errorf("%+v, %v", us, err)
	}
}

// TestUndecidedEventsOfABotThatIsGone are dropped after a day.
func TestUndecidedEventsOfABotThatIsGone(t *testing.T) {
	clock := newClock()
	db := openTest(t, Options{Now: clock.now})
	enroll(t, db, "home")
	postponeOne(t, db, event("e1", 300), "home")
	for _, want := range []int{0, 1} {
		s, err := db.Sweep(ctxOf(t))
		if err != nil || s.Pending != want {
			t.Errorf("swept %d, %v; want %d", s.Pending, err, want)
		}
		clock.add(day + 1)
	}
}

// TestUnbindTakesWhatWaitsOutOfTheLane: what the person said, on that platform, and nothing else.
func TestUnbindTakesWhatWaitsOutOfTheLane(t *testing.T) {
	ctx := ctxOf(t)
	db := openTest(t, Options{})
	enroll(t, db, "home", "kids")
	for _, i := range []relay.InstanceID{"home", "kids"} {
		must.Succeed(t, db.Bind(ctx, nil, Binding{Platform: bot.Platform, User: "u1", Instance: i}))
	}
	acceptOne(t, db, event("e1", 300), "home", "kids")
	other, elsewhere := event("e2", 300), event("e3", 300)
	other.Source.UserID, elsewhere.Bot.Platform = "u2", "other"
	acceptOne(t, db, other, "home")
	acceptOne(t, db, elsewhere, "home")
	must.Succeed(t, db.Unbind(ctx, nil, "home", bot.Platform, "u1"))
	dead, err := db.Lanes.Entries(ctx, "home", EntryFilter{Dead: true})
	if err != nil || len(dead) != 1 || dead[0].About.ID != "e1" || dead[0].Reason != DeadUnbound {
		t.Errorf("dead letters %+v, %v", dead, err)
	}
	for i, want := range map[relay.InstanceID]int{"home": 2, "kids": 1} {
		if l, err := db.Lanes.State(ctx, i); err != nil || l.Entries != want {
			t.Errorf("%s has %d entries, %v; want %d", i, l.Entries, err, want)
		}
	}
}

// TestAForwardMayBeUndecided: it comes back as it was, also after its chat moved.
func TestAForwardMayBeUndecided(t *testing.T) {
	ctx := ctxOf(t)
	db := openTest(t, Options{})
	enroll(t, db, "home")
	f := relay.Forward{Event: event("e1", 300), Method: "POST", Path: "/x", Headers: [][2]string{{"A", "b"}}, Body: []byte{0, '\n', 0xff}}
	if _, err := db.Accept(ctx, Accept{Bot: bot, Items: []AcceptItem{{Delivery: f, Undecided: []relay.InstanceID{"home"}}}}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, db.MoveChat(ctx, Move{Platform: bot.Platform, From: "c1", To: "c2"}))
	f.Event.Source.ChatID = "c2"
	us, err := db.Pending.List(ctx, PendingFilter{Chat: relay.Chat{Bot: bot, ID: "c2"}})
	if err != nil || len(us) != 1 || !cmp.Equal(us[0].Delivery, relay.Delivery(f)) {
		t.Fatalf("%+v, %v", us, err)
	}
	out, err := db.Pending.Decide(ctx, relay.Chat{Bot: bot, ID: "c2"}, []Verdict{{
		Number: us[0].Number, Instance: "home", Delivery: f, Frame: []byte("frame"), To: &Recipient{Instance: "home"},
	}})
	if err != nil || out.Items[0].Duplicate {
		t.Fatalf("%+v, %v", out, err)
	}
	if e, ok, err := db.Lanes.Next(ctx, "home", 0); err != nil || !ok || e.About.ID != "e1" || e.About.Chat != "c2" || string(e.Frame) != "frame" {
		t.Errorf("%+v, %v, %v", e, ok, err)
	}
}
