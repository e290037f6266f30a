package browsertest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/cli/web/status"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// idle is a connector in which nothing happens.
type idle struct{ status.Service }

func (idle) Status(context.Context, struct{}) (manage.Status, error) {
	return manage.Status{Ready: true, Instances: []manage.InstanceStatus{{ID: "home", State: manage.Connected}}}, nil
}
func (idle) Explain(context.Context, manage.Explain) ([]gate.Decision, error) { return nil, nil }
func (idle) Gateways(context.Context, struct{}) ([]manage.Gateway, error)     { return nil, nil }

type macer struct{}

func (macer) MAC(purpose string, token relay.Secret) []byte {
	sum := sha256.Sum256([]byte(purpose + "\x00" + token.RevealString()))
	return sum[:]
}

// TestTimesThatAreOver: what a person sees whose link is older than ten minutes, and whose login is older than twelve
// hours, while their page is open. The pages are served in this process, for its clock is the test's.
func TestTimesThatAreOver(t *testing.T) {
	t.Parallel()
	inBrowser(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	db, err := store.Open(filepath.Join(t.TempDir(), "connector.db"), store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const lasts = 12 * time.Hour
	site, desk := "http://"+l.Addr().String(), login.NewDesk(db.Codes, macer{}, now)
	pages := web.New(desk, web.Options{URL: site, Now: now, Recheck: time.Second, Login: lasts},
		status.New(status.Options{Service: idle{}, Machine: func() status.Machine { return status.Machine{} }, Now: now}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- pages.Run(ctx, door.Strangers(l, nil, nil, slog.New(slog.DiscardHandler))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	link := func() string {
		code, _, err := desk.Mint(ctx, audit.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		return site + "/login?code=" + code
	}

	late := newTab(t)
	old := link()
	ahead.Add(int64(login.CodeFor))
	late.open(old, 403)
	late.says("This code has expired")
	late.looks("login expired")

	b := newTab(t)
	b.do("follow the link", chromedp.Navigate(link()))
	b.says("This page is live")
	ahead.Add(int64(lasts))
	b.says("Your login has ended")
	b.noErrors()
	b.do("follow another link", chromedp.Navigate(link()))
	b.await("the status page is shown", fmt.Sprintf("location.href === %q", site+"/"))
}
