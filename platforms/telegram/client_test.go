package telegram

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asFault checks that err is a *call.Fault free of the token (invariant 4) and returns it.
func asFault(t *testing.T, err error) *call.Fault {
	t.Helper()
	var ae *call.Fault
	if !errors.As(err, &ae) {
		t.Fatalf("error = %v (%T), want a *call.Fault", err, err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := fmt.Sprintf("%v %+v %#v", e, e, e)
		if strings.Contains(text, "CANARY") || strings.Contains(text, url.QueryEscape(testToken)) {
			t.Fatalf("the token stands in %s", text)
		}
	}
	return ae
}

func TestCallFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fault
		want  call.Fault
	}{
		"refused":           {fault{code: 400, description: "Bad Request: chat not found"}, call.Fault{Status: 400, Message: "Bad Request: chat not found", Sent: call.Refused}},
		"forbidden":         {fault{code: 403, description: "Forbidden"}, call.Fault{Status: 403, Message: "Forbidden", Sent: call.Refused}},
		"too many":          {fault{code: 429, description: "Too Many Requests", retryAfter: 7}, call.Fault{Status: 429, Message: "Too Many Requests", RetryAfter: 7 * time.Second, Sent: call.Refused}},
		"moved":             {fault{code: 400, description: "upgraded", migrateTo: -1001}, call.Fault{Status: 400, Message: "upgraded", Detail: int64(-1001), Sent: call.Refused}},
		"server fault":      {fault{code: 500, description: "Internal Server Error"}, call.Fault{Status: 500, Message: "Internal Server Error"}},
		"page of a proxy":   {fault{code: 502, html: true}, call.Fault{Status: 502, Message: call.NoAnswer}},
		"polite page":       {fault{code: 404, html: true}, call.Fault{Status: 404, Message: call.NoAnswer}},
		"foreign JSON":      {fault{code: 503, body: `{"message":"no upstream"}`}, call.Fault{Status: 503, Message: call.NoAnswer}},
		"half an answer":    {fault{code: 200, body: `{"ok":true,"resu`}, call.Fault{Status: 200, Message: call.NoAnswer}},
		"not the result":    {fault{code: 200, body: `{"ok":true,"result":{"message_id":"x"}}`}, call.Fault{Status: 200, Message: `the result makes no sense: string in field "message_id" where int64 belongs`}},
		"token in an error": {fault{code: 400, description: "no " + testToken + " here " + url.QueryEscape(testToken)}, call.Fault{Status: 400, Message: "no [secret] here [secret]", Sent: call.Refused}},
		"redirect":          {fault{code: 302, html: true}, call.Fault{Status: 302, Message: call.NoAnswer}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			c := openFake(t, f).client
			f.fail("sendMessage", tc.fault)
			var m message
			got := asFault(t, c.call(t.Context(), "sendMessage", tgbotapi.Params{"chat_id": "1", "text": "x"}, &m))
			tc.want.What = "sendMessage"
			if *got != tc.want {
				t.Errorf("error = %+v, want %+v", *got, tc.want)
			}
			if n := len(f.callsTo("sendMessage")); n != 1 {
				t.Errorf("calls = %d, want 1", n)
			}
		})
	}
}

func TestBaseWithAPath(t *testing.T) {
	f := newFake()
	base := f.serve(t)
	for name, suffix := range map[string]string{
		"none": "", "slash": "/", "prefix": "/tg/api", "verb": "/50%25/api",
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(relay.NewSecret([]byte(testToken)), base+suffix, nil)
			defer c.closeIdle()
			var me tgbotapi.User
			if err := c.call(t.Context(), "getMe", nil, &me); err != nil || me.UserName != testMe.name {
				t.Errorf("getMe = %+v, %v", me, err)
			}
		})
	}
}
