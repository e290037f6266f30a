package web_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

type macer struct{}

func (macer) MAC(purpose string, token relay.Secret) []byte {
	sum := sha256.Sum256([]byte(purpose + "\x00key\x00" + token.RevealString()))
	return sum[:]
}

// section is a page, a stream and an action.
type section struct {
	ended chan struct{}
	cause chan error
}

func (s section) Mount(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	mux.Handle("GET /{$}", guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page.Answer(w, http.StatusOK, page.Words(page.Status, "Inside", "secret of the house"))
	})))
	mux.Handle("POST /do", guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") })))
	mux.Handle("GET /stream", guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		s.cause <- context.Cause(r.Context())
		close(s.ended)
	})))
	mux.Handle("GET /who", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, page.Actor(r.Context()).Name) })))
	mux.Handle("GET /panic", guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })))
}

// site is a server over a real store.
type site struct {
	*web.Server
	desk  *login.Desk
	ended chan struct{}
	cause chan error // of the stream's end
}

const (
	name  = "status.example.net"
	lasts = 12 * time.Hour // of a login
)

func newSite(t *testing.T, change func(*web.Options)) *site {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &site{desk: login.NewDesk(db.Codes, macer{}, time.Now), ended: make(chan struct{}), cause: make(chan error, 1)}
	o := web.Options{URL: "https://" + name, Login: lasts}
	if change != nil {
		change(&o)
	}
	s.Server = web.New(s.desk, o, section{s.ended, s.cause})
	return s
}

// request is one to this machine's server, from this machine.
func request(method, path, body string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8788", "127.0.0.1:50000"
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8788}))
	for _, c := range change {
		c(r)
	}
	return r
}

func (s *site) ask(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func text(resp *http.Response) string {
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// logIn is the cookie of a new session.
func (s *site) logIn(t *testing.T) *http.Cookie {
	t.Helper()
	resp := s.ask(request("POST", "/login", url.Values{"code": {s.code(t)}}.Encode()))
	if cookies := resp.Cookies(); resp.StatusCode == http.StatusSeeOther && len(cookies) == 1 {
		return cookies[0]
	}
	t.Fatalf("login: %s", resp.Status)
	return nil
}

func (s *site) code(t *testing.T) string {
	t.Helper()
	code, _, err := s.desk.Mint(context.Background(), audit.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func header(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
func host(h string) func(*http.Request)      { return func(r *http.Request) { r.Host = h } }
func from(a string) func(*http.Request)      { return func(r *http.Request) { r.RemoteAddr = a } }

func TestOnlyWhoIsLoggedInSeesAnything(t *testing.T) { // invariant 1
	s := newSite(t, nil)
	cookie := s.logIn(t)
	for _, path := range []string{"/", "/stream", "/do", "/nowhere", "/static/x", "/%2e%2e/", "//x"} {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT"} {
			resp := s.ask(request(method, path, ""))
			if body := text(resp); resp.StatusCode < 300 || strings.Contains(body, "secret of the house") {
				t.Errorf("a stranger's %s %s: %s", method, path, resp.Status)
			}
		}
	}
	resp := s.ask(request("GET", "/", "", func(r *http.Request) { r.AddCookie(cookie) }))
	if body := text(resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, "secret of the house") {
		t.Errorf("after the login: %s", resp.Status)
	}
	if resp := s.ask(request("GET", "/nowhere", "", func(r *http.Request) { r.AddCookie(cookie) })); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a page that is none: %s, want 404", resp.Status)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	s := newSite(t, nil)
	for _, r := range []*http.Request{
		request("GET", "/", ""), request("GET", "/login", ""), request("POST", "/login", "code=x"),
		request("GET", "/", "", host("evil.example")), request("POST", "/do", "", header("Sec-Fetch-Site", "cross-site")),
	} {
		resp := s.ask(r)
		for k, want := range map[string]string{
			"Content-Security-Policy": page.Policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := resp.Header.Get(k); got != want {
				t.Errorf("%s %s: %s is %q, want %q", r.Method, r.URL, k, got, want)
			}
		}
	}
	for _, loose := range []string{"unsafe-", "*", "data:", "http:"} {
		if strings.Contains(page.Policy, loose) {
			t.Errorf("the policy holds %s", loose)
		}
	}
}

func TestUnderWhichNames(t *testing.T) { // invariant 2
	s := newSite(t, nil)
	at := func(ip string) func(*http.Request) {
		return func(r *http.Request) {
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(ip))))
		}
	}
	for title, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the address it came to":         {host("127.0.0.1:8788"), 200},
		"through a tunnel":               {host("localhost:9000"), 200},
		"without a port":                 {host("127.0.0.1"), 200},
		"the configured name":            {host(name), 200},
		"in capitals, with a last dot":   {host("Status.Example.NET.:443"), 200},
		"IPv6":                           {func(r *http.Request) { at("[::1]:8788")(r); r.Host = "[::1]:8788" }, 200},
		"an address of its own, from it": {func(r *http.Request) { at("192.168.1.5:8788")(r); r.Host = "192.168.1.5:8788" }, 200},
		"a name that points here":        {host("evil.example:8788"), 403},
		"one that begins like ours":      {host(name + ".evil.example"), 403},
		"that of a container's host":     {host("192.168.1.5:8788"), 200},
		"that, by IPv6":                  {host("[fd00::5]:8788"), 200},
		"localhost, from elsewhere":      {func(r *http.Request) { at("192.168.1.5:8788")(r); r.Host = "localhost:8788" }, 403},
		"none":                           {host(""), 403},
		"all interfaces":                 {host("0.0.0.0:8788"), 403},
		"all of IPv6":                    {host("[::]:8788"), 403},
	} {
		t.Run(title, func(t *testing.T) {
			if resp := s.ask(request("GET", "/login", "", tc.change)); resp.StatusCode != tc.want {
				t.Errorf("%s, want %d", resp.Status, tc.want)
			}
		})
	}
}

func TestFromWhichPages(t *testing.T) { // invariant 3
	s := newSite(t, nil)
	cookie := s.logIn(t)
	for title, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"ours":                         {header("Sec-Fetch-Site", "same-origin"), 200},
		"ours, of an older browser":    {header("Origin", "http://127.0.0.1:8788"), 200},
		"no browser":                   {func(*http.Request) {}, 200},
		"another site":                 {header("Sec-Fetch-Site", "cross-site"), 403},
		"another port of this machine": {header("Sec-Fetch-Site", "same-site"), 403},
		"https, where there is none":   {header("Origin", "https://127.0.0.1:8788"), 403},
		"another origin":               {header("Origin", "http://evil.example"), 403},
		"nowhere":                      {header("Origin", "null"), 403},
	} {
		t.Run(title, func(t *testing.T) {
			resp := s.ask(request("POST", "/do", "", func(r *http.Request) { r.AddCookie(cookie) }, tc.change))
			if resp.StatusCode != tc.want {
				t.Errorf("%s, want %d", resp.Status, tc.want)
			}
			code := url.Values{"code": {s.code(t)}}.Encode()
			if resp := s.ask(request("POST", "/login", code, tc.change)); (resp.StatusCode == 403) != (tc.want == 403) {
				t.Errorf("a login from there: %s", resp.Status)
			}
		})
	}
}

func TestWhoMayReadAlong(t *testing.T) { // invariant 4
	s := newSite(t, func(o *web.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")} })
	for title, tc := range map[string]struct {
		peer string
		want int
	}{
		"this machine": {"127.0.0.1:5", 200}, "this machine, by IPv6": {"[::1]:5", 200}, "the proxy": {"10.0.0.2:5", 200},
		"a neighbour": {"10.0.0.3:5", 403}, "the internet": {"203.0.113.7:5", 403},
	} {
		t.Run(title, func(t *testing.T) {
			if resp := s.ask(request("GET", "/login", "", host(name), from(tc.peer))); resp.StatusCode != tc.want {
				t.Errorf("%s, want %d", resp.Status, tc.want)
			}
		})
	}
}

func TestTheCookie(t *testing.T) {
	for title, tc := range map[string]struct {
		url    string
		secure bool
	}{"https in front": {"https://" + name, true}, "this machine": {"http://127.0.0.1:8788", false}} {
		t.Run(title, func(t *testing.T) {
			s := newSite(t, func(o *web.Options) { o.URL = tc.url })
			c := s.logIn(t)
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != tc.secure || c.Path != "/" || c.Domain != "" || c.Name != "hermes-connector-8788" {
				t.Errorf("%+v", c)
			}
			if c.MaxAge < 12*3600-5 || c.MaxAge > 12*3600 {
				t.Errorf("it is kept for %d s, want 12 hours", c.MaxAge)
			}
		})
	}
}

func TestLoginPage(t *testing.T) {
	s := newSite(t, nil)
	code := s.code(t)
	cross := header("Sec-Fetch-Site", "cross-site")
	for range 3 { // looking does not use it up
		if resp := s.ask(request("GET", "/login?code="+code, "", cross)); !strings.Contains(text(resp), code) || len(resp.Cookies()) > 0 {
			t.Fatalf("the page of a link: %s", resp.Status)
		}
	}
	if got := text(s.ask(request("GET", `/login?code="><script>`, "", cross))); strings.Contains(got, "<script") {
		t.Errorf("markup of the link is in the page: %s", got)
	}
	form := url.Values{"code": {code}}.Encode()
	first, second := s.ask(request("POST", "/login", form)), s.ask(request("POST", "/login", form))
	if first.StatusCode != http.StatusSeeOther || first.Header.Get("Location") != "/" {
		t.Errorf("the first login: %s", first.Status)
	}
	if second.StatusCode != http.StatusForbidden || len(second.Cookies()) > 0 || !strings.Contains(text(second), "already used") {
		t.Errorf("the second login with one code: %s, want 403 and no cookie", second.Status)
	}
	cookie := first.Cookies()[0]
	if resp := s.ask(request("GET", "/login", "", func(r *http.Request) { r.AddCookie(cookie) })); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the login page for who is logged in: %s, want 303", resp.Status)
	}
	out := s.ask(request("POST", "/logout", "", func(r *http.Request) { r.AddCookie(cookie) }))
	if c := out.Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("the logout leaves the cookie: %+v", c)
	}
	resp := s.ask(request("GET", "/", "", func(r *http.Request) { r.AddCookie(cookie) }))
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/login" || len(resp.Cookies()) > 0 {
		t.Errorf("after the logout: %s", resp.Status)
	}
	resp = s.ask(request("GET", "/login", "", func(r *http.Request) { r.AddCookie(cookie) }))
	if c := resp.Cookies(); !strings.Contains(text(resp), "Your login has ended") || len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("after the logout the login page leaves %v and does not say what happened", c)
	}
}

func TestTooManyCodes(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	try := func(code, client string) int {
		return s.ask(request("POST", "/login", "code="+code, header("X-Forwarded-For", client))).StatusCode
	}
	codes := make(map[int]int)
	for range 30 {
		codes[try("wrong", "203.0.113.7")]++
	}
	if codes[403] == 0 || codes[403] > 10 || codes[403]+codes[429] != 30 {
		t.Errorf("answers to 30 wrong codes: %v, want at most 10 looked at", codes)
	}
	good := s.code(t)
	for range 2 { // a good one is taken whatever came before it, and once
		codes[try(good, "203.0.113.7")]++
	}
	if codes[303] != 1 || codes[429] != 21 {
		t.Errorf("with a good one twice after them: %v, want one login and one more that must wait", codes)
	}
	if got := try(s.code(t), "198.51.100.1"); got != 303 {
		t.Errorf("a right one from elsewhere: %d, want 303", got)
	}
}

func TestAStreamEndsWithItsSession(t *testing.T) { // invariant 5
	for title, end := range map[string]func(*site, *http.Cookie){
		"logged out": func(s *site, c *http.Cookie) {
			s.ask(request("POST", "/logout", "", func(r *http.Request) { r.AddCookie(c) }))
		},
		"logged out with all others": func(s *site, _ *http.Cookie) { _, _ = s.desk.LogOutAll(context.Background(), audit.Actor{}) },
		"past its time":              func(*site, *http.Cookie) { time.Sleep(lasts) },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil)
				cookie := s.logIn(t)
				began := make(chan struct{})
				go func() {
					defer close(began)
					s.ask(request("GET", "/stream", "", func(r *http.Request) { r.AddCookie(cookie) }))
				}()
				time.Sleep(time.Hour)
				select {
				case <-s.ended:
					t.Fatal("the stream ended by itself")
				default:
				}
				end(s, cookie)
				time.Sleep(6 * time.Second)
				select {
				case <-s.ended:
					if err := <-s.cause; !errors.Is(err, login.ErrNotGood) {
						t.Errorf("it ended because of %v", err)
					}
				default:
					t.Error("six seconds later the stream goes on")
				}
				<-began
			})
		})
	}
}

func TestAddress(t *testing.T) {
	for _, tc := range []struct{ public, scheme, addr, want string }{
		{"", "http", "127.0.0.1:8788", "http://127.0.0.1:8788"},
		{"", "https", "[::1]:8788", "https://[::1]:8788"},
		{"https://a.example", "http", "127.0.0.1:8788", "https://a.example"},
	} {
		if got := web.Address(tc.public, tc.scheme, tc.addr); got != tc.want {
			t.Errorf("Address(%q, %q, %q) = %s, want %s", tc.public, tc.scheme, tc.addr, got, tc.want)
		}
	}
	for _, every := range []string{"0.0.0.0:8788", "[::]:8788", ":8788"} {
		u, err := url.Parse(web.Address("", "http", every))
		if ip, e := netip.ParseAddr(u.Hostname()); err != nil || e != nil || ip.IsUnspecified() || u.Port() != "8788" {
			t.Errorf("Address of %s is %s, which nobody can open", every, u)
		}
	}
}
