package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestTenStates makes a picture of each state that the pages are looked at in by eye before a release, and has axe-core look for what
// keeps people out. With -pictures they are in that folder. README's picture is made anew by
//
//	go test -tags long -run TestTenStates ./cli/web/browsertest -pictures /tmp/pages && cp /tmp/pages/00-readme.png packaging/pages.png
func TestTenStates(t *testing.T) {
	t.Parallel()
	inBrowser(t)
	axe, err := os.ReadFile(filepath.Join(platformtest.Partner(t, "axe-core"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	shot := func(b *tab, state string, width int64, scheme string) {
		t.Helper()
		b.do("size", emulation.SetDeviceMetricsOverride(width, 800, 1, width < 500),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		var png []byte
		b.do("screenshot", chromedp.CaptureScreenshot(&png))
		if err := os.WriteFile(picture(state), png, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
			t.Errorf("%s: the page is %d wide in a window of %d", state, got, width)
		}
		b.do("axe", chromedp.Evaluate(string(axe), nil))
		for _, bad := range eval[[]string](b, judged) {
			t.Errorf("%s: %s", state, bad)
		}
	}

	p := serve(t, withLoopback)
	p.says("ann@garden hello") // makes the folder
	b := p.login()
	b.says("No gateway is enrolled")
	shot(b, "01 empty", 1280, "light")
	home := p.enroll("home")
	p.run("link", "home", "--user", "loopback:ann")
	a := p.dial(home, onLoopback, onWeb)
	b.says("Everything works")
	shot(b, "02 one gateway", 1280, "light")

	secret := filepath.Join(t.TempDir(), "t")
	if err := os.WriteFile(secret, []byte("110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"), 0o600); err != nil {
		t.Fatal(err)
	}
	telegram := func(does http.HandlerFunc) string {
		network := httptest.NewServer(does)
		t.Cleanup(network.Close)
		return fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = %q\napi_base = %q\n", secret, network.URL)
	}

	// README shows this one: packaging/pages.png.
	begin := make(chan struct{})
	family := serve(t, telegram(household(begin)))
	kitchen, kids := family.enroll("kitchen"), family.enroll("kids")
	for _, linked := range []string{"kitchen telegram:4242 Ann", "kitchen telegram:4343 Ben", "kids telegram:4444 Mia"} {
		w := strings.Fields(linked)
		family.run("link", w[0], "--user", w[1])
		family.run("people", "name", w[1], w[2])
	}
	family.dial(kitchen, onTelegram, onWeb)
	family.dial(kids, onTelegram, onWeb)
	close(begin)
	r := family.login()
	r.says("Everything works")
	r.says("homelab_bot")
	r.says("delivered to")
	shot(r, "00 readme", 1000, "light")

	sick := serve(t, telegram(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"ok":false,"error_code":401,"description":"Unauthorized"}`)
	}))
	for _, name := range []string{"garage", "garden", "kitchen"} {
		sick.enroll(name)
	}
	s := sick.login()
	s.says("HC101")
	s.do("open", chromedp.Evaluate("document.getElementById('more').open = true", nil))
	s.says("garden")
	shot(s, "03 findings", 1280, "light")
	s.do("fix", chromedp.Evaluate("document.querySelector('.fixes a').click()", nil))
	s.says("Leave it as it is")
	shot(s, "03 a fix", 390, "light")
	s.mayFail()
	s.do("back", chromedp.Navigate(sick.site+"/"))
	s.says("This page is live")
	sick.stop()
	s.says("The server does not answer")
	shot(s, "04 dead server", 1280, "light")

	b.do("chat", chromedp.Navigate(p.site+"/chat"))
	b.says("Pick a gateway")
	shot(b, "05 gateways", 390, "light")
	b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	b.writes("Wie lese ich eine Datei Zeile für Zeile?")
	chat := a.hears().Source.ChatID
	a.does(onWeb, relay.Send{Chat: chat, Content: "So:\n\n```go\nf, err := os.Open(\"file.txt\")\nif err != nil {\n\treturn err\n}\ndefer f.Close()\nfor s := bufio.NewScanner(f); s.Scan(); {\n\tfmt.Println(s.Text())\n}\n```\n\nDas `defer` schließt die Datei."})
	b.says("schließt die Datei")
	shot(b, "05 chat with code", 1280, "light")
	a.does(onWeb, relay.Send{Chat: chat, Content: "| Zimmer | Soll | Ist | Ventil |\n|---|---|---|---|\n| Küche | 21 °C | 20,4 °C | 35 % |\n| Bad | 23 °C | 23,1 °C | 0 % |\n| Schlafzimmer | 17 °C | 18,9 °C | 0 % |"})
	b.says("Schlafzimmer")
	shot(b, "06 chat with a table", 390, "light")
	a.does(onWeb, relay.SendMedia{Chat: chat, Kind: "image", SourceURL: a.upload(sunset(t)), Filename: "sunset.png", Caption: "Der Blick von *oben*."})
	b.await("the picture is shown", "[...document.images].some(i => i.complete && i.naturalWidth === 640)")
	shot(b, "07 chat with a picture", 1280, "light")
	for i := range 200 {
		a.does(onWeb, relay.Send{Chat: chat, Content: fmt.Sprintf("Nachricht %d von 200, %s", i+1, strings.Repeat("mit etwas Text ", i%7))})
	}
	b.says("Nachricht 200 von 200")
	b.do("load again", chromedp.Reload())
	b.says("Nachricht 200 von 200")
	shot(b, "08 chat with 200 messages", 1280, "light")
	b.writes("Danke!")
	a.hears()
	a.does(onWeb, relay.Prompt{
		Chat: chat, Content: "Soll ich das Licht ausmachen?", Kind: relay.PromptChoice, PromptID: "q",
		Options: []relay.PromptOption{{ID: "yes", Label: "Ja, bitte", Style: "primary"}, {ID: "no", Label: "Nein"}},
	})
	b.says("Ja, bitte")
	shot(b, "09 phone", 390, "light")
	if got := eval[int](b, "document.querySelector('header').offsetHeight"); got > 70 {
		t.Errorf("the head of the page is %d high in a window of 390: it wraps", got)
	}
	shot(b, "10 dark", 390, "dark")
	b.do("status", chromedp.Navigate(p.site+"/"))
	b.says("This page is live")
	shot(b, "10 dark status", 1280, "dark")
	eval[int](b, "document.getElementById('day').scrollIntoView(), 0")
	shot(b, "10 dark charts", 1280, "dark")
	b.click("Link a person")
	b.says("Link a person to home")
	shot(b, "11 link", 390, "light")

	// A phone keeps it on its home screen: the browser finds nothing wrong with what says how.
	var faults []*page.AppManifestError
	b.do("manifest", chromedp.ActionFunc(func(ctx context.Context) error {
		_, all, _, m, err := page.GetAppManifest().Do(ctx)
		if err == nil && m.Scope != p.site+"/" {
			t.Errorf("the app's scope is %q", m.Scope)
		}
		faults = all
		return err
	}))
	for _, f := range faults {
		t.Errorf("the app's manifest: %s", f.Message)
	}
	stranger := newTab(t)
	stranger.open(p.site+"/login", http.StatusOK)
	shot(stranger, "12 login", 390, "light")
	if got := eval[int](stranger, "document.querySelector('header').offsetHeight"); got < 40 {
		t.Errorf("the head of the login is %d high: it does not say whose page this is", got)
	}
}

// onTelegram is the network of the household's bot, whose id is householdBot.
const (
	onTelegram   relay.PlatformID = "telegram"
	householdBot relay.BotID      = "110201543"
)

// household is Telegram for a bot to which three people write a message each, as soon as begin is closed.
func household(begin <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := "true"
		switch path.Base(r.URL.Path) {
		case "getMe":
			answer = fmt.Sprintf(`{"id":%s,"is_bot":true,"first_name":"Homelab","username":"homelab_bot"}`, householdBot)
		case "getWebhookInfo":
			answer = `{"url":""}`
		case "getUpdates":
			more := begin
			if r.FormValue("offset") == "4" {
				more = nil // that was all
			}
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
			var all []string
			for n, from := range []int{4242, 4343, 4444} {
				all = append(all, fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%[1]d,"date":%d,"text":"Good morning","from":{"id":%d,"first_name":"P"},"chat":{"id":%[3]d,"type":"private","first_name":"P"}}}`, n+1, time.Now().Unix(), from))
			}
			answer = "[" + strings.Join(all, ",") + "]"
		}
		_, _ = io.WriteString(w, `{"ok":true,"result":`+answer+`}`)
	}
}

// judged is what axe-core finds that is serious or worse, a line each.
const judged = `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))
	.flatMap(v => v.nodes.map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 160))))`

// sunset is a picture: PNG, 640 by 400.
func sunset(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 640, 400))
	for y := range 400 {
		for x := range 640 {
			c := color.RGBA{uint8(250 - y/4), uint8(180 - y/3), uint8(90 + y/4), 255}
			if dx, dy := x-320, y-250; dx*dx+dy*dy < 70*70 {
				c = color.RGBA{255, 230, 120, 255}
			}
			if y > 280+(x%160)/4 {
				c = color.RGBA{30, 35, 60, 255}
			}
			m.Set(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
