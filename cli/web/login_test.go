package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

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
