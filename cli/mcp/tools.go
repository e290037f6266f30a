package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxInline is how many bytes a picture in an answer may have.
const maxInline = 1 << 20

// progressEvery is how often a waiting client is told that its call continues.
const progressEvery = 15 * time.Second

// tool is a tool, with OpenClaw's names; Hermes' names of arguments are accepted, too.
type tool struct {
	name, help string
	params     []param
	reads      bool // it only reads
	call       func(context.Context, call) (answer, error)
}

// call is one call of a tool.
type call struct {
	arguments
	request *sdk.CallToolRequest
	spool   *spool.Spool
}

// answer is a tool's answer: structured for OpenClaw's clients, text for Hermes' clients, and pictures for both.
// failed: the tool did not do what it was asked to do.
type answer struct {
	structured, text any
	pictures         []sdk.Content
	failed           bool
}

func (t tool) described() *sdk.Tool {
	openWorld := t.name == "messages_send"
	return &sdk.Tool{
		Name: t.name, Description: t.help, InputSchema: schema(t.params),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.reads, OpenWorldHint: &openWorld},
	}
}

// handler answers the calls of a tool. The model reads the errors of its calls and can correct them.
func (s *Server) handler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		args, err := decode(t.params, r.Params.Arguments)
		var a answer
		if err == nil {
			c := call{arguments: args, request: r}
			if c.spool, err = s.open(ctx); err == nil {
				a, err = t.call(ctx, c)
			}
		}
		if err != nil {
			a = answer{text: map[string]string{"error": err.Error()}, failed: true}
		}
		words, err := compact(a.text)
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{
			Content:           append([]sdk.Content{&sdk.TextContent{Text: words}}, a.pictures...),
			StructuredContent: a.structured, IsError: a.failed,
		}, nil
	}
}

// compact returns v as JSON for a model, without escapes for HTML.
func compact(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// object is a JSON object.
type object map[string]any

// The arguments that several tools take.
var (
	sessionKey = param{name: "session_key", kind: text, min: 1, max: maxID, needed: true, help: "the conversation, as conversations_list names it"}
	oneSession = param{name: "session_key", kind: text, max: maxID, help: "only this conversation"}
	after      = param{name: "after_cursor", kind: whole, max: 1<<53 - 1, help: "confirms what was returned up to this cursor; left out or 0: nothing"}
)

func limit(most, fallback int64) param {
	return param{name: "limit", kind: whole, min: 1, max: most, fallback: fallback, help: "how many at most"}
}

// tools returns all tools.
func (s *Server) tools() []tool {
	return []tool{
		{
			name: "conversations_list", reads: true, call: s.conversationsList,
			help: "Lists the conversations that have been seen, that of the newest message first.",
			params: []param{
				limit(500, 50),
				{name: "search", kind: text, max: maxID, help: "only those whose name or key contains this"},
				{name: "channel", kind: text, max: maxID, help: "only those of this chat network, such as telegram"},
				{name: "platform", kind: text, max: maxID, help: "the same as channel"},
				{name: "includeDerivedTitles", kind: yesOrNo, help: "with a title made of the name and the network"},
				{name: "includeLastMessage", kind: yesOrNo, help: "with the beginning of the last message"},
			},
		},
		{
			name: "conversation_get", reads: true, call: s.conversationGet, params: []param{sessionKey},
			help: "Returns one conversation.",
		},
		{
			name: "messages_read", reads: true, call: s.messagesRead, params: []param{sessionKey, limit(200, 20)},
			help: "Reads the last messages of a conversation, from both sides, the oldest first. Confirms nothing.",
		},
		{
			name: "attachments_fetch", reads: true, call: s.attachmentsFetch,
			help: "Says where the files of a message are on this machine.",
			params: []param{
				sessionKey,
				{name: "message_id", kind: text, min: 1, max: maxID, needed: true, help: "the message, as messages_read names it"},
				{name: "inline", kind: yesOrNo, help: "with the pictures themselves, up to 1 MiB each"},
			},
		},
		{
			name: "events_poll", call: s.eventsPoll, params: []param{after, oneSession, limit(200, 20)},
			help: "Returns the oldest messages from people that are not confirmed. They come again until they are: pass next_cursor as after_cursor when you are done with them.",
		},
		{
			name: "events_wait", call: s.eventsWait,
			help: "Waits for a message from people that is not confirmed, and returns the oldest; null if none comes.",
			params: []param{after, oneSession, {
				name: "timeout_ms", kind: whole, min: 1, max: 300_000, fallback: int64(30_000), help: "how long to wait, in milliseconds",
			}},
		},
		{
			name: "messages_send", call: s.messagesSend,
			help: "Sends a message to a conversation. status is sent, queued (it will be), not_sent (with a reason) or unknown (it may have been).",
			params: []param{
				{name: "session_key", kind: text, max: maxID, help: "the conversation; or target"},
				{name: "target", kind: text, max: maxID, help: "platform:chat, in place of session_key"},
				{name: "text", kind: text, max: maxText, help: "the message, in markdown; or message"},
				{name: "message", kind: text, max: maxText, help: "the same as text"},
				{name: "reply_to", kind: text, max: maxID, help: "the message that it answers"},
				{name: "cursor", kind: whole, min: 1, max: 1<<53 - 1, help: "the event that it answers, which is confirmed once it is sent"},
				{name: "key", kind: text, min: 1, max: 200, help: "a name of yours for this message: under it, it is sent once within a day"},
			},
		},
		{
			name: "permissions_list_open", reads: true, call: s.permissionsListOpen,
			help: "Lists the requests for permission that no person has answered.",
		},
		{
			name: "permissions_respond", call: s.permissionsRespond,
			help: "Withdraws a request for permission (deny). Only a person can allow one.",
			params: []param{
				{name: "kind", kind: text, choices: []string{"exec", "plugin"}, max: 10, fallback: "exec", help: "the kind of the request"},
				{name: "id", kind: text, min: 1, max: maxID, needed: true, help: "the request"},
				{name: "decision", kind: text, choices: []string{"allow-once", "allow-always", deny}, max: 20, needed: true, help: "deny"},
			},
		},
		{
			name: "channels_list", reads: true, call: s.channelsList,
			help: "Lists the chats that can be written to, with the target that messages_send takes.",
			params: []param{
				{name: "channel", kind: text, max: maxID, help: "only those of this chat network"},
				{name: "platform", kind: text, max: maxID, help: "the same as channel"},
			},
		},
	}
}

// either returns the argument name or, if that is empty, the argument other.
func (c call) either(name, other string) string {
	if v := c.arguments.text(name); v != "" {
		return v
	}
	return c.arguments.text(other)
}

var errNoConversation = errors.New("session_key: no such conversation has been seen")

// chat returns the conversation that the call names.
func (c call) chat() (spool.Chat, error) {
	chat, ok := find(c.spool, c.arguments.text("session_key"))
	if !ok {
		return chat, errNoConversation
	}
	return chat, nil
}

func (s *Server) conversationsList(_ context.Context, c call) (answer, error) {
	out, hermes := []conversation{}, []hermesConversation{}
	channel, search := c.either("channel", "platform"), strings.ToLower(c.arguments.text("search"))
	for _, chat := range c.spool.Chats() {
		one := s.conversation(chat)
		where := strings.ToLower(one.DisplayName + "\n" + one.SessionKey)
		if channel != "" && one.Channel != channel || !strings.Contains(where, search) {
			continue
		}
		if c.flag("includeDerivedTitles") {
			one.DerivedTitle = strings.TrimSpace(one.DisplayName + " on " + one.Channel)
		}
		if c.flag("includeLastMessage") {
			if all := c.spool.Messages(chat.Key); len(all) > 0 {
				one.LastMessagePreview = preview(s.message(c.spool, all[len(all)-1]))
			}
		}
		out, hermes = append(out, one), append(hermes, forHermes(chat))
		if int64(len(out)) == c.number("limit") {
			break
		}
	}
	return answer{structured: object{"conversations": out}, text: object{"count": len(hermes), "conversations": hermes}}, nil
}

func (s *Server) conversationGet(_ context.Context, c call) (answer, error) {
	chat, err := c.chat()
	if err != nil {
		return answer{}, err
	}
	return answer{structured: object{"conversation": s.conversation(chat)}, text: forHermes(chat)}, nil
}

func (s *Server) messagesRead(_ context.Context, c call) (answer, error) {
	chat, err := c.chat()
	if err != nil {
		return answer{}, err
	}
	all := c.spool.Messages(chat.Key)
	out, size := []message{}, 0
	var cursors []spool.Cursor
	for _, m := range slices.Backward(all) {
		one := s.message(c.spool, m)
		if size += len(one.Content) + one.size(); len(out) > 0 && size > maxAnswer || int64(len(out)) == c.number("limit") {
			break
		}
		out, cursors = append(out, one), append(cursors, one.Cursor)
	}
	slices.Reverse(out)
	if err := c.spool.Show(cursors...); err != nil {
		return answer{}, err
	}
	return answer{
		structured: object{"messages": out},
		text:       object{"session_key": chat.Key, "count": len(out), "total_in_session": len(all), "messages": out},
	}, nil
}

func (s *Server) attachmentsFetch(_ context.Context, c call) (answer, error) {
	chat, err := c.chat()
	if err != nil {
		return answer{}, err
	}
	all, id := c.spool.Messages(chat.Key), c.arguments.text("message_id")
	i := slices.IndexFunc(all, func(m spool.Message) bool { return m.Entry != nil && string(m.Event.MessageID) == id })
	if i < 0 {
		return answer{}, errors.New("message_id: there is no such message from a person in this conversation")
	}
	files := s.attachments(c.spool, all[i].Entry)
	if files == nil {
		files = []attachment{}
	}
	a := answer{
		structured: object{"attachments": files, "message": s.message(c.spool, all[i])},
		text:       object{"message_id": id, "count": len(files), "attachments": files},
	}
	if !c.flag("inline") {
		return a, nil
	}
	for _, f := range files {
		if strings.HasPrefix(f.Mime, "image/") && f.Size <= maxInline && f.Path != "" {
			raw, err := os.ReadFile(f.Path)
			if err != nil {
				return answer{}, fmt.Errorf("a picture: %w", err)
			}
			a.pictures = append(a.pictures, &sdk.ImageContent{Data: raw, MIMEType: f.Mime})
		}
	}
	return a, nil
}

// waiting returns the oldest events that are not confirmed, in both forms, and how many more there are. The number most
// bounds them. The spool notes them as returned, unless ctx has ended: then nobody waits for them any more.
func (s *Server) waiting(ctx context.Context, c call, most int64) (out []event, hermes []hermesEvent, more int, err error) {
	all := c.spool.Waiting(c.arguments.text("session_key"))
	out, hermes = []event{}, []hermesEvent{}
	var cursors []spool.Cursor
	size := 0
	for _, m := range all {
		e, h := s.events(c.spool, m.Entry)
		if size += len(e.Text) + e.size(); len(out) > 0 && size > maxAnswer || int64(len(out)) == most {
			break
		}
		out, hermes, cursors = append(out, e), append(hermes, h), append(cursors, m.Cursor)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, 0, err
	}
	return out, hermes, len(all) - len(out), c.spool.Poll(cursors...)
}

// confirm confirms the events that the call names.
func (c call) confirm() error {
	err := c.spool.Confirm(spool.Cursor(c.number("after_cursor")), c.arguments.text("session_key"))
	if errors.Is(err, spool.ErrNeverGiven) {
		return fmt.Errorf("after_cursor: %w; leave it out to get what is not confirmed", err)
	}
	return err
}

func (s *Server) eventsPoll(ctx context.Context, c call) (answer, error) {
	if err := c.confirm(); err != nil {
		return answer{}, err
	}
	out, hermes, more, err := s.waiting(ctx, c, c.number("limit"))
	if err != nil {
		return answer{}, err
	}
	next := spool.Cursor(c.number("after_cursor"))
	for _, e := range out {
		next = max(next, e.Cursor)
	}
	return answer{
		structured: object{"events": out, "next_cursor": next, "waiting": more},
		text:       object{"events": hermes, "next_cursor": next, "waiting": more},
	}, nil
}

func (s *Server) eventsWait(ctx context.Context, c call) (answer, error) {
	if err := c.confirm(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.number("timeout_ms"))*time.Millisecond)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	began, told := time.Now(), time.Now()
	for {
		changed := c.spool.Changed()
		out, hermes, _, err := s.waiting(ctx, c, 1)
		if err != nil && ctx.Err() == nil {
			return answer{}, err
		}
		if len(out) > 0 {
			return answer{structured: object{"event": out[0]}, text: object{"event": hermes[0]}}, nil
		}
		if !until(ctx, changed, max(1, progressEvery-time.Since(told))) {
			return answer{structured: object{"event": nil}, text: object{"event": nil, "reason": "timeout"}}, nil
		}
		if time.Since(told) >= progressEvery {
			told = time.Now()
			s.progress(ctx, c, time.Since(began))
		}
	}
}

// progress tells the client that the call still waits, if the client asked for progress.
func (s *Server) progress(ctx context.Context, c call, waited time.Duration) {
	token := c.request.Params.GetProgressToken()
	if token == nil {
		return
	}
	_ = c.request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // fails only if the client is gone
		ProgressToken: token, Progress: waited.Seconds(), Message: "no message yet",
	})
}

func (s *Server) messagesSend(_ context.Context, c call) (answer, error) {
	m := sending{
		text: c.either("text", "message"), replyTo: relay.MessageID(c.arguments.text("reply_to")),
		key: c.arguments.text("key"), confirms: spool.Cursor(c.number("cursor")),
	}
	key, target := c.arguments.text("session_key"), c.arguments.text("target")
	switch {
	case strings.TrimSpace(m.text) == "":
		return answer{}, errors.New("text: it is missing")
	case key != "":
		if m.chat, m.there = find(c.spool, key); !m.there {
			m.chat, m.there = fromKey(key)
		}
	case target != "":
		m.chat, m.there = findTarget(c.spool, target)
	default:
		return answer{}, errors.New("session_key: it is missing")
	}
	if !m.there {
		m.chat.Key = key + target
	}
	o, err := s.send(c.spool, m)
	if err != nil {
		return answer{}, err
	}
	out := answerOf(o)
	a := answer{structured: object{"result": out}, failed: o.Status != statusSent && o.Status != statusQueued}
	a.text = struct {
		Success bool `json:"success"`
		sent
		Error string `json:"error,omitempty"`
	}{!a.failed, out, out.Reason}
	return a, nil
}

// openApproval is a request that is open, as OpenClaw's clients read it.
type openApproval struct {
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	Request     object `json:"request"`
	CreatedAtMs int64  `json:"createdAtMs"`
	ExpiresAtMs int64  `json:"expiresAtMs"`
}

func (s *Server) permissionsListOpen(context.Context, call) (answer, error) {
	out := []openApproval{}
	for _, r := range s.approvals.list() {
		out = append(out, openApproval{
			"exec", r.ID, object{"tool_name": r.Tool, "description": r.Description, "input_preview": r.Preview},
			r.asked.UnixMilli(), r.asked.Add(approvalLife).UnixMilli(),
		})
	}
	return answer{structured: object{"approvals": out}, text: object{"count": len(out), "approvals": out}}, nil
}

func (s *Server) permissionsRespond(ctx context.Context, c call) (answer, error) {
	id := c.arguments.text("id")
	if c.arguments.text("decision") != deny {
		return answer{}, errors.New("decision: only a person allows, in the chat in which they were asked")
	}
	if !slices.ContainsFunc(s.approvals.list(), func(a approval) bool { return a.ID == id }) {
		return answer{}, errors.New("id: no such request is open")
	}
	s.approvals.decide(ctx, id, deny)
	out := object{"id": id, "decision": deny}
	return answer{structured: object{"result": out}, text: out}, nil
}

// channel is a chat that can be written to, as Hermes lists it.
type channel struct {
	Target   string `json:"target"`
	Platform string `json:"platform"`
	Name     string `json:"name"`
	Type     string `json:"chat_type"`
}

func (s *Server) channelsList(_ context.Context, c call) (answer, error) {
	out, known := []channel{}, make(map[string]bool)
	for _, chat := range c.spool.Chats() {
		src := chat.Source
		one := channel{string(src.Platform) + ":" + string(src.ChatID), string(src.Platform), titleOf(src), string(src.ChatType)}
		if want := c.either("channel", "platform"); want != "" && one.Platform != want || known[one.Target] {
			continue
		}
		known[one.Target] = true
		out = append(out, one)
	}
	all := object{"count": len(out), "channels": out}
	return answer{structured: all, text: all}, nil
}
