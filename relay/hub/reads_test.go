package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/transfer"
)

// Who may read which file, over all that happens in a history: the oracle's side, and the comparing.

// file is one one that came in an event, or that an agent sent.
type file struct {
	readers map[relay.InstanceID]bool // the event went to them, or it is their own
	needed  map[relay.InstanceID]bool // their buffers name it
	free    time.Time                 // since when no buffer does
	held    bool
	id      relay.MediaID // of an upload
}

// ourHost is where the files of the worlds are fetched. Nobody answers there.
const ourHost = "connector.example"

// wants is that an event with files entered a buffer.
func (w *world) wants(id relay.InstanceID, files []string) {
	for _, ref := range files {
		f := w.files[ref]
		if f == nil {
			f = &file{readers: make(map[relay.InstanceID]bool), needed: make(map[relay.InstanceID]bool)}
			w.files[ref] = f
		}
		f.readers[id], f.needed[id], f.free = true, true, time.Time{}
	}
}

// left is that entries left a buffer.
func (w *world) left(id relay.InstanceID, es ...entry) {
	for _, e := range es {
		for _, ref := range e.files {
			if f := w.files[ref]; f != nil {
				w.letGo(f, id)
			}
		}
	}
}

func (w *world) letGo(f *file, id relay.InstanceID) {
	if delete(f.needed, id); len(f.needed) == 0 && f.free.IsZero() {
		f.free = time.Now()
	}
}

// past: a file lives while an entry that nobody took names it, then one hour.
func (f *file) past() bool { return len(f.needed) == 0 && time.Since(f.free) >= time.Hour }

// mayRead: the event went to the agent, or it sent the file; and the file is there.
func (f *file) mayRead(id relay.InstanceID) bool { return f.held && f.readers[id] && !f.past() }

// refs are an event's files.
func refs(ev relay.Event) (out []string) {
	for _, a := range ev.Attachments {
		out = append(out, a.Ref)
	}
	return out
}

// attach gives an event files of its own, now and then.
func (h *history) attach(ev *relay.Event) {
	ev.Attachments = nil
	for range pick(h.draw, "files", []int{0, 0, 1, 0, 2}) {
		h.made++
		ref := fmt.Sprint("f", h.made)
		ev.Attachments = append(ev.Attachments, relay.Attachment{Ref: ref, Kind: relay.TypeDocument, Size: int64(len(ref))})
	}
}

// ack is a gateway that takes the oldest entries of its buffer.
func (h *history) ack(a *agent) {
	if len(a.got) == 0 {
		return
	}
	n := pick(h.draw, "taken", []int{1, 2, len(a.got)})
	n = min(n, len(a.got))
	es, err := h.db.Lanes.Entries(h.t.Context(), a.id, entriesAll)
	h.ok(err)
	var ids []relay.BufferID
	for _, e := range es[:n] {
		ids = append(ids, e.Buffer)
	}
	h.ok(h.db.Lanes.Ack(h.t.Context(), a.id, ids...))
	h.left(a.id, a.got[:n]...)
	a.got = slices.Clone(a.got[n:])
}

// shelf is the hub's way to the keeper of the moment.
type shelf struct {
	Files // nobody pushes in these worlds
	find  *transfer.Finder
}

func (*shelf) Fetch(...relay.Attachment) {} // the keeper finds what to fetch when it starts

func (s *shelf) Source(ctx context.Context, i relay.InstanceID, url, name string) (relay.File, func(), error) {
	return s.find.Source(ctx, i, url, name)
}

// read starts a keeper, lets it fetch, has somebody send a file, and compares who can read what; then it stops.
func (h *history) read(said relay.ChatID) {
	k := media.NewKeeper(filepath.Join(h.dir, "media"), h.db, h.hub.Bots(), media.Options{Free: func(string) (int64, error) { return 1 << 40, nil }})
	ctx, stop := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	var ran error
	wg.Go(func() { ran = k.Run(ctx) })
	defer func() {
		stop()
		wg.Wait()
		h.ok(ran)
	}()
	synctest.Wait()
	maps.DeleteFunc(h.files, func(_ string, f *file) bool { return f.past() })
	for _, f := range h.files {
		f.held = f.held || len(f.needed) > 0
	}
	if a := h.agents[pick(h.draw, "uploads", h.ids)]; a.live {
		h.upload(k, a.id)
	}
	ids := h.recorded()
	h.shelf.find = transfer.NewFinder(k, guard.New(guard.Options{OwnHosts: []string{ourHost}}), func(count.Counter) {})
	names := slices.Sorted(maps.Keys(h.files))
	for _, ref := range names {
		for _, id := range h.ids {
			h.canOpen(k, id, ref, ids[ref])
		}
	}
	for _, id := range append(slices.Collect(maps.Values(ids)), relay.NewMediaID(), "") { // also what should be gone
		if ref, known := refOf(ids, id); !known || h.files[ref] == nil {
			for _, i := range h.ids {
				h.cannotOpen(k, i, id)
			}
		}
	}
	if len(names) > 0 {
		ref := pick(h.draw, "file to send", names)
		h.sendFile(ref, ids[ref], said)
	}
}

// upload is an agent that sends a file.
func (h *history) upload(k *media.Keeper, id relay.InstanceID) {
	h.made++
	ref := fmt.Sprint("u", h.made)
	at, _, err := k.Put(h.t.Context(), id, ref, -1, strings.NewReader(ref))
	h.ok(err)
	h.files[ref] = &file{readers: map[relay.InstanceID]bool{id: true}, free: time.Now(), held: true, id: at}
}

// recorded are the ids of all files that are stored, by what the worlds call them.
func (h *history) recorded() map[string]relay.MediaID {
	all, err := h.db.Media.List(h.t.Context())
	h.ok(err)
	out := make(map[string]relay.MediaID)
	for _, r := range all {
		ref := r.Ref
		if r.Uploaded() {
			ref = r.Name
		}
		if _, twice := out[ref]; twice {
			h.fail("%s is stored twice", ref)
		}
		out[ref] = r.ID
	}
	return out
}

func refOf(ids map[string]relay.MediaID, id relay.MediaID) (string, bool) {
	for ref, x := range ids {
		if x == id {
			return ref, true
		}
	}
	return "", false
}

// canOpen compares whether an agent can read a file.
func (h *history) canOpen(k *media.Keeper, i relay.InstanceID, ref string, id relay.MediaID) {
	f := h.files[ref]
	if !f.mayRead(i) {
		h.cannotOpen(k, i, id)
		return
	}
	got, done, err := k.Open(h.t.Context(), i, id)
	defer done()
	if err != nil {
		h.fail("%s cannot read %s: %v; %+v\n%s", i, ref, err, f, h)
	}
	content, err := io.ReadAll(io.NewSectionReader(got.Content, 0, got.Size+1))
	h.ok(err)
	if string(content) != ref {
		h.fail("%s reads %q in %s", i, content, ref)
	}
	h.reads++
}

func (h *history) cannotOpen(k *media.Keeper, i relay.InstanceID, id relay.MediaID) {
	_, done, err := k.Open(h.t.Context(), i, id)
	done()
	if !errors.Is(err, media.ErrNoFile) {
		ref, _ := refOf(h.recorded(), id)
		h.fail("%s reads %s: %v, want none; %+v\n%s", i, ref, err, h.files[ref], h)
	}
	h.refused++
}

// sendFile lets everybody try to send a file by its id, to the chat something was said in.
func (h *history) sendFile(ref string, id relay.MediaID, chat relay.ChatID) {
	bot := pick(h.draw, "bot to send a file with", h.bots)
	h.tell()
	for _, i := range h.ids {
		_, may := h.carries(h.agents[i], bot, chat)
		reads := h.files[ref].mayRead(i)
		before := len(h.stages[bot].sent)
		res, err := act(h.t.Context(), h.sessions[i], relay.Request{Platform: bot.Platform, Bot: bot.ID, Action: relay.SendMedia{
			Chat: chat, Kind: "document", SourceURL: "https://" + ourHost + "/relay/media/" + string(id),
		}})
		if done := len(h.stages[bot].sent) - before; (err == nil) != (may && reads) || (done == 1) != (may && reads) {
			h.fail("%s sends %s to %q: %v, %d sent; may act %t, may read %t\n%s", i, ref, chat, err, done, may, reads, h)
		}
		switch {
		case !may:
			h.declined(h.agents[i], bot, chat, err)
		case !reads:
			if ae := relay.Explain(err); ae.Public != "media not found or expired" || ae.Outcome != relay.NotSent {
				h.fail("%s sends %s: %+v", i, ref, ae)
			}
		default:
			h.sentFiles++
			h.posts = append(h.posts, post{relay.Chat{Bot: bot, ID: chat}, res.MessageID, i, time.Now()})
		}
	}
}
