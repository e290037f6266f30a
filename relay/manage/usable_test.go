package manage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestAnUnusableWakeURL costs a gateway nothing but itself, and shows until the gateway says something else.
func TestAnUnusableWakeURL(t *testing.T) {
	const (
		word   = "unusable_wake_url"
		inside = "The wake URL that the gateway names is not used: this wake URL is not allowed: it points inside."
		form   = "The wake URL that the gateway names is not used: the wake URL must be http:// or https:// with a host and without a user or password."
	)
	w := newWorld(t, nil)
	url := func(s string) *string { return &s }
	for _, step := range []struct {
		name    string
		say     *string
		stored  string
		warning string // empty: none
	}{
		{"at the first call", url("https://inside.example/"), "", inside},
		{"unsaid", nil, "", ""},
		{"not a URL of the web", url("ftp://box.example"), "", form},
		{"a good one", url("https://box.example/wake"), "https://box.example/wake", ""},
		{"a bad one after a good one", url("https://u:p@box.example/"), "https://box.example/wake", form},
		{"once more", url("https://inside.example/"), "https://box.example/wake", inside},
		{"taken back", url(""), "", ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			p := boot("pigeon")
			p.WakeURL = step.say
			got := w.provision(t, p)
			if !got.SecretIssued || got.Secret == "" {
				t.Error("no secret")
			}
			var warnings []string
			if step.warning != "" {
				warnings = []string{step.warning}
			}
			i, err := store.Only(w.db.Instances(t.Context(), "home"))
			if err != nil || i.WakeURL != step.stored {
				t.Errorf("stored %q, %v; want %q", i.WakeURL, err, step.stored)
			}
			st, err := w.Status(t.Context(), struct{}{})
			if err != nil || len(st.Instances) != 1 {
				t.Fatalf("status %+v, %v", st, err)
			}
			if (st.Instances[0].Warning == word) != (step.warning != "") {
				t.Errorf("status says %q", st.Instances[0].Warning)
			}
			g, err := w.Gateway(t.Context(), manage.Named{Name: "gw-box"})
			if err != nil {
				t.Fatal(err)
			}
			for where, shown := range map[string][]string{"the reply": got.Warnings, "status": st.Instances[0].Warnings, "gateway show": g.Warnings} {
				if diff := cmp.Diff(warnings, shown); diff != "" {
					t.Errorf("%s (-want +got):\n%s", where, diff)
				}
			}
			self, err := w.Self(t.Context(), manage.Named{Name: "home"})
			if err != nil || slices.Contains(self.Missing, step.warning) != (step.warning != "") {
				t.Errorf("self misses %q, %v", self.Missing, err)
			}
		})
	}
}

// TestUnusableRouteKeys cost a gateway nothing but themselves.
func TestUnusableRouteKeys(t *testing.T) {
	many := strings.Split(strings.Repeat("x,", 101), ",")
	for i := range many {
		many[i] = strings.Repeat("k", i+1)
	}
	for name, tc := range map[string]struct{ keys, used []string }{
		"an empty one":                   {[]string{"nest", ""}, []string{"nest"}},
		"one with a blank":               {[]string{"a b", "nest"}, []string{"nest"}},
		"one that writes to a terminal":  {[]string{"a\u009b2J"}, []string{}},
		"one that turns the line around": {[]string{"a\u202eb"}, []string{}},
		"a long one":                     {[]string{strings.Repeat("x", 257), "nest"}, []string{"nest"}},
		"too many":                       {many, many[:100]},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := boot("pigeon")
			p.RouteKeys = tc.keys
			got := w.provision(t, p)
			slices.Sort(got.RouteKeys)
			if diff := cmp.Diff(tc.used, got.RouteKeys); diff != "" || got.Secret == "" {
				t.Errorf("used (-want +got):\n%s", diff)
			}
			if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "oute keys") {
				t.Errorf("warnings %q, want one about route keys", got.Warnings)
			}
		})
	}
}
