package relay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestQuietHours(t *testing.T) {
	for name, tc := range map[string]struct {
		hours, zone string
		at          string // RFC 3339
		until       string // empty: not quiet
	}{
		"before they begin":           {"22:00-07:00", "UTC", "2026-11-27T21:59:59Z", ""},
		"as they begin":               {"22:00-07:00", "UTC", "2026-11-27T22:00:00Z", "2026-11-28T07:00:00Z"},
		"after midnight":              {"22:00-07:00", "UTC", "2026-11-28T00:00:00Z", "2026-11-28T07:00:00Z"},
		"just before they end":        {"22:00-07:00", "UTC", "2026-11-28T06:59:59.999Z", "2026-11-28T07:00:00Z"},
		"as they end":                 {"22:00-07:00", "UTC", "2026-11-28T07:00:00Z", ""},
		"over new year":               {"22:00-07:00", "UTC", "2026-12-31T23:00:00Z", "2027-01-01T07:00:00Z"},
		"on new year":                 {"22:00-07:00", "UTC", "2027-01-01T06:00:00Z", "2027-01-01T07:00:00Z"},
		"within a day":                {"12:30-14:00", "UTC", "2026-11-27T13:00:00Z", "2026-11-27T14:00:00Z"},
		"within a day, the night":     {"12:30-14:00", "UTC", "2026-11-27T03:00:00Z", ""},
		"to midnight":                 {"22:00-00:00", "UTC", "2026-11-27T23:00:00Z", "2026-11-28T00:00:00Z"},
		"from midnight":               {"00:00-07:00", "UTC", "2026-11-27T00:00:00Z", "2026-11-27T07:00:00Z"},
		"all day but a minute":        {"07:01-07:00", "UTC", "2026-11-27T07:00:30Z", ""},
		"in a zone":                   {"22:00-07:00", "Europe/Berlin", "2026-11-27T21:30:00Z", "2026-11-28T06:00:00Z"},
		"in a zone, before":           {"22:00-07:00", "Europe/Berlin", "2026-11-27T20:30:00Z", ""},
		"in a zone of tomorrow":       {"22:00-07:00", "Pacific/Kiritimati", "2026-11-27T10:00:00Z", "2026-11-27T17:00:00Z"},
		"a short night, its end":      {"22:00-07:00", "Europe/Berlin", "2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"},
		"a long night, its end":       {"22:00-07:00", "Europe/Berlin", "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"},
		"the end is skipped":          {"22:00-02:30", "Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"},
		"the end was skipped":         {"22:00-02:30", "Europe/Berlin", "2026-03-29T01:00:00Z", ""},
		"the beginning is skipped":    {"02:30-07:00", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T05:00:00Z"},
		"before the skipped one":      {"02:30-07:00", "Europe/Berlin", "2026-03-29T00:59:00Z", ""},
		"all of it is skipped":        {"02:10-02:50", "Europe/Berlin", "2026-03-29T01:00:00Z", ""},
		"an hour that comes twice":    {"02:15-02:45", "Europe/Berlin", "2026-10-25T00:30:00Z", ""},
		"its second coming":           {"02:15-02:45", "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T01:45:00Z"},
		"a midnight that is skipped":  {"00:00-07:00", "America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06T10:00:00Z"},
		"clocks of half an hour":      {"22:00-07:00", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-04T20:30:00Z"},
		"a time with one digit":       {"9:00-10:00", "UTC", "2026-11-27T09:30:00Z", "2026-11-27T10:00:00Z"},
		"the last minute of a day":    {"23:59-00:00", "UTC", "2026-11-27T23:59:30Z", "2026-11-28T00:00:00Z"},
		"a time told in another zone": {"22:00-07:00", "UTC", "2026-11-28T00:30:00+02:00", "2026-11-28T07:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := ParseQuietHours(tc.hours, tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			until, quiet := h.At(at)
			got := ""
			if quiet {
				got = until.UTC().Format(time.RFC3339)
			}
			if got != tc.until {
				t.Errorf("at %s they end at %q, want %q", tc.at, got, tc.until)
			}
		})
	}
}

// At every minute of a year with two changes, quiet hours that have begun end later, and stay the same until then.
func TestQuietHoursEnd(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"} {
		for _, hours := range []string{"22:00-07:00", "02:30-03:30", "23:30-00:15", "01:45-02:15"} {
			h, err := ParseQuietHours(hours, zone)
			if err != nil {
				t.Fatal(err)
			}
			begun, last := 0, time.Time{}
			for at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC); at.Year() == 2026; at = at.Add(time.Minute) {
				until, quiet := h.At(at)
				switch {
				case !quiet && at.Before(last):
					t.Fatalf("%s %s: over at %s, before %s", hours, zone, at, last)
				case quiet && (!until.After(at) || at.Before(last) && !until.Equal(last)):
					t.Fatalf("%s %s: at %s they end at %s, after %s", hours, zone, at, until, last)
				case quiet && !until.Equal(last):
					begun++
				}
				if quiet {
					last = until
				}
			}
			if begun < 364 || begun > 366 {
				t.Errorf("%s %s: %d times in a year", hours, zone, begun)
			}
		}
	}
}

func TestQuietHoursAreRead(t *testing.T) {
	for _, wrong := range [][2]string{
		{"", ""}, {"22:00", ""}, {"22-7", ""}, {"22:00-24:00", ""}, {"22:60-07:00", ""}, {"22:00-22:00", ""}, {"22:00-7:0", ""}, {"off", ""}, {"22:00-07:00-08:00", ""},
		{" 22:00-07:00", ""}, {"22:00-07:00", "Europe/Bonn"}, {"22:00-07:00", "../etc/passwd"}, {"22:00-07:00", "/etc/localtime"}, {"22:00-07:00", strings.Repeat("a", 1<<20)},
	} {
		if h, err := ParseQuietHours(wrong[0], wrong[1]); err == nil || !h.IsZero() {
			t.Errorf("%q in %.20q: %v, %v", wrong[0], wrong[1], h, err)
		}
	}
	for _, right := range [][3]string{
		{"22:00-07:00", "", "22:00-07:00"}, {"7:05-23:00", "Europe/Berlin", "07:05-23:00 Europe/Berlin"}, {"00:00-00:01", "UTC", "00:00-00:01 UTC"},
	} {
		h, err := ParseQuietHours(right[0], right[1])
		if err != nil {
			t.Fatal(err)
		}
		var record, again struct {
			Quiet QuietHours `json:"quiet,omitzero"`
		}
		record.Quiet = h
		raw, err := json.Marshal(record)
		if err != nil || string(raw) != `{"quiet":"`+right[2]+`"}` {
			t.Errorf("%v is stored as %s, %v", right, raw, err)
		}
		now := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
		until, quiet := h.At(now)
		if err = json.Unmarshal(raw, &again); err != nil {
			t.Fatal(err)
		}
		if u, q := again.Quiet.At(now); q != quiet || !u.Equal(until) || again.Quiet.Hours() != h.Hours() || again.Quiet.Zone() != right[1] {
			t.Errorf("%s is read as %v", raw, again.Quiet)
		}
	}
	if raw, err := json.Marshal(struct {
		Quiet QuietHours `json:"quiet,omitzero"`
	}{}); err != nil || string(raw) != "{}" {
		t.Errorf("no hours are stored as %s, %v", raw, err)
	}
}

// A database may come from a machine that knows more zones: it is read there, too, and hours never begin that mean nothing.
func TestQuietHoursOfAnUnknownZone(t *testing.T) {
	var h QuietHours
	if err := json.Unmarshal([]byte(`"00:00-23:59 Mars/Olympus"`), &h); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	if _, quiet := h.At(now); quiet || !h.In(now).IsZero() {
		t.Error("quiet in a zone that nobody knows")
	}
	if raw, err := json.Marshal(h); err != nil || string(raw) != `"00:00-23:59 Mars/Olympus"` {
		t.Errorf("stored again as %s, %v", raw, err)
	}
	if err := json.Unmarshal([]byte(`"perhaps"`), &h); err == nil {
		t.Error("what are no hours was read")
	}
}
