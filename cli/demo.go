package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

const (
	// demoPerson is the person who speaks in the demo; demoName is the agent to which they are linked.
	demoPerson relay.UserID = "ann"
	demoName   string       = "demo"
	// demoWithin bounds `demo --once`.
	demoWithin = 30 * time.Second
)

func newDemoCmd(a *app) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try everything in one process, without a bot or a network",
		Long: `Runs the real connector over a chat network in memory, and a small gateway that connects
with a real token and repeats every message. You type as a person called ann; every step is printed
with its time. The printed link opens a chat with the same gateway in a browser, which also takes
files and shows buttons, and the status page. The demo ends with its input, or when you stop it. It
keeps nothing: its data folder is temporary.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, hurry, release := signals(cmd.Context(), nil)
			defer release()
			return demo(ctx, hurry, once, a.stdin, &hops{w: a.stdout})
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "send one message, print each step, and end when the answer is back")
	return cmd
}

// hops prints what happens, one line each, from several goroutines.
type hops struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (h *hops) print(who, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A terminal that went away ends the demo by its input, not here.
	_, _ = fmt.Fprintf(h.w, "%s  %-9s  %s\n", time.Now().Format("15:04:05.000"), who, fmt.Sprintf(format, args...))
}

// demo starts the connector in a temporary folder, with a chat network on its one side and a gateway on the other. It
// owns the server, the gateway and the reader of the input. All have ended when demo returns, except the reader, which
// may be blocked on the terminal.
func demo(ctx, hurry context.Context, once bool, stdin io.Reader, out *hops) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir, err := os.MkdirTemp("", "hermes-connector-demo-")
	if err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	quiet := slog.New(slog.DiscardHandler)
	cfg := &config.Config{DataDir: dir, Delivery: config.Delivery{Window: 1}, Vault: config.Vault{KeyFile: filepath.Join(dir, "vault.key")}}
	db, v, err := openStore(ctx, cfg, true, nil, quiet)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	network := local.NewNetwork()
	bots := []platforms.Bot{local.NewLoopback(network, quiet)}
	var pages door.Door
	if !once {
		cfg.Web.Listen = "127.0.0.1:0"
		pagesAt, err := listenWeb(cfg)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		pages = door.Strangers(pagesAt, nil, nil, quiet)
		defer func() { _ = pages.Close() }() // closed already when it was served
		bots = append(bots, local.NewWeb(local.NewRooms(), quiet))
	}
	core, err := newCore(cfg, db, v, bots, cfg.Guard(l.Addr().String()), quiet, l.Addr().String(), nil)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if pages != nil {
		core.serveWeb(cfg, pages, nil, v, nil, quiet)
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil) // runs before wg.Wait, which would otherwise never return
	wg.Go(func() {
		if err := core.run(ctx, hurry, door.Strangers(l, nil, nil, quiet)); err != nil {
			cancel(err)
		}
	})
	cred, err := core.service.Enroll(ctx, audit.Actor{}, manage.Enroll{Name: demoName})
	if err == nil {
		_, err = core.service.Bind(ctx, audit.Actor{}, manage.Bind{Name: demoName, Platform: local.LoopbackID, User: demoPerson})
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	out.print("connector", "listening on http://%s, data in a temporary folder", l.Addr())

	connected := make(chan struct{})
	connect := sync.OnceFunc(func() { close(connected) })
	gw := &echo.Gateway{Shows: !once}
	gw.URL, gw.ID, gw.Secret = "ws://"+l.Addr().String()+"/relay", cred.Gateway, relay.NewSecret([]byte(cred.Secret))
	gw.Observe = func(sent bool, f wire.Frame) {
		out.gateway(sent, f)
		if _, ok := f.(wire.Descriptor); ok {
			connect()
		}
	}
	for _, b := range bots {
		gw.Identities = append(gw.Identities, b.ID())
	}
	wg.Go(func() {
		if err := gw.Run(ctx); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("gateway: %w", err))
		}
	})
	select {
	case <-connected:
	case <-ctx.Done():
		return ended(ctx)
	}
	if once {
		return demoOnce(ctx, network, out)
	}
	link, err := core.service.WebLink(ctx, audit.Actor{}, struct{}{})
	if err != nil {
		return err
	}
	out.print("demo", "open %s&%s=%s in a browser: it logs you in once", link.URL, page.Next, url.QueryEscape(page.Chat+"/"+demoName))
	return demoTalk(ctx, network, out, stdin)
}

// demoOnce sends one message as the person, and returns when the answer has arrived.
func demoOnce(ctx context.Context, network *local.Network, out *hops) error {
	ctx, stop := context.WithTimeout(ctx, demoWithin)
	defer stop()
	began := time.Now()
	if err := demoSays(ctx, network, out, "hello"); err != nil {
		return err
	}
	act, err := network.Act(ctx, 0)
	if err != nil {
		if err := ended(ctx); err != nil {
			return fmt.Errorf("the answer did not come back: %w", err)
		}
		return nil
	}
	out.act(act)
	out.print("demo", "there and back in %s", time.Since(began).Round(10*time.Microsecond))
	return nil
}

// demoTalk sends every line of stdin as the person, and waits for each answer, until stdin ends. Where nobody ever
// types, as in a container, it waits until ctx ends.
func demoTalk(ctx context.Context, network *local.Network, out *hops, stdin io.Reader) error {
	in, isFile := stdin.(*os.File)
	somebody := isFile && terminal.Is(in) // a person types, or has typed: the end of the input then ends the demo
	if somebody {
		out.print("demo", "or type a message here and press Enter; Ctrl-D ends it")
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan struct{}) // gets a value for each message that the bot sends
	wg.Go(func() {
		for n := 0; ; n++ {
			act, err := network.Act(ctx, n)
			if err != nil {
				return
			}
			out.act(act)
			if act.Op != relay.OpSend {
				continue
			}
			select {
			case answers <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	lines, ends := terminal.Typed(stdin)
	for {
		var line string
		var ok bool
		select {
		case <-ctx.Done():
			return ended(ctx)
		case line, ok = <-lines:
		}
		switch {
		case !ok && somebody:
			return <-ends
		case !ok:
			out.print("demo", "there is no terminal to type in: it runs until you stop it")
			<-ctx.Done()
			return ended(ctx)
		case strings.TrimSpace(line) == "":
			continue
		}
		somebody = true
		if err := demoSays(ctx, network, out, line); err != nil {
			return err
		}
		select {
		case <-answers:
		case <-ctx.Done():
		}
	}
}

// demoSays sends a line as the person.
func demoSays(ctx context.Context, network *local.Network, out *hops, line string) error {
	out.print(string(demoPerson), "says %q", line)
	if err := network.Say(ctx, local.Message{User: demoPerson, Text: line}); err != nil {
		return err
	}
	out.print("connector", "accepted it: it is on disk")
	return nil
}

// ended returns why ctx ended: nil for an interrupt.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// gateway prints a frame as the gateway sent or received it.
func (h *hops) gateway(sent bool, f wire.Frame) {
	verb := "receives"
	if sent {
		verb = "sends"
	}
	switch f := f.(type) {
	case wire.Hello:
		h.print("gateway", "%s hello for %s", verb, f.Platform)
	case wire.Descriptor:
		h.print("gateway", "%s descriptor: %s, %d characters a message", verb, f.Label, f.MaxMessageLength)
	case wire.Inbound:
		h.print("gateway", "%s inbound %s: %s wrote %q", verb, f.Buffer, f.Event.Source.UserName, f.Event.Text)
	case wire.InboundAck:
		h.print("gateway", "%s inbound_ack %s: the connector deletes it", verb, f.Buffer)
	case wire.Outbound:
		h.print("gateway", "%s outbound %s: %s%s", verb, f.ID, f.Action.Op(), quoted(f.Action))
	case wire.OutboundResult:
		became := "done"
		if f.Err != nil {
			became = f.Err.Public
		} else if f.Result.MessageID != "" {
			became = fmt.Sprintf("message %s stands in the chat", f.Result.MessageID)
		}
		h.print("gateway", "%s outbound_result %s: %s", verb, f.ID, became)
	}
}

// quoted returns the text of an action, in quotes.
func quoted(a relay.Action) string {
	switch a := a.(type) {
	case relay.Send:
		return fmt.Sprintf(" %q", a.Content)
	case relay.Edit:
		return fmt.Sprintf(" %q", a.Content)
	case relay.React:
		return fmt.Sprintf(" %q", a.Emoji)
	case relay.Prompt:
		return fmt.Sprintf(" %q", a.Content)
	case relay.SendMedia:
		return fmt.Sprintf(" %q", a.Filename)
	}
	return ""
}

// act prints what the bot does, as the person sees it.
func (h *hops) act(a local.Act) {
	switch a.Op {
	case relay.OpSend, relay.OpEdit, relay.OpReact, relay.OpPrompt:
		h.print(string(demoPerson), "sees the bot's %s: %q", a.Op, a.Text)
	}
}
