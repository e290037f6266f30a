package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// OutboundResult answers one Outbound.
type OutboundResult struct {
	ID relay.RequestID
	// Op is the operation answered, which does not travel: decoded, it is relay.OpGetChatInfo for such an answer,
	// which is written in both spellings the contract allows, and empty otherwise.
	Op relay.Op
	// Result is what came of it; without meaning when Err is set.
	Result relay.Result
	// Err is nil for success. Its Err field never travels.
	Err *relay.ActionError
}

type resultJSON struct {
	Success        bool              `json:"success"`
	MessageID      relay.MessageID   `json:"message_id,omitempty"`
	MessageIDs     []relay.MessageID `json:"message_ids,omitempty"`
	ThreadID       relay.ThreadID    `json:"thread_id,omitempty"`
	AutoThreadName string            `json:"auto_thread_name,omitempty"`
	// ChatID is there only when it is not the one that the action named: use it from now on.
	ChatID   relay.ChatID   `json:"chat_id,omitempty"`
	ChatInfo *chatInfoJSON  `json:"chat_info,omitempty"`
	Name     *string        `json:"name,omitempty"`
	Type     relay.ChatType `json:"type,omitempty"`
	Error    string         `json:"error,omitempty"`
	Code     string         `json:"code,omitempty"`
	// Ambiguous: the action may stand on the platform. It also keeps a gateway from taking the
	// failure for a decline.
	Ambiguous  bool    `json:"ambiguous,omitempty"`
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds
}

type chatInfoJSON struct {
	Name string         `json:"name"`
	Type relay.ChatType `json:"type"`
}

func encodeOutboundResult(f OutboundResult) any {
	return struct {
		Type   string          `json:"type"`
		ID     relay.RequestID `json:"requestId"`
		Result resultJSON      `json:"result"`
	}{typeOutboundResult, f.ID, encodeResult(f)}
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
		ChatID: f.Result.MovedTo, ChatInfo: (*chatInfoJSON)(f.Result.ChatInfo),
	}
	if r.ChatInfo != nil && f.Op == relay.OpGetChatInfo {
		r.Name, r.Type = &r.ChatInfo.Name, r.ChatInfo.Type
	}
	return r
}

// decodeOutboundResult takes a result without success for a failure, unless it is the answer
// to get_chat_info, which needs none.
func decodeOutboundResult(o object) (Frame, error) {
	f := OutboundResult{ID: relay.RequestID(o.id("requestId"))}
	if f.ID == "" {
		return nil, fmt.Errorf("outbound_result without requestId: %w", ErrUnusable)
	}
	r := o.sub("result")
	info := r.sub("chat_info")
	if info == nil && (r.has("name") || r.has("type")) {
		info = r
	}
	if !r.hint("success") && (r.has("success") || info == nil) {
		f.Err = decodeFailure(r)
		return f, nil
	}
	f.Result = relay.Result{
		MessageID: relay.MessageID(r.id("message_id")), MessageIDs: ids[relay.MessageID](r, "message_ids"),
		ThreadID: relay.ThreadID(r.id("thread_id")), AutoThreadName: r.words("auto_thread_name"),
		MovedTo: relay.ChatID(r.id("chat_id")),
	}
	if info != nil {
		f.Op = relay.OpGetChatInfo
		f.Result.ChatInfo = &relay.ChatInfo{Name: info.words("name"), Type: relay.ChatType(info.words("type"))}
	}
	return f, nil
}

func decodeFailure(r object) *relay.ActionError {
	e := &relay.ActionError{
		Outcome: relay.NotSent, Public: r.words("error"), Code: r.words("code"),
		MessageIDs: ids[relay.MessageID](r, "message_ids"),
		RetryAfter: time.Duration(math.Round(r.seconds("retry_after") * float64(time.Second))),
	}
	if r.hint("ambiguous") || len(e.MessageIDs) > 0 {
		e.Outcome = relay.MaybeSent
	}
	return e
}
