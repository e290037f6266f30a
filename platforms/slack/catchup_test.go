package slack

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestUnreadableHistory: a channel that Slack refuses to show is left out of a catch-up, whatever its word for that, so that the
// others go on; what may be had later is asked for again.
func TestUnreadableHistory(t *testing.T) {
	for word, again := range map[string]bool{
		"not_in_channel": false, "missing_scope": false, "team_access_not_granted": false, "a_word_of_tomorrow": false,
		"internal_error": true, "service_unavailable": true, "invalid_auth": true,
	} {
		t.Run(word, func(t *testing.T) {
			f := newFakeAPI(t)
			f.personSays("U0ANN", "C0GROUP", "", "missed")
			f.refuse(rest.ChannelHistory, word)
			fd := &feeder{Bot: openOn(t, f, nil), queue: newQueue()}
			all, err := fd.missed(t.Context(), "C0GROUP", "0000000000.000000")
			if len(all) > 0 || (err != nil) != again {
				t.Errorf("%d messages, %v", len(all), err)
			}
		})
	}
	t.Run("a proxy", func(t *testing.T) {
		o := optionsFor("https://slack.test/api")
		o.Transport = forbidding{}
		p, err := open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&feeder{Bot: p}).missed(t.Context(), "C0GROUP", "0000000000.000000"); err == nil {
			t.Error("what a proxy refused counts as Slack's word")
		}
	})
}

// forbidding is a proxy that lets nothing through.
type forbidding struct{}

func (forbidding) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader("<html>no")), Header: http.Header{}, Request: r}, nil
}

// TestTightHistory: an app that is shown 15 messages a minute gets a channel's to its end, threads too, without beginning again.
func TestTightHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(t)
		root := f.personSays("U0ANN", "C0GROUP", "", "line 0")
		for n := range 39 {
			f.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("line ", n+1))
		}
		for n := range 20 {
			f.personSays("U0BOB", "C0GROUP", root, fmt.Sprint("reply ", n))
		}
		f.tight = true
		fd := &feeder{Bot: openOn(t, f, nil), queue: newQueue()}
		for range 2 {
			began := time.Now()
			all, err := fd.missed(t.Context(), "C0GROUP", "0000000000.000000")
			if err != nil || len(all) != 60 {
				t.Errorf("%d messages, %v; want 60", len(all), err)
			}
			if took := time.Since(began); took > 8*time.Minute {
				t.Errorf("took %v for five pages", took)
			}
		}
		f.refuse(rest.ChannelHistory, slices.Repeat([]string{"60"}, 10*maxTries)...)
		if _, err := fd.missed(t.Context(), "C0GROUP", "0000000000.000000"); err == nil {
			t.Error("what Slack never gives is waited for")
		}
	})
}

// TestKnownThreads: missed replies are looked for in the newest threads that the bot takes part in, in fewer of them where Slack
// takes few questions.
func TestKnownThreads(t *testing.T) {
	for name, tc := range map[string]struct {
		refused []string
		want    int
	}{
		"as many as there is time for": {nil, maxThreads},
		"of an app that has to wait":   {[]string{"60"}, knownThreads},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeAPI(t)
				fd := &feeder{Bot: openOn(t, f, nil), queue: newQueue()}
				var roots []string
				for n := range maxThreads + 5 {
					roots = append(roots, f.personSays("U0ANN", "C0GROUP", "", fmt.Sprint("root ", n)))
					fd.memory.joins(talk{"C0GROUP", roots[n]})
				}
				for n, root := range roots {
					f.personSays("U0BOB", "C0GROUP", root, fmt.Sprint("reply ", n))
				}
				f.refuse(rest.ThreadReplies, tc.refused...)
				all, err := fd.missed(t.Context(), "C0GROUP", roots[len(roots)-1])
				if err != nil || len(all) != tc.want || all[len(all)-1].data.Text != fmt.Sprint("reply ", len(roots)-1) {
					t.Errorf("%d replies, %v; want %d, the newest among them", len(all), err, tc.want)
				}
			})
		})
	}
}

// TestPlanWithoutAScope: an app that may not list its channels catches up with those that have a grant.
func TestPlanWithoutAScope(t *testing.T) {
	for word, again := range map[string]bool{"missing_scope": false, "internal_error": true} {
		f := newFakeAPI(t)
		f.refuse(rest.JoinedChannels, word)
		fd := &feeder{Bot: openOn(t, f, nil), in: newInbox("", "C0OTHER"), queue: newQueue()}
		if err := fd.plan(t.Context()); (err != nil) != again || fd.catchup.planned == again {
			t.Errorf("%s: %v, planned %t", word, err, fd.catchup.planned)
		}
		if want := []relay.ChatID{"C0OTHER"}; !again && !slices.Equal(fd.catchup.waits, want) {
			t.Errorf("looks at %q", fd.catchup.waits)
		}
	}
}

// TestCatchUpBesideATroubledChannel: a channel that cannot be read now does not keep those behind it from being caught up, even
// if something waits for it.
func TestCatchUpBesideATroubledChannel(t *testing.T) {
	h, in := interrupted(t, "C0GROUP", "C0TWIN", "D0ANN", "D0BOB")
	h.personSays("U0ANN", "C0TWIN", "", "missed")
	h.personSays("U0ANN", "D0ANN", "", "missed, too")
	h.personSays("U0BOB", "D0BOB", "", "and that")
	h.mu.Lock()
	h.more[rest.ChannelHistory] = func(form url.Values) any {
		if form.Get("channel") == "C0GROUP" {
			return word("internal_error")
		}
		return h.history(h.channels[form.Get("channel")], form)
	}
	h.mu.Unlock()
	h.smu.Lock()
	h.forgets = false
	h.smu.Unlock()
	h.personSays("U0ANN", "C0GROUP", "", "waits") // until its channel is given up
	start(t, h, in)
	await(t, func() string {
		got := in.heard()
		for _, want := range []string{"missed", "missed, too", "and that"} {
			if !slices.Contains(got, want) {
				return fmt.Sprintf("heard %q, not %q", got, want)
			}
		}
		return ""
	})
}
