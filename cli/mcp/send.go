package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The statuses of a message that was to be sent.
const (
	statusSent    = "sent"
	statusQueued  = "queued" // in the connector's outbox
	statusNotSent = spool.NotSent
	statusUnknown = "unknown"
)

const (
	// linkWait is how long a message waits for a connection; answerWait is how long it waits for the connector's
	// answer, which comes within 25 s.
	linkWait, answerWait = 20 * time.Second, 60 * time.Second
	// unknownReason is the reason given for an unknown outcome.
	unknownReason = "it may have been sent; ask before repeating it"
	// forbidden is the answer for a chat that may not be written to, and for one that does not exist.
	forbidden = "this conversation is not an approved destination"
)

// maxText is how many bytes a message to be sent may have.
const maxText = 64 << 10

// find returns the conversation with the given key, or with a label of that key, as a notification shows it.
func find(sp *spool.Spool, key string) (spool.Chat, bool) {
	if c, ok := sp.Chat(key); ok {
		return c, true
	}
	var found []spool.Chat
	for _, c := range sp.Chats() {
		if label(c.Key) == key {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return spool.Chat{}, false
	}
	return found[0], true
}

// findTarget returns the conversation for "platform:chat": the newest in that chat or, if the spool has seen none, one
// with the chat alone.
func findTarget(sp *spool.Spool, target string) (spool.Chat, bool) {
	platform, chat, ok := strings.Cut(target, ":")
	if !ok || platform == "" || chat == "" {
		return spool.Chat{}, false
	}
	for _, c := range sp.Chats() {
		if string(c.Source.Platform) == platform && string(c.Source.ChatID) == chat {
			return c, true
		}
	}
	return spool.Chat{Key: target, Source: relay.Source{Platform: relay.PlatformID(platform), ChatID: relay.ChatID(chat)}}, true
}

// places match the part of a key behind the kind of chat, for networks whose ids contain colons or whose keys have more
// parts than others': the scope, the chat, the thread and the person.
var places = map[relay.PlatformID]*regexp.Regexp{
	"slack":               regexp.MustCompile(`^(?:([TE][^:]*):)?([^:]+)(?::([0-9.]+))?(?::([^:]+))?$`),
	"matrix":              regexp.MustCompile(`^()(!.+?)(?::(\$.+?))?(?::(@.+))?$`),
	"signal":              regexp.MustCompile(`^()((?:group:)?[^:]+)()(?::([^:]+))?$`),
	relay.ProgramPlatform: regexp.MustCompile(`^()(.+)()()$`),
}

// place is for all other networks. In a group a thread cannot be told from a person.
var (
	place      = regexp.MustCompile(`^()([^:]+)(?::([^:]+))?`)
	placeGroup = regexp.MustCompile(`^()([^:]+)()`)
)

// fromKey makes a conversation from a key that the spool has not seen. Whether the chat exists and may be written to,
// the connector decides.
func fromKey(key string) (spool.Chat, bool) {
	parts := strings.SplitN(key, ":", 5)
	if len(parts) < 5 || parts[0] != "agent" {
		return spool.Chat{}, false
	}
	src := relay.Source{Platform: relay.PlatformID(parts[2]), ChatType: relay.ChatType(parts[3])}
	form := places[src.Platform]
	switch {
	case form != nil:
	case src.ChatType == relay.ChatDM || src.ChatType == relay.ChatThread:
		form = place
	default:
		form = placeGroup
	}
	at := form.FindStringSubmatch(parts[4])
	if at == nil {
		return spool.Chat{}, false
	}
	src.Scope, src.ChatID, src.ThreadID = relay.ScopeID(at[1]), relay.ChatID(at[2]), relay.ThreadID(at[3])
	return spool.Chat{Key: key, Source: src}, true
}

// sending is a message to be sent.
type sending struct {
	chat     spool.Chat
	there    bool // chat is the destination; false: the destination is not known
	text     string
	replyTo  relay.MessageID
	key      string
	confirms spool.Cursor
}

// digest returns what tells the messages under a key apart: a digest of conversation, text and reply.
func (m sending) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{m.chat.Key, m.text, string(m.replyTo)}))
	return hex.EncodeToString(sum[:16])
}

// send sends a message and notes the outcome in the spool. A message that was sent under its key before is not sent
// again: its outcome is returned. send continues when the client stops waiting. An error means that nothing was sent.
func (s *Server) send(sp *spool.Spool, m sending) (spool.Outcome, error) {
	if m.confirms != 0 && !sp.Given(m.confirms) {
		return spool.Outcome{}, fmt.Errorf("cursor: %w", spool.ErrNeverGiven)
	}
	if m.key != "" {
		prior, was, err := sp.Begin(m.key, m.digest())
		switch {
		case err != nil:
			return spool.Outcome{}, fmt.Errorf("key: %w", err)
		case was && prior == nil:
			return spool.Outcome{Status: statusUnknown, Reason: unknownReason}, nil
		case was:
			if prior.Status == statusSent || prior.Status == statusQueued {
				s.finish(sp, "", *prior, spool.Chat{}, nil, m.confirms)
			}
			return *prior, nil
		}
	}
	o := spool.Outcome{Status: statusNotSent, Reason: forbidden}
	if m.there {
		o = s.carry(m)
	}
	var past *spool.Said
	switch {
	case o.Status != statusSent && o.Status != statusQueued:
		m.confirms = 0
	case m.chat.Source.ChatType != "": // else the target names a chat only, not which of its conversations
		past = &spool.Said{Key: m.chat.Key, Text: m.text}
		if n := len(o.MessageIDs); n > 0 {
			past.ID = o.MessageIDs[n-1]
		}
	}
	s.finish(sp, m.key, o, m.chat, past, m.confirms)
	return o, nil
}

// finish notes the outcome of a message in the spool. A failure to write it is only logged.
func (s *Server) finish(sp *spool.Spool, key string, o spool.Outcome, chat spool.Chat, past *spool.Said, confirms spool.Cursor) {
	if err := sp.Finish(key, o, chat, past, confirms); err != nil {
		s.o.Log.Error("what became of a message is not on disk", "status", o.Status, "err", err)
	}
}

// carry asks the connector to send a message.
func (s *Server) carry(m sending) spool.Outcome {
	s.acting.RLock() // so that rest and acted do not end the connection meanwhile
	defer s.acting.RUnlock()
	ctx, cancel := context.WithTimeout(s.life, linkWait+answerWait)
	defer cancel()
	src := m.chat.Source
	r, err := s.client.Act(ctx, src.Platform, relay.Send{
		Chat: src.ChatID, Content: m.text, ReplyTo: m.replyTo,
		Meta: relay.Metadata{ThreadID: src.ThreadID, Scope: src.Scope, UserID: src.UserID, Notify: true},
	})
	return outcomeOf(r, err)
}

// outcomeOf turns the connector's answer into an outcome.
func outcomeOf(r relay.Result, err error) spool.Outcome {
	refusal, refused := errors.AsType[*relay.ActionError](err)
	switch {
	case err == nil:
		o := spool.Outcome{Status: statusSent, MessageIDs: r.MessageIDs}
		if r.Queued {
			o.Status = statusQueued
		}
		if len(o.MessageIDs) == 0 && r.MessageID != "" {
			o.MessageIDs = []relay.MessageID{r.MessageID}
		}
		return o
	case errors.Is(err, client.ErrNoLink):
		return spool.Outcome{Status: statusNotSent, Reason: client.ErrNoLink.Error(), RetryAfter: linkWait}
	case !refused:
		return spool.Outcome{Status: statusUnknown, Reason: unknownReason}
	case refusal.Code == relay.CodeEgressDeclined:
		return spool.Outcome{Status: statusNotSent, Reason: forbidden}
	case refusal.Outcome == relay.NotSent:
		return spool.Outcome{Status: statusNotSent, Reason: cmp.Or(relay.Shown(refusal.Public), "refused"), RetryAfter: refusal.RetryAfter}
	}
	return spool.Outcome{Status: statusUnknown, Reason: unknownReason, MessageIDs: refusal.MessageIDs}
}

// sent is the answer to a client about a message.
type sent struct {
	Status     string            `json:"status"`
	MessageID  relay.MessageID   `json:"message_id,omitempty"`
	MessageIDs []relay.MessageID `json:"message_ids,omitempty"` // if there are several
	Reason     string            `json:"reason,omitempty"`
	RetryAfter int64             `json:"retry_after_ms,omitempty"`
}

func answerOf(o spool.Outcome) sent {
	out := sent{Status: o.Status, Reason: o.Reason, RetryAfter: o.RetryAfter.Milliseconds()}
	if n := len(o.MessageIDs); n > 0 {
		out.MessageID = o.MessageIDs[n-1]
		if n > 1 {
			out.MessageIDs = o.MessageIDs
		}
	}
	return out
}
