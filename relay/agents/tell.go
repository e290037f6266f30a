package agents

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

const (
	maxTell             = 4000    // characters of a message to a person
	tellRate, tellBurst = 0.5, 30 // messages a second of one caller to people, and how many at once after a pause
)

// The outcomes of a message to a person.
const (
	toldSent    = "sent"
	toldWaits   = "waiting" // on disk, until the network takes it
	toldUnknown = "unknown" // it may have been sent
)

// told is the answer to a program that writes to a person.
type told struct {
	State string `json:"state"` // sent, waiting or unknown
	At    int64  `json:"told_at"`
}

// tell is the body of a request to write to a person.
type tell struct {
	Text       string `json:"text"`
	DispatchID string `json:"dispatch_id"`
}

func (d *Desk) tellPerson(ctx context.Context, r *request) (any, error) {
	var t tell
	if err := decode(r.raw, &t); err != nil {
		return nil, err
	}
	if err := checkID("dispatch_id", t.DispatchID); err != nil {
		return nil, err
	}
	platform, user, _ := strings.Cut(r.rest, ":")
	p := r.caller.Person(relay.PlatformID(platform), relay.UserID(user))
	if p == nil {
		return nil, routes.NotFound()
	}
	return d.tell(ctx, r.caller, *p, t)
}

// push writes to a person, for requests in the form of ntfy's clients.
func (d *Desk) push(ctx context.Context, r *request) (any, error) {
	mac := d.mac.MAC(callers.PushPurpose, relay.NewSecret([]byte(r.rest)))
	n := slices.IndexFunc(r.caller.People, func(p callers.Person) bool { return bytes.Equal(p.Push, mac) })
	if n < 0 {
		return nil, routes.NotFound()
	}
	if !utf8.Valid(r.raw) {
		return nil, routes.Refused(http.StatusBadRequest, "the body is not UTF-8")
	}
	return d.tell(ctx, r.caller, r.caller.People[n], tell{Text: headed(r.Header, string(r.raw))})
}

// headed puts the title, priority and tags of ntfy's headers above a text.
func headed(h http.Header, text string) string {
	get := func(names ...string) string {
		for _, name := range names {
			if v := h.Get(name); v != "" {
				if said, err := new(mime.WordDecoder).DecodeHeader(v); err == nil {
					v = said
				}
				return field(v)
			}
		}
		return ""
	}
	head := get("Title", "X-Title")
	if head != "" {
		head = "**" + strings.ReplaceAll(head, "*", "") + "**"
	}
	if slices.Contains([]string{"4", "5", "high", "urgent", "max"}, strings.ToLower(get("Priority", "X-Priority"))) {
		head = strings.TrimSpace("❗ " + head)
	}
	if tags := get("Tags", "X-Tags"); tags != "" {
		head = strings.TrimSpace(head + " (" + tags + ")")
	}
	return strings.TrimSpace(head + "\n" + text)
}

// tell writes to a person, once for each dispatch. It stores a receipt before it writes: a repetition gets the outcome
// in that receipt. If certainly nothing was sent, it deletes the receipt, so that the caller can try again.
func (d *Desk) tell(ctx context.Context, c caller, p callers.Person, t tell) (any, error) {
	switch {
	case strings.TrimSpace(t.Text) == "":
		return nil, routes.Refused(http.StatusBadRequest, "text: missing")
	case utf8.RuneCountInString(t.Text) > maxTell:
		return nil, routes.Refused(http.StatusRequestEntityTooLarge, "text: longer than 4000 characters")
	}
	if p.Muted {
		return nil, routes.Refused(http.StatusForbidden, "refused: the person has muted "+c.Name)
	}
	if wait := d.tells.Take(c.Name, d.now()); wait > 0 {
		return nil, routes.Busy(wait, "too many requests")
	}
	from, chat, err := d.wayTo(ctx, p)
	if err != nil {
		return nil, err
	}
	if t.DispatchID == "" {
		t.DispatchID = relay.RandomText(26)
	}
	rec, first, err := d.db.Callers.Begin(ctx, relay.Receipt{
		Event: eventID(c, relay.InstanceID("person "+p.String()), t.DispatchID), Caller: c.Name, Dispatch: t.DispatchID, Sum: sum(t.Text), Request: relay.RandomText(16),
	})
	switch {
	case err != nil:
		return nil, err
	case !first && !bytes.Equal(rec.Sum, sum(t.Text)):
		return nil, routes.Refused(http.StatusBadRequest, "dispatch_id: it was used for another text")
	case !first && rec.Told == "": // the first request is under way, or was when the connector was killed
		return told{toldUnknown, milli(rec.At)}, nil
	case !first:
		return told{rec.Told, milli(rec.At)}, nil
	}
	state := toldSent
	res, err := d.live.Tell(context.WithoutCancel(ctx), from, chat, c.Name, t.Text)
	ae := relay.Explain(err)
	switch {
	case ae == nil && res.Queued:
		state = toldWaits
	case ae != nil && ae.Outcome == relay.NotSent:
		if err := d.db.Callers.End(context.WithoutCancel(ctx), rec, ""); err != nil {
			return nil, err
		}
		if ae.Retried() {
			return nil, unavailable()
		}
		return nil, routes.Refused(http.StatusForbidden, "refused: the bot cannot write to the person")
	case ae != nil:
		state = toldUnknown
	}
	return told{state, milli(rec.At)}, d.db.Callers.End(context.WithoutCancel(ctx), rec, state)
}

// wayTo finds out how to reach a person: the link to the agent that gets their direct messages, the chat in which they
// linked, and the bot to which they last talked there. A chat that others have joined does not count.
func (d *Desk) wayTo(ctx context.Context, p callers.Person) (from store.Binding, chat relay.Chat, err error) {
	all, err := d.db.Bindings(ctx, store.BindingFilter{Platform: p.Platform, User: p.User})
	if err != nil {
		return from, chat, err
	}
	all = slices.DeleteFunc(all, func(b store.Binding) bool { return len(b.Commands) > 0 })
	if len(all) == 0 {
		return from, chat, routes.Refused(http.StatusForbidden, "refused: the person is not linked")
	}
	from = all[0]
	for _, b := range all {
		if b.DMDefault {
			from = b
		}
	}
	var heard store.Conversation
	for _, bot := range d.live.Bots() {
		if bot.ID().Platform != p.Platform {
			continue
		}
		at := facts.DirectChat(bot, all, p.User)
		if at == "" {
			continue
		}
		switch shared, err := platforms.Shared(ctx, bot, at, p.User); {
		case err != nil:
			return from, chat, unavailable()
		case shared:
			continue
		}
		talks, err := d.db.Conversations(ctx, store.ConversationFilter{Chat: relay.Chat{Bot: bot.ID(), ID: at}})
		if err != nil {
			return from, chat, err
		}
		newest := store.Conversation{}
		for _, t := range talks {
			if t.LastAt.After(newest.LastAt) {
				newest = t
			}
		}
		if chat.Bot == (relay.Bot{}) || newest.LastAt.After(heard.LastAt) {
			chat, heard = relay.Chat{Bot: bot.ID(), ID: at}, newest
		}
	}
	if chat.Bot == (relay.Bot{}) {
		return from, chat, routes.Refused(http.StatusForbidden, "refused: no bot can write to the person: they link with a code that they send to the bot")
	}
	return from, chat, nil
}
