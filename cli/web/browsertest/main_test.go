// Package browsertest looks at the web pages with a real Chromium: the program runs as people run it, in a process of
// its own, a gateway dials its door, and a browser opens the pages. A screenshot of every state is put into the folder that
// -pictures names, or a temporary one; its name is printed.
//
// Where there is no Chromium the tests are skipped, and so they are in the quick form of the tests (testdata/long).
package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/cli"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// asProgram has this test's binary be the program.
const asProgram = "HERMES_BROWSERTEST_PROGRAM"

// within bounds what is waited for in a tab. Only a test that fails waits so long; the machine may be busy.
const within = 5 * time.Minute

// rebound is a name that is not ours, and that the browser is told is this machine.
const rebound = "rebound.example"

var keepIn = flag.String("pictures", "", "the folder of the screenshots; empty: a temporary one")

// Set once, by TestMain.
var (
	chromium string          // the browser's file; empty: there is none, or the form is the quick one
	browser  context.Context // of the running browser
	pictures string          // the folder of the screenshots
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		os.Exit(cli.Main())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, name := range long.Pick(nil, []string{"chromium", "chromium-browser", "google-chrome"}) {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		return m.Run()
	}
	flag.Parse()
	var err error
	if pictures = *keepIn; pictures != "" {
		err = os.MkdirAll(pictures, 0o700)
	} else {
		pictures, err = os.MkdirTemp("", "hermes-connector-pages-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	settings, err := os.MkdirTemp("", "hermes-connector-browser-") // of the browser's own, which else lie in the home folder
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(settings) }()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(within),
		chromedp.Env("XDG_CONFIG_HOME="+settings, "XDG_CACHE_HOME="+settings),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		// No window is slower for being behind another.
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-extensions", true),
		// No page can reach a name: whatever is not this machine's fails, and is seen.
		chromedp.Flag("host-resolver-rules", "MAP "+rebound+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
	}...)
	defer cancel()
	// The library does not know all words of a browser that is newer, and says so; no test asks for them.
	b, end := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	defer end()
	if err := chromedp.Run(b); err != nil {
		fmt.Fprintln(os.Stderr, "start chromium:", err)
		return 1
	}
	browser = b
	defer fmt.Println("screenshots of the pages:", pictures)
	return m.Run()
}

// inBrowser skips the test where no browser was started.
func inBrowser(t *testing.T) {
	t.Helper()
	if chromium == "" {
		t.Skip("it wants go test -tags long, and a Chromium: apt-get install chromium")
	}
}

// picture names the file of a screenshot.
func picture(name string) string {
	return filepath.Join(pictures, strings.ReplaceAll(name, " ", "-")+".png")
}
