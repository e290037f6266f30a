package door

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// text is what h answers to a request.
func text(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String()
}

func says(words string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(words)) })
}

func TestServersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShare(says("nobody"))
		s.Refused() // counts with nobody
		for _, name := range []string{"first", "second"} {
			if got := text(t, s); got != "nobody" || s.Served() {
				t.Errorf("before the %s: %q, %v", name, got, s.Served())
			}
			ctx, end := context.WithCancel(t.Context())
			refused := 0
			ended := make(chan error)
			go func() { ended <- Run(ctx, s.Turn(), says(name), func() { refused++ }) }()
			synctest.Wait()
			s.Refused()
			if got := text(t, s); got != name || !s.Served() || refused != 1 {
				t.Errorf("while it serves: %q, %v, %d refused", got, s.Served(), refused)
			}
			end()
			if err := <-ended; err != nil {
				t.Errorf("Run() = %v", err)
			}
		}
	})
}

// TestRequestsOfAServerThatEnds: its requests hear of it, and are waited for, but not for ever; those of the next are its own.
func TestRequestsOfAServerThatEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		listens bool // the handler ends with its context
		after   time.Duration
	}{
		"one that listens":  {true, 0},
		"one that does not": {false, stopWithin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewShare(says("nobody"))
				ctx, end := context.WithCancel(t.Context())
				release := make(chan struct{})
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tc.listens {
						<-r.Context().Done()
					} else {
						<-release
					}
				})
				ended := make(chan error, 1)
				go func() { ended <- Run(ctx, s.Turn(), h, func() {}) }()
				synctest.Wait()
				answered := make(chan string, 1)
				go func() { answered <- text(t, s) }()
				synctest.Wait()
				began := time.Now()
				end()
				synctest.Wait()
				if got := text(t, s); got != "nobody" {
					t.Errorf("a request after its end: %q", got)
				}
				if err := <-ended; err != nil || time.Since(began) != tc.after {
					t.Errorf("Run() = %v after %v, want it after %v", err, time.Since(began), tc.after)
				}
				close(release)
				<-answered
			})
		})
	}
}

func TestATurnThatIsOverBeforeItServes(t *testing.T) {
	s := NewShare(says("nobody"))
	turn := s.Turn()
	if err := turn.Close(); err != nil {
		t.Error(err)
	}
	if err := turn.Serve(says("late"), nil); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve() = %v", err)
	}
	if got := text(t, s); got != "nobody" {
		t.Errorf("it answers %q", got)
	}
}
