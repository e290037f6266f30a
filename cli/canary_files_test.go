package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// TestFilesLeaveNoTrace: files come from two networks and go to one, some of them in vain. The tokens of the bots, where the
// networks have their files, the bearers of gateways and what is in the files stand nowhere but where they belong: the
// network's own references in the database, the contents in the folder of files.
func TestFilesLeaveNoTrace(t *testing.T) {
	b := newVictim(t, 1)
	d := newPresser(t)
	const (
		inFile  = "CANARY-content"
		signed  = "CANARY-hm"
		discord = "4001"
	)
	discordToken := base64.RawURLEncoding.EncodeToString([]byte(presserBot)) + ".nEiGhb.CANARY-secret"
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "gone.jpg") {
			http.Error(w, "This content is no longer available.", http.StatusNotFound)
			return
		}
		_, _ = w.Write(append(jpegHead[:len(jpegHead):len(jpegHead)], inFile...))
	}))
	t.Cleanup(cdn.Close)
	metrics := freeAddr(t)
	config, err := os.ReadFile(filepath.Join(b.dir, "connector.toml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "[[bots]]", fmt.Sprintf("[metrics]\nlisten = %q\n[[bots]]", metrics), 1) +
		fmt.Sprintf("[[bots]]\nplatform = \"discord\"\ntoken_file = \"discord\"\napi_base = %q\ncdn_base = %q\nidentify_wait = \"1ms\"\n", d.server.URL+"/api", cdn.URL)
	for name, content := range map[string]string{"connector.toml": text, "discord": discordToken} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // for all of it
	defer cancel()
	home, kids := enrolled(t, b, "home", "home"), enrolled(t, b, "kids", "kids")
	for _, args := range [][]string{{"bind", "home", "telegram", "1001"}, {"bind", "kids", "discord", discord}} {
		if out, err := b.command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	b.start()
	g, other := newTraced(ctx, b, home, "telegram", "4242"), newTraced(ctx, b, kids, "discord", presserBot)
	base := "http" + strings.TrimSuffix(strings.TrimPrefix(b.url, "ws"), "/relay")

	// In: a photo of each network, one of each that cannot be had, and one whose message is read anew in vain.
	b.bot.say(1001, "3")
	photo := g.next()
	b.bot.mu.Lock()
	b.bot.fileGone = true
	b.bot.mu.Unlock()
	b.bot.say(1001, "11")
	lost := g.next()
	at := time.Now().Add(time.Hour).Unix()
	url := func(name string) string {
		return fmt.Sprintf("%s/attachments/500/7/%s?ex=%x&is=CANARY-is&hm=%s&", cdn.URL, name, at, signed)
	}
	d.say(t, discord, url("cat.jpg"))
	cat := other.next()
	d.say(t, discord, url("gone.jpg"))
	gone := other.next()
	if len(photo.Media) != 1 || len(cat.Media) != 1 {
		t.Fatalf("%+v\n%+v\n%s", photo, cat, b.log())
	}
	g.request(http.MethodGet, photo.Media[0].URL, "", http.StatusOK)
	other.request(http.MethodGet, cat.Media[0].URL, "", http.StatusOK)
	if len(lost.Media) != 0 || len(gone.Media) != 0 {
		t.Errorf("files that cannot be had are named: %+v, %+v", lost, gone)
	}
	// Out: an upload that is sent, one that the network refuses, and addresses that are refused here.
	var up struct{ ID string }
	if err := json.Unmarshal(g.request(http.MethodPost, base+"/relay/media", "CANARY-upload", http.StatusOK), &up); err != nil {
		t.Fatal(err)
	}
	ours := base + "/relay/media/" + up.ID
	if err := g.ask(relay.SendMedia{Chat: "1001", Kind: "document", SourceURL: ours, Caption: "with upload"}); err != nil {
		t.Error(err)
	}
	b.bot.mu.Lock()
	b.bot.refuses = true
	b.bot.mu.Unlock()
	for _, source := range []string{ours, cdn.URL + "/CANARY-hm", "https://u:CANARY-hm@127.0.0.1/", base + "/relay/media/CANARY-hm"} {
		if err := g.ask(relay.SendMedia{Chat: "1001", Kind: "document", SourceURL: source}); err == nil {
			t.Errorf("%s was sent", source)
		}
	}
	g.bearer = "CANARY-bearer"
	g.request(http.MethodGet, ours, "", http.StatusUnauthorized)
	g.request(http.MethodPost, base+"/relay/media", "CANARY-upload", http.StatusUnauthorized)

	res, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || !bytes.Contains(page, []byte("media")) {
		t.Errorf("metrics: %v", err)
	}
	said := map[string][]byte{"metrics": page}
	for _, args := range [][]string{
		{"status", "--json"}, {"explain", "--json"}, {"explain"}, {"audit", "--json"}, {"buffer", "list", "home", "--json"},
		{"buffer", "dead", "home", "--json"}, {"buffer", "quarantine", "--json"}, {"check"}, {"backup", "copy.db"},
	} {
		out, err := b.command(args...).CombinedOutput()
		if err != nil && args[0] != "status" {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		said[strings.Join(args, " ")] = out
	}
	g.end()
	other.end()
	b.stop(syscall.SIGTERM)
	said["frames"], said["answers"] = append(g.frames.Bytes(), other.frames.Bytes()...), append(g.answers.Bytes(), other.answers.Bytes()...)
	err = filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Dir(path) == filepath.Join(b.dir, "data", "media") {
			return err
		}
		name, _ := filepath.Rel(b.dir, path)
		if name != "discord" && name != "token" {
			said[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	references := 0
	secrets := []string{botToken, strings.Split(botToken, ":")[1], discordToken, "CANARY-secret", filePath, inFile, "photo of", "CANARY-upload", "CANARY-bearer"}
	secrets = append(append(secrets, g.bearers...), other.bearers...)
	for name, content := range said {
		for _, s := range secrets {
			if bytes.Contains(content, []byte(s)) {
				t.Errorf("%s has %q in it", name, s)
			}
		}
		for _, s := range []string{fileRef, signed, "CANARY-is"} {
			switch {
			case !bytes.Contains(content, []byte(s)):
			case name == filepath.Join("data", "connector.db") || name == "copy.db":
				references++
			default:
				t.Errorf("%s has the reference %q in it: %.600s", name, s, content)
			}
		}
	}
	if references != 6 {
		t.Errorf("%d references in the database and its copy, want 6: nothing else would be found either", references)
	}
	if len(said) < 14 || len(said["serve.err"]) == 0 || len(said["frames"]) == 0 {
		t.Errorf("looked at %d things only", len(said))
	}
}

// traced is a gateway that notes all that it is told.
type traced struct {
	t       *testing.T
	b       *victim
	ctx     context.Context //nolint:containedctx // the test's own
	cred    credentials
	conn    *wiretest.End
	events  chan relay.Event
	results chan *relay.ActionError
	reading sync.WaitGroup

	bearer  string // in place of a good one
	bearers []string
	answers bytes.Buffer
	frames  bytes.Buffer // the reader's until it has ended
}

func newTraced(ctx context.Context, b *victim, cred credentials, platform relay.PlatformID, bot relay.BotID) *traced {
	t := b.t
	t.Helper()
	conn, err := cred.dialAs(ctx, b.url, wire.Hello{Platform: platform, BotID: bot, Manifest: []json.RawMessage{}})
	if err != nil {
		t.Fatal(err)
	}
	g := &traced{t: t, b: b, ctx: ctx, cred: cred, conn: conn, events: make(chan relay.Event, 16), results: make(chan *relay.ActionError, 1)}
	conn.Heard = func(message []byte) { g.frames.Write(message) }
	g.reading.Go(func() {
		err := conn.Each(ctx, func(f wire.Frame) error {
			switch f := f.(type) {
			case wire.Inbound:
				g.events <- f.Event
				_ = conn.Send(ctx, wire.InboundAck{Buffer: f.Buffer})
			case wire.OutboundResult:
				g.results <- f.Err
			}
			return nil
		})
		if errors.Is(err, wiretest.ErrUnreadable) {
			t.Error(err)
		}
	})
	return g
}

func (g *traced) next() relay.Event {
	g.t.Helper()
	select {
	case ev := <-g.events:
		return ev
	case <-g.ctx.Done():
		g.t.Fatalf("no event\n%s", g.b.log())
		return relay.Event{} // not reached
	}
}

func (g *traced) ask(a relay.Action) *relay.ActionError {
	g.t.Helper()
	if err := g.conn.Send(g.ctx, wire.Outbound{Request: relay.Request{ID: "1", Action: a}}); err != nil {
		g.t.Fatal(err)
	}
	select {
	case err := <-g.results:
		return err
	case <-g.ctx.Done():
		g.t.Fatal("no answer")
		return nil
	}
}

// request is the answer of the door, with its head noted too.
func (g *traced) request(method, address, body string, want int) (answer []byte) {
	g.t.Helper()
	q, err := http.NewRequestWithContext(g.ctx, method, address, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	bearer := g.bearer
	if bearer == "" {
		bearer = token.Mint(relay.GatewayID(g.cred.GatewayID), relay.NewSecret([]byte(g.cred.Secret)), time.Now().Add(time.Minute))
		g.bearers = append(g.bearers, bearer, g.cred.Secret)
	}
	q.Header.Set("Authorization", "Bearer "+bearer)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		g.t.Fatalf("%s: %s, %v, want %d", method, res.Status, err, want)
	}
	_ = res.Header.Write(&g.answers)
	if want != http.StatusOK || method == http.MethodPost { // a file is what it is
		g.answers.Write(answer)
	}
	return answer
}

func (g *traced) end() {
	_ = g.conn.CloseNow()
	g.reading.Wait()
}

// say is a direct message of a person's with a picture, once the bot is there.
func (p *presser) say(t *testing.T, user, address string) {
	t.Helper()
	id := strconv.FormatInt((time.Now().UnixMilli()-1420070400000)<<22, 10)
	p.dispatch(t, "MESSAGE_CREATE", fields{
		"id": id, "channel_id": "500", "channel_type": 1, "author": fields{"id": user, "username": "ann"}, "content": "", "timestamp": time.Now().Format(time.RFC3339),
		"attachments": []fields{{"id": "7", "filename": "cat.jpg", "size": 60, "url": address, "proxy_url": address, "content_type": "image/jpeg"}},
	})
}

// freeAddr is an address that the server may listen on, and that nobody else is given before the test ends.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
