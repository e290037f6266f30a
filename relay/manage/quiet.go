package manage

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// Rules are the settings of an instance as a whole.
type Rules struct {
	Principal Principal `json:"principal"`
	Quiet     Quiet     `json:"quiet"`
}

func (a *surroundings) rules(i store.Instance) Rules {
	return Rules{Principal: principal(i), Quiet: a.quiet(i)}
}

// SetQuiet sets the times of day between which an instance gets only urgent messages.
type SetQuiet struct {
	Name  string `json:"name"`
	Hours string `json:"hours,omitempty"` // such as "22:00-07:00"; "off": none; empty: only read
	Zone  string `json:"zone,omitempty"`  // the zone of these times, such as "Europe/Berlin"; empty: the server's
}

// quietOff is the value for no quiet hours.
const quietOff = "off"

// Quiet are the quiet hours of an instance.
type Quiet struct {
	Instance relay.InstanceID `json:"instanceId"`
	Hours    string           `json:"hours"`          // empty: there are none
	Zone     string           `json:"zone"`           // empty: the server's
	Now      time.Time        `json:"now,omitzero"`   // the time there; zero: the server does not know the zone
	Until    time.Time        `json:"until,omitzero"` // when the present quiet hours end; zero: it is not quiet now
}

// SetQuiet sets or ends an instance's quiet hours, and returns them; with empty Hours it changes nothing. Refused with
// NotFound or Usage.
func (s *gateways) SetQuiet(ctx context.Context, by audit.Actor, q SetQuiet) (Quiet, error) {
	if q.Hours == "" || q.Hours == quietOff {
		if q.Zone != "" {
			return Quiet{}, unfit("zone", "a time zone goes with times only, such as 22:00-07:00")
		}
	} else if _, err := relay.ParseQuietHours(q.Hours, ""); err != nil {
		return Quiet{}, unfit("hours", "%v", err)
	}
	if q.Hours == "" {
		i, err := s.instance(ctx, q.Name)
		return s.quiet(i), err
	}
	var hours relay.QuietHours
	if q.Hours != quietOff {
		var err error
		if hours, err = relay.ParseQuietHours(q.Hours, q.Zone); err != nil {
			return Quiet{}, unfit("zone", "%v", err)
		}
	}
	i, err := s.served(ctx, q.Name)
	if err != nil {
		return Quiet{}, err
	}
	i.Quiet = hours
	err = s.db.UpdateInstance(ctx, row(by, "quiet", i, strings.TrimSpace(q.Hours+" "+q.Zone)), i.ID, func(stored *store.Instance) error {
		stored.Quiet = hours
		return nil
	})
	if err != nil {
		return Quiet{}, err
	}
	s.bus.Publish(bus.Changed{Instance: i.ID})
	return s.quiet(i), nil
}

func (a *surroundings) quiet(i store.Instance) Quiet {
	q := Quiet{Instance: i.ID, Hours: i.Quiet.Hours(), Zone: i.Quiet.Zone()}
	if !i.Quiet.IsZero() {
		now := a.set.Now()
		q.Now = i.Quiet.In(now)
		q.Until, _ = i.Quiet.At(now)
	}
	return q
}
