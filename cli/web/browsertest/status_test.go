package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/relay"
)

const onLoopback relay.PlatformID = "loopback"

const withLoopback = "[[bots]]\nplatform = \"loopback\"\ndir = \"loop\"\n"

// says has ann say something on the loopback network.
func (p *program) says(line string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.dir, "loop"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(p.dir, "loop", "say"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	_ = f.Close()
}

// TestStatus: the status page, from nothing to a gateway at work, as it happens.
func TestStatus(t *testing.T) {
	t.Parallel()
	p := serve(t, withLoopback)
	p.says("ann@garden hello") // makes the folder
	b := p.login()
	b.says("hermes-connector enroll home")
	b.looks("status no gateway")
	e := p.enroll("Küche-😀")
	b.says("Küche-😀")
	p.run("bind", "Küche-😀", "loopback", "ann")
	p.says("ann bist du da?")
	b.says("1 message")
	b.looks("status waiting")
	a := p.dial(e, onLoopback, onWeb)
	if ev := a.hears(); ev.Text != "bist du da?" {
		t.Errorf("the gateway hears %+v", ev)
	}
	a.does(onLoopback, relay.Send{Chat: "@ann", Content: "ja"})
	b.await("all works", "document.querySelector('#summary h1').textContent === 'Everything works'")
	b.looks("status works")
	b.click("Link a person")
	b.says("Link a person to Küche-😀")
	b.looks("link code")
	b.open(p.site+"/nothing", http.StatusNotFound)
	b.looks("no such page")
	b.open(p.site+"/chat/nobody", http.StatusNotFound)
	b.looks("no such gateway")

	b.scriptless()
	b.do("without script", chromedp.Navigate(p.site+"/"), chromedp.WaitVisible("#summary h1", chromedp.ByQuery))
	if got := b.text("#summary h1"); got != "Everything works" {
		t.Errorf("without script the page says %q", got)
	}
	b.picture("status without script")
}

// TestCanaries: no credential and nothing that bound people wrote is in any byte of any page.
func TestCanaries(t *testing.T) {
	t.Parallel()
	inBrowser(t)
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"ok":false,"error_code":401,"description":"Unauthorized"}`)
	}))
	t.Cleanup(network.Close)
	const botToken, words, answer = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0", "KANARIE-VON-ANN", "KANARIE-AN-ANN"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "t"), []byte(botToken), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, withLoopback+fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = %q\napi_base = %q\n", filepath.Join(dir, "t"), network.URL))
	e := p.enroll("home")
	p.run("bind", "home", "loopback", "ann")
	p.says("ann " + words)
	a := p.dial(e, onLoopback, onWeb)
	if ev := a.hears(); ev.Text != words {
		t.Fatalf("the gateway hears %+v", ev)
	}
	a.does(onLoopback, relay.Send{Chat: "@ann", Content: answer})
	b := p.login()
	b.says("HC101")
	b.looks("status dead token")
	a.end()
	p.says("ann " + words + " wartet")
	b.says("1 message")

	key, err := os.ReadFile(filepath.Join(p.dir, "data", "vault.key"))
	if err != nil {
		t.Fatal(err)
	}
	canaries := []string{e.Secret, e.DeliveryKey, botToken, "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0", words, answer, strings.TrimSpace(string(key))}
	seen := p.everything()
	for _, c := range canaries {
		for address, body := range seen {
			if strings.Contains(body, c) {
				t.Errorf("%s holds %q", address, c)
			}
		}
		for _, page := range []string{"/", "/chat", "/chat/home"} {
			b.do("open", chromedp.Navigate(p.site+page), chromedp.WaitVisible("main", chromedp.ByQuery))
			if strings.Contains(eval[string](b, "document.documentElement.outerHTML"), c) {
				t.Errorf("%s shows %q", page, c)
			}
		}
	}
	page := 0
	for address, body := range seen {
		if address == "/" || strings.HasPrefix(address, "/static/") {
			page += len(body)
		}
	}
	if page > 60<<10 {
		t.Errorf("the pages and what they load have %d bytes", page)
	}
	for address, body := range seen {
		if strings.HasSuffix(address, ".js") && len(body) > 20<<10 {
			t.Errorf("%s has %d bytes", address, len(body))
		}
	}
}

// everything is every page, and all that pages load, by their paths.
func (p *program) everything() map[string]string {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	seen := make(map[string]string)
	take := func(path string, res *http.Response, err error) {
		if err != nil {
			p.t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil || res.StatusCode != http.StatusOK {
			p.t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		seen[path] = fmt.Sprint(res.Header) + string(body)
	}
	link, err := url.Parse(p.link())
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := client.PostForm(p.site+"/login", url.Values{"code": {link.Query().Get("code")}})
	take("/", res, err)
	for _, path := range []string{"/chat", "/chat/home"} {
		res, err := client.Get(p.site + path)
		take(path, res, err)
	}
	seen["/events"] = p.firstEvents(client)
	res, err = client.PostForm(p.site+"/link", url.Values{"gateway": {"home"}})
	take("/link", res, err)
	for _, body := range [...]string{seen["/"], seen["/chat/home"]} {
		for _, m := range regexp.MustCompile(`"(/static/[^"]+)"`).FindAllStringSubmatch(body, -1) {
			res, err := client.Get(p.site + m[1])
			take(m[1], res, err)
		}
	}
	return seen
}

// firstEvents is what the status page's stream sends at first: every part of the page.
func (p *program) firstEvents(client *http.Client) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.site+"/events", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var all strings.Builder
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.HasSuffix(all.String(), "</dl>\n\n") && strings.Contains(all.String(), "data: machine\n") {
			return all.String()
		}
	}
	p.t.Fatalf("the stream ended: %s", all.String())
	return ""
}
