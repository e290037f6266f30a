package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// tab is a browser of its own, without cookies, and what went wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex // guards the fields below
	faults  []string
	refused []string         // what the browser's console says of answers that are errors
	status  map[string]int64 // of the documents, by their addresses

	careless bool // things may go wrong
}

// newTab opens a tab. At the end of the test nothing may have gone wrong in it, but for answers that the test asked for.
func newTab(t *testing.T) *tab {
	t.Helper()
	inBrowser(t)
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithTargetID(window(t)))
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, within)
	t.Cleanup(end)
	b := &tab{t: t, ctx: ctx, status: make(map[string]int64)}
	chromedp.ListenTarget(ctx, b.heard)
	b.do("open a tab", network.Enable(), audits.Enable())
	t.Cleanup(b.clean)
	return b
}

// window opens a window that shares nothing with others.
func window(t *testing.T) (id target.ID) {
	t.Helper()
	in := cdp.WithExecutor(browser, chromedp.FromContext(browser).Browser)
	alone, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(in)
	if err == nil {
		id, err = target.CreateTarget("about:blank").WithBrowserContextID(alone).WithNewWindow(true).Do(in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *tab) heard(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "script: "+ev.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
			b.faults = append(b.faults, fmt.Sprintf("console: %v", ev.Args))
		}
	case *log.EventEntryAdded:
		// That a document or a post was refused is looked at by the test that asks for it.
		e := ev.Entry
		switch {
		case e.Level != log.LevelError:
		case e.Source == log.SourceNetwork && strings.Contains(e.Text, "responded with a status of"):
			b.refused = append(b.refused, e.Text+" ("+e.URL+")")
		default:
			b.faults = append(b.faults, fmt.Sprintf("%s: %s (%s)", e.Source, e.Text, e.URL))
		}
	case *audits.EventIssueAdded:
		if ev.Issue.Code != audits.InspectorIssueCodeGenericIssue {
			b.faults = append(b.faults, fmt.Sprintf("issue: %s %+v", ev.Issue.Code, ev.Issue.Details))
		}
	case *network.EventResponseReceived:
		if ev.Type == network.ResourceTypeDocument {
			b.status[ev.Response.URL] = ev.Response.Status
		} else if ev.Response.Status >= 400 && ev.Type != network.ResourceTypeFetch && ev.Type != network.ResourceTypeEventSource {
			b.faults = append(b.faults, fmt.Sprintf("%s is %d", ev.Response.URL, ev.Response.Status))
		}
	}
}

// noErrors looks whether the console is empty so far, also of answers that are errors.
func (b *tab) noErrors() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range append(b.refused, b.faults...) {
		b.t.Errorf("the console says: %s", line)
	}
}

// clean is the end of a tab's test: no violation of the policy, no error, no exception.
func (b *tab) clean() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.careless {
		return
	}
	for _, f := range b.faults {
		b.t.Error(f)
	}
}

// mayFail lets things go wrong in the tab, for a test in which they have to: some are told a while after they happened.
func (b *tab) mayFail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.careless = true
}

// do does something in the tab.
func (b *tab) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	b.must(what, chromedp.Run(b.ctx, actions...))
}

// must ends the test with what the page says, if err is not nil.
func (b *tab) must(what string, err error) {
	b.t.Helper()
	if err == nil {
		return
	}
	var seen string
	_ = chromedp.Run(b.ctx, chromedp.Text("body", &seen, chromedp.ByQuery, chromedp.AtLeast(0)))
	b.t.Fatalf("%s: %v; the page says:\n%s", what, err, seen)
}

// open goes to an address, which answers with the status.
func (b *tab) open(address string, status int64) {
	b.t.Helper()
	b.do("open "+address, chromedp.Navigate(address))
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.status[address]; got != status {
		b.t.Errorf("%s answered %d, want %d", address, got, status)
	}
}

// text is what a person reads in an element.
func (b *tab) text(selector string) (s string) {
	b.t.Helper()
	b.do("read "+selector, chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// pollEvery is the pause between two looks at a page. Chromium draws no frames of a window that nobody sees, so that
// waiting for frames may be for ever.
const pollEvery = 50 * time.Millisecond

// await waits until an expression of JavaScript is true, also over a change of the page.
func (b *tab) await(what, expression string) {
	b.t.Helper()
	for {
		err := chromedp.Run(b.ctx, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(pollEvery), chromedp.WithPollingTimeout(within/2)))
		if err != nil && b.ctx.Err() == nil && (strings.Contains(err.Error(), "navigated or closed") || strings.Contains(err.Error(), "context")) {
			continue
		}
		b.must("wait until "+what, err)
		return
	}
}

// says waits until the page has a text.
func (b *tab) says(words string) {
	b.t.Helper()
	b.await(fmt.Sprintf("the page says %q", words), fmt.Sprintf("document.body.innerText.includes(%q)", words))
}

// eval is the value of an expression of JavaScript, or of what it promises.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.do("evaluate "+expression, chromedp.Evaluate(expression, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return v
}

// picture takes a screenshot of the whole page.
func (b *tab) picture(name string) {
	b.t.Helper()
	var png []byte
	b.do("screenshot", chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(picture(name), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// scriptless has the tab run no script of its pages any more.
func (b *tab) scriptless() {
	b.t.Helper()
	b.do("no script", emulation.SetScriptExecutionDisabled(true))
}
