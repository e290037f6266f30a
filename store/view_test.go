package store

import (
	"context"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestViewIsOneState: what is read in it is as it was when it began, also an instance that was changed
// since, and nothing is written.
func TestViewIsOneState(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "home")
	asleep := func(ctx context.Context) bool {
		t.Helper()
		i, err := Only(db.Instances(ctx, "home"))
		must.Succeed(t, err)
		return i.Asleep
	}
	sleep := func(ctx context.Context, is bool) error {
		return db.UpdateInstance(ctx, nil, "home", func(i *Instance) error { i.Asleep = is; return nil })
	}
	for _, is := range []bool{true, false, true} {
		must.Succeed(t, db.View(t.Context(), func(ctx context.Context) error {
			before := asleep(ctx)
			if err := sleep(ctx, is); err == nil {
				t.Error("written within a view")
			}
			must.Succeed(t, sleep(t.Context(), is))
			if now := asleep(t.Context()); now != is {
				t.Errorf("asleep = %v behind the change, want %v", now, is)
			}
			if got := asleep(ctx); got != before {
				t.Errorf("asleep = %v within the view, want %v", got, before)
			}
			return nil
		}))
	}
}
