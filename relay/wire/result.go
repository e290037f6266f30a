package wire

import (
	"math"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// OutboundResult answers one Outbound.
type OutboundResult struct {
	ID relay.RequestID
	// Op is the operation that is answered. It is not sent, but an answer to relay.OpGetChatInfo is written
	// differently: it has the chat's name and type twice, in chat_info and as members of the result, because the
	// contract allows either. After decoding Op is relay.OpGetChatInfo if there was a chat_info, and empty otherwise.
	Op relay.Op
	// Result is the action's result; it has no meaning if Err is set.
	Result relay.Result
	// Err is nil for success. Its Err field is not sent.
	Err *relay.ActionError
}

// resultJSON is the result in a resultFrame.
type resultJSON struct {
	Success        bool              `json:"success"`
	MessageID      relay.MessageID   `json:"message_id,omitempty"`
	MessageIDs     []relay.MessageID `json:"message_ids,omitempty"`
	ThreadID       relay.ThreadID    `json:"thread_id,omitempty"`
	AutoThreadName string            `json:"auto_thread_name,omitempty"`
	// ChatID is there only when it is not the one that the action named: use it from now on.
	ChatID relay.ChatID `json:"chat_id,omitempty"`
	// Queued: the message is on disk, and will be sent.
	Queued   bool           `json:"queued,omitempty"`
	ChatInfo *chatInfoJSON  `json:"chat_info,omitempty"`
	Name     *string        `json:"name,omitempty"`
	Type     relay.ChatType `json:"type,omitempty"`
	Error    string         `json:"error,omitempty"`
	Code     string         `json:"code,omitempty"`
	// Ambiguous: the platform may have carried the action out. It also keeps a gateway from taking the failure for a
	// decline.
	Ambiguous  bool    `json:"ambiguous,omitempty"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds
}

type chatInfoJSON struct {
	Name string         `json:"name"`
	Type relay.ChatType `json:"type"`
}

// resultFrame is the form in which an OutboundResult is sent.
type resultFrame struct {
	bare
	ID     relay.RequestID `json:"requestId"`
	Result resultJSON      `json:"result"`
}

func (f OutboundResult) body() any {
	return resultFrame{bare{typeOutboundResult}, f.ID, encodeResult(f)}
}

func encodeResult(f OutboundResult) resultJSON {
	if e := f.Err; e != nil {
		return resultJSON{
			Error: e.Public, Code: e.Code, MessageIDs: e.MessageIDs,
			Ambiguous:  e.Outcome == relay.MaybeSent || len(e.MessageIDs) > 0,
			RetryAfter: max(0, e.RetryAfter.Seconds()),
		}
	}
	r := resultJSON{
		Success: true, MessageID: f.Result.MessageID, MessageIDs: f.Result.MessageIDs,
		ThreadID: f.Result.ThreadID, AutoThreadName: f.Result.AutoThreadName,
		ChatID: f.Result.MovedTo, Queued: f.Result.Queued, ChatInfo: (*chatInfoJSON)(f.Result.ChatInfo),
	}
	if r.ChatInfo != nil && f.Op == relay.OpGetChatInfo {
		r.Name, r.Type = &r.ChatInfo.Name, r.ChatInfo.Type
	}
	return r
}

func (f resultFrame) frame() Frame {
	r, out := f.Result, OutboundResult{ID: f.ID}
	if !r.Success {
		e := &relay.ActionError{Outcome: relay.NotSent, Public: r.Error, Code: r.Code, MessageIDs: some(r.MessageIDs)}
		if r.Ambiguous || len(e.MessageIDs) > 0 {
			e.Outcome = relay.MaybeSent
		}
		if r.RetryAfter > 0 && r.RetryAfter <= maxWait.Seconds() {
			e.RetryAfter = time.Duration(math.Round(r.RetryAfter * float64(time.Second)))
		}
		out.Err = e
		return out
	}
	out.Result = relay.Result{
		MessageID: r.MessageID, MessageIDs: some(r.MessageIDs), ThreadID: r.ThreadID, AutoThreadName: r.AutoThreadName,
		MovedTo: r.ChatID, Queued: r.Queued, ChatInfo: (*relay.ChatInfo)(r.ChatInfo),
	}
	if r.ChatInfo != nil {
		out.Op = relay.OpGetChatInfo
	}
	return out
}
