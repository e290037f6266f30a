package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestBodyMembers(t *testing.T) {
	b, err := parse([]byte(`{"id":"first","id":"\u0061nn","ID":7,"none":null,"yes":true,"ids":["a","b"],"empty":[],
		"people":[{"platform":"pigeon","userId":"ann"}],"text":"a b","nothing":""}`))
	must.Succeed(t, err)
	for name, tc := range map[string]struct{ got, want any }{
		"of a repeated key the last":  {id[relay.UserID](b, "id"), relay.UserID("ann")},
		"absent":                      {optionalID[relay.UserID](b, "other"), relay.UserID("")},
		"null is absent":              {optionalID[relay.UserID](b, "none"), relay.UserID("")},
		"an empty optional id":        {optionalID[relay.UserID](b, "nothing"), relay.UserID("")},
		"a flag":                      {b.flag("yes"), true},
		"ids":                         {ids[relay.ChatID](b, "ids"), []relay.ChatID{"a", "b"}},
		"no ids":                      {ids[relay.ChatID](b, "empty"), []relay.ChatID{}},
		"people":                      {b.people("people"), []store.Person{{Platform: "pigeon", User: "ann"}}},
		"absent people":               {b.people("none"), []store.Person(nil)},
		"text":                        {b.text("text"), "a b"},
		"texts":                       {b.optionalTexts("ids"), []string{"a", "b"}},
		"absent texts differ from no": {b.optionalTexts("other") == nil && b.optionalTexts("empty") != nil, true},
		"absent text differs from no": {b.optionalText("other") == nil && *b.optionalText("nothing") == "", true},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if b.err != nil {
		t.Error(b.err)
	}
}

func TestTheFirstFaultStays(t *testing.T) {
	b, err := parse([]byte(`{"a":1,"b":2}`))
	must.Succeed(t, err)
	b.text("a")
	b.flag("b")
	b.flag("c")
	if b.err == nil || b.err.Error() != "a: want a string" {
		t.Errorf("error %v, want the first", b.err)
	}
}

func FuzzBody(f *testing.F) {
	for _, s := range samples() {
		if s.body == nil || s.path == "/relay/enroll" || strings.HasPrefix(s.path, "/manage/scope") {
			continue
		}
		raw, err := json.Marshal(s.body(nil))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, s := range []string{`{}`, `null`, `[{}]`, `{"allow":[{"platform":"p","userId":"\ud800"}],"allow":[7]}`, `{"freeResponseScopes":[null,""]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parse(raw)
		if (err == nil) != (b != nil) {
			t.Fatalf("body %v and error %v, want one of them", b, err)
		}
		if err != nil {
			return
		}
		again, err := json.Marshal(b.members)
		must.Succeed(t, err)
		if _, err := parse(again); err != nil {
			t.Fatalf("%s does not parse again: %v", again, err)
		}
		platform, user := id[relay.PlatformID](b, "platform"), optionalID[relay.UserID](b, "userId")
		free, people := ids[relay.ChatID](b, "freeResponseScopes"), b.people("allow")
		texts, address, policy := b.optionalTexts("routeKeys"), b.flag("requireAddress"), b.text("policy")
		if b.err != nil {
			refused, ok := errors.AsType[*routes.Refusal](b.err)
			if name, _, named := strings.Cut(refused.Text, ": "); !ok || refused.Status != http.StatusBadRequest || !named || name == "" {
				t.Fatalf("fault %v, want 400 that names a member", b.err)
			}
			return
		}
		if platform == "" || policy == "" || address && string(b.members["requireAddress"]) != "true" ||
			max(len(free), len(people), len(texts)) > maxList {
			t.Fatalf("no fault in %s", raw)
		}
		all := []string{string(platform), string(user)}
		for _, c := range free {
			all = append(all, string(c))
		}
		for _, p := range people {
			if p.Platform == "" || p.User == "" {
				t.Fatalf("a person without a name in %s", raw)
			}
			all = append(all, string(p.Platform), string(p.User))
		}
		if slices.ContainsFunc(all, func(s string) bool {
			return len(s) > relay.MaxName || !utf8.ValidString(s) || strings.ContainsAny(s, " \x00\n\x7f")
		}) {
			t.Fatalf("an unfit id among %q", all)
		}
	})
}
