package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestBadInput: what is no message is refused and read on; what is wrong in a call is named; standard output has JSON-RPC only.
func TestBadInput(t *testing.T) {
	r := start(t, newConnector(t), spoolDir(t), nil)
	r.hello()
	for _, line := range []string{
		"garbage", `{"jsonrpc":"2.0"`, `[{"jsonrpc":"2.0","id":99,"method":"ping"}]`, `{"id":1,"method":"ping"}`, `"x"`, "", "\x00\xff",
		`{"jsonrpc":"2.0","id":5000,"result":{}}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","method":"tools/call"}`,
		`{"jsonrpc":"2.0","method":"notifications/claude/channel/permission_request","params":7}`,
		`{"jsonrpc":"2.0","id":6000,"method":"ping","params":{"x":"` + strings.Repeat("y", maxLine) + `"}}`,
	} {
		r.write(line)
	}
	if got := r.call("ping", nil); got.Error != nil {
		t.Fatalf("after garbage: %+v", got.Error)
	}
	r.mu.Lock()
	odd := slices.Clone(r.odd)
	r.mu.Unlock()
	parse, invalid := 0, 0
	for _, line := range odd {
		switch {
		case strings.Contains(line, `"id":null,"error":{"code":-32700`):
			parse++
		case strings.Contains(line, `"id":null,"error":{"code":-32600`):
			invalid++
		default:
			t.Errorf("it says %s", line)
		}
	}
	if parse != 3 || invalid != 5 {
		t.Errorf("%d lines were no JSON and %d no message, want 3 and 5: %q", parse, invalid, odd)
	}
	if got := r.call("tools/call", object{"name": "nope"}); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("an unknown tool: %+v", got.Error)
	}
	for _, tc := range []struct {
		tool string
		args string
		want string
	}{
		{"events_poll", `{"limit":0}`, "limit: a whole number from 1 to 200 is wanted"},
		{"events_poll", `{"limit":201}`, "limit: "},
		{"events_poll", `{"limit":1e300}`, "limit: "},
		{"events_poll", `{"limit":1.5}`, "limit: "},
		{"events_poll", `{"limit":"5"}`, "limit: "},
		{"events_poll", `{"limit":[]}`, "limit: "},
		{"events_poll", `{"after_cursor":-1}`, "after_cursor: "},
		{"events_poll", `{"nope":"ignore all"}`, "nope: there is no such argument"},
		{"events_poll", `[]`, "arguments: an object is wanted"},
		{"events_poll", `{"session_key":{}}`, "session_key: a text of at most 1024 bytes is wanted"},
		{"events_wait", `{"timeout_ms":300001}`, "timeout_ms: a whole number from 1 to 300000 is wanted"},
		{"messages_read", `{}`, "session_key: it is missing"},
		{"messages_read", `{"session_key":""}`, "session_key: a text of 1 to 1024 bytes is wanted"},
		{"messages_read", `{"session_key":"x"}`, "session_key: no such conversation"},
		{"conversations_list", `{"includeLastMessage":"yes"}`, "includeLastMessage: true or false is wanted"},
		{"conversations_list", `{"limit":501}`, "limit: "},
		{"messages_send", `{"session_key":"x"}`, "text: it is missing"},
		{"messages_send", `{"text":"x"}`, "session_key: it is missing"},
		{"messages_send", `{"session_key":"x","text":"` + strings.Repeat("y", maxText+1) + `"}`, "text: a text of at most 65536 bytes is wanted"},
		{"messages_send", `{"session_key":"x","text":"y","key":""}`, "key: "},
		{"permissions_respond", `{"id":"abcde","decision":"maybe"}`, "decision: one of allow-once, allow-always, deny is wanted"},
		{"permissions_respond", `{"id":"abcde","decision":"allow-once"}`, "only a person allows"},
		{"permissions_respond", `{"id":"abcde","decision":"deny"}`, "id: no such request is open"},
	} {
		got := r.read1(r.call("tools/call", object{"name": tc.tool, "arguments": json.RawMessage(tc.args)}))
		if !got.IsError || !strings.Contains(got.Content[0].Text, tc.want) || strings.Contains(got.Content[0].Text, "ignore") {
			t.Errorf("%s %.60s: error %t, %s", tc.tool, tc.args, got.IsError, got.Content[0].Text)
		}
	}
	for _, args := range []string{`{"limit":5.0,"after_cursor":null}`, `null`, `{"limit":1e2}`} {
		if got := r.read1(r.call("tools/call", object{"name": "events_poll", "arguments": json.RawMessage(args)})); got.IsError {
			t.Errorf("%s: %s", args, got.Content[0].Text)
		}
	}
}

// FuzzLines: whatever comes, it is read line by line to its end, and each line is a message or refused.
func FuzzLines(f *testing.F) {
	f.Add("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\nx\n\r\n[]", 1)
	f.Add("{}", 0)
	f.Fuzz(func(t *testing.T, text string, long int) {
		if text += "\n"; long%64 == 1 {
			text += strings.Repeat("z", maxLine+1)
		}
		r := bufio.NewReaderSize(strings.NewReader(text), 16)
		lines := 0
		for {
			line, err := nextLine(r)
			if errors.Is(err, io.EOF) {
				break
			}
			if lines++; errors.Is(err, errTooLong) {
				if line != nil {
					t.Fatal("a line that is too long, and is given")
				}
				continue
			}
			if err != nil || len(line) > maxLine || strings.ContainsRune(string(line), '\n') {
				t.Fatalf("%d bytes, %v", len(line), err)
			}
			m, code, err := decodeMessage(line)
			if (m == nil) != (err != nil) || err != nil && code == 0 {
				t.Fatalf("%q: %v, %d, %v", line, m, code, err)
			}
			if r, ok := m.(*jsonrpc.Request); ok {
				for _, t := range (&Server{}).tools() {
					_, _ = decode(t.params, r.Params)
				}
			}
		}
		if want := strings.Count(text, "\n"); lines < want {
			t.Fatalf("%d lines of %d", lines, want)
		}
	})
}

// FuzzArguments: arguments are read or refused, and what is read is within its bounds.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"limit":1e2}`, `{"text":"x","cursor":7,"key":"k"}`, `{"after_cursor":9007199254740993}`, `{"inline":true,"session_key":"k"}`} {
		f.Add([]byte(s))
	}
	tools := (&Server{}).tools()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, tool := range tools {
			args, err := decode(tool.params, raw)
			if (args == nil) != (err != nil) {
				t.Fatalf("%v, %v", args, err)
			}
			for _, p := range tool.params {
				switch v := args[p.name].(type) {
				case int64:
					if v < p.min || v > p.max {
						t.Fatalf("%s is %d", p.name, v)
					}
				case string:
					if int64(len(v)) > p.max {
						t.Fatalf("%s has %d bytes", p.name, len(v))
					}
				}
			}
		}
	})
}
