package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/render"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// An event with files or context, or a forwarded one, is stored as a whole, and becomes a frame when it is pushed: only
// then is it known which files are held, under which address the gateway calls this connector, and whether the gateway
// can fetch at all. All other events are stored as frames.

// settleWithin bounds how long an entry waits for its files and its context, and those behind it for the entry.
const settleWithin = 30 * time.Second

// settle makes the frame of an entry that holds its event; see delivery.Outlet.
func (s *attachment) settle(ctx context.Context, e *store.Entry) error {
	ev := *e.Event
	waiting, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	s.hub.in.BringContext(waiting, s.peer.Instance, &ev)
	if s.hub.opts.Files != nil && len(ev.Attachments) > 0 || len(ev.Context) > 0 {
		old := s.tooOld()
		ev = render.Event(ev, s.files(ctx, waiting, ev, old), render.Options{TooOld: old, Fits: wire.Fits})
		if len(ev.Media) > 0 {
			s.offers(e.About)
		}
	}
	e.Frame, _ = wire.Pack(ev) // the session refuses a frame that is too large
	return nil
}

// files returns the event's files, each with its state when that is final or, at the latest, when the context waiting
// ends.
func (s *attachment) files(ctx, waiting context.Context, ev relay.Event, old bool) []render.File {
	h := s.hub
	if h.opts.Files == nil || len(ev.Attachments) == 0 {
		return nil
	}
	var out []render.File
	for _, held := range h.opts.Files.Settle(waiting, ev.Attachments) {
		f := render.File{Held: held}
		if held.State == relay.MediaHeld {
			f.URL = s.url(ev.Bot, held, old)
		}
		if render.Inlines(held) {
			content, err := h.opts.Files.Read(ctx, held.ID, render.MaxInline)
			if err != nil && ctx.Err() == nil {
				h.log.Warn("a text file's content is not told", "media", held.ID, "err", err)
			}
			f.Content = content
		}
		out = append(out, f)
	}
	return out
}

// url returns the address at which the gateway gets a held file; empty: none. A gateway that cannot fetch may still
// show its agent a picture that anybody can load.
func (s *attachment) url(b relay.Bot, held relay.Held, old bool) string {
	if old {
		if p, ok := s.hub.hosted.Bot(b).(platforms.PublicMedia); ok && held.Facts.Kind == relay.TypePhoto {
			url, _ := p.PublicURL(held.Attachment)
			return url
		}
		return ""
	}
	if s.peer.Origin == "" {
		return ""
	}
	address := s.peer.Origin + relay.MediaPath + "/" + string(held.ID)
	if shard := s.hub.opts.Shard; shard != "" {
		address += "?" + relay.ShardQuery + "=" + shard
	}
	return address
}
