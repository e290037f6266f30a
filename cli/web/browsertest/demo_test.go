package browsertest

import (
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDemo: who follows the link that demo prints talks to its gateway, with nothing set up before.
func TestDemo(t *testing.T) {
	t.Parallel()
	inBrowser(t)
	p := &program{t: t, dir: t.TempDir()}
	cmd, out := p.command("demo"), &lines{more: make(chan struct{})}
	in, err := cmd.StdinPipe() // the demo ends with its input
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("demo ended with %v: %s", err, out)
		}
		_ = in.Close()
	})
	link := out.await(t, `open (http://\S+) in a browser`)
	b := newTab(t)
	b.do("follow the link", chromedp.Navigate(link))
	b.says("Everything works")
	b.looks("demo status")
	b.click("Chat")
	b.click("demo")
	b.says("demo is connected")
	b.writes("Grüße 😀")
	b.await("the answer is there", `document.querySelectorAll('.message.bot .text').length === 1 && document.querySelector('.message.bot .text').innerText.includes('Grüße 😀')`)
	b.looks("demo chat")
	b.noErrors()
}
