package browsertest

import (
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// What a page says about the server.
const (
	itIsGone  = `document.querySelector('#lost')?.checkVisibility() && getComputedStyle(document.querySelector('#lost .bad')).color === 'rgb(179, 35, 26)' && document.querySelector('#lost').innerText.includes('The server does not answer')`
	allIsWell = `!document.querySelector('#lost')?.checkVisibility() && `
)

// TestTheServerIsGone: pages that are open do not go on saying that all is well when the server is killed, or falls silent; and do
// so again when it is back.
func TestTheServerIsGone(t *testing.T) {
	t.Parallel()
	p := serve(t, withLoopback)
	e := p.enroll("home")
	p.run("bind", "home", "loopback", "ann")
	a := p.dial(e, onLoopback, onWeb)
	pages := map[*tab]string{p.login(): `document.querySelector('#summary h1').innerText === 'Everything works'`}
	chat := p.login()
	chat.do("open the chat", chromedp.Navigate(p.site+"/chat/home"))
	pages[chat] = `document.querySelector('#state').innerText.includes('home is connected.')`
	list := p.login()
	list.do("open the list", chromedp.Navigate(p.site+"/chat"))
	pages[list] = `document.querySelector('main').innerText.includes('home is connected.')`
	well := func() {
		t.Helper()
		for b, words := range pages {
			b.await("all is well", allIsWell+words)
		}
	}
	gone := func(how string) {
		t.Helper()
		for b, words := range pages {
			b.await("the server is gone", itIsGone)
			if eval[bool](b, `[...document.querySelectorAll('.good')].some(e => e.checkVisibility() && getComputedStyle(e).color === 'rgb(23, 112, 58)')`) {
				t.Errorf("%s: something is green on the page with %s", how, words)
			}
		}
	}
	well()
	for b := range pages {
		b.mayFail() // the browser says that it cannot connect
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	gone("silent")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	well()

	a.end()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
	gone("killed")
	for b, name := range map[*tab]string{chat: "gone chat", list: "gone list"} {
		b.looks(name)
	}
	p.start()
	p.dial(e, onLoopback, onWeb)
	well()
}

// TestTimesAreTheBrowsers: whoever reads a page far from the server reads their own clock.
func TestTimesAreTheBrowsers(t *testing.T) {
	t.Parallel()
	p := serve(t, withLoopback)
	e := p.enroll("home")
	p.run("bind", "home", "loopback", "ann")
	a := p.dial(e, onLoopback, onWeb)
	p.says("ann hello")
	a.hears()
	b := newTab(t)
	b.do("far away", emulation.SetTimezoneOverride("Asia/Kathmandu")) // 5 h 45 min ahead of UTC
	b.do("follow the link", chromedp.Navigate(p.link()))
	local := `(t => t && t.innerText === new Intl.DateTimeFormat('en-GB', {timeZone: 'Asia/Kathmandu', hour: '2-digit', minute: '2-digit'}).format(new Date(t.dateTime)))`
	b.says("Everything works")
	b.await("a verdict's time is the reader's", `document.querySelector('#verdicts').innerText.includes('delivered to "home" at') && `+local+`(document.querySelector('#verdicts div:not(.dim) > time'))`)
	b.looks("far away status")
	b.click("Link a person")
	b.await("the code's end is the reader's", `document.querySelector('.secret') && `+local+`(document.querySelector('main time'))`)
	b.do("open the chat", chromedp.Navigate(p.site+"/chat/home"))
	b.await("it is connected", `document.querySelector('#state').innerText.includes('home is connected.')`)
	b.writes("hello")
	a.hears()
	a.does(onWeb, relay.Send{Chat: "home", Content: "as it comes"})
	b.says("as it comes")
	b.await("a message's time is the reader's", local+`(document.querySelector('.message time'))`)
	b.do("load again", chromedp.Reload())
	b.await("it still is", local+`(document.querySelector('.message time'))`)
	a.end()
	b.says("home is away since")
	b.await("since when is the reader's", local+`(document.querySelector('#state time'))`)
}
