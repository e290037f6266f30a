package telegram

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asFault checks that err is an *httpcall.Fault free of the token (invariant 4) and returns it.
func asFault(t *testing.T, err error) *httpcall.Fault {
	t.Helper()
	var ae *httpcall.Fault
	if !errors.As(err, &ae) {
		t.Fatalf("error = %v (%T), want an *httpcall.Fault", err, err)
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
		want  httpcall.Fault
	}{
		"refused":           {fault{code: 400, description: "Bad Request: chat not found"}, httpcall.Fault{Status: 400, Message: "Bad Request: chat not found", Sent: httpcall.Refused}},
		"forbidden":         {fault{code: 403, description: "Forbidden"}, httpcall.Fault{Status: 403, Message: "Forbidden", Sent: httpcall.Refused}},
		"too many":          {fault{code: 429, description: "Too Many Requests", retryAfter: 7}, httpcall.Fault{Status: 429, Message: "Too Many Requests", RetryAfter: 7 * time.Second, Sent: httpcall.Refused}},
		"moved":             {fault{code: 400, description: "upgraded", migrateTo: -1001}, httpcall.Fault{Status: 400, Message: "upgraded", Detail: int64(-1001), Sent: httpcall.Refused}},
		"server fault":      {fault{code: 500, description: "Internal Server Error"}, httpcall.Fault{Status: 500, Message: "Internal Server Error"}},
		"page of a proxy":   {fault{code: 502, html: true}, httpcall.Fault{Status: 502, Message: httpcall.NoAnswer}},
		"polite page":       {fault{code: 404, html: true}, httpcall.Fault{Status: 404, Message: httpcall.NoAnswer}},
		"foreign JSON":      {fault{code: 503, body: `{"message":"no upstream"}`}, httpcall.Fault{Status: 503, Message: httpcall.NoAnswer}},
		"half an answer":    {fault{code: 200, body: `{"ok":true,"resu`}, httpcall.Fault{Status: 200, Message: httpcall.NoAnswer}},
		"not the result":    {fault{code: 200, body: `{"ok":true,"result":{"message_id":"x"}}`}, httpcall.Fault{Status: 200, Message: `the result makes no sense: string in field "message_id" where int64 belongs`}},
		"token in an error": {fault{code: 400, description: "no " + testToken + " here " + url.QueryEscape(testToken)}, httpcall.Fault{Status: 400, Message: "no [secret] here [secret]", Sent: httpcall.Refused}},
		"redirect":          {fault{code: 302, html: true}, httpcall.Fault{Status: 302, Message: httpcall.NoAnswer}},
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
