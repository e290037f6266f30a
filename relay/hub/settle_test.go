package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// cabinet is Files in a test: what is held of each id, which a closed door keeps back.
type cabinet struct {
	mu      sync.Mutex
	held    map[relay.MediaID]relay.Held
	content map[relay.MediaID]string
	named   map[relay.MediaID]relay.MediaID // what the ids that were given stand for
	door    chan struct{}                   // nil: open
	settled int
}

func (f *cabinet) Fetch(...relay.Attachment) {}

func (f *cabinet) Settle(ctx context.Context, as []relay.Attachment) (out []relay.Held) {
	f.mu.Lock()
	door := f.door
	f.settled++
	f.mu.Unlock()
	if door != nil {
		select {
		case <-door:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range as {
		file := relay.MediaID(strings.TrimPrefix(a.Ref, "secret/"))
		f.named[a.ID] = file
		h, ok := f.held[file]
		if h.Attachment = a; !ok || ctx.Err() != nil {
			h.State = relay.MediaWaiting
		}
		out = append(out, h)
	}
	return out
}

func (f *cabinet) Read(_ context.Context, id relay.MediaID, limit int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.content[f.named[id]]; c != "" && int64(len(c)) <= limit {
		return []byte(c), nil
	}
	return nil, errors.New("not there")
}

func (f *cabinet) Source(context.Context, relay.InstanceID, string, string) (relay.File, func(), error) {
	return relay.File{}, func() {}, errors.New("nothing is sent here")
}

func (f *cabinet) Put(context.Context, relay.InstanceID, string, int64, io.Reader) (relay.MediaID, int64, error) {
	return "", 0, errors.New("nothing is sent here")
}

// shut closes the door; the returned function opens it.
func (f *cabinet) shut() (open func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	door := make(chan struct{})
	f.door = door
	return func() { close(door) }
}

func (f *cabinet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled
}

const (
	aPhoto relay.MediaID = "0123456789abcdef0123456789abcdef"
	aText  relay.MediaID = "fedcba9876543210fedcba9876543210"
)

var names = map[relay.MediaID]string{aPhoto: "bed.jpg", aText: "seeds.txt"}

func newCabinet() *cabinet {
	return &cabinet{
		held: map[relay.MediaID]relay.Held{
			aPhoto: {State: relay.MediaHeld, Facts: relay.FileFacts{Format: relay.FormatJPEG, Mime: "image/jpeg", Ext: ".jpg", Kind: relay.TypePhoto, Size: 9}},
			aText:  {State: relay.MediaHeld, Facts: relay.FileFacts{Format: relay.FormatOther, Mime: "text/plain", Ext: ".txt", Kind: relay.TypeDocument, Size: 5}},
		},
		content: map[relay.MediaID]string{aText: "seeds"},
		named:   make(map[relay.MediaID]relay.MediaID),
	}
}

// gallery is a rig whose events have files and whose network remembers what was said.
type gallery struct {
	*rig
	files *cabinet
	past  *past
}

// past is a bot that knows what was said, and whose pictures have addresses.
type past struct {
	*local.Loopback
	mu    sync.Mutex
	lines []relay.ContextLine
	part  bool // there was more
	err   error
	asked []relay.EventID
}

func (p *past) History(_ context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, ev.ID)
	return p.lines, !p.part, p.err
}

func (p *past) PublicURL(a relay.Attachment) (string, bool) {
	return "https://cdn.example/" + a.Ref, true
}

func newGallery(t testing.TB) *gallery {
	g := &gallery{files: newCabinet(), past: &past{}}
	g.rig = newRigWith(t, func(p *local.Loopback) platforms.Bot {
		g.past.Loopback = p
		return g.past
	}, with(g.files))
	return g
}

// brings is an event of ann with files, in the chat or, if that is empty, in her direct messages.
func (g *gallery) brings(id, text string, chat relay.ChatID, files ...relay.MediaID) relay.Event {
	g.t.Helper()
	ev := relay.Event{
		ID: relay.EventID(id), Bot: g.bot, MessageID: relay.MessageID(id), Type: relay.TypeText, Text: text, At: time.Now(),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: chat, ChatType: relay.ChatGroup, UserID: "ann"},
		Traits: relay.Traits{Addressed: true},
	}
	if chat == "" {
		ev.Source.ChatID, ev.Source.ChatType = "@ann", relay.ChatDM
	}
	for _, f := range files {
		ev.Attachments = append(ev.Attachments, relay.Attachment{Ref: "secret/" + string(f), Name: names[f]})
	}
	must.Succeed(g.t, g.hub.in.Inbox(g.bot).Accept(g.t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	return ev
}

const origin = "https://h.example:8443"

// come dials as the gateway, from its origin.
func (g *gallery) come(name string) *gateway {
	g.t.Helper()
	c := g.dial(name, "origin="+origin)
	c.conn.SetReadLimit(2 * wire.MaxFrame)
	return c
}

// takes reads the next event and acknowledges it.
func (g *gateway) takes() relay.Event {
	g.t.Helper()
	in := g.inbound()
	g.send(wire.InboundAck{Buffer: in.Buffer})
	return in.Event
}

func TestAFileIsNamedByWhatItsGatewayDialled(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.brings("e1", "look", "", aPhoto, aText)
	got := g.come("home").takes()
	for n, of := range []relay.MediaID{aPhoto, aText} { // the ids are given when it is accepted
		id, ok := strings.CutPrefix(got.Media[n].URL, origin+"/relay/media/")
		if got.Media[n].URL = string(of); !ok || g.files.named[relay.MediaID(id)] != of {
			t.Errorf("file %d is at %q", n, id)
		}
	}
	want := []relay.Media{
		{URL: string(aPhoto), Mime: "image/jpeg", Kind: "photo", Size: 9, Filename: "bed.jpg"},
		{URL: string(aText), Mime: "text/plain", Kind: "document", Size: 5, Filename: "seeds.txt"},
	}
	if diff := cmp.Diff(want, got.Media); diff != "" {
		t.Errorf("media (-want +got):\n%s", diff)
	}
	if got.Type != relay.TypeDocument || !strings.Contains(got.Text, "[Content of seeds.txt]:\nseeds\n\nlook") {
		t.Errorf("%s %q", got.Type, got.Text)
	}
}

// TestAnEntryWaitsForItsFiles, and what comes behind it; answers and other instances do not.
func TestAnEntryWaitsForItsFiles(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.enroll("other", "bob")
	open := g.files.shut()
	home, other := g.come("home"), g.come("other")
	g.brings("e1", "look", "", aPhoto)
	g.say(local.Message{User: "ann", Text: "behind"})
	g.say(local.Message{User: "bob", Text: "elsewhere"})
	if got := other.takes(); got.Text != "elsewhere" {
		t.Errorf("another instance got %q", got.Text)
	}
	wait.Until(t, "a wait", func() bool { return g.files.count() == 1 })
	if res := home.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "meanwhile"}}); res.Err != nil {
		t.Errorf("a send meanwhile: %v", res.Err)
	}
	open()
	if got := home.takes(); got.Text != "look" || got.Type != relay.TypePhoto {
		t.Errorf("%s %q, want the photo", got.Type, got.Text)
	}
	if got := home.takes(); got.Text != "behind" {
		t.Errorf("%q, want what came behind", got.Text)
	}
	g.empty("home")
}

func TestAFlipEndsTheWaitForFiles(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	open := g.files.shut()
	home := g.come("home")
	g.brings("e1", "look", "", aPhoto)
	wait.Until(t, "a wait", func() bool { return g.files.count() == 1 })
	home.send(wire.GoingIdle{})
	if f, ok := home.read().(wire.GoingIdleAck); !ok {
		t.Fatalf("%T, want the flip's acknowledgement", f)
	}
	_ = home.conn.CloseNow()
	open()
	if got := g.come("home").takes(); got.Type != relay.TypePhoto {
		t.Errorf("%s, want the photo", got.Type)
	}
}

// TestAnEntryWaitsSoLongAndNoLonger: what has not come then is told as that.
func TestAnEntryWaitsSoLongAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newCabinet()
		files.shut()
		db := storetest.Open(t, t.TempDir(), store.Options{})
		s := sits(New(db, nil, &bus.Local{}, nil, Options{Files: files}), "t", "home")
		e := store.Entry{Event: &relay.Event{Text: "look", Attachments: []relay.Attachment{{ID: aPhoto, Ref: "secret/" + string(aPhoto), Kind: relay.TypePhoto}}}}
		began := time.Now()
		if err := s.settle(t.Context(), &e); err != nil || time.Since(began) != settleWithin {
			t.Errorf("settle = %v after %v", err, time.Since(began))
		}
		if got := eventIn(t, e); got.Type != relay.TypeText || len(got.Media) > 0 || !strings.Contains(got.Text, "look\n[Photo, 9 bytes: ") {
			t.Errorf("%+v", got)
		}
	})
}

// TestAPlainEventIsItsFrame: nothing is asked about it, neither when it comes nor when it is pushed.
func TestAPlainEventIsItsFrame(t *testing.T) {
	g := newGallery(t)
	g.enroll("home", "ann")
	g.claim("home", "garden")
	g.brings("e1", "hello", "")
	g.say(local.Message{User: "ann", Chat: "garden", Text: "not addressed"})
	es, err := g.db.Lanes.Entries(t.Context(), "home", store.EntryFilter{})
	if err != nil || len(es) != 2 {
		t.Fatalf("%d entries, %v", len(es), err)
	}
	for _, e := range es {
		if e.Event != nil || len(e.Frame) == 0 {
			t.Errorf("%s is stored as a whole", e.Buffer)
		}
	}
	home := g.come("home")
	home.takes()
	home.takes()
	if g.files.count() > 0 || len(g.past.asked) > 0 {
		t.Errorf("asked: files %d times, context of %v", g.files.count(), g.past.asked)
	}
}

// TestWhatDoesNotFitIsGivenUpInOrder: told content first, then context, and never what was said.
func TestWhatDoesNotFitIsGivenUpInOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text    int // bytes
		content bool
		context int // lines left of three
	}{
		"all of it fits":       {1000, true, 3},
		"without the content":  {wire.MaxFrame - 95_000, false, 3},
		"with less context":    {wire.MaxFrame - 13_000, false, 2},
		"with what was said":   {wire.MaxFrame - 3000, false, 0},
		"with a part of three": {wire.MaxFrame - 8000, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGallery(t)
			g.enroll("home", "ann")
			g.claim("home", "garden")
			g.files.content[aText] = strings.Repeat("s", 100<<10)
			f := g.files.held[aText]
			f.Facts.Size = 100 << 10
			g.files.held[aText] = f
			for i := range 3 {
				g.past.lines = append(g.past.lines, relay.ContextLine{UserName: fmt.Sprint("u", i), Text: strings.Repeat("c", 5000)})
			}
			g.brings("e1", strings.Repeat("t", tc.text), "garden", aText)
			got := g.come("home").takes()
			if !strings.Contains(got.Text, strings.Repeat("t", tc.text)) || len(got.Media) != 1 {
				t.Error("what was said, or the file, is gone")
			}
			if content := strings.Contains(got.Text, "[Content of"); content != tc.content || len(got.Context) != tc.context {
				t.Errorf("content %v, %d lines of context; want %v, %d", content, len(got.Context), tc.content, tc.context)
			}
		})
	}
}
