package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// TestCustody: an event is acknowledged when it is in the spool, waits there over restarts until it is confirmed, and is not given
// again then.
func TestCustody(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	for n, text := range []string{"one", "two", "three"} {
		c.say(t.Context(), dm(n, "7", text))
	}
	r := start(t, c, dir, nil)
	r.hello()
	c.until(t, "the acknowledgement of all", func() bool { return len(c.waiting) == 0 })
	if got := r.poll(object{"limit": 2}); !slices.Equal(got.texts(), []string{"one", "two"}) || got.Waiting != 1 || got.NextCursor != got.Events[1].Cursor {
		t.Errorf("a poll returns %+v", got)
	}
	r.stop()
	c.until(t, "the farewell", func() bool { return c.idles == 1 })
	r = start(t, c, dir, nil)
	r.hello()
	first := r.poll(nil)
	if !slices.Equal(first.texts(), []string{"one", "two", "three"}) {
		t.Fatalf("after a restart %v waits", first.texts())
	}
	if got := r.poll(object{"after_cursor": first.Events[1].Cursor}); !slices.Equal(got.texts(), []string{"three"}) {
		t.Errorf("confirmed two of three, and a poll returns %v", got.texts())
	}
	if got := r.tool("events_poll", object{"after_cursor": first.Events[2].Cursor + 1}); !got.IsError || !strings.Contains(got.Content[0].Text, "never given") {
		t.Errorf("a cursor that was never given: %+v", got)
	}
	c.say(t.Context(), dm(0, "7", "one")) // its acknowledgement was lost
	c.until(t, "its acknowledgement", func() bool { return len(c.waiting) == 0 })
	if got := r.poll(object{"after_cursor": first.NextCursor}); len(got.Events) != 0 || got.NextCursor != first.NextCursor {
		t.Errorf("all is confirmed, and a poll returns %+v", got)
	}
	read := r.tool("messages_read", object{"session_key": dmKey + "7"})
	if !strings.Contains(read.Content[0].Text, `"count":3`) {
		t.Errorf("history is %s", read.Content[0].Text)
	}
}

// TestWait: events_wait returns what comes, or null; can be cancelled; and filters.
func TestWait(t *testing.T) {
	c := newConnector(t)
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	if got := r.tool("events_wait", object{"timeout_ms": 1}); string(got.StructuredContent) != `{"event":null}` || got.IsError {
		t.Errorf("nothing comes: %s", got.StructuredContent)
	}
	wait := r.ask("tools/call", object{"name": "events_wait", "arguments": object{"session_key": dmKey + "8"}})
	r.ask("tools/call", object{"name": "events_wait", "arguments": object{"session_key": "none", "timeout_ms": 300000}}) // nothing answers it before its end is read
	r.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	c.say(t.Context(), dm(1, "7", "for nobody here"))
	c.say(t.Context(), dm(2, "8", "hi"))
	var got struct{ Event struct{ Text string } }
	if err := json.Unmarshal(r.read1(<-wait).StructuredContent, &got); err != nil || got.Event.Text != "hi" {
		t.Errorf("waited for %+v, %v", got, err)
	}
	r.ask("tools/call", object{"name": "events_wait", "arguments": object{"session_key": "none", "timeout_ms": 300000}})
	r.stop() // ends it
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits[4] == nil {
		t.Error("a call that was cancelled is answered")
	}
}

// TestSend: what becomes of a message, and what a key does.
func TestSend(t *testing.T) {
	c := newConnector(t)
	answers := make(map[string]wire.OutboundResult)
	c.answer = func(n int, a relay.Action) (wire.OutboundResult, bool) {
		r, ok := answers[a.(relay.Send).Content]
		if !ok {
			r.Result.MessageID = "9"
		}
		return r, a.(relay.Send).Content == "lost"
	}
	answers["parts"] = wire.OutboundResult{Result: relay.Result{MessageID: "2", MessageIDs: []relay.MessageID{"1", "2"}}}
	answers["queued"] = wire.OutboundResult{Result: relay.Result{MessageID: "q", Queued: true}}
	answers["later"] = wire.OutboundResult{Err: relay.Penalty(3e9, nil)}
	answers["unclear"] = wire.OutboundResult{Err: relay.Unclear("", nil)}
	answers["forbidden"] = wire.OutboundResult{Err: relay.Declined("telegram")}
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	for _, id := range []string{"m", "m2", "m3"} {
		c.say(t.Context(), wire.Inbound{Buffer: id, Event: relay.Event{Text: "hi", MessageID: relay.MessageID(id), Source: relay.Source{
			Platform: "telegram", ChatID: "-5", ChatType: relay.ChatGroup, ThreadID: "3", Scope: "s", UserID: "7",
		}}})
	}
	cursor := r.poll(nil)
	for len(cursor.Events) < 3 {
		cursor = r.poll(nil)
	}
	group := "agent:main:telegram:group:-5:3"
	for _, tc := range []struct {
		args   object
		want   string
		failed bool
	}{
		{object{"session_key": group, "text": "a"}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"target": "telegram:-5", "message": "a"}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"session_key": group, "text": "parts"}, `{"result":{"status":"sent","message_id":"2","message_ids":["1","2"]}}`, false},
		{object{"session_key": group, "text": "queued"}, `{"result":{"status":"queued","message_id":"q"}}`, false},
		{object{"session_key": group, "text": "later"}, `{"result":{"status":"not_sent","reason":"network: Flood control exceeded. Retry in 3 seconds","retry_after_ms":3000}}`, true},
		{object{"session_key": group, "text": "unclear", "key": "u"}, `{"result":{"status":"unknown","reason":"it may have been sent; ask before repeating it"}}`, true},
		{object{"session_key": group, "text": "unclear", "key": "u"}, `{"result":{"status":"unknown","reason":"it may have been sent; ask before repeating it"}}`, true},
		{object{"session_key": group, "text": "lost"}, `{"result":{"status":"unknown","reason":"it may have been sent; ask before repeating it"}}`, true},
		{object{"session_key": group, "text": "forbidden"}, `{"result":{"status":"not_sent","reason":"this conversation is not an approved destination"}}`, true},
		{object{"session_key": "agent:main:telegram:dm:1", "text": "forbidden"}, `{"result":{"status":"not_sent","reason":"this conversation is not an approved destination"}}`, true},
		{object{"session_key": "nonsense", "text": "x"}, `{"result":{"status":"not_sent","reason":"this conversation is not an approved destination"}}`, true},
		{object{"session_key": group, "text": "once", "key": "k"}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"session_key": group, "text": "once", "key": "k"}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"session_key": group, "text": "twice", "key": "k"}, `null`, true},
		{object{"session_key": group, "text": "x", "cursor": 12}, `null`, true},
		{object{"session_key": group, "text": "thanks", "reply_to": "m", "cursor": cursor.Events[0].Cursor}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"session_key": group, "text": "once", "key": "k", "cursor": cursor.Events[1].Cursor}, `{"result":{"status":"sent","message_id":"9"}}`, false},
		{object{"session_key": group, "text": "unclear", "key": "u", "cursor": cursor.Events[2].Cursor}, `{"result":{"status":"unknown","reason":"it may have been sent; ask before repeating it"}}`, true},
	} {
		got := r.tool("messages_send", tc.args)
		if text := string(got.StructuredContent); text != tc.want && (text != "" || tc.want != "null") || got.IsError != tc.failed {
			t.Errorf("%v: %s, error %t: %s", tc.args, text, got.IsError, got.Content[0].Text)
		}
	}
	if got := r.poll(nil); len(got.Events) != 1 || got.Events[0].Cursor != cursor.Events[2].Cursor {
		t.Errorf("two events are answered, of one nobody knows, and %+v waits", got)
	}
	if got := r.tool("messages_send", object{"target": "telegram:99", "text": "a"}); got.IsError { // a chat that nobody has seen
		t.Errorf("to a target: %+v", got)
	}
	if got := r.tool("conversations_list", nil); !strings.Contains(got.Content[0].Text, `"count":1`) {
		t.Errorf("conversations are %s", got.Content[0].Text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := relay.Send{Chat: "-5", Content: "thanks", ReplyTo: "m", Meta: relay.Metadata{ThreadID: "3", Scope: "s", UserID: "7", Notify: true}}
	if got := c.acts[len(c.acts)-2]; got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	times := make(map[string]int)
	for _, a := range c.acts {
		times[a.(relay.Send).Content]++
	}
	if times["once"] != 1 || times["unclear"] != 1 || times["twice"] != 0 || times["x"] != 0 {
		t.Errorf("sent so often: %v", times)
	}
}

// TestTheEndOfASend: what has left when the client goes is waited for.
func TestTheEndOfASend(t *testing.T) {
	c := newConnector(t)
	c.hold = true
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	answer := r.ask("tools/call", object{"name": "messages_send", "arguments": object{"session_key": dmKey + "7", "text": "x"}})
	c.until(t, "the message", func() bool { return len(c.held) == 1 })
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	var l *link
	c.until(t, "the farewell", func() bool {
		l = c.link
		return c.idles == 1
	})
	for range 100 { // if the connection is to end, it does meanwhile
		_ = l.Ping(t.Context())
	}
	c.release(t.Context())
	r.stop()
	select {
	case got := <-answer:
		if !strings.Contains(string(got.Result), `"status":"sent"`) {
			t.Errorf("it is %s", got.Result)
		}
	case <-time.After(patience):
		t.Error("it is not answered")
	}
}

// TestFiles: files are fetched before the acknowledgement, from the connector alone, and lie in the spool's folder.
func TestFiles(t *testing.T) {
	c := newConnector(t)
	picture := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde"
	c.files["0123"] = picture
	in := dm(1, "7", "look")
	for _, url := range []string{c.url + relay.MediaPath + "/0123", c.url + relay.MediaPath + "/gone", "http://127.0.0.1:1/relay/media/x", c.url + "/else"} {
		in.Event.Media = append(in.Event.Media, relay.Media{URL: url, Mime: `image/"png`, Filename: "../../etc/passwd", Size: 4})
	}
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	c.say(t.Context(), in)
	c.until(t, "the acknowledgement", func() bool { return len(c.waiting) == 0 })
	files := r.poll(nil).Events[0].Attachments
	if len(files) != 4 || files[0].Mime != "image/png" || files[0].Size != int64(len(picture)) || len(files[0].SHA256) != 64 {
		t.Fatalf("files are %+v", files)
	}
	if raw, err := os.ReadFile(files[0].Path); err != nil || string(raw) != picture {
		t.Errorf("%s: %v", files[0].Path, err)
	}
	for _, f := range files[1:] {
		if f.Path != "" || f.Error == "" || f.Mime != "image/png" {
			t.Errorf("a file that is not there is %+v", f)
		}
	}
	got := r.tool("attachments_fetch", object{"session_key": dmKey + "7", "message_id": "m1", "inline": true})
	if got.IsError || len(got.Content) != 2 || got.Content[1].Type != "image" || got.Content[1].MimeType != "image/png" || !strings.Contains(string(got.StructuredContent), `"message":{"id":"m1"`) {
		t.Errorf("attachments_fetch returns %+v", got)
	}
	if got := r.tool("attachments_fetch", object{"session_key": dmKey + "7", "message_id": "m2"}); !got.IsError {
		t.Errorf("no such message: %+v", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked["0123"] != 1 || c.asked["gone"] != 1 {
		t.Errorf("fetched so often: %v", c.asked)
	}
}

// TestAFullSpool: at its bound nothing more is taken, though messages can be sent; below half of it, it goes on, and nothing is lost.
func TestAFullSpool(t *testing.T) {
	c := newConnector(t)
	r := start(t, c, spoolDir(t), func(o *Options) { o.Claude = false })
	r.hello()
	large := strings.Repeat("x", 800<<10) // 21 of them are 16 MiB
	const n = 26
	for i := range n {
		c.say(t.Context(), dm(i, "7", fmt.Sprint(i, " ", large)))
	}
	c.until(t, "rest", func() bool { return c.idle })
	c.mu.Lock()
	kept := len(c.waiting)
	c.mu.Unlock()
	if kept < 3 || kept > 8 {
		t.Errorf("%d of %d are left when the spool is full", kept, n)
	}
	if got := r.tool("messages_send", object{"session_key": dmKey + "7", "text": "still here"}); got.IsError {
		t.Errorf("a full spool sends nothing: %+v", got)
	}
	var all []string
	after := int64(0)
	for len(all) < n {
		got := r.poll(object{"after_cursor": after})
		for _, e := range got.Events {
			head, _, _ := strings.Cut(e.Text, " ")
			all = append(all, head)
		}
		after = got.NextCursor
	}
	for i, head := range all {
		if head != fmt.Sprint(i) {
			t.Fatalf("the events come as %v", all)
		}
	}
	c.until(t, "the end of the rest", func() bool { return !c.idle && len(c.waiting) == 0 })
}

// TestAnAnswerHasABound: what was said before a message counts, too.
func TestAnAnswerHasABound(t *testing.T) {
	c := newConnector(t)
	for n := range 3 {
		in := dm(n, "7", fmt.Sprint(n))
		in.Event.Context = []relay.ContextLine{{UserName: "Bob", Text: strings.Repeat("x", maxAnswer/2)}}
		c.say(t.Context(), in)
	}
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	c.until(t, "the acknowledgement of all", func() bool { return len(c.waiting) == 0 })
	if got := r.poll(nil); len(got.Events) != 1 || got.Waiting != 2 {
		t.Errorf("a poll returns %d events, and %d wait; want the one of which the answer is not too large", len(got.Events), got.Waiting)
	}
	if got := r.tool("messages_read", object{"session_key": dmKey + "7"}); !strings.Contains(got.Content[0].Text, `"count":1,`) {
		t.Error("the history of a conversation has no bound")
	}
}

// TestTwoProcesses: the second says which has the spool, and takes over when that one ends.
func TestTwoProcesses(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	first := start(t, c, dir, nil)
	first.hello()
	first.tool("events_poll", nil)
	second := start(t, c, dir, nil)
	second.hello()
	for _, name := range toolNames {
		got := second.tool(name, minimal[name])
		if !got.IsError || !strings.Contains(got.Content[0].Text, fmt.Sprintf("held by process %d", os.Getpid())) {
			t.Errorf("%s beside another process: %+v", name, got)
		}
	}
	first.stop()
	for second.tool("events_poll", nil).IsError {
	}
}

// TestADeadCredential: each tool says what mends it.
func TestADeadCredential(t *testing.T) {
	c := newConnector(t)
	c.refuse = true
	r := start(t, c, spoolDir(t), nil)
	r.hello()
	for !r.tool("events_wait", object{"timeout_ms": 100}).IsError {
	}
	for _, name := range toolNames {
		if got := r.tool(name, minimal[name]); !got.IsError || !strings.Contains(got.Content[0].Text, "run gateway rotate") {
			t.Errorf("%s with a dead credential: %+v", name, got)
		}
	}
}

// TestASpoolThatCannotBeOpened: nothing is acknowledged, and it is said why.
func TestASpoolThatCannotBeOpened(t *testing.T) {
	c, dir := newConnector(t), spoolDir(t)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/spool", []byte("damaged\nx"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := start(t, c, dir, nil)
	r.hello()
	if got := r.tool("events_poll", nil); !got.IsError || !strings.Contains(got.Content[0].Text, "damaged") {
		t.Errorf("a damaged spool: %+v", got)
	}
}

// toolNames are the ten tools, and minimal what they need.
var (
	toolNames = []string{
		"attachments_fetch", "channels_list", "conversation_get", "conversations_list", "events_poll", "events_wait", "messages_read",
		"messages_send", "permissions_list_open", "permissions_respond",
	}
	minimal = map[string]object{
		"conversation_get": {"session_key": "k"}, "messages_read": {"session_key": "k"}, "attachments_fetch": {"session_key": "k", "message_id": "m"},
		"messages_send": {"session_key": "k", "text": "t"}, "permissions_respond": {"id": "abcde", "decision": "deny"},
	}
)

// TestWhatNeverLeft: a message for which there was no connection is not sent, though its time is over.
func TestWhatNeverLeft(t *testing.T) {
	got := outcomeOf(relay.Result{}, errors.Join(client.ErrNoLink, context.DeadlineExceeded))
	if got.Status != statusNotSent || got.Reason != client.ErrNoLink.Error() {
		t.Errorf("it is %+v", got)
	}
}
