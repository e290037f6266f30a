package hub

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Files keeps what comes with events, and finds what gateways send; *media.Keeper has it. All methods: any goroutine.
type Files interface {
	// Fetch begins to fetch what was just recorded. It does not block.
	Fetch(as ...relay.Attachment)
	// Settle waits until each attachment is held or given up, or ctx ends, and is how far they are, in order. It waits
	// for as long as the operator lets it (fetch_timeout).
	Settle(ctx context.Context, as []relay.Attachment) []relay.Held
	// Read is the content of a file that is held and has at most limit bytes.
	Read(ctx context.Context, id relay.MediaID, limit int64) ([]byte, error)
	// Source is the file at an address, as the instance may read it. done lets go of it, and is never nil. Errors
	// are *relay.ActionError.
	Source(ctx context.Context, i relay.InstanceID, url, name string) (f relay.File, done func(), err error)
}

// named is ev with an id for each of its files, if somebody keeps them: what is stored of the event names them.
func (h *Hub) named(ev relay.Event) relay.Event {
	if h.opts.Files == nil || len(ev.Attachments) == 0 {
		return ev
	}
	ev.Attachments = slices.Clone(ev.Attachments[:min(len(ev.Attachments), relay.MaxAttachments)])
	for n := range ev.Attachments {
		ev.Attachments[n].ID = relay.NewMediaID()
	}
	return ev
}

// keepsFilesOf reports whether ev has files that are kept: then it is stored in its frame's place, which depends on them.
func (h *Hub) keepsFilesOf(ev relay.Event) bool {
	return h.opts.Files != nil && len(ev.Attachments) > 0
}
