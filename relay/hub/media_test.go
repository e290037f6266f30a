package hub

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// drawer is the hub's files in memory: by instance and address.
type drawer struct {
	Files
	has   map[string]string
	asked atomic.Int32
	open  atomic.Int32  // files that were not let go of
	slow  chan struct{} // the file "slow" is found when it is closed
}

func (s *drawer) Source(ctx context.Context, i relay.InstanceID, url, name string) (relay.File, func(), error) {
	s.asked.Add(1)
	if url == "slow" {
		select {
		case <-s.slow:
		case <-ctx.Done():
			return relay.File{}, func() {}, &relay.ActionError{Outcome: relay.NotSent, Public: "media not fetched: too slow"}
		}
	}
	text, ok := s.has[string(i)+" "+url]
	if !ok {
		return relay.File{}, func() {}, &relay.ActionError{Outcome: relay.NotSent, Public: "media not found or expired"}
	}
	s.open.Add(1)
	f := relay.File{FileFacts: relay.FileFacts{Size: int64(len(text))}, Content: strings.NewReader(text), Name: name}
	return f, func() { s.open.Add(-1) }, nil
}

// poster is the responder that posts files, too.
type poster struct{ *responder }

func (p *poster) SendMedia(_ context.Context, a relay.SendMedia) (relay.Result, error) {
	p.note("media %s: %s", a.Chat, content(a))
	switch a.Caption {
	case "long":
		return relay.Result{MessageID: "m1", MessageIDs: []relay.MessageID{"m1", "m2"}}, nil
	case "broken":
		return relay.Result{}, &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out", MessageIDs: []relay.MessageID{"m3"}}
	}
	return relay.Result{MessageID: "m0"}, nil
}

func (p *poster) RespondMedia(_ context.Context, c platforms.Capability, a relay.SendMedia, first bool) (relay.Result, error) {
	p.note("respond %s first=%v: %s", c.Token.RevealString(), first, content(a))
	return relay.Result{MessageID: "r1"}, nil
}

func content(a relay.SendMedia) string {
	b, err := io.ReadAll(io.NewSectionReader(a.File.Content, 0, a.File.Size))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func newPosterRig(t *testing.T, has map[string]string) (*rig, *poster, *drawer) {
	t.Helper()
	p := &poster{&responder{}}
	files := &drawer{has: has, slow: make(chan struct{})}
	r := newRigWith(t, func(l *local.Loopback) platforms.Bot {
		p.Loopback = l
		return p
	}, with(files))
	return r, p, files
}

// sendMedia asks for a file to be posted.
func sendMedia(chat relay.ChatID, url, caption string) relay.Request {
	return relay.Request{ID: relay.RequestID(url), Action: relay.SendMedia{Chat: chat, Kind: "image", SourceURL: url, Caption: caption}}
}

// TestAFileIsFoundForWhoMaySendIt: after the gate, by the instance's own right to read it.
func TestAFileIsFoundForWhoMaySendIt(t *testing.T) {
	r, p, files := newPosterRig(t, map[string]string{"home a": "picture"})
	r.enroll("home", "ann")
	r.enroll("kids", "bob")
	home, kids := r.dial("home"), r.dial("kids")
	if res := home.do(sendMedia("@bob", "a", "")); res.Err == nil || res.Err.Code != relay.CodeEgressDeclined || files.asked.Load() != 0 {
		t.Errorf("into another's chat: %+v, and %d files looked for", res.Err, files.asked.Load())
	}
	if res := kids.do(sendMedia("@bob", "a", "")); res.Err == nil || res.Err.Public != "media not found or expired" {
		t.Errorf("another's file: %+v", res.Err)
	}
	if res := home.do(sendMedia("@ann", "a", "")); res.Err != nil || res.Result.MessageID != "m0" {
		t.Errorf("own file: %+v", res)
	}
	if diff := cmp.Diff([]string{"media @ann: picture"}, p.log()); diff != "" {
		t.Errorf("what the platform did (-want +got):\n%s", diff)
	}
	if n := files.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// TestASlowFileHoldsUpItsChatOnly, and is given up with its action.
func TestASlowFileHoldsUpItsChatOnly(t *testing.T) {
	r, p, files := newPosterRig(t, map[string]string{"home slow": "picture"})
	r.enroll("home", "ann", "cid")
	g := r.dial("home")
	g.send(wire.Outbound{Request: sendMedia("@ann", "slow", "")})
	if res := g.do(send("@cid", "meanwhile")); res.Err != nil {
		t.Fatalf("another chat: %+v", res.Err)
	}
	if len(p.log()) != 0 {
		t.Fatalf("the platform did %q before the file was there", p.log())
	}
	close(files.slow)
	wait.Until(t, "the file", func() bool { return slices.Equal(p.log(), []string{"media @ann: picture"}) })
}

// TestABotWithoutFilesIsAskedForNone: the gateway is told at once, and no server is.
func TestABotWithoutFilesIsAskedForNone(t *testing.T) {
	files := &drawer{}
	r := newRigWith(t, func(l *local.Loopback) platforms.Bot {
		return struct {
			platforms.Bot
			platforms.DirectChats
		}{l, l}
	}, with(files))
	r.enroll("home", "ann")
	g := r.dial("home")
	if res := g.do(sendMedia("@ann", "a", "")); res.Err == nil || res.Err.Public != "unsupported op send_media" || files.asked.Load() != 0 {
		t.Errorf("answer %+v, and %d files looked for", res.Err, files.asked.Load())
	}
}

// TestAFileAnswersThroughTheCapability, as a send does, and takes the placeholder's place.
func TestAFileAnswersThroughTheCapability(t *testing.T) {
	r, p, _ := newPosterRig(t, map[string]string{"home a": "picture"})
	r.enroll("home", "ann")
	r.command("ann", "i1", "/draw", "tok1", true)
	g := r.dial("home")
	g.inbound()
	for _, q := range []relay.Request{sendMedia("@ann", "a", ""), send("@ann", "there"), sendMedia("@ann", "a", "")} {
		if res := g.do(q); res.Err != nil {
			t.Fatalf("%+v: %+v", q, res.Err)
		}
	}
	if diff := cmp.Diff([]string{"respond tok1 first=true: picture", "media @ann: picture"}, p.log()); diff != "" {
		t.Errorf("what the platform did (-want +got):\n%s", diff)
	}
	if acts := r.net.Acts(); len(acts) != 1 || acts[0].Text != "there" {
		t.Errorf("ordinary messages = %+v, want the send", acts)
	}
	if _, known, err := r.db.Authors.By(t.Context(), relay.Chat{Bot: r.bot, ID: "@ann"}, "r1"); !known || err != nil {
		t.Errorf("the answer is nobody's: %v", err)
	}
}

// TestWhatAFileBecameIsItsSenders: all messages of it, also of one that may stand.
func TestWhatAFileBecameIsItsSenders(t *testing.T) {
	r, _, _ := newPosterRig(t, map[string]string{"home a": "picture"})
	r.enroll("home", "ann")
	g := r.dial("home")
	g.do(sendMedia("@ann", "a", "long"))
	g.do(sendMedia("@ann", "a", "broken"))
	for _, id := range []relay.MessageID{"m1", "m2", "m3"} {
		sender, known, err := r.db.Authors.By(t.Context(), relay.Chat{Bot: r.bot, ID: "@ann"}, id)
		if sender != "home" || !known || err != nil {
			t.Errorf("%s is %q's, %v", id, sender, err)
		}
	}
}
