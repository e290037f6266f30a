package relay

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Decided: The tz database is the machine's, and the image brings its own. Linking time/tzdata would cost everybody 450
// KB, for the few machines without a tz database. There, naming a zone fails with an error that says so.

// QuietHours are the times of day during which an instance gets only urgent messages: every day from the first time to
// the second, over midnight if the second is earlier. The zero value means that there are none.
type QuietHours struct {
	from, to int            // minutes after midnight, never the same
	name     string         // the name of the zone; empty: this machine's
	zone     *time.Location // nil: there are no hours, or their zone is not known here
}

// maxZone is how long the name of a zone may be, in bytes.
const maxZone = 64

// ParseQuietHours reads hours such as "22:00-07:00", in a zone of the tz database such as "Europe/Berlin"; an empty
// zone means this machine's. The error text has no subject, so that callers can put one before it.
func ParseQuietHours(hours, zone string) (h QuietHours, err error) {
	from, to, ok := strings.Cut(hours, "-")
	first, errFrom := time.Parse("15:04", from)
	last, errTo := time.Parse("15:04", to)
	switch {
	case !ok || errFrom != nil || errTo != nil:
		return h, fmt.Errorf("%q: want two times of day such as 22:00-07:00", hours)
	case first.Equal(last):
		return h, fmt.Errorf("%q: from a time to the same time is no time at all", hours)
	}
	h = QuietHours{from: first.Hour()*60 + first.Minute(), to: last.Hour()*60 + last.Minute(), name: zone, zone: time.Local}
	if zone == "" {
		return h, nil
	}
	err = errors.New("too long")
	if len(zone) <= maxZone {
		h.zone, err = time.LoadLocation(zone)
	}
	if err != nil {
		return QuietHours{}, fmt.Errorf("%q is no time zone that this machine knows: want one such as Europe/Berlin (if it knows none, its tzdata is missing)", zone)
	}
	return h, nil
}

// IsZero reports whether there are no such hours.
func (h QuietHours) IsZero() bool { return h.from == h.to }

// At reports whether t is within the quiet hours, and when they end. When clocks are put forward, the times that they
// skip count as the moment of the change.
func (h QuietHours) At(t time.Time) (until time.Time, quiet bool) {
	if h.zone == nil {
		return time.Time{}, false
	}
	year, month, today := t.In(h.zone).Date()
	for day := today - 1; day <= today; day++ { // the hours that began yesterday may not be over
		last := day
		if h.to < h.from {
			last++
		}
		until = h.moment(year, month, last, h.to)
		if !t.Before(h.moment(year, month, day, h.from)) && t.Before(until) {
			return until, true
		}
	}
	return time.Time{}, false
}

// moment returns when the zone's clocks show the time of so many minutes after midnight on that day, or the moment of
// the change if they skip that time.
func (h QuietHours) moment(year int, month time.Month, day, minutes int) time.Time {
	t := time.Date(year, month, day, 0, minutes, 0, 0, h.zone)
	want := time.Date(year, month, day, 0, minutes, 0, 0, time.UTC)
	_, offset := t.Zone()
	shown := t.Add(time.Duration(offset) * time.Second) // as if it were UTC
	if shown.Equal(want) {
		return t
	}
	before, after := t.ZoneBounds() // t is on one side of the skipped hour or on the other
	if shown.After(want) {
		return before
	}
	return after
}

// Hours returns the times in the form that ParseQuietHours reads; empty: there are none.
func (h QuietHours) Hours() string {
	if h.IsZero() {
		return ""
	}
	return clockTime(h.from) + "-" + clockTime(h.to)
}

// Zone returns the name of the zone; empty: this machine's.
func (h QuietHours) Zone() string { return h.name }

// In returns t in the zone; the zero time if this machine does not know the zone.
func (h QuietHours) In(t time.Time) time.Time {
	if h.zone == nil {
		return time.Time{}
	}
	return t.In(h.zone)
}

// End returns when the hours end, as people read it: "07:00", or "07:00 (Europe/Berlin)".
func (h QuietHours) End() string {
	if h.name == "" {
		return clockTime(h.to)
	}
	return clockTime(h.to) + " (" + h.name + ")"
}

func clockTime(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// MarshalText returns the form in which the hours are stored: "22:00-07:00 Europe/Berlin".
func (h QuietHours) MarshalText() ([]byte, error) {
	return []byte(strings.TrimSpace(h.Hours() + " " + h.name)), nil
}

// UnmarshalText reads the form that MarshalText returns. Hours in a zone that this machine does not know are kept, and
// never begin.
func (h *QuietHours) UnmarshalText(text []byte) error {
	hours, zone, _ := strings.Cut(string(text), " ")
	*h = QuietHours{}
	if hours == "" {
		return nil
	}
	known, err := ParseQuietHours(hours, zone)
	if err != nil {
		if known, err = ParseQuietHours(hours, ""); err != nil {
			return err
		}
		known.name, known.zone = zone, nil
	}
	*h = known
	return nil
}
