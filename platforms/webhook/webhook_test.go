package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// inbox remembers what was handed in.
type inbox struct {
	mu     sync.Mutex
	events []relay.Event
	fail   error
	hang   bool
}

func (in *inbox) Accept(ctx context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.hang {
		in.mu.Unlock()
		<-ctx.Done()
		in.mu.Lock()
		return ctx.Err()
	}
	if in.fail == nil {
		in.events = append(in.events, b.Events...)
	}
	return in.fail
}

func (in *inbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

func (in *inbox) Chats(context.Context) ([]relay.Place, error) { return nil, nil }

func (in *inbox) Seen(_ context.Context, events []relay.EventID) ([]bool, error) {
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
func running(t *testing.T, reply string, in *inbox, test func(p *Platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, reply)
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

func opened(t *testing.T, reply string) *Platform {
	t.Helper()
	p, err := Kind.Open(platforms.Options{
		Token: relay.NewSecret([]byte(specSecret)), Log: slog.New(slog.DiscardHandler),
		Values: map[string]string{"name": "doorbell", "reply_url": reply},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Platform)
}

func post(p *Platform, h http.Header, body string) platforms.HookAnswer {
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
		"text":          {`{"text":"The doorbell rang"}`, 200, `{"accepted":true,"duplicate":false}`, "doorbell", "doorbell", "The doorbell rang"},
		"user and chat": {`{"text":"hi","user":"front","chat":"7"}`, 200, "", "doorbell:front/7", "doorbell:front", "hi"},
		"title":         {`{"text":"rang","title":"Doorbell"}`, 200, "", "doorbell", "doorbell", "Doorbell\nrang"},
		"command":       {`{"text":"/new","title":"Doorbell"}`, 200, "", "doorbell", "doorbell", "/new"},
		"event":         {`{"type":"order.created","data":{ "id": 1 }}`, 200, "", "doorbell", "doorbell", "order.created\n{\"id\":1}"},
		"no text":       {`{"user":"x"}`, 400, `\"text\" is missing`, "", "", ""},
		"empty text":    {`{"text":" "}`, 400, `\"text\" is empty`, "", "", ""},
		"text a number": {`{"text":1}`, 400, `\"text\": want string`, "", "", ""},
		"bad user":      {`{"text":"x","user":"a/b"}`, 400, `\"user\"`, "", "", ""},
		"another hook":  {`{"text":"x","user":"a:b"}`, 400, `\"user\"`, "", "", ""},
		"bad chat":      {`{"text":"x","chat":"a\nb"}`, 400, `\"chat\"`, "", "", ""},
		"no object":     {`[]`, 400, "no JSON object", "", "", ""},
		"no JSON":       {`{`, 400, "no JSON object", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := &inbox{}
			running(t, "", in, func(p *Platform) {
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
	in := &inbox{}
	running(t, "", in, func(p *Platform) {
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
	for name, in := range map[string]*inbox{"refused": {fail: errors.New("full")}, "hangs": {hang: true}} {
		t.Run(name, func(t *testing.T) {
			running(t, "", in, func(p *Platform) {
				began := time.Now()
				a := post(p, request("msg_1", began, body), body)
				if took := time.Since(began); a.Status != 503 || a.RetryAfter != 5*time.Second || a.Refused != platforms.NotStored || took > wait {
					t.Errorf("%d after %v, %+v", a.Status, took, a)
				}
			})
		})
	}
}

// receiver is who gets the agent's answers.
func receiver(t *testing.T, answer func(w http.ResponseWriter, n int)) (url string, got *[]http.Header, bodies *[]string) {
	t.Helper()
	got, bodies = new([]http.Header), new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*got, *bodies = append(*got, r.Header), append(*bodies, string(body))
		answer(w, len(*got))
	}))
	t.Cleanup(s.Close)
	return s.URL, got, bodies
}

func TestSend(t *testing.T) {
	url, got, bodies := receiver(t, func(w http.ResponseWriter, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	p := opened(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	res, err := p.Send(ctx, relay.Send{Chat: "doorbell:front/7", Content: "**come in**", ReplyTo: "msg_1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(*got) != 2 { // the first try had an unknown outcome, and may be repeated
		t.Fatalf("%d requests", len(*got))
	}
	for n, h := range *got {
		if h.Get(headerID) != string(res.MessageID) || !verified(p.keys, h.Get(headerSign), h.Get(headerID), h.Get(headerTime), []byte((*bodies)[n])) {
			t.Errorf("request %d: %v, message %s", n, h, res.MessageID)
		}
	}
	var a answer
	if err := json.Unmarshal([]byte((*bodies)[1]), &a); err != nil || a != (answer{Type: "message", Text: "**come in**", Chat: "7", User: "front", ReplyTo: "msg_1"}) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestSendRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		reply  bool
		text   string
		want   string
	}{
		"no reply_url": {200, false, "x", "webhook: no reply_url"},
		"gone":         {410, true, "x", "webhook: the receiver wants no more messages"},
		"redirect":     {302, true, "x", "webhook: the receiver answered 302"},
		"refused":      {400, true, "x", "webhook: the receiver answered 400"},
		"empty":        {200, true, " ", "the message is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _, _ := receiver(t, func(w http.ResponseWriter, _ int) { w.WriteHeader(tc.status) })
			if !tc.reply {
				url = ""
			}
			_, err := opened(t, url).Send(t.Context(), relay.Send{Chat: "doorbell", Content: tc.text})
			ae, ok := errors.AsType[*relay.ActionError](err)
			if !ok || ae.Public != tc.want || ae.Outcome != relay.NotSent {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestParts(t *testing.T) {
	text := strings.Repeat("ü", maxText+5)
	got := parts(text)
	if len(got) != 2 || len([]rune(got[0])) != maxText || strings.Join(got, "") != text {
		t.Errorf("%d parts", len(got))
	}
}
