package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// memInbox remembers what was handed in.
type memInbox struct {
	mu     sync.Mutex
	events []relay.Event
	fail   error
	hang   bool
	drops  bool         // everything, as the hub drops what nobody is bound to
	takes  atomic.Int64 // nanoseconds, of every batch
}

func (in *memInbox) Accept(ctx context.Context, b platforms.Batch) error {
	time.Sleep(time.Duration(in.takes.Load()))
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.hang {
		in.mu.Unlock()
		<-ctx.Done()
		in.mu.Lock()
		return ctx.Err()
	}
	if in.fail == nil && !in.drops {
		for _, ev := range b.Events {
			if !slices.ContainsFunc(in.events, func(e relay.Event) bool { return e.ID == ev.ID }) {
				in.events = append(in.events, ev)
			}
		}
	}
	return in.fail
}

func (in *memInbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

func (in *memInbox) Chats(context.Context) ([]relay.Place, error) { return nil, nil }

func (in *memInbox) Seen(_ context.Context, events []relay.EventID) ([]bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]bool, len(events))
	for i, id := range events {
		for _, e := range in.events {
			out[i] = out[i] || e.ID == id
		}
	}
	return out, nil
}

// running is a hook that runs, in a bubble of its own time.
func running(t *testing.T, reply string, in *memInbox, test func(p *Bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, reply, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, in) }()
		synctest.Wait()
		test(p)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func opened(t testing.TB, reply string, r http.RoundTripper) *Bot {
	t.Helper()
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(specSecret)), Log: slog.New(slog.DiscardHandler),
		Outside: r,
		Values:  map[string]string{"name": "doorbell", "reply_url": reply},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Bot)
}

func post(p *Bot, h http.Header, body string) platforms.HookAnswer {
	return p.Receive(context.Background(), platforms.HookRequest{Method: http.MethodPost, Target: "/webhooks/webhook/doorbell", Header: h, Body: []byte(body)})
}

func TestReceive(t *testing.T) {
	now := time.Now
	for name, tc := range map[string]struct {
		body   string
		status int
		answer string
		chat   relay.ChatID
		user   relay.UserID
		text   string
	}{
		"text":             {`{"text":"The doorbell rang"}`, 200, `{"accepted":true,"duplicate":false}`, "doorbell", "doorbell", "The doorbell rang"},
		"user and chat":    {`{"text":"hi","user":"front","chat":"7"}`, 200, "", "doorbell:front/7", "doorbell:front", "hi"},
		"title":            {`{"text":"rang","title":"Doorbell"}`, 200, "", "doorbell", "doorbell", "Doorbell\nrang"},
		"command":          {`{"text":"/new","title":"Doorbell"}`, 200, "", "doorbell", "doorbell", "/new"},
		"title no command": {`{"text":"is full","title":" /dev/sda1"}`, 200, "", "doorbell", "doorbell", "\"/dev/sda1\"\nis full"},
		"title of blanks":  {`{"text":"rang","title":" "}`, 200, "", "doorbell", "doorbell", "rang"},
		"type no command":  {`{"type":"/stop","data":1}`, 200, "", "doorbell", "doorbell", "\"/stop\"\n1"},
		"event, no data":   {`{"type":"ping","data":null}`, 200, "", "doorbell", "doorbell", "ping"},
		"event":            {`{"type":"order.created","data":{ "id": 1 }}`, 200, "", "doorbell", "doorbell", "order.created\n{\"id\":1}"},
		"no text":          {`{"user":"x"}`, 400, `\"text\" is missing`, "", "", ""},
		"empty text":       {`{"text":" "}`, 400, `\"text\" is empty`, "", "", ""},
		"text a number":    {`{"text":1}`, 400, `\"text\": want string`, "", "", ""},
		"bad user":         {`{"text":"x","user":"a/b"}`, 400, `\"user\"`, "", "", ""},
		"another hook":     {`{"text":"x","user":"a:b"}`, 400, `\"user\"`, "", "", ""},
		"bad chat":         {`{"text":"x","chat":"a\nb"}`, 400, `\"chat\"`, "", "", ""},
		"long user":        {`{"text":"x","user":"` + strings.Repeat("ü", 65) + `"}`, 400, `\"user\"`, "", "", ""},
		"no type":          {`{"data":{}}`, 400, `\"text\" is missing`, "", "", ""},
		"not UTF-8":        {"{\"text\":\"\xff\"}", 400, "not UTF-8", "", "", ""},
		"no object":        {`[]`, 400, "no JSON object", "", "", ""},
		"no JSON":          {`{`, 400, "no JSON object", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := &memInbox{}
			running(t, "", in, func(p *Bot) {
				a := post(p, request("msg_1", now(), tc.body), tc.body)
				if a.Status != tc.status || !strings.Contains(string(a.Body), tc.answer) {
					t.Fatalf("%d %s, want %d %s", a.Status, a.Body, tc.status, tc.answer)
				}
				if tc.status != 200 {
					if len(in.events) > 0 || a.Refused != platforms.Unreadable {
						t.Errorf("stored %v, refused %q", in.events, a.Refused)
					}
					return
				}
				ev := in.events[0]
				if ev.Source.ChatID != tc.chat || ev.Source.UserID != tc.user || ev.Text != tc.text || ev.Source.ChatType != relay.ChatDM {
					t.Errorf("%+v", ev)
				}
				if got, want := sessionkey.Build(ev.Source, sessionkey.Options{}), "agent:main:webhook:dm:"+string(tc.chat); string(got) != want {
					t.Errorf("session key %s, want %s", got, want)
				}
				if user, ok := p.DirectUser(ev.Source.ChatID); !ok || user != tc.user {
					t.Errorf("the chat is %q's", user)
				}
				again := post(p, request("msg_1", now(), tc.body), tc.body)
				if again.Status != 200 || string(again.Body) != `{"accepted":true,"duplicate":true}` || len(in.events) != 1 {
					t.Errorf("again: %d %s, %d events", again.Status, again.Body, len(in.events))
				}
			})
		})
	}
}

func TestWhoHasNotProvedIt(t *testing.T) {
	in := &memInbox{}
	running(t, "", in, func(p *Bot) {
		body := `{"text":"x"}`
		for name, tc := range map[string]struct {
			change func(http.Header)
			at     time.Duration
			want   platforms.HookRefusal
		}{
			"no signature":  {func(h http.Header) { h.Del(headerSign) }, 0, platforms.BadSignature},
			"no id":         {func(h http.Header) { h.Del(headerID) }, 0, platforms.BadSignature},
			"another id":    {func(h http.Header) { h.Set(headerID, "msg_2") }, 0, platforms.BadSignature},
			"no time":       {func(h http.Header) { h.Del(headerTime) }, 0, platforms.BadSignature},
			"six min ago":   {func(http.Header) {}, -6 * time.Minute, platforms.StaleTimestamp},
			"in six min":    {func(http.Header) {}, 6 * time.Minute, platforms.StaleTimestamp},
			"four min ago":  {func(http.Header) {}, -4 * time.Minute, ""},
			"in four min":   {func(http.Header) {}, 4 * time.Minute, ""},
			"another's key": {func(h http.Header) { h.Set(headerSign, "v1,AAAA") }, 0, platforms.BadSignature},
		} {
			h := request("msg_"+strconv.Itoa(len(name)), time.Now().Add(tc.at), body)
			tc.change(h)
			a := post(p, h, body)
			if a.Refused != tc.want || (a.Status == 401) != (tc.want != "") {
				t.Errorf("%s: %d %q", name, a.Status, a.Refused)
			}
			if tc.want != "" && string(a.Body) != `{"error":"unauthorized"}` {
				t.Errorf("%s: %s", name, a.Body)
			}
		}
	})
}

// TestWhatIsNotOnDiskInTimeIsNotConfirmed, whatever keeps it from getting there.
func TestWhatIsNotOnDiskInTimeIsNotConfirmed(t *testing.T) {
	body := `{"text":"x"}`
	for name, in := range map[string]*memInbox{"refused": {fail: errors.New("full")}, "hangs": {hang: true}} {
		t.Run(name, func(t *testing.T) {
			running(t, "", in, func(p *Bot) {
				began := time.Now()
				a := post(p, request("msg_1", began, body), body)
				if took := time.Since(began); a.Status != 503 || a.RetryAfter != 5*time.Second || a.Refused != platforms.NotStored || took > wait {
					t.Errorf("%d after %v, %+v", a.Status, took, a)
				}
			})
		})
	}
}

// receiver is who gets the agent's answers: a transport, so that time can be a bubble's own. answer is what it says
// to the n-th request, from 1; status 0: the connection breaks after the request was read.
type receiver struct {
	answer func(n int) (status int, body string)
	mu     sync.Mutex
	heads  []http.Header
	bodies []string
	at     []time.Time
}

func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	r.heads, r.bodies, r.at = append(r.heads, q.Header), append(r.bodies, string(body)), append(r.at, time.Now())
	n := len(r.at)
	r.mu.Unlock()
	status, said := r.answer(n)
	if status == 0 {
		httptrace.ContextClientTrace(q.Context()).WroteHeaders()
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = io.WriteString(w, said)
	return w.Result(), nil
}

func always(status int, body string) func(int) (int, string) {
	return func(int) (int, string) { return status, body }
}

// TestSend: an outcome that is unknown is asked for again under the same id, signed anew.
func TestSend(t *testing.T) {
	for name, answer := range map[string]func(n int) (int, string){
		"an inner error": func(n int) (int, string) { return map[int]int{1: 502, 2: 500}[n], "" },
		"no answer":      func(n int) (int, string) { return []int{0, 0, 204}[n-1], "" },
		"told to wait":   func(n int) (int, string) { return []int{429, 429, 200}[n-1], "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &receiver{answer: func(n int) (int, string) {
					if status, body := answer(n); n < 3 {
						return status, body
					}
					return 202, strings.Repeat("x", maxAnswer+1) // whatever it says
				}}
				p := opened(t, "https://example.net/in", r)
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				res, err := p.Send(ctx, relay.Send{Chat: "doorbell:front/7", Content: "**come in**", ReplyTo: "msg_1"})
				if err != nil || len(r.heads) != 3 {
					t.Fatalf("%d requests, %v", len(r.heads), err)
				}
				for n, h := range r.heads {
					if h.Get(headerID) != string(res.MessageID) || h.Get(headerTime) != itoa(r.at[n].Unix()) ||
						!verified(p.keys, h.Get(headerSign), h.Get(headerID), h.Get(headerTime), []byte(r.bodies[n])) {
						t.Errorf("request %d: %v, message %s", n, h, res.MessageID)
					}
				}
				if want := `{"type":"message","text":"**come in**","chat":"7","user":"front","reply_to":"msg_1"}`; r.bodies[2] != want {
					t.Errorf("%s, want %s", r.bodies[2], want)
				}
			})
		})
	}
}

func TestSendRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		reply  string
		chat   relay.ChatID
		text   string
		want   string
	}{
		"no reply_url":         {200, "", "doorbell", "x", "chat not found: the bot has no reply_url"},
		"gone":                 {410, "https://example.net/", "doorbell", "x", "chat not found: the receiver wants no more messages"},
		"redirect":             {302, "https://example.net/", "doorbell", "x", "webhook: the receiver answered 302"},
		"refused":              {400, "https://example.net/", "doorbell", "x", "webhook: the receiver answered 400"},
		"empty":                {200, "https://example.net/", "doorbell", " ", "the message is empty"},
		"another hook's chat":  {200, "https://example.net/", "bell", "x", "chat not found"},
		"another hook's child": {200, "https://example.net/", "doorbell2:x", "x", "chat not found"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{answer: always(tc.status, "")}
			_, err := opened(t, tc.reply, r).Send(t.Context(), relay.Send{Chat: tc.chat, Content: tc.text})
			ae, ok := errors.AsType[*relay.ActionError](err)
			if !ok || ae.Public != tc.want || ae.Outcome != relay.NotSent {
				t.Errorf("%v", err)
			}
			if calls := len(r.heads); (calls == 1) != (tc.status != 200) {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// TestGone: who wants no more answers is asked no more, which the status says.
func TestGone(t *testing.T) {
	r := &receiver{answer: always(410, "")}
	p := opened(t, "https://example.net/", r)
	for range 3 {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "doorbell", Content: "x"}); relay.Explain(err).Public != "chat not found: the receiver wants no more messages" {
			t.Error(err)
		}
	}
	if s := p.Status(); len(r.heads) != 1 || s.State != platforms.Degraded || !strings.Contains(s.Reason, "410") {
		t.Errorf("%d calls, %+v", len(r.heads), s)
	}
}

// TestUnclear: what stays unclear until the end of an action's time is said to be unclear.
func TestUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: always(500, "")}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		_, err := opened(t, "https://example.net/", r).Send(ctx, relay.Send{Chat: "doorbell", Content: "x"})
		if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.MaybeSent || !strings.HasPrefix(ae.Public, "timed out") || len(r.heads) < 4 {
			t.Errorf("%v after %d calls", err, len(r.heads))
		}
	})
}

// TestDuplicates: who posts again is told so, also by a server that was started since, and if both came at once. Of
// what was dropped nobody knows, so it comes as if for the first time.
func TestDuplicates(t *testing.T) {
	in, body := &memInbox{}, `{"text":"x"}`
	said := func(p *Bot, id string) string {
		return string(post(p, request(id, time.Now(), body), body).Body)
	}
	const first, again = `{"accepted":true,"duplicate":false}`, `{"accepted":true,"duplicate":true}`
	running(t, "", in, func(p *Bot) {
		var wg sync.WaitGroup
		answers := make([]string, 20)
		for n := range answers {
			wg.Go(func() { answers[n] = said(p, "msg_1") })
		}
		wg.Wait()
		if slices.Sort(answers); answers[0] != first || answers[1] != again || answers[19] != again {
			t.Errorf("at once: %q", answers)
		}
	})
	running(t, "", in, func(p *Bot) {
		if got := said(p, "msg_1"); got != again {
			t.Errorf("after a restart: %s", got)
		}
		in.mu.Lock()
		in.drops = true
		in.mu.Unlock()
		if a, b := said(p, "msg_2"), said(p, "msg_2"); a != first || b != first {
			t.Errorf("dropped: %s, %s", a, b)
		}
	})
}

// TestStoredTooLate: the write of what was answered 503 goes on, and its repetition is a duplicate.
func TestStoredTooLate(t *testing.T) {
	in, body := &memInbox{}, `{"text":"x"}`
	in.takes.Store(int64(wait + time.Second))
	running(t, "", in, func(p *Bot) {
		if a := post(p, request("msg_1", time.Now(), body), body); a.Status != 503 {
			t.Errorf("%d", a.Status)
		}
		in.takes.Store(0)
		time.Sleep(5 * time.Second)
		if a := post(p, request("msg_1", time.Now(), body), body); string(a.Body) != `{"accepted":true,"duplicate":true}` {
			t.Errorf("again: %d %s", a.Status, a.Body)
		}
	})
}

func TestStates(t *testing.T) {
	running(t, "", &memInbox{}, func(p *Bot) {
		post(p, request("msg_1", time.Now().Add(-time.Hour), "{}"), "{}") // a stranger changes nothing
		if s := p.Status(); s.State != platforms.Connected || !s.LastEventAt.IsZero() {
			t.Errorf("after a stranger: %+v", s)
		}
		post(p, request("msg_1", time.Now(), `{"text":"x"}`), `{"text":"x"}`)
		if s := p.Status(); s.State != platforms.Connected || s.LastEventAt.IsZero() {
			t.Errorf("after a caller: %+v", s)
		}
	})
}

func TestSettings(t *testing.T) {
	for name, ok := range map[string]bool{
		"doorbell": true, "a-1": true, strings.Repeat("x", 32): true,
		"": false, "agents": false, "Door": false, "a_b": false, "a/b": false, "a:b": false, strings.Repeat("x", 33): false,
	} {
		if (checkHook(name) == nil) != ok {
			t.Errorf("%q: %v", name, !ok)
		}
	}
	for u, ok := range map[string]bool{
		"": true, "https://example.net/a?b=c": true, "http://192.168.1.2:8123/api": true,
		"example.net": false, "ftp://example.net": false, "https://u:p@example.net": false, "https://example.net/#a": false, "https:///a": false,
	} {
		if (checkReplyURL(u) == nil) != ok {
			t.Errorf("%q: %v", u, !ok)
		}
	}
}

func TestParts(t *testing.T) {
	text := strings.Repeat("ü", maxText+5)
	got := parts(text)
	if len(got) != 2 || len([]rune(got[0])) != maxText || strings.Join(got, "") != text {
		t.Errorf("%d parts", len(got))
	}
}
