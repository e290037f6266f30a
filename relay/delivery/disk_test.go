package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// shelf is a Buffer the simulation can fill, look into and break.
type shelf interface {
	Buffer
	append(text string) relay.BufferID
	buffered() []store.Entry                        // oldest first
	reason(relay.BufferID) (store.DeadReason, bool) // why it is a dead letter
	fail(fault)                                     // the next such call fails
	heal()                                          // no call fails any more
}

var (
	loopback = relay.Bot{Platform: "loopback", ID: "bot"}
	// strange is the bot of entries whose text is "strange", which not every session fronts.
	strange = relay.Bot{Platform: "strange", ID: "bot"}
)

func botOf(text string) relay.Bot {
	switch kindOf(text) {
	case "program", "following", "wake":
		return relay.ProgramBot()
	case "strange":
		return strange
	}
	return loopback
}

// kindOf is what a text is, without the "@CHAT/PERSON" of one that is said somewhere, and what follows that.
func kindOf(text string) string {
	kind, _, _ := strings.Cut(text, "@")
	return kind
}

// placeOf is where a text is said, and by whom; empty: nowhere.
func placeOf(text string) (chat relay.ChatID, user relay.UserID) {
	_, where, _ := strings.Cut(text, "@")
	where, _, _ = strings.Cut(where, "#")
	c, u, _ := strings.Cut(where, "/")
	return relay.ChatID(c), relay.UserID(u)
}

// disk is the real store, with faults in front of it.
type disk struct {
	*store.DB
	t    testing.TB
	inst relay.InstanceID

	mu     sync.Mutex
	faults []fault
	events int
}

func openStore(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "test.db"), store.Options{})
	must.Succeed(t, err)
	return db
}

// newDisk is a buffer of an instance of its own.
func newDisk(t testing.TB, db *store.DB, inst relay.InstanceID) *disk {
	t.Helper()
	err := db.Enroll(t.Context(), nil,
		store.Gateway{ID: relay.GatewayID(inst), Instance: inst, Tenant: relay.DefaultTenant},
		store.Instance{ID: inst, Tenant: relay.DefaultTenant})
	must.Succeed(t, err)
	return &disk{DB: db, t: t, inst: inst}
}

func (d *disk) append(text string) relay.BufferID {
	d.events++
	id := relay.EventID(fmt.Sprintf("%s:%d", d.inst, d.events))
	chat, user := placeOf(text)
	ev := relay.Event{ID: id, Bot: botOf(text), Text: text, Source: relay.Source{ChatID: chat, UserID: user}}
	out, err := d.Accept(d.t.Context(), store.Accept{Bot: botOf(text), Items: []store.AcceptItem{{
		Delivery: ev, Frame: []byte(text), Whole: isWhole(text),
		Forward: forwardOf(text), To: []store.Recipient{{Instance: d.inst}},
	}}})
	must.Succeed(d.t, err)
	return out.Items[0].Buffers[0]
}

func (d *disk) buffered() []store.Entry {
	es, err := d.Lanes.Entries(d.t.Context(), d.inst, store.EntryFilter{})
	must.Succeed(d.t, err)
	return es
}

func (d *disk) reason(id relay.BufferID) (store.DeadReason, bool) {
	dead, err := d.Lanes.Entries(d.t.Context(), d.inst, store.EntryFilter{Dead: true})
	must.Succeed(d.t, err)
	for _, l := range dead {
		if l.Buffer == id {
			return l.Reason, true
		}
	}
	return "", false
}

func (d *disk) fail(f fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, f)
}

func (d *disk) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// do makes one call, unless a fault waits for it.
func (d *disk) do(call string, work func() error) error {
	d.mu.Lock()
	i := slices.IndexFunc(d.faults, func(f fault) bool { return f.call == call })
	if i < 0 {
		d.mu.Unlock()
		return work()
	}
	f := d.faults[i]
	d.faults = slices.Delete(d.faults, i, i+1)
	d.mu.Unlock()
	if f.effect {
		return errors.Join(errDisk, work())
	}
	return errDisk
}

func (d *disk) Next(ctx context.Context, i relay.InstanceID, after uint64) (e store.Entry, ok bool, err error) {
	err = d.do("next", func() (err error) {
		e, ok, err = d.Lanes.Next(ctx, i, after)
		return err
	})
	return e, ok, err
}

func (d *disk) Ack(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) error {
	return d.do("drop", func() error { return d.Lanes.Ack(ctx, i, bs...) })
}

func (d *disk) Bury(ctx context.Context, i relay.InstanceID, b relay.BufferID, why store.DeadReason) error {
	return d.do("bury", func() error { return d.Lanes.Bury(ctx, i, b, why) })
}

func (d *disk) Died(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) (buried bool, err error) {
	err = d.do("death", func() (err error) {
		buried, err = d.Lanes.Died(ctx, i, bs...)
		return err
	})
	return buried, err
}
