package manage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// quiet gives an instance quiet hours, in UTC.
func (w *world) quiet(t *testing.T, name, hours string) manage.Quiet {
	t.Helper()
	q, err := w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: name, Hours: hours, Zone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestSetQuiet: a running server learns of it at once, and a status says what it is for.
func TestSetQuiet(t *testing.T) {
	w := newWorld(t, &server{})
	w.enroll(t, "home")
	w.put(t, "home", "e1", "e2")
	notes := func() []manage.Note {
		t.Helper()
		st, err := w.Status(t.Context(), struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		return st.Instances[0].Notes
	}
	if q, err := w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: "home"}); err != nil || q != (manage.Quiet{Instance: "home"}) || len(w.notes) > 0 {
		t.Errorf("before: %+v, %v", q, err)
	}
	want := manage.Quiet{Instance: "home", Hours: "22:00-07:00", Zone: "UTC", Now: noon}
	if diff := cmp.Diff(want, w.quiet(t, "home", "22:00-7:00")); diff != "" || notes() != nil {
		t.Errorf("at noon (-want +got):\n%s%v", diff, notes())
	}
	want.Hours, want.Until = "12:00-07:00", noon.Add(19*time.Hour)
	if diff := cmp.Diff(want, w.quiet(t, "home", "12:00-07:00")); diff != "" {
		t.Errorf("from noon on (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]manage.Note{{Word: "quiet", Says: "quiet until 07:00 (UTC)"}}, notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for _, wrong := range []manage.SetQuiet{{Hours: "night"}, {Hours: "off", Zone: "UTC"}, {Zone: "UTC"}, {Hours: "12:00-13:00", Zone: "Nowhere"}} {
		wrong.Name = "home"
		_, err := w.SetQuiet(t.Context(), system, wrong)
		wantRefusal(t, err, manage.Usage)
	}
	_, err := w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: "nobody", Hours: "off"})
	wantRefusal(t, err, manage.NotFound)
	if q, err := w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: "home"}); err != nil || q.Hours != "12:00-07:00" {
		t.Errorf("after what was refused: %+v, %v", q, err)
	}
	if q, err := w.SetQuiet(t.Context(), system, manage.SetQuiet{Name: "home", Hours: "off"}); err != nil || q != (manage.Quiet{Instance: "home"}) || notes() != nil {
		t.Errorf("off: %+v, %v, %v", q, err, notes())
	}
	changed := bus.Changed{Instance: relay.InstanceID("home")}
	if diff := cmp.Diff([]bus.Note{changed, changed, changed}, w.notes); diff != "" { // invariant 2
		t.Errorf("notes of the bus (-want +got):\n%s", diff)
	}
}
