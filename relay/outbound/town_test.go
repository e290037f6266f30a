package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// town is a bot's network that can be away, ask for pauses, and refuse. As a network's client does, it tries again until
// three seconds before an action's end.
type town struct {
	bot relay.Bot
	way time.Duration // how long it takes to get there

	mu     sync.Mutex // guards the fields below
	away   bool
	closed map[relay.ChatID]time.Time
	refuse map[relay.ChatID]*relay.ActionError // what is sent there, each time
	carry  bool                                // what is refused as unclear is carried out
	posts  []string                            // "chat: text", of what was said
	done   []string                            // what else was done, by operation
	names  map[string]relay.MessageID
	knows  time.Duration // for so long it remembers names
	tries  int
	hasty  bool // what is tried again later is tried once; Status says nothing of the network
}

func newTown(id relay.BotID) *town {
	return &town{
		bot: relay.Bot{Platform: "town", ID: id}, way: 50 * time.Millisecond, closed: make(map[relay.ChatID]time.Time),
		refuse: make(map[relay.ChatID]*relay.ActionError), names: make(map[string]relay.MessageID),
	}
}

func (p *town) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *town) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.posts...)
}

func (p *town) did() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.done...)
}

func (p *town) ID() relay.Bot                              { return p.bot }
func (p *town) Descriptor() relay.Descriptor               { return relay.Descriptor{Platform: p.bot.Platform} }
func (p *town) Run(context.Context, platforms.Inbox) error { return nil }
func (p *town) Status() platforms.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away && !p.hasty {
		return platforms.Status{State: platforms.Connecting}
	}
	return platforms.Status{State: platforms.Connected}
}

// DirectUser: each person's chat is called as they are, behind an at sign.
func (p *town) DirectUser(c relay.ChatID) (relay.UserID, bool) {
	u, ok := strings.CutPrefix(string(c), "@")
	return relay.UserID(u), ok
}

// CanSee: everybody sees everything, if the network says so.
func (p *town) CanSee(context.Context, relay.Place, relay.UserID) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return false, errors.New("the network cannot be reached")
	}
	return true, nil
}

func patienceOf(ctx context.Context) time.Time {
	end, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(time.Minute)
	}
	return end.Add(-3 * time.Second)
}

// WaitOpen implements platforms.Limited.
func (p *town) WaitOpen(ctx context.Context, c relay.ChatID) error {
	p.mu.Lock()
	until := p.closed[c]
	p.mu.Unlock()
	wait := time.Until(until)
	switch {
	case wait <= 0:
		return nil
	case until.After(patienceOf(ctx)):
		return platforms.NotSent(wait, context.DeadlineExceeded)
	}
	time.Sleep(wait)
	return nil
}

// reach tries until it is there.
func (p *town) reach(ctx context.Context, c relay.ChatID) error {
	for {
		p.mu.Lock()
		away, fail := p.away, p.refuse[c]
		p.tries++
		p.mu.Unlock()
		switch {
		case fail != nil:
			return fail
		case !away:
			return nil
		case ctx.Err() != nil:
			return platforms.NotSent(0, ctx.Err())
		case p.hasty && platforms.Name(ctx) != "", !time.Now().Add(4 * time.Second).Before(patienceOf(ctx)):
			return relay.Later("Town cannot be reached", nil)
		}
		time.Sleep(4 * time.Second)
	}
}

func (p *town) post(ctx context.Context, c relay.ChatID, text string) (relay.Result, error) {
	if err := p.WaitOpen(ctx, c); err != nil {
		return relay.Result{}, err
	}
	time.Sleep(p.way)
	if err := p.reach(ctx, c); err != nil {
		if p.carry && relay.Explain(err).Outcome == relay.MaybeSent {
			p.set(func() { p.posts = append(p.posts, string(c)+": "+text) })
		}
		return relay.Result{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := platforms.Name(ctx)
	if m, ok := p.names[name]; ok && p.knows > 0 {
		return relay.Result{MessageID: m}, nil
	}
	p.posts = append(p.posts, string(c)+": "+text)
	m := relay.MessageID(fmt.Sprint("m", len(p.posts)))
	if name != "" {
		p.names[name] = m
	}
	return relay.Result{MessageID: m}, nil
}

func (p *town) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	text := a.Content
	if a.ReplyTo != "" {
		text += " (to " + string(a.ReplyTo) + ")"
	}
	return p.post(ctx, a.Chat, text)
}

func (p *town) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	content, err := io.ReadAll(io.NewSectionReader(a.File.Content, 0, a.File.Size))
	if err != nil {
		return relay.Result{}, err
	}
	return p.post(ctx, a.Chat, fmt.Sprintf("[%s %s] %s", a.File.Name, content, a.Caption))
}

func (p *town) note(what string, m relay.MessageID) (relay.Result, error) {
	p.set(func() { p.done = append(p.done, what+" "+string(m)) })
	return relay.Result{MessageID: m}, nil
}

func (p *town) Edit(_ context.Context, a relay.Edit) (relay.Result, error) {
	return p.note("edit", a.Message)
}
func (p *town) Delete(_ context.Context, a relay.Delete) (relay.Result, error) {
	return p.note("delete", a.Message)
}
func (p *town) React(_ context.Context, a relay.React) (relay.Result, error) {
	return p.note("react", a.Message)
}
func (p *town) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.bot, ID: a.Chat}, Message: a.Message, Name: a.Emoji}
}
func (p *town) Typing(context.Context, relay.Typing) (relay.Result, error) {
	return p.note("typing", "")
}

// mindful is a town that remembers names.
type mindful struct{ *town }

func (p mindful) Remembers() time.Duration { return p.knows }

// cellar keeps files in memory.
type cellar struct {
	mu    sync.Mutex
	files map[string]string
}

func (c *cellar) Source(_ context.Context, _ relay.InstanceID, url, name string) (relay.File, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.files[url]
	if !ok {
		return relay.File{}, func() {}, &relay.ActionError{Outcome: relay.NotSent, Public: "media not found or expired"}
	}
	f := relay.File{FileFacts: relay.FileFacts{Size: int64(len(text))}, Content: strings.NewReader(text), Name: name}
	return f, func() {}, nil
}

func (c *cellar) Put(_ context.Context, _ relay.InstanceID, _ string, _ int64, body io.Reader) (relay.MediaID, int64, error) {
	text, err := io.ReadAll(body)
	if string(text) == "no room" {
		err = errors.New("there is no room for the file")
	}
	if err != nil {
		return "", 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[relay.MediaPath+"/kept"] = string(text)
	return "kept", int64(len(text)), nil
}

// street is towns, an Outbound before them, and the gateways of people, in virtual time.
type street struct {
	t     testing.TB
	db    *store.DB
	bots  hosts
	out   *Outbound
	files *cellar
	keep  time.Duration
	stop  func() // the queue
}

// onStreet runs f with towns of one bot each, in virtual time. "home" is ann's and bob's, "den" eve's, in another tenant.
func onStreet(t *testing.T, keep time.Duration, f func(s *street), bots ...platforms.Bot) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { onRealStreet(t, keep, f, bots...) })
}

// onRealStreet is onStreet in time as it is.
func onRealStreet(t testing.TB, keep time.Duration, f func(s *street), bots ...platforms.Bot) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "street-")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &street{t: t, db: db, bots: bots, files: &cellar{files: map[string]string{"https://x/a.png": "picture"}}, keep: keep}
	s.enroll("home", "home")
	s.enroll("den", "other")
	for u, i := range map[relay.UserID]relay.InstanceID{"ann": "home", "bob": "home", "eve": "den"} {
		s.ok(db.Bind(t.Context(), nil, store.Binding{Platform: "town", User: u, Instance: i, BoundAt: time.Now()}))
	}
	s.start()
	defer func() {
		s.stop()
		s.ok(db.Close())
	}()
	f(s)
}

func (s *street) enroll(i relay.InstanceID, of relay.TenantID) {
	s.t.Helper()
	s.ok(s.db.Enroll(s.t.Context(), nil,
		store.Gateway{ID: relay.GatewayID(i), Instance: i, Tenant: of, CreatedAt: time.Now()}, store.Instance{ID: i, Tenant: of, CreatedAt: time.Now()}))
}

func (s *street) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start begins as a process does.
func (s *street) start() {
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	totals := new(count.Totals)
	s.out = New(Options{
		DB: s.db, Facts: &facts.Facts{Stored: s.db}, Bots: s.bots, Tasks: background.New(totals, log), Counters: totals, Files: s.files, Keep: s.keep, Log: log,
	})
	s.ok(s.out.Queue.Resume(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.out.Queue.Run(ctx) })
	s.stop = func() {
		cancel()
		wg.Wait()
	}
}

// do has a gateway ask for a, as a session would.
func (s *street) do(i relay.InstanceID, a relay.Action) (relay.Result, *relay.ActionError) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 24750*time.Millisecond)
	defer cancel()
	tenant := map[relay.InstanceID]relay.TenantID{"home": "home", "den": "other"}[i]
	who := s.out.Caller(attached{s.bots[0].ID()}, relay.GatewayID(i), tenant, i)
	r := relay.Request{ID: "r", Action: a}
	act := who.Action(ctx, r)
	err := act.Allow(ctx)
	if err != nil {
		return relay.Result{}, relay.Explain(err)
	}
	began := time.Now()
	res, err := act.Do(ctx, func() (context.Context, relay.Request, bool) { return ctx, r, ctx.Err() == nil })
	if took := time.Since(began); took > 23*time.Second {
		s.t.Errorf("%T took %v", a, took)
	}
	return res, relay.Explain(err)
}

// final says something for the last time in a turn.
func (s *street) final(i relay.InstanceID, c relay.ChatID, text string) (relay.Result, *relay.ActionError) {
	return s.do(i, relay.Send{Chat: c, Content: text, Meta: relay.Metadata{Notify: true}})
}

// queued says something that has to wait, and is its id.
func (s *street) queued(i relay.InstanceID, c relay.ChatID, text string) relay.MessageID {
	s.t.Helper()
	res, err := s.final(i, c, text)
	if err != nil || !res.Queued || !outbox.IsID(res.MessageID) {
		s.t.Fatalf("%s %q: %+v, %v; want an id of the outbox", c, text, res, err)
	}
	return res.MessageID
}

// counts are the counters with that name.
func (s *street) counts(name string) uint64 { return s.out.counters.Snapshot()[name] }

// rest lets time go by, and what is due be done.
func (s *street) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
