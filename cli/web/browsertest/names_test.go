package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// evil is what people call themselves who want to be markup, an event of a stream, or an address that does something.
const evil = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>\r\n\r\nevent: end\r\ndata: x\u2028\u202e&lt;b&gt; äöü😀"

// intruders are elements and attributes that no page of ours has.
const intruders = `[...document.querySelectorAll('main script, main style, main iframe, main object, main base, main meta, main link, main img:not([src^="/chat/"]), ` +
	`main form:not([action^="/"]), main a[href^="javascript"], main a[href^="data"], main a[href^="//"]')].concat(` +
	`[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style'))).map(e => e.outerHTML.slice(0, 200))`

// TestWhatOthersName: nothing that a gateway or a person wrote, in whatever place, is markup, alive or loaded again.
func TestWhatOthersName(t *testing.T) {
	t.Parallel()
	p := serve(t, withLoopback)
	a := p.dial(p.enroll("home"), onLoopback, onWeb)
	b := p.login()
	b.do("open", chromedp.Navigate(p.site+"/chat/home"))
	b.writes(strings.ReplaceAll(evil, "\r\n", " "))
	ev := a.hears()
	chat := ev.Source.ChatID
	short := []rune(evil)[:40]
	m := a.does(onWeb, relay.Send{Chat: chat, Content: evil, ReplyTo: ev.MessageID}).MessageID
	a.does(onWeb, relay.Edit{Chat: chat, Message: m, Content: "# " + evil + "\n\n" + evil + "\n\n|" + evil + "|\n|---|\n\n```" + evil + "\n" + evil + "\n```\n\n[" + evil + "](data:text/html," + evil + ") " +
		"[x](//evil.example) [x](javascript&colon;alert(1)) <javascript:alert(1)> ![x](https://evil.example/\"onerror=alert(1)) <https://evil.example/\"onmouseover=\"alert(1)>"})
	a.does(onWeb, relay.React{Chat: chat, Message: ev.MessageID, Emoji: string(short)})
	a.does(onWeb, relay.Prompt{
		Chat: chat, Content: evil, Kind: relay.PromptChoice, PromptID: "q.1",
		Options: []relay.PromptOption{{ID: "bad", Label: string(short), Style: "\"><b>"}, {ID: "fine", Label: "the last one"}},
	})
	a.does(onWeb, relay.SendMedia{Chat: chat, Kind: "image", SourceURL: a.upload(pixel), Filename: "\"><img src=x onerror=alert(1)>.png", Caption: evil})
	a.does(onWeb, relay.SendMedia{Chat: chat, Kind: "image", SourceURL: a.upload([]byte("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")), Filename: "x.svg", Caption: "that is all"})
	b.says("that is all")
	for _, when := range []string{"alive", "loaded again"} {
		for _, bad := range eval[[]string](b, intruders) {
			t.Errorf("%s: %s", when, bad)
		}
		b.looks("chat names " + when)
		b.do("load again", chromedp.Reload())
	}
	b.click("the last one")
	if ev := a.hears(); ev.Prompt == nil || ev.Prompt.PromptID != "q.1" {
		t.Errorf("the press: %+v", ev.Prompt)
	}
	b.noErrors()

	p.says("<img/src=x/onerror=alert(1)>@<b>garden</b> hello")
	status := p.login()
	status.says("garden")
	for _, bad := range eval[[]string](status, intruders) {
		t.Errorf("status: %s", bad)
	}
	status.looks("status names")
}
