package notify

import (
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store"
)

// key identifies a finding from one look to the next; the zero key: the finding is unimportant.
type key struct{ code, about string }

// weighty are findings that are reported though nothing is lost yet, because somebody can still prevent it. Never changed.
var weighty = []string{
	finding.GatewayAway.Code, finding.BacklogFilling.Code, finding.PrivacyMode.Code,
	finding.DiskLow.Code, finding.InodesOut.Code, finding.CertificateEnds.Code, finding.NoSnapshot.Code, finding.SnapshotFailed.Code,
}

// keyOf returns the key of a finding. All faults, and the findings in weighty, are important.
func keyOf(f finding.Finding) key {
	switch {
	case f.Code == finding.GatewaySilent.Code: // what GatewayAway becomes after a day, so the same finding
		return key{finding.GatewayAway.Code, f.About}
	case f.Severity == finding.Fault, slices.Contains(weighty, f.Code):
		return key{f.Code, f.About}
	}
	return key{}
}

// patient returns how long a finding must last before it is reported. It is 0 for the findings that are made only after
// their cause has lasted for a while.
func patient(k key) time.Duration {
	if k.code == finding.BotUnreached.Code || k.code == finding.GatewayAway.Code {
		return 0
	}
	return stands
}

// seen remembers the looks of this run.
type seen struct {
	began time.Time               // when this run began: in its first five minutes gateways come back and nothing is reported
	since map[key]time.Time       // of present findings: the first look that saw it
	now   map[key]finding.Finding // the present findings, as the newest look saw them
	gone  map[key]time.Time       // of reported findings that are over: the first look without them
}

// take replaces the present findings by those of a new look. told are the reported findings that were not over before.
func (s *seen) take(found finding.List, told []store.ToldFinding, now time.Time) {
	since, gone := s.since, s.gone
	*s = seen{s.began, make(map[key]time.Time), make(map[key]finding.Finding), make(map[key]time.Time)}
	for _, f := range found {
		k := keyOf(f)
		if _, twice := s.now[k]; twice || k == (key{}) {
			continue
		}
		s.now[k], s.since[k] = f, now
		if t, ok := since[k]; ok {
			s.since[k] = t
		}
	}
	for _, t := range told {
		k := key{t.Code, t.About}
		if _, here := s.now[k]; here {
			continue
		}
		if s.gone[k] = now; !gone[k].IsZero() {
			s.gone[k] = gone[k]
		}
	}
}

// stood reports whether the finding with that key has lasted long enough to be reported.
func (s *seen) stood(k key, now time.Time) bool {
	t, ok := s.since[k]
	return ok && now.Sub(t) >= patient(k) && now.Sub(s.began) >= stands
}

// news holds what is to be reported: present findings, and reported ones that are over.
type news struct {
	begun []finding.Finding // the worst first
	over  []store.ToldFinding
}

func (n news) none() bool { return len(n.begun)+len(n.over) == 0 }

// standing returns the findings that have lasted long enough.
func (s *seen) standing(now time.Time) (out news) {
	for k, f := range s.now {
		if s.stood(k, now) {
			out.begun = append(out.begun, f)
		}
	}
	finding.Sort(out.begun)
	return out
}

// news returns the present findings that are to be reported and were not yet, and the reported ones that are over. Once
// one finding has lasted long enough, those that began up to `together` later are reported with it.
func (s *seen) news(told []store.ToldFinding, now time.Time) (out news) {
	known := make(map[key]bool)
	for _, t := range told {
		k := key{t.Code, t.About}
		known[k] = true
		if at, ok := s.gone[k]; ok && now.Sub(at) >= calm && now.Sub(s.began) >= settling {
			out.over = append(out.over, t)
		}
	}
	due := false
	for k := range s.now {
		due = due || !known[k] && s.stood(k, now)
	}
	for k, f := range s.now {
		if due && !known[k] && (s.stood(k, now) || now.Sub(s.since[k]) >= stands-together) {
			out.begun = append(out.begun, f)
		}
	}
	finding.Sort(out.begun)
	return out
}

// through separates the news that may go one way from the rest.
func (n news) through(w Way) (mine, rest news) {
	for _, f := range n.begun {
		if w.Carries(f.About) {
			mine.begun = append(mine.begun, f)
		} else {
			rest.begun = append(rest.begun, f)
		}
	}
	for _, t := range n.over {
		if w.Carries(t.About) {
			mine.over = append(mine.over, t)
		} else {
			rest.over = append(rest.over, t)
		}
	}
	return mine, rest
}

// after returns the reported findings that are not over, including this news.
func (n news) after(told []store.ToldFinding, now time.Time) []store.ToldFinding {
	told = slices.DeleteFunc(slices.Clone(told), func(t store.ToldFinding) bool { return slices.Contains(n.over, t) })
	for _, f := range n.begun {
		k := keyOf(f)
		told = append(told, store.ToldFinding{Code: k.code, About: k.about, What: f.What, At: now.UTC()})
	}
	return told
}
