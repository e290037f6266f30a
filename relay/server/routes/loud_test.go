package routes

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPanicsAreSaid: at a level that people see, and without what was sent.
func TestPanicsAreSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  string
	}{
		"a value that quotes":   {"the body hush", "panic=\"a string\""},
		"a runtime error":       {nil, "index out of range"},
		"a connection given up": {http.ErrAbortHandler, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			h := Loud(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if tc.value == nil {
					_ = []int{}[len(text.String())]
				}
				panic(tc.value)
			}), slog.New(slog.NewTextHandler(&text, nil)))
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("ended with %v, want ErrAbortHandler", p)
				}
				if got := text.String(); tc.value == http.ErrAbortHandler {
					if got != "" {
						t.Errorf("log %q, want nothing", got)
					}
				} else if !strings.Contains(got, tc.want) || strings.Contains(got, "hush") || !strings.Contains(got, "level=ERROR") {
					t.Errorf("log %q, want an error with %q", got, tc.want)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/relay/identity/hush", nil))
		})
	}
}
