package sms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

const (
	ourAccount = "AC00000000000000000000000000000001"
	ourNumber  = "+15005550006"
	person     = "+4915112345678"
)

// memInbox remembers what was handed in.
type memInbox struct {
	mu   sync.Mutex
	got  platforms.Batch
	fail error
}

func (in *memInbox) Accept(_ context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.fail != nil {
		return in.fail
	}
	in.got.Events = append(in.got.Events, b.Events...)
	in.got.Undecodable = append(in.got.Undecodable, b.Undecodable...)
	return nil
}

func (in *memInbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// twilio is the API: it answers with what the test says.
type twilio struct {
	mu    sync.Mutex
	forms []url.Values
	say   func(n int) (status int, body string)
}

// RoundTrip makes it a transport: no socket is needed, so time can be a bubble's own.
func (tw *twilio) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	sid, token, _ := r.BasicAuth()
	switch {
	case sid != ourAccount || token != ourToken:
		http.Error(w, `{"code":20003,"message":"Authenticate"}`, http.StatusUnauthorized)
	case r.Method == http.MethodGet && r.URL.Path == "/2010-04-01/Accounts/"+ourAccount+".json":
		_, _ = io.WriteString(w, `{"status":"active"}`)
	case r.Method == http.MethodPost && r.URL.Path == "/2010-04-01/Accounts/"+ourAccount+"/Messages.json":
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		tw.mu.Lock()
		tw.forms = append(tw.forms, form)
		n := len(tw.forms)
		tw.mu.Unlock()
		status, body := http.StatusCreated, fmt.Sprintf(`{"sid":"SM%d"}`, n)
		if tw.say != nil {
			status, body = tw.say(n)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	default:
		http.NotFound(w, r)
	}
	return w.Result(), nil
}

func opened(t testing.TB, tw *twilio, from, token string) *Bot {
	t.Helper()
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(token)), Log: slog.New(slog.DiscardHandler), Transport: tw, PublicURL: "https://relay.example.net",
		Values: map[string]string{"account_sid": ourAccount, "from": from},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Bot)
}

// running is a sender that runs, in a bubble of its own time.
func running(t *testing.T, tw *twilio, in *memInbox, test func(t *testing.T, p *Bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, tw, ourNumber, ourToken)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, in) }()
		synctest.Wait()
		test(t, p)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// inbound is Twilio's request with some parameters changed; an empty value takes one away.
func inbound(p *Bot, changes ...string) platforms.HookRequest {
	form, _ := url.ParseQuery(ourBody)
	for n := 0; n < len(changes); n += 2 {
		form.Set(changes[n], changes[n+1])
	}
	return signedFor(p.hook, form)
}

func signedFor(address string, form url.Values) platforms.HookRequest {
	h := make(http.Header)
	h.Set(headerSign, signature([]byte(ourToken), address, form))
	return platforms.HookRequest{Method: http.MethodPost, Target: strings.TrimPrefix(address, ourOrigin), Header: h, Body: []byte(form.Encode())}
}

func TestReceive(t *testing.T) {
	event := func(change func(*relay.Event)) relay.Event {
		ev := relay.Event{
			ID: "SM00000000000000000000000000000001", MessageID: "SM00000000000000000000000000000001", Type: relay.TypeText, Text: "Grüße 👋 & more",
			Bot: relay.Bot{Platform: Name, ID: "15005550006"},
			Source: relay.Source{
				Platform: Name, ChatID: person, ChatType: relay.ChatDM, ChatName: person, UserID: person, UserName: person, UserDisplayName: person,
				MessageID: "SM00000000000000000000000000000001",
			},
			Traits: relay.Traits{Addressed: true, Costly: true},
		}
		change(&ev)
		return ev
	}
	for name, tc := range map[string]struct {
		changes []string
		refused platforms.HookRefusal
		want    *relay.Event // nil: nothing is handed in
		raw     int          // in quarantine
	}{
		"text":    {want: new(event(func(*relay.Event) {}))},
		"command": {changes: []string{"Body", "/stop"}, want: new(event(func(e *relay.Event) { e.Type, e.Text = relay.TypeCommand, "/stop" }))},
		"WhatsApp": {
			changes: []string{"From", "whatsapp:" + person, "ProfileName", "Ann"},
			want: new(event(func(e *relay.Event) {
				e.Source.ChatID, e.Source.UserID = "whatsapp:"+person, "whatsapp:"+person
				e.Source.ChatName, e.Source.UserName, e.Source.UserDisplayName = "Ann", "Ann", "Ann"
			})),
		},
		"button":                  {changes: []string{"ButtonText", "Yes"}, want: new(event(func(e *relay.Event) { e.Text = "Yes" }))},
		"place":                   {changes: []string{"Body", "", "Latitude", "1.5", "Longitude", "2", "Label", "Home"}, want: new(event(func(e *relay.Event) { e.Type, e.Text = relay.TypeLocation, "Home\n1.5, 2" }))},
		"picture":                 {changes: []string{"NumMedia", "1", "MediaContentType0", "image/jpeg"}, want: new(event(func(e *relay.Event) { e.Type = relay.TypePhoto }))},
		"file":                    {changes: []string{"NumMedia", "1", "MediaContentType0", "application/pdf"}, want: new(event(func(e *relay.Event) { e.Type = relay.TypeDocument }))},
		"by service":              {changes: []string{"To", "+1", "MessagingServiceSid", ourNumber}, want: new(event(func(*relay.Event) {}))},
		"another number":          {changes: []string{"To", "+15005550007"}, refused: platforms.WrongRecipient},
		"another account":         {changes: []string{"AccountSid", "AC2"}, refused: platforms.WrongRecipient},
		"no id":                   {changes: []string{"MessageSid", ""}, refused: platforms.Unreadable, raw: 1},
		"what became of one":      {changes: []string{"MessageStatus", "delivered", "SmsStatus", "delivered", "Body", ""}},
		"what became, a stranger": {changes: []string{"MessageStatus", "delivered", "SmsStatus", "delivered", "Body", "", "From", "+1"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := &memInbox{}
			running(t, &twilio{}, in, func(t *testing.T, p *Bot) {
				a := p.Receive(t.Context(), inbound(p, tc.changes...))
				if a.Status != 200 || string(a.Body) != noReply || a.Type != xmlType || a.Refused != tc.refused {
					t.Fatalf("%d %s, refused %q", a.Status, a.Body, a.Refused)
				}
				if told := len(a.Notes) == 1 && a.Notes[0].Status == "delivered"; told != strings.HasPrefix(name, "what became") {
					t.Errorf("notes %+v", a.Notes)
				}
				if len(in.got.Undecodable) != tc.raw {
					t.Errorf("%d in quarantine", len(in.got.Undecodable))
				}
				if tc.want == nil {
					if len(in.got.Events) > 0 {
						t.Errorf("handed in: %+v", in.got.Events)
					}
					return
				}
				got := in.got.Events[0]
				got.At = time.Time{}
				if diff := cmp.Diff(*tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestWhoHasNotProvedIt gets one answer, and nothing comes of it.
func TestWhoHasNotProvedIt(t *testing.T) {
	in := &memInbox{}
	running(t, &twilio{}, in, func(t *testing.T, p *Bot) {
		good := inbound(p)
		for name, change := range map[string]func(*platforms.HookRequest){
			"no signature":     func(r *platforms.HookRequest) { r.Header = http.Header{} },
			"another path":     func(r *platforms.HookRequest) { r.Target += "?x=1" },
			"another body":     func(r *platforms.HookRequest) { r.Body = append([]byte("A=1&"), r.Body...) },
			"a bad path":       func(r *platforms.HookRequest) { r.Target = ":%zz" },
			"a sum of nothing": func(r *platforms.HookRequest) { r.Target += "?bodySHA256=00" },
		} {
			r := good
			change(&r)
			if a := p.Receive(t.Context(), r); a.Status != 401 || string(a.Body) != `{"error":"unauthorized"}` || a.Refused != platforms.BadSignature {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		if len(in.got.Events)+len(in.got.Undecodable) > 0 || !p.Status().LastEventAt.IsZero() {
			t.Errorf("%+v, %+v", in.got, p.Status())
		}
	})
}

func TestWhatIsNotOnDiskInTimeIsNotConfirmed(t *testing.T) {
	in := &memInbox{fail: errors.New("full")}
	running(t, &twilio{}, in, func(t *testing.T, p *Bot) {
		began := time.Now()
		if a := p.Receive(t.Context(), inbound(p)); a.Status != 503 || a.RetryAfter != 5*time.Second || time.Since(began) > wait {
			t.Errorf("%d after %v", a.Status, time.Since(began))
		}
		if p.Status().State != platforms.Degraded {
			t.Errorf("%+v", p.Status())
		}
	})
}

func TestStates(t *testing.T) {
	running(t, &twilio{}, &memInbox{}, func(t *testing.T, p *Bot) {
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" || !strings.Contains(p.HookRules().Enter, "Twilio console") {
			t.Errorf("before the first request: %+v", s)
		}
		p.Receive(t.Context(), inbound(p))
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" {
			t.Errorf("after it: %+v", s)
		}
	})
	p := opened(t, &twilio{}, ourNumber, strings.Repeat("e", 32))
	if err := p.Run(t.Context(), &memInbox{}); !errors.Is(err, relay.ErrBadCredentials) || p.Status().State != platforms.BadCredentials {
		t.Errorf("a dead token: %v, %+v", err, p.Status())
	}
}

// TestOneRefusedCredentialIsLookedAt: a single 401 to a message does not make the bot useless for ten minutes.
func TestOneRefusedCredentialIsLookedAt(t *testing.T) {
	tw := &twilio{say: func(int) (int, string) { return http.StatusUnauthorized, `{"code":20003,"message":"Authenticate"}` }}
	running(t, tw, &memInbox{}, func(t *testing.T, p *Bot) {
		began := time.Now()
		if _, err := p.Send(t.Context(), relay.Send{Chat: person, Content: "x"}); err == nil {
			t.Error("sent")
		}
		synctest.Wait()
		if s := p.Status(); s.State != platforms.Connected || time.Since(began) > time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), s)
		}
	})
}

func TestSend(t *testing.T) {
	tw := &twilio{}
	p := opened(t, tw, ourNumber, ourToken)
	res, err := p.Send(t.Context(), relay.Send{Chat: person, Content: "**Hello** " + strings.Repeat("and more ", 250)})
	if err != nil {
		t.Fatal(err)
	}
	if len(tw.forms) != 2 || res.MessageID != "SM2" || len(res.MessageIDs) != 2 {
		t.Fatalf("%d messages, %+v", len(tw.forms), res)
	}
	f := tw.forms[0]
	if f.Get("To") != person || f.Get("From") != ourNumber || !strings.HasPrefix(f.Get("Body"), "Hello and") || len(f.Get("Body")) > maxText ||
		f.Get("StatusCallback") != "https://relay.example.net/webhooks/sms/15005550006" {
		t.Errorf("%v", f)
	}
	service := "MG00000000000000000000000000000001"
	if _, err := opened(t, tw, service, ourToken).Send(t.Context(), relay.Send{Chat: person, Content: "x"}); err != nil {
		t.Fatal(err)
	}
	if f := tw.forms[2]; f.Get("MessagingServiceSid") != service || f.Has("From") {
		t.Errorf("%v", f)
	}
}

func TestSendRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		chat    relay.ChatID
		want    string
		outcome relay.Outcome
		calls   int
	}{
		"no such number":  {400, `{"code":21211,"message":"invalid"}`, person, "chat not found", relay.NotSent, 1},
		"no mobile":       {400, `{"code":21614,"message":"x"}`, person, "chat not found", relay.NotSent, 1},
		"a bad number":    {400, `{"code":21217,"message":"x"}`, person, "chat not found", relay.NotSent, 1},
		"no credential":   {401, `{"code":20003,"message":"Authenticate"}`, person, "bad_credentials", relay.NotSent, 1},
		"credential gone": {403, `{"code":20003,"message":"x"}`, person, "bad_credentials", relay.NotSent, 1},
		"no JSON":         {404, `<html>`, person, "no answer of the API", relay.NotSent, 1},
		"a gateway's":     {502, `<html>`, person, "timed out: Twilio had an internal error, the outcome is unknown", relay.MaybeSent, 1},
		"a bad answer":    {201, `<html>`, person, "timed out: Twilio's answer did not come, the outcome is unknown", relay.MaybeSent, 1},
		"unsubscribed":    {400, `{"code":21610,"message":"x"}`, person, "chat not found: the recipient has unsubscribed", relay.NotSent, 1},
		"queue full":      {429, `{"code":21611,"message":"x"}`, person, "network: Flood control exceeded. Retry in 600 seconds", relay.NotSent, 1},
		"its own words":   {400, `{"code":21408,"message":"Permission to send has not been enabled"}`, person, "Permission to send has not been enabled", relay.NotSent, 1},
		"an inner error":  {500, `{"message":"x"}`, person, "timed out: Twilio had an internal error, the outcome is unknown", relay.MaybeSent, 1},
		"no number":       {201, `{}`, "ann", "chat not found", relay.NotSent, 0},
		"nothing to send": {201, `{}`, person, "the message is empty", relay.NotSent, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tw := &twilio{say: func(int) (int, string) { return tc.status, tc.body }}
			text := "x"
			if name == "nothing to send" {
				text = "  "
			}
			p := opened(t, tw, ourNumber, ourToken)
			_, err := p.Send(t.Context(), relay.Send{Chat: tc.chat, Content: text})
			ae, ok := errors.AsType[*relay.ActionError](err)
			if p.Status().State == platforms.BadCredentials != (tc.want == "bad_credentials") {
				t.Errorf("%+v", p.Status())
			}
			if !ok || ae.Public != tc.want || ae.Outcome != tc.outcome || len(tw.forms) != tc.calls {
				t.Errorf("%v after %d calls", err, len(tw.forms))
			}
		})
	}
}

// TestARateIsWaitedFor, within the action's time.
func TestARateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tw := &twilio{say: func(n int) (int, string) {
			if n < 3 {
				return 429, `{"code":20429,"message":"Too many requests"}`
			}
			return 201, `{"sid":"SM9"}`
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		res, err := opened(t, tw, ourNumber, ourToken).Send(ctx, relay.Send{Chat: person, Content: "x"})
		if err != nil || res.MessageID != "SM9" || len(tw.forms) != 3 {
			t.Errorf("%+v, %v after %d calls", res, err, len(tw.forms))
		}
	})
}

// TestNobodyThere: what did not leave is tried again, and is said not to be sent; a rate that lasts likewise.
func TestNobodyThere(t *testing.T) {
	for name, tc := range map[string]struct {
		rt   http.RoundTripper
		want string
	}{
		"no connection": {away{}, "network: Twilio cannot be reached"},
		"a long rate":   {&twilio{say: func(int) (int, string) { return 429, `{"code":20429,"message":"x"}` }}, "network: rate limited"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				p := opened(t, nil, ourNumber, ourToken)
				p.api.HTTP.Transport = tc.rt
				_, err := p.Send(ctx, relay.Send{Chat: person, Content: "x"})
				if ae := relay.Explain(err); ae == nil || ae.Public != tc.want || ae.Outcome != relay.NotSent || time.Since(began) < 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// away is a network that is not there.
type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

// TestSessionKeys: as a gateway computes them that talks to Twilio itself.
func TestSessionKeys(t *testing.T) {
	p := opened(t, &twilio{}, ourNumber, ourToken)
	for from, want := range map[string]relay.SessionKey{
		"+4915112345678":          "agent:main:sms:dm:+4915112345678",
		"whatsapp:+4915112345678": "agent:main:sms:dm:whatsapp:+4915112345678",
	} {
		ev, _ := p.event(url.Values{"MessageSid": {"SM1"}, "From": {from}}, time.Now())
		if got := sessionkey.Build(ev.Source, sessionkey.Options{}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestOwnWords: what the number itself sends, or sends itself, starts no conversation.
func TestOwnWords(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to, sender string
		own              bool
	}{
		"a person":          {ourNumber, ourNumber, person, false},
		"the number":        {ourNumber, ourNumber, ourNumber, true},
		"of a service":      {"MG00000000000000000000000000000001", "+1", "+1", true},
		"on WhatsApp":       {"whatsapp:" + ourNumber, "whatsapp:" + ourNumber, "whatsapp:" + ourNumber, true},
		"its SMS neighbour": {"whatsapp:" + ourNumber, "whatsapp:" + ourNumber, ourNumber, false},
	} {
		p := opened(t, &twilio{}, tc.from, ourToken)
		ev, ok := p.event(url.Values{"MessageSid": {"SM1"}, "From": {tc.sender}, "To": {tc.to}}, time.Now())
		if !ok || ev.Traits.Own != tc.own {
			t.Errorf("%s: %+v", name, ev.Traits)
		}
	}
}

// TestTheServiceReceives: a message for one of its numbers is its own.
func TestTheServiceReceives(t *testing.T) {
	const service = "MG00000000000000000000000000000001"
	for sid, want := range map[string]platforms.HookRefusal{service: "", "MG2": platforms.WrongRecipient, "": platforms.WrongRecipient} {
		synctest.Test(t, func(t *testing.T) {
			p, in := opened(t, &twilio{}, service, ourToken), &memInbox{}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx, in) }()
			if a := p.Receive(t.Context(), inbound(p, "MessagingServiceSid", sid)); a.Refused != want || (len(in.got.Events) == 1) != (want == "") {
				t.Errorf("%q: %+v, %d events", sid, a, len(in.got.Events))
			}
			cancel()
			<-done
		})
	}
}

// TestWhatBecameOfOnes: every word is counted that is known, and no other.
func TestWhatBecameOfOnes(t *testing.T) {
	p := opened(t, &twilio{}, ourNumber, ourToken)
	for status, want := range map[string]string{"sent": "sent", "delivered": "delivered", "undelivered": "undelivered", "failed": "failed", "read": "read", "queued": "queued", "sending": "", "x": ""} {
		a := p.Receive(t.Context(), inbound(p, "SmsStatus", status, "MessageStatus", status, "ErrorCode", "30007"))
		got, why := "", ""
		if len(a.Notes) == 1 {
			got, why = a.Notes[0].Status, a.Notes[0].Why
		}
		if a.Status != 200 || got != want || a.Refused != "" || (why == "Twilio's error 30007") != (status == "failed" || status == "undelivered") {
			t.Errorf("%s: %+v", status, a)
		}
	}
}

func TestSettings(t *testing.T) {
	for v, ok := range map[string]bool{
		ourNumber: true, "whatsapp:+15005550006": true, "rcs:agent_1": true, "12345": true, "MG00000000000000000000000000000001": true,
		"whatsapp:12345": false, "rcs:": false, "whatsapp:rcs:+15005550006": false, "+15005550006\n": false,
		"": false, "ann": false, "+1 500": false, "MG1": false, "whatsapp:ann": false,
	} {
		if (checkFrom(v) == nil) != ok {
			t.Errorf("from %q: %v", v, !ok)
		}
	}
	if got := letters("whatsapp:+15005550006"); got != "whatsapp15005550006" {
		t.Error(got)
	}
	if checkAccount(ourAccount) != nil || checkAccount("SK0") == nil || checkToken(relay.NewSecret([]byte("x"))) == nil {
		t.Error("account or token")
	}
}

// TestAPathBeforeOurs: a proxy takes the path of public_url off, and Twilio signs with it.
func TestAPathBeforeOurs(t *testing.T) {
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(ourToken)), Log: slog.New(slog.DiscardHandler), Transport: &twilio{}, PublicURL: "https://relay.example.net/y",
		Values: map[string]string{"account_sid": ourAccount, "from": ourNumber},
	})
	if err != nil {
		t.Fatal(err)
	}
	status := url.Values{"MessageStatus": {"delivered"}, "MessageSid": {"SM1"}, "AccountSid": {ourAccount}}
	for address, want := range map[string]int{
		"https://relay.example.net/y/webhooks/sms/15005550006?a=b%20c":     http.StatusOK,
		"https://relay.example.net:443/y/webhooks/sms/15005550006?a=b%20c": http.StatusOK,
		"https://relay.example.net/webhooks/sms/15005550006?a=b%20c":       http.StatusUnauthorized,
	} {
		h := make(http.Header)
		h.Set(headerSign, signature([]byte(ourToken), address, status))
		r := platforms.HookRequest{Method: http.MethodPost, Target: "/webhooks/sms/15005550006?a=b%20c", Header: h, Body: []byte(status.Encode())}
		if a := p.(platforms.Hook).Receive(t.Context(), r); a.Status != want {
			t.Errorf("signed for %s: %d, want %d", address, a.Status, want)
		}
	}
}

// TestATokenHasItsForm: what stands in place of a token by mistake is none.
func TestATokenHasItsForm(t *testing.T) {
	for token, want := range map[string]bool{
		"0123456789abcdef0123456789abcdef": true, "twilio.token": false, "token": false, "0123456789abcdef 0123456789abcdef": false, "": false,
	} {
		if got := checkToken(relay.NewSecret([]byte(token))) == nil; got != want {
			t.Errorf("%q is a token: %t, want %t", token, got, want)
		}
	}
}
