package web_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
)

// person are the headers with which browsers open an address that a person gave them.
func person(r *http.Request) {
	for what, says := range map[string]string{"Site": "none", "Mode": "navigate", "Dest": "document", "User": "?1"} {
		r.Header.Set("Sec-Fetch-"+what, says)
	}
}

// TestTheLinkLogsIn: who opens the link in a browser is logged in at once. Whatever else asks gets a page whose button logs in, and
// leaves the code as it was: programs look at links in messages before people do.
func TestTheLinkLogsIn(t *testing.T) {
	s := newSite(t, nil)
	head := func(r *http.Request) { r.Method = http.MethodHead }
	for title, tc := range map[string]struct {
		change []func(*http.Request)
		want   int
	}{
		"the address bar":              {[]func(*http.Request){person}, 303},
		"a program":                    {nil, 200},
		"a previewer":                  {[]func(*http.Request){header("User-Agent", "TelegramBot (like TwitterBot)")}, 200},
		"a page's script":              {[]func(*http.Request){person, header("Sec-Fetch-Mode", "cors"), header("Sec-Fetch-Dest", "empty")}, 200},
		"a frame":                      {[]func(*http.Request){person, header("Sec-Fetch-Dest", "iframe")}, 200},
		"a picture":                    {[]func(*http.Request){person, header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")}, 200},
		"nobody pressed anything":      {[]func(*http.Request){person, header("Sec-Fetch-User", "")}, 200},
		"a page of another site":       {[]func(*http.Request){person, header("Sec-Fetch-Site", "cross-site")}, 200},
		"another port of this machine": {[]func(*http.Request){person, header("Sec-Fetch-Site", "same-site")}, 200},
		"a look ahead":                 {[]func(*http.Request){person, header("Sec-Purpose", "prefetch;prerender")}, 200},
		"an older look ahead":          {[]func(*http.Request){person, header("Purpose", "prefetch")}, 200},
		"a look at the headers":        {[]func(*http.Request){person, head}, 200},
		"a name that points here":      {[]func(*http.Request){person, host("evil.example")}, 403},
	} {
		t.Run(title, func(t *testing.T) {
			code := s.code(t)
			resp := s.ask(request("GET", "/login?code="+code, "", tc.change...))
			if resp.StatusCode != tc.want || (len(resp.Cookies()) == 1) != (tc.want == 303) {
				t.Errorf("%s with %d cookies, want %d", resp.Status, len(resp.Cookies()), tc.want)
			}
			want := http.StatusForbidden // it was used
			if tc.want != 303 {
				want = http.StatusSeeOther
			}
			if again := s.ask(request("POST", "/login", url.Values{"code": {code}}.Encode())); again.StatusCode != want {
				t.Errorf("the form with the same code: %s, want %d", again.Status, want)
			}
		})
	}
}

// TestWhereALoginLeads: to the status page, or to the chat that the link names, and never to another server.
func TestWhereALoginLeads(t *testing.T) {
	s := newSite(t, nil)
	for next, want := range map[string]string{
		"": "/", "/chat/home": "/chat/home", "/chat/K%C3%BCche": "/chat/K%C3%BCche", "https://evil.example/chat/": "/", "//evil.example/chat/": "/",
		"/\\evil.example": "/", "/do": "/", "chat/home": "/", "javascript:alert(1)": "/",
	} {
		code := s.code(t)
		link := "/login?" + url.Values{"code": {code}, "next": {next}}.Encode()
		page := text(s.ask(request("GET", link, "")))
		field := regexp.MustCompile(`name="next" value="([^"]*)"`).FindStringSubmatch(page)
		if field == nil || field[1] != want {
			t.Errorf("next %q: the button leads to %q, want %q", next, field, want)
		}
		for how, resp := range map[string]*http.Response{
			"the button": s.ask(request("POST", "/login", url.Values{"code": {code}, "next": {next}}.Encode())),
			"the link":   s.ask(request("GET", "/login?"+url.Values{"code": {s.code(t)}, "next": {next}}.Encode(), "", person)),
		} {
			if got := resp.Header.Get("Location"); resp.StatusCode != 303 || got != want {
				t.Errorf("next %q, %s: %s to %q, want %q", next, how, resp.Status, got, want)
			}
		}
	}
}

// TestWhoIsSentToTheLogin: no answer to a page that reads is an error, so a browser's console has nothing to say after a
// logout, and a script that posts still learns of it.
func TestWhoIsSentToTheLogin(t *testing.T) {
	s := newSite(t, nil)
	if resp := s.ask(request("GET", "/chat", "")); resp.StatusCode != 303 || resp.Header.Get("Location") != "/login" {
		t.Errorf("a page: %s to %q", resp.Status, resp.Header.Get("Location"))
	}
	resp := s.ask(request("GET", "/stream", "", header("Accept", "text/event-stream")))
	if got := text(resp); resp.StatusCode != 200 || got != page.StreamEnd || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a stream: %s %q", resp.Status, got)
	}
	if resp := s.ask(request("POST", "/do", "")); resp.StatusCode != 401 {
		t.Errorf("a post: %s, want 401", resp.Status)
	}
	if got := text(s.ask(request("GET", "/login?ended", ""))); !strings.Contains(got, "Your login has ended") {
		t.Errorf("the login page does not say that a login has ended: %s", got)
	}
}

// TestUseRenewsALogin: once a day at most, and never one that was ended.
func TestUseRenewsALogin(t *testing.T) {
	for title, tc := range map[string]struct {
		lasts, pause time.Duration
		want         bool
	}{
		"an hour later":                   {30 * 24 * time.Hour, time.Hour, false},
		"a day later":                     {30 * 24 * time.Hour, 24 * time.Hour, true},
		"in its last minute":              {30 * 24 * time.Hour, 30*24*time.Hour - time.Minute, true},
		"a short one, in its first half":  {time.Hour, 20 * time.Minute, false},
		"a short one, in its second half": {time.Hour, 31 * time.Minute, true},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, func(o *web.Options) { o.Login = tc.lasts })
				c := s.logIn(t)
				time.Sleep(tc.pause)
				resp := s.ask(request("GET", "/", "", func(r *http.Request) { r.AddCookie(c) }))
				renewed := resp.Cookies()
				if resp.StatusCode != http.StatusOK || (len(renewed) == 1) != tc.want {
					t.Fatalf("%s with cookies %v, want one: %t", resp.Status, renewed, tc.want)
				}
				time.Sleep(tc.lasts - time.Second)
				resp = s.ask(request("GET", "/", "", func(r *http.Request) { r.AddCookie(c) }))
				if in := resp.StatusCode == http.StatusOK; in != tc.want {
					t.Errorf("almost as long as a login lasts after that: %s, want to be in: %t", resp.Status, tc.want)
				}
				if tc.want && (renewed[0].Value != c.Value || renewed[0].MaxAge != int(tc.lasts/time.Second)) {
					t.Errorf("the cookie is %v, want the same for another %s", renewed[0], tc.lasts)
				}
			})
		})
	}
}

// TestWhomAProxyNames: a name in the header lets in who comes from a trusted proxy, and nobody else.
func TestWhomAProxyNames(t *testing.T) { // invariant 6
	ignored := 0
	s := newSite(t, func(o *web.Options) {
		o.TrustedProxies, o.TrustHeader = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}, "Remote-User"
		o.Ignored = func() { ignored++ }
	})
	user := func(name string) func(*http.Request) { return header("Remote-User", name) }
	for title, tc := range map[string]struct {
		change  []func(*http.Request)
		want    int
		ignored int
	}{
		"the proxy says who":          {[]func(*http.Request){from("10.0.0.2:5"), user("ann")}, 200, 0},
		"with a space and an umlaut":  {[]func(*http.Request){from("10.0.0.2:5"), user("Ännchen B.")}, 200, 0},
		"the proxy says nothing":      {[]func(*http.Request){from("10.0.0.2:5")}, 303, 0},
		"somebody on this machine":    {[]func(*http.Request){user("ann")}, 303, 1},
		"who forwards for the proxy":  {[]func(*http.Request){header("X-Forwarded-For", "10.0.0.2"), user("ann")}, 303, 1},
		"two names":                   {[]func(*http.Request){from("10.0.0.2:5"), user("ann"), func(r *http.Request) { r.Header.Add("Remote-User", "bob") }}, 403, 0},
		"an empty one":                {[]func(*http.Request){from("10.0.0.2:5"), user("")}, 403, 0},
		"one that cannot be shown":    {[]func(*http.Request){from("10.0.0.2:5"), user("a\u202eb")}, 403, 0},
		"one that is too long":        {[]func(*http.Request){from("10.0.0.2:5"), user(strings.Repeat("a", 101))}, 403, 0},
		"another header of that kind": {[]func(*http.Request){from("10.0.0.2:5"), header("X-Forwarded-User", "ann")}, 303, 0},
	} {
		t.Run(title, func(t *testing.T) {
			ignored = 0
			resp := s.ask(request("GET", "/", "", append(tc.change, host(name))...))
			if resp.StatusCode != tc.want || ignored != tc.ignored {
				t.Errorf("%s, ignored %d times; want %d and %d", resp.Status, ignored, tc.want, tc.ignored)
			}
		})
	}
	for _, path := range []string{"/login", "/login?code=abc"} {
		if resp := s.ask(request("GET", path, "", host(name), from("10.0.0.2:5"), user("ann"))); resp.StatusCode != 303 || resp.Header.Get("Location") != "/" {
			t.Errorf("%s: %s to %q", path, resp.Status, resp.Header.Get("Location"))
		}
	}
	if got := text(s.ask(request("POST", "/logout", "", host(name), from("10.0.0.2:5"), user("ann")))); !strings.Contains(got, "Log out at the proxy") {
		t.Errorf("the logout says %s", got)
	}
	if resp := s.ask(request("POST", "/do", "", host(name), from("10.0.0.2:5"), user("ann"), header("Sec-Fetch-Site", "cross-site"))); resp.StatusCode != 403 {
		t.Errorf("a post from another site's page: %s", resp.Status)
	}
	if got := text(s.ask(request("GET", "/who", "", host(name), from("10.0.0.2:5"), user("ann")))); got != "ann" {
		t.Errorf("a page is told that %q asks", got)
	}
}
