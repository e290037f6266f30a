package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	ourSecret = "app-secret-0123456789"
	ourAgent  = "1000002"
)

// inbox remembers what was handed in.
type inbox struct {
	mu   sync.Mutex
	got  platforms.Batch
	fail error
}

func (in *inbox) Accept(_ context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.fail == nil {
		in.got.Events = append(in.got.Events, b.Events...)
		in.got.Undecodable = append(in.got.Undecodable, b.Undecodable...)
	}
	return in.fail
}

func (in *inbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// api is WeCom's.
type api struct {
	mu     sync.Mutex
	tokens int // given out
	dead   int // of them that are refused
	sent   []map[string]any
	say    string // in place of success
	lost   bool   // the answer to a message does not come
}

func (w *api) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := httptest.NewRecorder()
	q := r.URL.Query()
	switch r.URL.Path {
	case "/cgi-bin/gettoken":
		if q.Get("corpid") != ourCorp || q.Get("corpsecret") != ourSecret {
			_, _ = io.WriteString(out, `{"errcode":40001,"errmsg":"invalid credential"}`)
			break
		}
		if w.say != "" && w.tokens == 0 && strings.Contains(w.say, "60020") {
			_, _ = io.WriteString(out, w.say)
			break
		}
		w.tokens++
		_, _ = fmt.Fprintf(out, `{"errcode":0,"errmsg":"ok","access_token":"access-token-%d","expires_in":7200}`, w.tokens)
	case "/cgi-bin/message/send":
		n, _ := strconv.Atoi(strings.TrimPrefix(q.Get("access_token"), "access-token-"))
		if n <= w.dead {
			_, _ = io.WriteString(out, `{"errcode":42001,"errmsg":"access_token expired: `+q.Get("access_token")+`"}`)
			break
		}
		var m map[string]any
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.sent = append(w.sent, m)
		if w.lost {
			res := out.Result()
			res.Body = io.NopCloser(iotest.ErrReader(errors.New("read " + r.URL.String() + ": connection reset")))
			return res, nil
		}
		if w.say != "" {
			_, _ = io.WriteString(out, w.say)
			break
		}
		_, _ = fmt.Fprintf(out, `{"errcode":0,"errmsg":"ok","msgid":"m%d"}`, len(w.sent))
	default:
		http.NotFound(out, r)
	}
	return out.Result(), nil
}

func opened(t *testing.T, w *api, secret string) *Platform {
	t.Helper()
	p, err := Kind.Open(platforms.Options{
		Token: relay.NewSecret([]byte(secret)), Log: slog.New(slog.DiscardHandler), Transport: w, PublicURL: "https://relay.example.net",
		Secrets: map[string]relay.Secret{"callback_token": relay.NewSecret([]byte(ourToken)), "aes_key": relay.NewSecret([]byte(ourAES))},
		Values:  map[string]string{"corp_id": ourCorp, "agent_id": ourAgent},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Platform)
}

// running is an application that runs, in a bubble of its own time.
func running(t *testing.T, w *api, in *inbox, test func(t *testing.T, p *Platform)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, w, ourSecret)
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

// posted is WeCom's request with a message in it, at a time.
func posted(p *Platform, doc string, at time.Time) platforms.HookRequest {
	cipher := encrypted(p.key, []byte(doc), ourCorp, len(doc), padded)
	seconds := strconv.FormatInt(at.Unix(), 10)
	q := url.Values{"msg_signature": {signature(ourToken, seconds, ourNonce, cipher)}, "timestamp": {seconds}, "nonce": {ourNonce}}
	return platforms.HookRequest{
		Method: http.MethodPost, Target: platforms.HookPath(p.bot) + "?" + q.Encode(),
		Body: []byte("<xml><ToUserName>somebody</ToUserName><AgentID>9</AgentID><Encrypt>" + cipher + "</Encrypt></xml>"),
	}
}

// doc is a message of ann's with those elements.
func doc(elements string) string {
	return "<xml><ToUserName>" + ourCorp + "</ToUserName><FromUserName>ann</FromUserName><CreateTime>1767225600</CreateTime><MsgId>7</MsgId><AgentID>1000002</AgentID>" + elements + "</xml>"
}

func TestReceive(t *testing.T) {
	for name, tc := range map[string]struct {
		doc     string
		refused platforms.HookRefusal
		kind    relay.MessageType // empty: nothing is handed in
		text    string
		id      relay.EventID
		raw     int
	}{
		"vector":            {doc: ourXML, kind: relay.TypeText, text: "hello", id: "7300000000000000001"},
		"command":           {doc: doc("<MsgType>text</MsgType><Content>/new</Content>"), kind: relay.TypeCommand, text: "/new", id: "7"},
		"image":             {doc: doc("<MsgType>image</MsgType><PicUrl>https://x</PicUrl><MediaId>m</MediaId>"), kind: relay.TypePhoto, id: "7"},
		"voice":             {doc: doc("<MsgType>voice</MsgType><Format>amr</Format>"), kind: relay.TypeVoice, id: "7"},
		"video":             {doc: doc("<MsgType>video</MsgType>"), kind: relay.TypeVideo, id: "7"},
		"location":          {doc: doc("<MsgType>location</MsgType><Location_X>1.5</Location_X><Location_Y>2</Location_Y><Label>Home</Label>"), kind: relay.TypeLocation, text: "Home\n1.5, 2", id: "7"},
		"link":              {doc: doc("<MsgType>link</MsgType><Title>A</Title><Description>B</Description><Url>https://x</Url>"), kind: relay.TypeText, text: "A\nB\nhttps://x", id: "7"},
		"file":              {doc: doc("<MsgType>file</MsgType><Title>a.pdf</Title>"), kind: relay.TypeDocument, text: "a.pdf", id: "7"},
		"click":             {doc: doc("<MsgType>event</MsgType><Event>click</Event><EventKey>/status</EventKey>"), kind: relay.TypeCommand, text: "/status", id: "ann:1767225600:click"},
		"another click":     {doc: doc("<MsgType>event</MsgType><Event>click</Event><EventKey>menu</EventKey>")},
		"a location report": {doc: doc("<MsgType>event</MsgType><Event>LOCATION</Event>")},
		"nobody's":          {doc: doc("<MsgType>nonsense</MsgType>")},
		"another's":         {doc: strings.ReplaceAll(ourXML, "1000002", "1000003"), refused: platforms.WrongRecipient},
		"no XML":            {doc: "hello", refused: platforms.Unreadable, raw: 1},
		"a directive":       {doc: `<!DOCTYPE a [<!ENTITY b "c">]>` + doc("<MsgType>text</MsgType><Content>&b;</Content>"), refused: platforms.Unreadable, raw: 1},
		"too deep":          {doc: doc(strings.Repeat("<a>", 9) + strings.Repeat("</a>", 9)), refused: platforms.Unreadable, raw: 1},
	} {
		t.Run(name, func(t *testing.T) {
			in := &inbox{}
			running(t, &api{}, in, func(t *testing.T, p *Platform) {
				a := p.Receive(t.Context(), posted(p, tc.doc, time.Now()))
				if a.Status != 200 || len(a.Body) != 0 || a.Refused != tc.refused || len(in.got.Undecodable) != tc.raw {
					t.Fatalf("%d %s, refused %q, %d in quarantine", a.Status, a.Body, a.Refused, len(in.got.Undecodable))
				}
				if tc.kind == "" {
					if len(in.got.Events) > 0 {
						t.Errorf("%+v", in.got.Events)
					}
					return
				}
				ev := in.got.Events[0]
				if ev.Type != tc.kind || ev.Text != tc.text || ev.ID != tc.id || string(ev.MessageID) != string(tc.id) ||
					ev.Source.ChatID != ourCorp+":ann" || ev.Source.UserID != ourCorp+":ann" || ev.Source.UserName != "ann" || ev.Source.ChatType != relay.ChatDM {
					t.Errorf("%+v", ev)
				}
			})
		})
	}
}

// TestTheQuestion whether the address is ours is answered with what was encrypted, and nothing else.
func TestTheQuestion(t *testing.T) {
	running(t, &api{}, &inbox{}, func(t *testing.T, p *Platform) {
		cipher := encrypted(p.key, []byte("1616140317555161061"), ourCorp, 19, padded)
		seconds := strconv.FormatInt(time.Now().Unix(), 10)
		q := url.Values{"msg_signature": {signature(ourToken, seconds, ourNonce, cipher)}, "timestamp": {seconds}, "nonce": {ourNonce}, "echostr": {cipher}}
		a := p.Receive(t.Context(), platforms.HookRequest{Method: http.MethodGet, Target: platforms.HookPath(p.bot) + "?" + q.Encode()})
		if a.Status != 200 || string(a.Body) != "1616140317555161061" {
			t.Errorf("%d %q", a.Status, a.Body)
		}
	})
}

func TestWhoHasNotProvedIt(t *testing.T) {
	in := &inbox{}
	running(t, &api{}, in, func(t *testing.T, p *Platform) {
		good := posted(p, ourXML, time.Now())
		for name, tc := range map[string]struct {
			change func(*platforms.HookRequest)
			want   platforms.HookRefusal
		}{
			"another time":   {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "timestamp=", "timestamp=1", 1) }, platforms.BadSignature},
			"another nonce":  {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "nonce=1", "nonce=2", 1) }, platforms.BadSignature},
			"no signature":   {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "msg_signature", "x", 1) }, platforms.BadSignature},
			"no XML":         {func(r *platforms.HookRequest) { r.Body = []byte("hello") }, platforms.BadSignature},
			"nothing in it":  {func(r *platforms.HookRequest) { r.Body = []byte("<xml></xml>") }, platforms.BadSignature},
			"six min ago":    {func(r *platforms.HookRequest) { *r = posted(p, ourXML, time.Now().Add(-6*time.Minute)) }, platforms.StaleTimestamp},
			"in six minutes": {func(r *platforms.HookRequest) { *r = posted(p, ourXML, time.Now().Add(6*time.Minute)) }, platforms.StaleTimestamp},
		} {
			r := good
			tc.change(&r)
			if a := p.Receive(t.Context(), r); a.Status != 401 || string(a.Body) != `{"error":"unauthorized"}` || a.Refused != tc.want {
				t.Errorf("%s: %d %s %q", name, a.Status, a.Body, a.Refused)
			}
		}
		if len(in.got.Events) > 0 {
			t.Errorf("%+v", in.got.Events)
		}
	})
}

func TestWhatIsNotOnDiskInTimeIsNotConfirmed(t *testing.T) {
	running(t, &api{}, &inbox{fail: errors.New("full")}, func(t *testing.T, p *Platform) {
		began := time.Now()
		if a := p.Receive(t.Context(), posted(p, ourXML, began)); a.Status != 503 || a.RetryAfter == 0 || time.Since(began) > wait {
			t.Errorf("%d after %v", a.Status, time.Since(began))
		}
	})
}

func TestStates(t *testing.T) {
	running(t, &api{}, &inbox{}, func(t *testing.T, p *Platform) {
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" || !strings.Contains(p.HookRules().Enter, "Receive messages") {
			t.Errorf("%+v", s)
		}
		p.Receive(t.Context(), posted(p, ourXML, time.Now()))
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" {
			t.Errorf("%+v", s)
		}
	})
	running(t, &api{say: `{"errcode":60020,"errmsg":"not allow to access from your ip, hint: [17], from ip: 192.0.2.7, more info"}`}, &inbox{}, func(t *testing.T, p *Platform) {
		if s := p.Status(); s.State != platforms.Degraded || !strings.Contains(s.Reason, "add 192.0.2.7 to trusted IPs") {
			t.Errorf("%+v", s)
		}
	})
	p := opened(t, &api{}, "another-secret-of-it")
	if err := p.Run(t.Context(), &inbox{}); !errors.Is(err, relay.ErrBadCredentials) || p.Status().State != platforms.BadCredentials {
		t.Errorf("%v, %+v", err, p.Status())
	}
}

func TestSend(t *testing.T) {
	w := &api{}
	p := opened(t, w, ourSecret)
	res, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "**Grüße** " + strings.Repeat("und mehr ", 300)})
	if err != nil || len(w.sent) != 2 || res.MessageID != "m2" || w.tokens != 1 {
		t.Fatalf("%+v, %v, %d sent, %d tokens", res, err, len(w.sent), w.tokens)
	}
	for _, m := range w.sent {
		text := m["text"].(map[string]any)["content"].(string)
		if m["touser"] != "ann" || m["agentid"] != float64(1000002) || len(text) > maxText || !utf8.ValidString(text) {
			t.Errorf("%v", m)
		}
	}
}

// TestATokenIsRenewedOnce, and fetched once for all who need one.
func TestATokenIsRenewedOnce(t *testing.T) {
	w := &api{dead: 1}
	p := opened(t, w, ourSecret)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			if _, err := p.Send(t.Context(), relay.Send{Chat: relay.ChatID(fmt.Sprintf("%s:user%d", ourCorp, n)), Content: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.tokens != 2 || len(w.sent) != 8 {
		t.Errorf("%d tokens, %d sent", w.tokens, len(w.sent))
	}
	w.dead = 100
	_, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "x"})
	ae, ok := errors.AsType[*relay.ActionError](err)
	if !ok || ae.Public != "bad_credentials" || ae.Outcome != relay.NotSent || w.tokens != 3 || strings.Contains(err.Error(), "access-token") {
		t.Errorf("%v, %d tokens", err, w.tokens)
	}
}

func TestSendRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		say     string
		lost    bool
		chat    relay.ChatID
		want    string
		outcome relay.Outcome
	}{
		"nobody there":    {`{"errcode":81013,"errmsg":"x"}`, false, ourCorp + ":ann", "chat not found", relay.NotSent},
		"invalid user":    {`{"errcode":0,"errmsg":"ok","invaliduser":"ann"}`, false, ourCorp + ":ann", "chat not found", relay.NotSent},
		"another corp":    {"", false, "ww1:ann", "chat not found", relay.NotSent},
		"no answer":       {"", true, ourCorp + ":ann", "timed out: WeCom's answer did not come, the outcome is unknown", relay.MaybeSent},
		"no JSON":         {"<html>", false, ourCorp + ":ann", "timed out: WeCom's answer did not come, the outcome is unknown", relay.MaybeSent},
		"nothing to send": {"", false, ourCorp + ":ann", "the message is empty", relay.NotSent},
	} {
		t.Run(name, func(t *testing.T) {
			w := &api{say: tc.say, lost: tc.lost}
			text := "x"
			if name == "nothing to send" {
				text = " "
			}
			_, err := opened(t, w, ourSecret).Send(t.Context(), relay.Send{Chat: tc.chat, Content: text})
			ae, ok := errors.AsType[*relay.ActionError](err)
			if !ok || ae.Public != tc.want || ae.Outcome != tc.outcome || len(w.sent) > 1 {
				t.Errorf("%v, %d sent", err, len(w.sent))
			}
			for _, secret := range []string{ourSecret, "access-token-1"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%v has a secret in it", err)
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	if checkCorp(ourCorp) != nil || checkCorp("ww 1") == nil || checkAgent(ourAgent) != nil || checkAgent("01") == nil || checkAgent("x") == nil {
		t.Error("corp_id or agent_id")
	}
	if checkAES(relay.NewSecret([]byte("short"))) == nil || checkID("ann") == nil || checkID(ourCorp+":ann") != nil {
		t.Error("aes key or id")
	}
}
