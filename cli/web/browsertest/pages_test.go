package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestServerGoesAndComes: the pages say that the server is gone, nothing that was typed is lost, and with the next server
// they go on by themselves, without another login; the chat with an empty room.
func TestServerGoesAndComes(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	e := p.enroll("home")
	b, status := p.login(), p.login()
	b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	b.writes("remember me")
	b.says("remember me")
	for _, page := range []*tab{b, status} {
		page.mayFail() // the browser says itself that nobody answers
	}
	p.stop()
	b.says("The server does not answer")
	b.looks("chat broken")
	b.do("write", chromedp.SendKeys("#text", "lost?", chromedp.ByQuery), enter)
	b.says("The server did not answer.")
	b.do("write on", chromedp.SendKeys("#text", "later", chromedp.ByQuery))
	status.says("The server does not answer")
	p.start()
	status.says("This page is live")
	b.await("the room is the next server's, and what was written stands", "!document.body.innerText.includes('remember me') && document.getElementById('text')?.value.trim() === 'later' && document.querySelector('#unsent .said').innerText === 'lost?'")
	b.says("Earlier ones are not kept")
	eval[int](b, "text.value = '', 0")
	a := p.dial(e, onWeb)
	b.says("is connected")
	if ev := a.hears(); ev.Text != "remember me" { // the gateway's copy is on the disk
		t.Errorf("the gateway hears %q", ev.Text)
	}
	b.writes("again") // which has what waits tried once more
	for _, want := range []string{"lost?", "again"} {
		if ev := a.hears(); ev.Text != want {
			t.Errorf("the gateway hears %q, want %q", ev.Text, want)
		}
	}
}

// TestTwoPagesOfOneRoom: what happens in one is seen in the other, and a question is answered once.
func TestTwoPagesOfOneRoom(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	a := p.dial(p.enroll("home"), onWeb)
	one, other := p.login(), p.login()
	for _, b := range []*tab{one, other} {
		b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	}
	one.writes("hello from one")
	other.says("hello from one")
	chat := a.hears().Source.ChatID
	m := a.does(onWeb, relay.Send{Chat: chat, Content: "first"}).MessageID
	other.says("first")
	a.does(onWeb, relay.Edit{Chat: chat, Message: m, Content: "second"})
	a.does(onWeb, relay.Prompt{
		Chat: chat, Content: "really?", Kind: relay.PromptChoice, PromptID: "q",
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}, {ID: "no", Label: "No"}},
	})
	for _, b := range []*tab{one, other} {
		b.says("second")
		b.says("Yes")
	}
	one.click("Yes")
	other.says("You chose: Yes")
	if ev := a.hears(); ev.Prompt == nil || ev.Prompt.OptionID != "yes" {
		t.Errorf("the press: %+v", ev.Prompt)
	}
	for _, b := range []*tab{one, other} {
		b.await("the buttons are gone", "!document.querySelector('.buttons')")
		b.noErrors()
	}
	seen := func(b *tab) string { return eval[string](b, "document.getElementById('messages').innerText") }
	if x, y := seen(one), seen(other); x != y {
		t.Errorf("one page says\n%s\nand the other\n%s", x, y)
	}
}

// TestAPageThatNobodySees takes no connection, of which a browser has six for a server, and shows what it missed later.
func TestAPageThatNobodySees(t *testing.T) {
	t.Parallel()
	p, a, b := talk(t)
	b.writes("hello")
	chat := a.hears().Source.ChatID
	a.does(onWeb, relay.Send{Chat: chat, Content: "seen"})
	b.says("seen")
	hide := func(hidden bool) {
		b.do("hide", chromedp.Evaluate(fmt.Sprintf(
			"Object.defineProperty(document, 'hidden', {value: %t, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))", hidden), nil))
	}
	hide(true)
	a.does(onWeb, relay.Send{Chat: chat, Content: "missed"})
	other := p.login() // what comes to this page has had its time
	other.do("open", chromedp.Navigate(p.site+"/chat/home"))
	other.says("missed")
	if strings.Contains(b.text("#messages"), "missed") {
		t.Error("a page that nobody sees holds a connection")
	}
	hide(false)
	b.says("missed")
	if n := eval[int](b, "document.querySelectorAll('.message').length"); n != 3 {
		t.Errorf("%d messages are shown, want 3", n)
	}
}
