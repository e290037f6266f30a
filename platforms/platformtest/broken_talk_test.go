package platformtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// talk is what else may be wrong with a broken platform: files, buttons, context and drafts.
type talk struct {
	post     func(ctx context.Context, a relay.SendMedia) (relay.Result, error)
	fetch    func(ctx context.Context, a relay.Attachment) (io.ReadCloser, error)
	prompt   func(ctx context.Context, a relay.Prompt) (relay.Result, error)
	unprompt func(chat relay.ChatID, message relay.MessageID) error
	history  func(lines []relay.ContextLine, whole bool) ([]relay.ContextLine, bool)
	since    func(place line, of relay.Event) bool // whether a line counts that otherwise does not
	draft    func(ctx context.Context, a relay.Draft) (relay.Result, error)
}

func (b *broken) SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
	if b.post != nil {
		return b.post(ctx, a)
	}
	return b.Loopback.SendMedia(ctx, a)
}

func (b *broken) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if b.fetch != nil {
		return b.fetch(ctx, a)
	}
	return b.Loopback.FetchMedia(ctx, a)
}

func (b *broken) Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error) {
	if b.prompt != nil {
		return b.prompt(ctx, a)
	}
	return b.Loopback.Prompt(ctx, a)
}

func (b *broken) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	if b.unprompt != nil {
		return b.unprompt(chat, message)
	}
	return b.Loopback.Unprompt(ctx, chat, message)
}

// History is what the harness remembers. The suite asks between what it makes people say, on one goroutine.
func (b *broken) History(_ context.Context, ev relay.Event, n int) ([]relay.ContextLine, bool, error) {
	spoke := 0
	for i, a := range b.h.net.Acts() {
		if a.Op == relay.OpSend && a.Chat == ev.Source.ChatID && a.Thread == ev.Source.ThreadID {
			spoke = i + 1
		}
	}
	var lines []relay.ContextLine
	now := slices.IndexFunc(b.h.lines, func(l line) bool { return l.Text == ev.Text })
	for i, l := range b.h.lines {
		here := l.Chat == ev.Source.ChatID && l.Thread == ev.Source.ThreadID && l.acts >= spoke && i < now
		if here || b.since != nil && b.since(l, ev) {
			lines = append(lines, relay.ContextLine{UserID: l.User, UserName: string(l.User), Text: l.Text})
		}
	}
	lines, whole := lines[max(0, len(lines)-n):], true
	if b.history != nil {
		lines, whole = b.history(lines, whole)
	}
	return lines, whole, nil
}

func (b *broken) Drafts() bool { return true }

func (b *broken) Draft(ctx context.Context, a relay.Draft) (relay.Result, error) {
	if b.draft != nil {
		return b.draft(ctx, a)
	}
	if a.Final {
		return relay.Result{}, relay.Unsupported(a.Op())
	}
	b.h.drafts = append(b.h.drafts, Received{Op: a.Op(), Chat: a.Chat})
	return relay.Result{}, nil
}

// alters changes what the bot posts.
func alters(b *broken, change func(a *relay.SendMedia)) {
	b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
		change(&a)
		return b.Loopback.SendMedia(ctx, a)
	}
}

// talkBreakages are those of checks 13 to 18.
var talkBreakages = map[string]breakage{
	"posts a file on a cancelled context": {"13", "on a cancelled context", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			return b.Loopback.SendMedia(context.WithoutCancel(ctx), a)
		}
	}},
	"cuts a file": {"13", "other bytes", func(_ *loop, b *broken) { alters(b, func(a *relay.SendMedia) { a.File.Size-- }) }},
	"posts a file elsewhere": {"13", "in chat @bob", func(_ *loop, b *broken) {
		alters(b, func(a *relay.SendMedia) { a.Chat = "@bob" })
	}},
	"loses a caption": {"13", "has the caption", func(_ *loop, b *broken) {
		alters(b, func(a *relay.SendMedia) {
			if len(a.Caption) < 100 {
				a.Caption = ""
			}
		})
	}},
	"cuts a long caption": {"13", "of a caption of", func(_ *loop, b *broken) {
		alters(b, func(a *relay.SendMedia) { a.Caption = a.Caption[:min(len(a.Caption), 1024)] })
	}},
	"refuses a file that is not what it is called": {"13", "file voice.pdf", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			if a.Kind == "voice" && a.File.Kind != relay.TypeAudio {
				return relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "no voice"}
			}
			return b.Loopback.SendMedia(ctx, a)
		}
	}},
	"posts a file twice": {"13", "arrived 2 times", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			_, _ = b.Loopback.SendMedia(ctx, a)
			return b.Loopback.SendMedia(ctx, a)
		}
	}},
	"does not name a file's message": {"13", "without naming", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			_, err := b.Loopback.SendMedia(ctx, a)
			return relay.Result{}, err
		}
	}},
	"takes an unclear file for not sent": {"13", "counts as not sent", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			res, err := b.Loopback.SendMedia(ctx, a)
			if err != nil {
				err = &relay.ActionError{Outcome: relay.NotSent, Public: "network: broken"}
			}
			return res, err
		}
	}},
	"invites the gateway to post an unclear file again": {"13", "public words", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			res, err := b.Loopback.SendMedia(ctx, a)
			if ae := relay.Explain(err); ae != nil {
				err = &relay.ActionError{Outcome: ae.Outcome, Public: "network: broken"}
			}
			return res, err
		}
	}},
	"repeats an unclear file": {"13", "an unclear file 2 times", func(_ *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			res, err := b.Loopback.SendMedia(ctx, a)
			if err != nil && ctx.Err() == nil {
				_, _ = b.Loopback.SendMedia(ctx, a)
			}
			return res, err
		}
	}},
	"drops what has no text": {"14", "wait for the event of a file", func(h *loop, b *broken) {
		through(b, func(ctx context.Context, in platforms.Inbox, batch platforms.Batch) error {
			if batch.Events[0].Text == "" {
				h.hangs()
				return nil
			}
			return in.Accept(ctx, batch)
		})
	}},
	"loses a file":                      {"14", "has 0 attachments", func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Attachments = nil }) }},
	"shows files without a reference":   {"14", "no reference", func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Attachments[0].Ref = "" }) }},
	"calls every file a document":       {"14", "the event document", func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Attachments[0].Kind = "document" }) }},
	"makes up a text":                   {"14", `says "a photo"`, func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Text = "a photo" }) }},
	"names files by itself":             {"14", "names files", func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Media = make([]relay.Media, 1) }) }},
	"forgets what a document is called": {"14", "name is", func(_ *loop, b *broken) { rewrite(b, func(ev *relay.Event) { ev.Attachments[0].Name = "file" }) }},
	"opens other bytes": {"14", "other bytes", func(_ *loop, b *broken) {
		b.fetch = func(context.Context, relay.Attachment) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("no")), nil
		}
	}},
	"has no time limit for a fetch": {"14", "on a cancelled context", func(_ *loop, b *broken) {
		b.fetch = func(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
			return b.Loopback.FetchMedia(context.WithoutCancel(ctx), a)
		}
	}},
	"gives a file up at a cancelled context": {"14", "worth trying again", func(_ *loop, b *broken) {
		b.fetch = func(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
			r, err := b.Loopback.FetchMedia(ctx, a)
			if ctx.Err() != nil {
				err = &platforms.MediaError{State: relay.MediaGone, Why: "gone"}
			}
			return r, err
		}
	}},
	"tries a lost file for ever": {"14", "want a MediaError", func(_ *loop, b *broken) {
		b.fetch = func(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
			r, err := b.Loopback.FetchMedia(ctx, a)
			if err != nil {
				err = errors.New("404")
			}
			return r, err
		}
	}},
	"puts the credential into the error of a lost file": {"14", "the credential stands in the error of a lost file", func(h *loop, b *broken) {
		b.fetch = func(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
			r, err := b.Loopback.FetchMedia(ctx, a)
			if err != nil && ctx.Err() == nil {
				err = &platforms.MediaError{State: relay.MediaGone, Why: "gone", Err: errors.New("GET /file/bot" + h.Credential())}
			}
			return r, err
		}
	}},
	"asks without buttons": {"15", "has buttons for []", func(_ *loop, b *broken) {
		b.prompt = func(ctx context.Context, a relay.Prompt) (relay.Result, error) {
			if err := a.Misfit(100); err != nil {
				return relay.Result{}, err
			}
			return b.Loopback.Send(ctx, relay.Send{Chat: a.Chat, Content: a.Content})
		}
	}},
	"names the first part of a question": {"15", "has buttons for []", func(_ *loop, b *broken) {
		b.prompt = func(ctx context.Context, a relay.Prompt) (relay.Result, error) {
			res, err := b.Loopback.Prompt(ctx, a)
			if len(res.MessageIDs) > 0 {
				res.MessageID = res.MessageIDs[0]
			}
			return res, err
		}
	}},
	"cuts a long question": {"15", "want them on the last part", func(_ *loop, b *broken) {
		b.prompt = func(ctx context.Context, a relay.Prompt) (relay.Result, error) {
			a.Content = a.Content[:min(len(a.Content), 1000)]
			return b.Loopback.Prompt(ctx, a)
		}
	}},
	"leaves out the buttons that are too many": {"15", "a question with 101 options", func(_ *loop, b *broken) {
		b.prompt = func(ctx context.Context, a relay.Prompt) (relay.Result, error) {
			a.Options = a.Options[:min(len(a.Options), 25)]
			return b.Loopback.Prompt(ctx, a)
		}
	}},
	"gives every press one message id": {"15", "want each its own", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) {
			if ev.Prompt != nil {
				ev.MessageID = ev.Prompt.PromptMessageID
			}
		})
	}},
	"does not say which message was pressed": {"15", "a press is told as", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) {
			if ev.Prompt != nil {
				ev.Prompt.PromptMessageID = ""
			}
		})
	}},
	"takes a press for words": {"15", "want the command", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) { ev.Traits.Press = false })
	}},
	"takes the asker for the presser": {"15", "a press comes from", func(_ *loop, b *broken) {
		rewrite(b, func(ev *relay.Event) {
			if ev.Prompt != nil {
				ev.Source.UserID = "loopback"
			}
		})
	}},
	"leaves the buttons": {"15", "are left", func(_ *loop, b *broken) {
		b.unprompt = func(relay.ChatID, relay.MessageID) error { return nil }
	}},
	"cannot take off what is gone": {"15", "take the buttons off: not modified", func(h *loop, b *broken) {
		b.unprompt = func(chat relay.ChatID, message relay.MessageID) error {
			if h.net.Buttons(chat, message) == nil {
				return errors.New("not modified")
			}
			return b.Loopback.Unprompt(context.Background(), chat, message)
		}
	}},
	"tells what was said before the bot spoke": {"16", `want ["line one" "line two"]`, func(_ *loop, b *broken) {
		b.since = func(l line, _ relay.Event) bool { return l.Text == "long ago" }
	}},
	"tells what is said in a thread": {"16", `"in the thread"`, func(_ *loop, b *broken) {
		b.since = func(l line, _ relay.Event) bool { return l.Thread != "" }
	}},
	"tells what is said later": {"16", `"said later"|"and now?"`, func(_ *loop, b *broken) {
		b.since = func(l line, _ relay.Event) bool { return l.Text == "said later" }
	}},
	"tells the event itself": {"16", `"and now?"`, func(_ *loop, b *broken) {
		b.since = func(l line, ev relay.Event) bool { return l.Text == ev.Text }
	}},
	"tells the newest first": {"16", `["line two" "line one"]`, func(_ *loop, b *broken) {
		b.history = func(lines []relay.ContextLine, whole bool) ([]relay.ContextLine, bool) {
			slices.Reverse(lines)
			return lines, whole
		}
	}},
	"does not say who said it": {"16", "has no author", func(_ *loop, b *broken) {
		b.history = func(lines []relay.ContextLine, whole bool) ([]relay.ContextLine, bool) {
			for i := range lines {
				lines[i].UserID, lines[i].UserName = "", ""
			}
			return lines, whole
		}
	}},
	"does not know that this is all": {"16", "not called whole", func(_ *loop, b *broken) {
		b.history = func(lines []relay.ContextLine, _ bool) ([]relay.ContextLine, bool) { return lines, false }
	}},
	"makes a message of a draft": {"17", "became the messages", func(_ *loop, b *broken) {
		b.draft = func(ctx context.Context, a relay.Draft) (relay.Result, error) {
			return b.Loopback.Send(ctx, relay.Send{Chat: a.Chat, Content: a.Content})
		}
	}},
	"takes a final draft": {"17", "a final draft", func(_ *loop, b *broken) {
		b.draft = func(context.Context, relay.Draft) (relay.Result, error) { return relay.Result{}, nil }
	}},
	"cannot draft what it says it can": {"17", "draft: unsupported", func(_ *loop, b *broken) {
		b.draft = func(_ context.Context, a relay.Draft) (relay.Result, error) {
			return relay.Result{}, relay.Unsupported(a.Op())
		}
	}},
	"lets links in messages be fetched": {"18", "send of", func(h *loop, b *broken) {
		b.send = func(ctx context.Context, a relay.Send) (relay.Result, error) {
			h.open = append(h.open, a.Content)
			return b.Loopback.Send(ctx, a)
		}
	}},
	"lets links in edits be fetched": {"18", "edit of", func(h *loop, b *broken) {
		b.edit = func(ctx context.Context, a relay.Edit) (relay.Result, error) {
			h.open = append(h.open, a.Content)
			return b.Loopback.Edit(ctx, a)
		}
	}},
	"lets links in captions be fetched": {"18", "send_media of", func(h *loop, b *broken) {
		b.post = func(ctx context.Context, a relay.SendMedia) (relay.Result, error) {
			h.open = append(h.open, a.Caption)
			return b.Loopback.SendMedia(ctx, a)
		}
	}},
	"lets links above buttons be fetched": {"18", "prompt of", func(h *loop, b *broken) {
		b.prompt = func(ctx context.Context, a relay.Prompt) (relay.Result, error) {
			h.open = append(h.open, a.Content)
			return b.Loopback.Prompt(ctx, a)
		}
	}},
	"lets links in drafts be fetched": {"18", "draft of", func(h *loop, b *broken) {
		b.draft = func(_ context.Context, a relay.Draft) (relay.Result, error) {
			if !a.Final {
				h.open = append(h.open, a.Content)
			}
			return relay.Result{}, nil
		}
	}},
}
