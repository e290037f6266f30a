package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// occupy is what files, questions and answers that wait make an instance write: n counts its messages. The event names two
// files, and answers a question that was asked before; once it is stored, one file arrives, a gateway sends one, which waits
// with an answer that is sent, dropped or too late in the end or waits still, and the buttons of what was answered before go.
func occupy(t testing.TB, db *DB, i relay.InstanceID, n int, a *Accept) (stored func(AcceptOutcome) error) {
	t.Helper()
	ctx, id := ctxOf(t), fmt.Sprintf("%s-%02d", i, n)
	ev := a.Items[0].Delivery.(relay.Event)
	for _, f := range []string{"a", "b"} {
		ev.Attachments = append(ev.Attachments, relay.Attachment{ID: relay.MediaID(id + f), Ref: "ref of " + id, Kind: relay.TypeDocument, Name: "notes.txt"})
	}
	a.Items[0].Delivery, a.Items[0].Whole = ev, true

	asked := aPrompt(i, "hall", fmt.Sprintf("%s-%d", i, n/8*8), time.Now()) // one after the other takes the same id
	if _, err := db.Prompts.Add(ctx, asked); err != nil {
		t.Error(err)
	}
	if n%2 == 0 { // else it is pressed before anybody knows which message it has become
		if err := db.Prompts.Posted(ctx, asked, asked.Chat, relay.MessageID(id)); err != nil {
			t.Error(err)
		}
	}
	press := func(m relay.MessageID) *prompt.Press {
		return &prompt.Press{Prompt: asked, Event: ev.ID, Message: m}
	}
	if n%4 < 3 {
		a.Items[0].Press = press(relay.MessageID(id))
	}
	return func(out AcceptOutcome) error {
		if out.Items[0].Late {
			return fmt.Errorf("the first press of %s comes too late", asked.ID)
		}
		if n%4 < 3 {
			second := acceptFor(event(id+"-again", 300), i)
			second.Items[0].Press = press(relay.MessageID(id))
			if out, err := db.Accept(ctx, second); err != nil || !out.Items[0].Late {
				return fmt.Errorf("the second press of %s counts, or %w", asked.ID, err)
			}
		}
		arrived := func(r *media.Record) bool {
			r.State, r.Facts, r.Sum = relay.MediaHeld, relay.FileFacts{Size: 3, Mime: "text/plain"}, uint32(n)
			return true
		}
		if err := db.Media.Change(ctx, arrived, relay.MediaID(id+"a")); err != nil {
			return err
		}
		sent := media.Record{Attachment: relay.Attachment{ID: relay.MediaID(id + "u")}, For: []relay.InstanceID{i}, State: relay.MediaHeld, At: time.Now(), Freed: time.Now()}
		if err := db.Media.Add(ctx, sent); err != nil {
			return err
		}
		if err := waits(ctx, db, i, n, sent.ID); err != nil {
			return err
		}
		answered, err := db.Prompts.Answered(ctx)
		for _, r := range answered {
			if r.Instance == i && r.Answer.Event != ev.ID {
				db.Prompts.Cleared(r) // rides with another commit
			}
		}
		return err
	}
}

// waits is an answer with a file that waits, and what comes of it.
func waits(ctx context.Context, db *DB, i relay.InstanceID, n int, file relay.MediaID) error {
	r, err := db.Outbox.Add(ctx, outbox.Record{Instance: i, Chat: "hall", Op: relay.OpSendMedia, At: time.Now(), File: file, Frame: json.RawMessage(`{"op":"send_media"}`)})
	for step := 0; err == nil && step < n%4; step++ {
		_, err = db.Outbox.Change(ctx, r.Number, func(r *outbox.Record) bool {
			switch {
			case step == 0:
				r.Begun = time.Now()
			case n%4 == 2:
				r.Frame, r.Over, r.Message = nil, time.Now(), "m"
			case n%8 == 3:
				r.Frame, r.Over = nil, time.Now()
			default:
				return false
			}
			return true
		})
	}
	return err
}

// occupied is an error if what is stored is not what occupy leaves: files in every state, and questions both open and
// answered.
func occupied(has map[string]map[string]string) error {
	files, asked, answers := fmt.Sprint(has[media.Bucket]), fmt.Sprint(has[prompt.Bucket]), fmt.Sprint(has[outbox.Bucket])
	for what, ok := range map[string]bool{
		"a file that is held":       strings.Contains(files, `"state":"held"`),
		"a file that is waited for": strings.Contains(files, `"state":"waiting"`),
		"a file that is let go of":  strings.Contains(files, `"freed"`),
		"an open question":          strings.Count(asked, `"answer"`) < len(has[prompt.Bucket]),
		"an answered question":      strings.Contains(asked, `"answer"`),
		"an answer that waits":      strings.Contains(answers, `"frame"`),
		"one that was sent":         strings.Contains(answers, `"message"`),
	} {
		if !ok {
			return fmt.Errorf("the database does not have %s", what)
		}
	}
	return nil
}
