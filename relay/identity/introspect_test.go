package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// introspected is a verifier of mode introspect; client nil means the real one.
func introspected(t *testing.T, url, field string, client *http.Client) *Verifier {
	t.Helper()
	return newVerifier(t, &blobs{}, Options{Mode: Introspect, IntrospectURL: url, TenantField: field, Client: client})
}

func TestIntrospection(t *testing.T) {
	acme := Caller{Proof: Token, Tenant: "acme"}
	for name, tc := range map[string]struct {
		status int // 0: 200
		body   string
		field  string // empty: tenant
		want   Caller // zero: err
		err    error
	}{
		"a tenant":                     {body: `{"tenant":"acme"}`, want: acme},
		"a tenant and a subject":       {body: `{"tenant":"acme","sub":"ann\n"}`, want: Caller{Proof: Token, Tenant: "acme", Subject: "ann?"}},
		"an active token":              {body: `{"active":true,"tenant":"acme"}`, want: acme},
		"a tenant further in":          {body: `{"org":{"id":7,"slug":"acme"}}`, field: "org.slug", want: acme},
		"a field with dots":            {body: `{"https://a.example/org":"acme","https://a":{"example/org":"other"}}`, field: "https://a.example/org", want: acme},
		"a field with dots, inside":    {body: `{"ext":{"a.b":"acme"}}`, field: "ext.a.b", want: acme},
		"an inactive token":            {body: `{"active":false,"tenant":"acme"}`, err: ErrUnauthorized},
		"a token that is active, so":   {body: `{"active":"false","tenant":"acme"}`, err: ErrUnauthorized},
		"active that is null":          {body: `{"active":null,"tenant":"acme"}`, err: ErrUnauthorized},
		"401":                          {status: 401, body: `{"tenant":"acme"}`, err: ErrUnauthorized},
		"403":                          {status: 403, body: `{"tenant":"acme"}`, err: ErrUnauthorized},
		"404":                          {status: 404, body: `{"tenant":"acme"}`, err: ErrUnauthorized},
		"400":                          {status: 400, body: `{"tenant":"acme"}`, err: ErrUnavailable},
		"429":                          {status: 429, body: `{"tenant":"acme"}`, err: ErrUnavailable},
		"500":                          {status: 500, body: `{"tenant":"acme"}`, err: ErrUnavailable},
		"another 2xx":                  {status: 203, body: `{"tenant":"acme"}`, err: ErrUnavailable},
		"a redirect":                   {status: 307, err: ErrUnavailable},
		"no tenant":                    {body: `{}`, err: ErrUnavailable},
		"an empty tenant":              {body: `{"tenant":""}`, err: ErrUnavailable},
		"a tenant that cannot be":      {body: `{"tenant":"a/b"}`, err: ErrUnavailable},
		"a tenant that is too long":    {body: `{"tenant":"` + strings.Repeat("a", relay.MaxName+1) + `"}`, err: ErrUnavailable},
		"a tenant that is a number":    {body: `{"tenant":7}`, err: ErrUnavailable},
		"a tenant in another case":     {body: `{"Tenant":"acme"}`, err: ErrUnavailable},
		"a path that ends early":       {body: `{"org":"acme"}`, field: "org.slug", err: ErrUnavailable},
		"a path that goes into a list": {body: `{"org":["acme"]}`, field: "org.0", err: ErrUnavailable},
		"a list":                       {body: `["acme"]`, err: ErrUnavailable},
		"null":                         {body: `null`, err: ErrUnavailable},
		"text":                         {body: `acme`, err: ErrUnavailable},
		"nothing":                      {err: ErrUnavailable},
		"half":                         {body: `{"tenant":"acme"`, err: ErrUnavailable},
		"as long as can be":            {body: `{"tenant":"acme"}` + strings.Repeat(" ", maxAnswer-17), want: acme},
		"huge":                         {body: `{"tenant":"acme"}` + strings.Repeat(" ", maxAnswer-16), err: ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []*http.Request
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r)
				if tc.status == http.StatusTemporaryRedirect {
					w.Header().Set("Location", "/elsewhere")
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = w.Write([]byte(tc.body))
			}))
			field := tc.field
			if field == "" {
				field = "tenant"
			}
			v := introspected(t, srv.URL+"/me?key=confidential", field, nil)
			const bearer = "opaque-credential"
			got, err := v.Caller(t.Context(), bearer)
			srv.Close() // and so waits for the handler
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("Caller = %+v, %v; want %+v, %v", got, err, tc.want, tc.err)
			}
			if len(asked) != 1 || asked[0].Method != http.MethodGet || asked[0].URL.Path != "/me" ||
				asked[0].Header.Get("Authorization") != "Bearer "+bearer {
				t.Errorf("asked %d times", len(asked))
			}
			if err != nil && (strings.Contains(err.Error(), "confidential") || strings.Contains(err.Error(), bearer)) {
				t.Errorf("the error %q says too much", err)
			}
			if m, err := v.Managed(t.Context(), bearer); !errors.Is(err, ErrUnauthorized) {
				t.Errorf("Managed = %+v, %v; want %v", m, err, ErrUnauthorized)
			}
			// The server is gone now, and only a good answer is remembered.
			again, err := v.Caller(t.Context(), bearer)
			if again != tc.want || (tc.err != nil) != errors.Is(err, ErrUnavailable) {
				t.Errorf("again: Caller = %+v, %v; want %+v", again, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "confidential") {
				t.Errorf("the error %q says too much", err)
			}
		})
	}
}

func TestBearersThatAreNotAskedAbout(t *testing.T) {
	h := &host{body: `{"tenant":"acme"}`}
	v := introspected(t, "http://id.example/me", "tenant", &http.Client{Transport: h})
	for name, bearer := range map[string]string{
		"none":           "",
		"a header more":  "x\r\nX-Admin: 1",
		"a blank":        "x y",
		"a zero":         "x\x00",
		"not ASCII":      "schlüssel",
		"broken UTF-8":   "x\xff",
		"over the bound": strings.Repeat("x", maxBearer+1),
	} {
		if c, err := v.Caller(t.Context(), bearer); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s: Caller = %+v, %v; want %v", name, c, err, ErrUnauthorized)
		}
	}
	if n := h.count(); n != 0 {
		t.Errorf("%d questions, want none", n)
	}
	if _, err := v.Caller(t.Context(), strings.Repeat("x", maxBearer)); err != nil {
		t.Errorf("as long as can be: %v", err)
	}
}

func TestGoodAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{body: `{"tenant":"acme"}`}
		v := introspected(t, "http://id.example/me", "tenant", &http.Client{Transport: h})
		ask := func(what, bearer string, want error, questions int) {
			t.Helper()
			c, err := v.Caller(t.Context(), bearer)
			if !errors.Is(err, want) || (err == nil) != (c.Tenant == "acme") {
				t.Errorf("%s: Caller = %+v, %v; want %v", what, c, err, want)
			}
			if n := h.count(); n != questions {
				t.Errorf("%s: %d questions, want %d", what, n, questions)
			}
		}
		ask("first", "x", nil, 1)
		ask("another", "y", nil, 2)
		h.set(func(h *host) { h.status = 401 })
		time.Sleep(rememberFor - 1)
		ask("within a minute", "x", nil, 2)
		time.Sleep(time.Nanosecond)
		ask("after a minute", "x", ErrUnauthorized, 3)
		ask("a refusal is not remembered", "x", ErrUnauthorized, 4)
		h.set(func(h *host) { h.status = 500 })
		ask("trouble", "x", ErrUnavailable, 5)
		h.set(func(h *host) { h.status = 200 })
		ask("trouble is not remembered", "x", nil, 6)
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{body: `{"tenant":"acme"}`}
		v := introspected(t, "http://id.example/me", "tenant", &http.Client{Transport: h})
		for i := range 3 * maxRemembered {
			if _, err := v.Caller(t.Context(), fmt.Sprintf("bearer-%d", i)); err != nil {
				t.Fatal(err)
			}
			if n := len(v.asker.good); n > maxRemembered {
				t.Fatalf("%d answers remembered, want at most %d", n, maxRemembered)
			}
		}
		time.Sleep(rememberFor)
		if _, err := v.Caller(t.Context(), "one-more"); err != nil {
			t.Fatal(err)
		}
		if n := len(v.asker.good); n != 1 {
			t.Errorf("%d answers remembered after a minute, want the newest alone", n)
		}
	})
}

func TestQuestionsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{body: `{"tenant":"acme"}`, takes: time.Second}
		v := introspected(t, "http://id.example/me", "tenant", &http.Client{Transport: h})
		var wg sync.WaitGroup
		for i := range 4 * maxAsking {
			wg.Go(func() {
				if _, err := v.Caller(t.Context(), fmt.Sprintf("bearer-%d", i)); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if h.most != maxAsking || h.count() != 4*maxAsking {
			t.Errorf("%d questions, %d at once; want %d, %d at once", h.count(), h.most, 4*maxAsking, maxAsking)
		}
	})
}

// A server that begins an answer and does not end it is silent too.
func TestIntrospectionThatStopsInTheMiddle(t *testing.T) {
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"tenant":"acme"`))
		_ = http.NewResponseController(w).Flush()
		hangUp()
		<-r.Context().Done()
	}))
	defer srv.Close()
	v := introspected(t, srv.URL, "tenant", nil)
	if c, err := v.Caller(ctx, "x"); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Caller = %+v, %v; want %v", c, err, ErrUnavailable)
	}
}

func TestSilentIntrospection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{takes: time.Hour}
		v := introspected(t, "http://id.example/me", "tenant", &http.Client{Transport: h})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 2 * maxAsking {
			wg.Go(func() {
				_, err := v.Caller(t.Context(), fmt.Sprintf("bearer-%d", i))
				if d := time.Since(began); !errors.Is(err, ErrUnavailable) || d != askFor {
					t.Errorf("after %v: %v; want %v after %v", d, err, ErrUnavailable, askFor)
				}
			})
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := v.Caller(ctx, "hangs-up"); !errors.Is(err, ErrUnavailable) || time.Since(began) != time.Second {
			t.Errorf("who hangs up: %v after %v", err, time.Since(began))
		}
	})
}
