package browsertest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDemo: who follows the link that demo prints talks to its gateway, with nothing set up before, and with nobody at a terminal.
func TestDemo(t *testing.T) {
	t.Parallel()
	inBrowser(t)
	p := &program{t: t, dir: t.TempDir()}
	cmd, out := p.command("demo"), &lines{more: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("demo ended with %v: %s", err, out)
		}
	})
	link := out.await(t, `open (http://\S+) in a browser`)
	b := newTab(t)
	b.do("follow the link", chromedp.Navigate(link))
	b.says("demo is connected")
	b.writes("Grüße 😀")
	b.await("the answer is there", `document.querySelector('.message.bot .text')?.innerText.includes('Grüße 😀')`)
	b.says("I repeat what you write")
	b.looks("demo chat")
	picture := filepath.Join(t.TempDir(), "bed.png")
	if err := os.WriteFile(picture, pixel, 0o600); err != nil {
		t.Fatal(err)
	}
	b.do("pick a file", chromedp.SetUploadFiles("#files", []string{picture}, chromedp.ByQuery))
	b.writes("look")
	b.await("the picture is there twice", `document.querySelectorAll('.message.mine img').length === 1 && document.querySelectorAll('.message.bot img').length === 1`)
	b.click("Edit a message")
	b.says("edited")
	b.await("it is asked again", `document.querySelectorAll('.buttons').length === 1`)
	b.click("React to mine")
	b.await("the reaction is there", `document.querySelectorAll('.message.mine .reactions').length === 1`)
	b.looks("demo shown")
	b.click("Status")
	b.says("Everything works")
	b.looks("demo status")
	b.noErrors()
}
