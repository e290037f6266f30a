package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hermes-connector/hermes-connector/relay"
)

const onWeb relay.PlatformID = "web"

// pixel is a picture: PNG, one pixel.
var pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")

// enter is the key as browsers report it: what it would write is not written when a script took the key.
var enter = input.DispatchKeyEvent(input.KeyDown).WithKey("Enter").WithCode("Enter").WithWindowsVirtualKeyCode(13).WithText("\r")

// writes types a message into the room and sends it with the enter key.
func (b *tab) writes(text string) {
	b.t.Helper()
	b.do("write", chromedp.Focus("#text", chromedp.ByQuery), input.InsertText(text), enter)
	b.await("it was sent", "document.getElementById('text').value === '' && !document.querySelector('#unsent li')")
}

// talk serves a gateway that is connected, and opens its room.
func talk(t *testing.T) (*program, *agent, *tab) {
	t.Helper()
	p := serve(t, "")
	a := p.dial(p.enroll("home"), onWeb)
	b := p.login()
	b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	return p, a, b
}

// TestChat: a gateway and a person talk, and everything that a gateway can do is seen as it happens.
func TestChat(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	e := p.enroll("Küche-😀")
	b := p.login()
	b.click("Chat")
	b.says("has never connected")
	b.looks("chat list")
	b.click("Küche-😀")
	b.says("What you write waits for it")
	b.looks("chat empty")

	b.writes("Ist da wer? <b>1 & 2</b> 😀")
	b.says("Ist da wer? <b>1 & 2</b> 😀")
	b.says("1 message waits")
	b.looks("chat waiting")
	a := p.dial(e, onWeb)
	b.says("is connected")
	ev := a.hears()
	if ev.Text != "Ist da wer? <b>1 & 2</b> 😀" || ev.Source.ChatType != relay.ChatDM {
		t.Errorf("the gateway hears %+v", ev)
	}
	chat := ev.Source.ChatID

	for typing := false; !typing; typing = eval[bool](b, soonTyping) { // a slow page may see it when it is over
		a.does(onWeb, relay.Typing{Chat: chat})
	}
	b.looks("chat typing")
	res := a.does(onWeb, relay.Send{Chat: chat, Content: "Ja, **gleich**", ReplyTo: ev.MessageID})
	b.says("Ja, gleich")
	b.await("nobody types", "document.getElementById('typing').textContent === ''")
	a.does(onWeb, relay.Edit{Chat: chat, Message: res.MessageID, Content: marked})
	b.says("edited")
	a.does(onWeb, relay.React{Chat: chat, Message: ev.MessageID, Emoji: "👀"})
	b.says("👀")
	b.marks()
	b.looks("chat talk")

	gone := a.does(onWeb, relay.Send{Chat: chat, Content: "vergiss das"}).MessageID
	b.says("vergiss das")
	a.does(onWeb, relay.Delete{Chat: chat, Message: gone})
	b.await("the message is gone", "!document.body.innerText.includes('vergiss das')")

	// As it is after the page was loaded again, so it was live.
	live := eval[string](b, "document.getElementById('messages').innerText")
	b.do("load again", chromedp.Reload())
	if again := eval[string](b, "document.getElementById('messages').innerText"); again != live {
		t.Errorf("loaded again, the room says\n%s\nand said\n%s", again, live)
	}
	a.end()
	b.says("is away since")
	b.looks("chat away")
}

// TestEveryMessageArrives: what is typed while a send is under way waits for its turn, and comes as it was typed, whatever the pace.
func TestEveryMessageArrives(t *testing.T) {
	t.Parallel()
	_, a, b := talk(t)
	const n = 200
	eval[int](b, fmt.Sprintf("new Promise(done => { let n = 0; const type = () => { if (n === %d) return done(n); text.value = 'nr ' + n++; say.requestSubmit(); setTimeout(type, 43); }; type(); })", n))
	for i := 0; i < n; {
		for text := range strings.SplitSeq(a.hears().Text, "\n") { // what waits for the gateway comes to it as one, a line each
			if text != fmt.Sprintf("nr %d", i) {
				t.Fatalf("message %d is %q", i, text)
			}
			i++
		}
	}
	b.await("nothing waits", "!document.querySelector('#unsent li')")
	b.await("all are shown", "document.querySelectorAll('.message').length === 200 && document.querySelector('.message:last-child').innerText.includes('nr 199')")
}

// TestWhatCannotBeSent stands with the reason, and those behind it wait, until it is tried again or removed.
func TestWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	_, a, b := talk(t)
	eval[int](b, "window.net = fetch, window.fetch = () => new Promise((yes, no) => { window.pass = (...all) => yes(net(...all)); window.fall = no; }), 0")
	say := func(words string) {
		t.Helper()
		eval[int](b, fmt.Sprintf("text.value = %q, say.requestSubmit(), 0", words))
	}
	say("eins")
	say("zwei")
	eval[int](b, "text.value = 'drei', fall(new Error()), 0")
	b.says("The server did not answer.")
	b.looks("chat not sent")
	if got := eval[[]string](b, "[...document.querySelectorAll('#unsent .said')].map(e => e.innerText)"); len(got) != 2 || got[0] != "eins" || got[1] != "zwei" {
		t.Errorf("there wait %q", got)
	}
	if got := eval[string](b, "text.value"); got != "drei" {
		t.Errorf("in the field stands %q", got)
	}
	eval[int](b, "window.fetch = net, text.value = '', 0")
	b.click("Remove")
	if ev := a.hears(); ev.Text != "zwei" {
		t.Errorf("after the first was removed the gateway hears %q", ev.Text)
	}
	eval[int](b, "window.fetch = () => Promise.reject(new Error()), 0")
	say("vier")
	say("fünf")
	b.says("The server did not answer.")
	b.do("load again", chromedp.Reload())
	b.says("The page was left before this was sent.")
	b.click("Try again")
	for _, want := range []string{"vier", "fünf"} {
		if ev := a.hears(); ev.Text != want {
			t.Errorf("the gateway hears %q, want %q", ev.Text, want)
		}
	}
	b.await("nothing waits", "!document.querySelector('#unsent li')")
}

// TestDaysAndNewMessages: a line between the days, and one before what came while nobody looked.
func TestDaysAndNewMessages(t *testing.T) {
	t.Parallel()
	p, a, b := talk(t)
	b.writes("hello")
	chat := a.hears().Source.ChatID
	a.does(onWeb, relay.Send{Chat: chat, Content: "seen"})
	b.says("seen")
	if got := eval[int](b, "document.querySelectorAll('.new, .day').length"); got != 0 {
		t.Errorf("%d marks in a room of today that was watched", got)
	}
	b.do("leave", chromedp.Navigate(p.site+"/chat"))
	a.does(onWeb, relay.Send{Chat: chat, Content: "missed"})
	a.does(onWeb, relay.Send{Chat: chat, Content: "missed too"})
	b.do("come back", chromedp.Navigate(p.site+"/chat/home"))
	b.says("missed too")
	if got := eval[string](b, "document.querySelector('.new').nextSibling.innerText"); !strings.Contains(got, "missed") || strings.Contains(got, "too") {
		t.Errorf("new begins with %q", got)
	}
	b.looks("chat new")
	b.writes("I read it")
	b.await("the mark is gone", "!document.querySelector('.new')")
	a.hears()
	eval[int](b, `document.querySelector('.message time').dateTime = '2026-01-02T12:00:00Z', 0`)
	b.writes("and the day?")
	a.hears()
	if got := eval[[]string](b, "[...document.querySelectorAll('.day')].map(e => e.innerText)"); len(got) != 2 || got[0] != "Friday, 2 January" && got[0] != "Friday 2 January" {
		t.Errorf("the days are %q", got)
	}
}

// soonTyping is whether the page says within some seconds that the gateway is typing.
const soonTyping = `new Promise(done => {
	const end = Date.now() + 5000, look = () => {
		if (document.body.innerText.includes('is typing')) done(true);
		else if (Date.now() > end) done(false);
		else setTimeout(look, 50);
	};
	look();
})`

// marked is what models write, and what they could be made to write.
const marked = "# Bericht\n\n**fett** *schräg* ~~weg~~ `code` <script>alert(1)</script>\n\n" +
	"- eins\n- zwei\n  1. zwei a\n\n> zitiert\n\n| a | b |\n|---|---|\n| 1 | sehr lange Zelle mit vielen Wörtern, die nicht umbricht weil_sie_so_lang_ist_und_keine_Leerzeichen_hat |\n\n" +
	"```go\nfunc main() { println(\"eine sehr lange Zeile, die in einem schmalen Fenster für sich allein rollen muss\") }\n```\n\n" +
	"[gut](https://example.net/a?b=c&d=e) [böse](javascript:alert(1)) ![Bild](https://example.net/x.png)\n\n- [x] erledigt"

// marks looks at what became of marked.
func (b *tab) marks() {
	b.t.Helper()
	for selector, n := range map[string]int{
		".text h3": 1, ".text strong": 1, ".text em": 1, ".text s": 1, ".text p > code": 1, ".text ul > li": 3, ".text ol": 1,
		".text blockquote": 1, ".text th": 2, ".text pre code": 1, ".text script": 0, ".text img": 0,
		`.text a[href^="https://example.net/"][rel~="noopener"]`: 2, `.text a[href^="javascript"]`: 0,
	} {
		if got := eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector)); got != n {
			b.t.Errorf("%s: %d, want %d", selector, got, n)
		}
	}
}

// TestButtons: a question's buttons are pressed with the keyboard, and go.
func TestButtons(t *testing.T) {
	t.Parallel()
	_, a, b := talk(t)
	b.writes("ask me")
	chat := a.hears().Source.ChatID
	ask := func(id string) {
		a.does(onWeb, relay.Prompt{
			Chat: chat, Content: "Soll ich **wirklich**?", Kind: relay.PromptApproval, PromptID: id,
			Options: []relay.PromptOption{{ID: "once", Label: "Ja, einmal", Style: "success"}, {ID: "always", Label: "Immer", Style: "primary"}, {ID: "deny", Label: "Nein", Style: "danger"}},
		})
	}
	ask("k3f9a1.0badcafe")
	b.says("Nein")
	b.looks("chat question")
	b.do("press", chromedp.Focus(`button[value="once"]`, chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	ev := a.hears()
	if ev.Prompt == nil || ev.Prompt.OptionID != "once" || ev.Prompt.PromptID != "k3f9a1.0badcafe" {
		t.Errorf("the press: %+v", ev.Prompt)
	}
	b.says("You chose: Ja, einmal")
	b.await("the buttons are gone", "!document.querySelector('.buttons')")
	b.looks("chat answered")

	// Two pages of one person: what one sees the other sees too, and the second press does nothing.
	ask("k3f9a1.0badcaff")
	b.says("Nein")
	b.click("Nein")
	if ev := a.hears(); ev.Prompt == nil || ev.Prompt.OptionID != "deny" {
		t.Errorf("the second question's press: %+v", ev.Prompt)
	}
	b.await("the buttons are gone", "!document.querySelector('.buttons')")
}

// TestFiles: files go both ways, pictures are shown, and anything else is saved and never run.
func TestFiles(t *testing.T) {
	t.Parallel()
	p, a, b := talk(t)
	report := filepath.Join(p.dir, "Bericht äöü.pdf")
	if err := os.WriteFile(report, []byte("%PDF-1.7\n"+strings.Repeat("page ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(p.dir, "other.bin")
	if err := os.WriteFile(other, make([]byte, 10<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	b.do("pick files", chromedp.SetUploadFiles("#files", []string{report, other}, chromedp.ByQuery))
	b.says("other.bin was not added: at most 10 files, 10 MB in total.")
	// A picture is pasted, and another one dropped; one is taken out again.
	eval[int](b, `(() => {
		const data = name => { const d = new DataTransfer(); d.items.add(new File(["x"], name)); return d; };
		text.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data("pasted.png"), cancelable: true}));
		document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data("dropped.png"), bubbles: true, cancelable: true}));
		return 0;
	})()`)
	b.looks("chat picked")
	b.do("take out", chromedp.Click(`button[aria-label="Remove dropped.png"]`, chromedp.ByQuery), chromedp.Click(`button[aria-label="Remove pasted.png"]`, chromedp.ByQuery))
	b.writes("lies das")
	ev := a.hears()
	if len(ev.Media) != 1 || ev.Media[0].Filename != "Bericht äöü.pdf" || ev.Media[0].Mime != "application/pdf" {
		t.Errorf("the gateway is shown %+v", ev.Media)
	}
	b.says("Bericht äöü.pdf (509 bytes)")

	chat := ev.Source.ChatID
	a.does(onWeb, relay.SendMedia{Chat: chat, Kind: "image", SourceURL: a.upload(pixel), Filename: "punkt.png", Caption: "ein *Punkt*"})
	a.does(onWeb, relay.SendMedia{Chat: chat, Kind: "document", SourceURL: a.upload([]byte("<script>document.title='run'</script>")), Filename: "böse.html"})
	b.await("the picture is shown", "[...document.images].some(i => i.complete && i.naturalWidth === 1 && i.alt === 'punkt.png')")
	b.says("böse.html")
	b.looks("chat files")
	bad := eval[string](b, "[...document.querySelectorAll('a[download]')].find(a => a.download === 'böse.html').href")
	kind := eval[string](b, fmt.Sprintf("fetch(%q).then(r => r.headers.get('content-type') + ' ' + r.headers.get('content-disposition') + ' ' + r.headers.get('content-security-policy'))", bad))
	if !strings.HasPrefix(kind, "application/octet-stream attachment") || !strings.Contains(kind, "sandbox") {
		t.Errorf("a file of HTML is sent as %s", kind)
	}
}

// TestWithoutScript: the chat works in a browser that runs none.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	a := p.dial(p.enroll("home"), onWeb)
	b := p.login()
	b.scriptless()
	b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	var has bool
	b.do("write", chromedp.SendKeys("#text", "ohne Script", chromedp.ByQuery), chromedp.Click("#say button", chromedp.ByQuery),
		chromedp.WaitVisible(".message.mine", chromedp.ByQuery))
	ev := a.hears()
	a.does(onWeb, relay.Send{Chat: ev.Source.ChatID, Content: "verstanden"})
	a.does(onWeb, relay.Prompt{Chat: ev.Source.ChatID, Content: "weiter?", Kind: relay.PromptChoice, PromptID: "p1", Options: []relay.PromptOption{{ID: "ja", Label: "Ja"}}})
	b.do("load again", chromedp.Reload(), chromedp.WaitVisible(".message.bot", chromedp.ByQuery), chromedp.Click(`button[value="ja"]`, chromedp.ByQuery))
	if ev := a.hears(); ev.Prompt == nil || ev.Prompt.OptionID != "ja" {
		t.Errorf("the press: %+v", ev.Prompt)
	}
	var nodes []*cdp.Node
	b.do("look", chromedp.Nodes(".message", &nodes, chromedp.ByQueryAll))
	if has = len(nodes) == 3; !has {
		t.Errorf("%d messages are shown", len(nodes))
	}
	b.picture("chat without script")
}
