package wecom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
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
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
)

const (
	ourSecret = "app-secret-0123456789"
	ourAgent  = "1000002"
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
	if in.fail == nil {
		in.got.Events = append(in.got.Events, b.Events...)
		in.got.Undecodable = append(in.got.Undecodable, b.Undecodable...)
	}
	return in.fail
}

func (in *memInbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// api is WeCom's.
type api struct {
	mu     sync.Mutex
	tokens int // given out
	dead   int // of them that are refused
	sent   []map[string]any
	say    string        // in place of success
	lost   bool          // the answer to a message does not come
	asked  int           // for tokens
	slow   time.Duration // takes a question for one
	deny   string        // in place of a token
}

func (w *api) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if r.URL.Path == "/cgi-bin/gettoken" && w.slow > 0 {
		select {
		case <-time.After(w.slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := httptest.NewRecorder()
	switch r.URL.Path {
	case "/cgi-bin/gettoken":
		w.asked++
		if q.Get("corpid") != ourCorp || q.Get("corpsecret") != ourSecret {
			_, _ = io.WriteString(out, `{"errcode":40001,"errmsg":"invalid credential"}`)
			break
		}
		if w.deny != "" {
			_, _ = io.WriteString(out, w.deny)
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
			w.lost = false
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

// options are those of the vectors' application.
func options(log *slog.Logger, rt http.RoundTripper, secret string) platforms.Options {
	return platforms.Options{
		Token: relay.NewSecret([]byte(secret)), Log: log, Transport: rt, PublicURL: "https://relay.example.net",
		Secrets: map[string]relay.Secret{"callback_token": relay.NewSecret([]byte(ourToken)), "aes_key": relay.NewSecret([]byte(ourAES))},
		Values:  map[string]string{"corp_id": ourCorp, "agent_id": ourAgent},
	}
}

func opened(t testing.TB, w *api, secret string) *Bot {
	t.Helper()
	p, err := Network.Open(options(slog.New(slog.DiscardHandler), w, secret))
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Bot)
}

// running is an application that runs, in a bubble of its own time.
func running(t *testing.T, w *api, in *memInbox, test func(t *testing.T, p *Bot)) {
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
func posted(p *Bot, doc string, now time.Time) platforms.HookRequest {
	return at(p, encrypted(p.key, []byte(doc), ourCorp, len(doc), padded), strconv.FormatInt(now.Unix(), 10))
}

// sealed is posted with another key, or for another receiver.
func sealed(p *Bot, key []byte, receiver string) platforms.HookRequest {
	return at(p, encrypted(key, []byte(ourXML), receiver, len(ourXML), padded), strconv.FormatInt(time.Now().Unix(), 10))
}

// at is WeCom's request with what it encrypted, signed with its time.
func at(p *Bot, cipher, seconds string) platforms.HookRequest {
	q := url.Values{"msg_signature": {signature(ourToken, seconds, ourNonce, cipher)}, "timestamp": {seconds}, "nonce": {ourNonce}}
	return platforms.HookRequest{
		Method: http.MethodPost, Target: platforms.HookPath(p.bot) + "?" + q.Encode(),
		Body: []byte("<xml><ToUserName>somebody</ToUserName><AgentID>9</AgentID><Encrypt>" + cipher + "</Encrypt></xml>"),
	}
}

// upper is a target with its signature in upper case.
func upper(target string) string {
	u, _ := url.Parse(target)
	q := u.Query()
	q.Set("msg_signature", strings.ToUpper(q.Get("msg_signature")))
	u.RawQuery = q.Encode()
	return u.String()
}

// doc is a message of ann's with those elements.
func doc(elements string) string {
	return "<xml><ToUserName>" + ourCorp + "</ToUserName><FromUserName>ann</FromUserName><CreateTime>1767225600</CreateTime><MsgId>7</MsgId><AgentID>1000002</AgentID>" + elements + "</xml>"
}

// many are n elements of different names.
func many(n int) (s string) {
	for i := range n {
		s += fmt.Sprintf("<e%d/>", i)
	}
	return s
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
		"vector":                    {doc: ourXML, kind: relay.TypeText, text: "hello", id: "7300000000000000001"},
		"declared":                  {doc: `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + ourXML + "\n", kind: relay.TypeText, text: "hello", id: "7300000000000000001"},
		"of many pieces":            {doc: doc("<MsgType>text</MsgType><Content>a &lt; <![CDATA[b & ]]>&#99;</Content>"), kind: relay.TypeText, text: "a < b & c", id: "7"},
		"command":                   {doc: doc("<MsgType>text</MsgType><Content>/new</Content>"), kind: relay.TypeCommand, text: "/new", id: "7"},
		"image":                     {doc: doc("<MsgType>image</MsgType><PicUrl>https://x</PicUrl><MediaId>m</MediaId>"), kind: relay.TypePhoto, id: "7"},
		"voice":                     {doc: doc("<MsgType>voice</MsgType><Format>amr</Format>"), kind: relay.TypeVoice, id: "7"},
		"video":                     {doc: doc("<MsgType>video</MsgType>"), kind: relay.TypeVideo, id: "7"},
		"location":                  {doc: doc("<MsgType>location</MsgType><Location_X>1.5</Location_X><Location_Y>2</Location_Y><Label>Home</Label>"), kind: relay.TypeLocation, text: "Home\n1.5, 2", id: "7"},
		"link":                      {doc: doc("<MsgType>link</MsgType><Title>/stop</Title><Description>B</Description><Url>https://x</Url>"), kind: relay.TypeText, text: "/stop\nB\nhttps://x", id: "7"},
		"file":                      {doc: doc("<MsgType>file</MsgType><Title>a.pdf</Title>"), kind: relay.TypeDocument, text: "a.pdf", id: "7"},
		"click":                     {doc: doc("<MsgType>event</MsgType><Event>click</Event><EventKey>/status</EventKey>"), kind: relay.TypeCommand, text: "/status", id: "ann:1767225600:click"},
		"another click":             {doc: doc("<MsgType>event</MsgType><Event>click</Event><EventKey>menu</EventKey>")},
		"a view":                    {doc: doc("<MsgType>event</MsgType><Event>view</Event><EventKey>/status</EventKey>")},
		"entering":                  {doc: doc("<MsgType>event</MsgType><Event>enter_agent</Event><EventKey></EventKey>")},
		"a location report":         {doc: doc("<MsgType>event</MsgType><Event>LOCATION</Event><Latitude>1</Latitude>")},
		"nobody's":                  {doc: doc("<MsgType>nonsense</MsgType>")},
		"no agent":                  {doc: strings.ReplaceAll(ourXML, "1000002", ""), kind: relay.TypeText, text: "hello", id: "7300000000000000001"},
		"another's":                 {doc: strings.ReplaceAll(ourXML, "1000002", "1000003"), refused: platforms.WrongRecipient},
		"another corporation's":     {doc: strings.ReplaceAll(ourXML, ourCorp, "ww1"), refused: platforms.WrongRecipient},
		"no kind":                   {doc: doc(""), refused: platforms.Unreadable, raw: 1},
		"from nobody":               {doc: strings.ReplaceAll(ourXML, "ann", ""), refused: platforms.Unreadable, raw: 1},
		"from all":                  {doc: strings.ReplaceAll(ourXML, "ann", "@All"), refused: platforms.Unreadable, raw: 1},
		"from two":                  {doc: strings.ReplaceAll(ourXML, "ann", "ann|bob"), refused: platforms.Unreadable, raw: 1},
		"without an id":             {doc: strings.ReplaceAll(ourXML, "7300000000000000001", ""), refused: platforms.Unreadable, raw: 1},
		"with a long id":            {doc: strings.ReplaceAll(ourXML, "7300000000000000001", strings.Repeat("7", 40000)), refused: platforms.Unreadable, raw: 1},
		"without a time":            {doc: strings.ReplaceAll(ourXML, "1767225600", "now"), refused: platforms.Unreadable, raw: 1},
		"no XML":                    {doc: "hello", refused: platforms.Unreadable, raw: 1},
		"nothing":                   {doc: "", refused: platforms.Unreadable, raw: 1},
		"a directive":               {doc: `<!DOCTYPE a>` + ourXML, refused: platforms.Unreadable, raw: 1},
		"an entity":                 {doc: `<!DOCTYPE a [<!ENTITY b "c">]>` + doc("<MsgType>text</MsgType><Content>&b;</Content>"), refused: platforms.Unreadable, raw: 1},
		"an unknown entity":         {doc: doc("<MsgType>text</MsgType><Content>&nbsp;</Content>"), refused: platforms.Unreadable, raw: 1},
		"an instruction":            {doc: `<?php x?>` + ourXML, refused: platforms.Unreadable, raw: 1},
		"a late declaration":        {doc: doc(`<?xml version="1.0"?><MsgType>text</MsgType>`), refused: platforms.Unreadable, raw: 1},
		"another encoding":          {doc: `<?xml version="1.0" encoding="GBK"?>` + ourXML, refused: platforms.Unreadable, raw: 1},
		"two roots":                 {doc: ourXML + ourXML, refused: platforms.Unreadable, raw: 1},
		"text beside the root":      {doc: ourXML + "x", refused: platforms.Unreadable, raw: 1},
		"half of it":                {doc: ourXML[:len(ourXML)-6], refused: platforms.Unreadable, raw: 1},
		"a name twice":              {doc: doc("<MsgType>text</MsgType><FromUserName>bob</FromUserName>"), refused: platforms.Unreadable, raw: 1},
		"many names":                {doc: doc("<MsgType>text</MsgType><a/><b/><c/>" + many(70)), refused: platforms.Unreadable, raw: 1},
		"as deep as it may":         {doc: doc("<MsgType>text</MsgType><Content>x</Content>" + strings.Repeat("<a>", 7) + strings.Repeat("</a>", 7)), kind: relay.TypeText, text: "x", id: "7"},
		"too deep":                  {doc: doc(strings.Repeat("<a>", 8) + strings.Repeat("</a>", 8)), refused: platforms.Unreadable, raw: 1},
		"elements within the words": {doc: doc("<MsgType>text</MsgType><Content>a<b>/c</b>d</Content>"), kind: relay.TypeText, text: "ad", id: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &memInbox{}
			running(t, &api{}, in, func(t *testing.T, p *Bot) {
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
				if key := sessionkey.Build(ev.Source, sessionkey.Options{}); key != "agent:main:wecom_callback:dm:ww0123456789abcdef:ann" {
					t.Error(key)
				}
			})
		})
	}
}

// TestEverySingleBit of the signature, and of what it covers, counts.
func TestEverySingleBit(t *testing.T) {
	in := &memInbox{}
	running(t, &api{}, in, func(t *testing.T, p *Bot) {
		good := posted(p, ourXML, time.Now())
		u, err := url.Parse(good.Target)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(what string, bit int, r platforms.HookRequest) {
			if a := p.Receive(t.Context(), r); a.Status != 401 || string(a.Body) != `{"error":"unauthorized"}` {
				t.Errorf("bit %d of the %s: %d %s", bit, what, a.Status, a.Body)
			}
		}
		for _, name := range []string{"msg_signature", "timestamp", "nonce"} {
			q := u.Query()
			value := q.Get(name)
			for bit := range len(value) * 8 {
				q.Set(name, flipped(value, bit))
				refused(name, bit, platforms.HookRequest{Method: good.Method, Target: u.Path + "?" + q.Encode(), Body: good.Body})
			}
		}
		cipher := enclosed(good.Body)
		for bit := range len(cipher) * 8 {
			body := bytes.Replace(good.Body, []byte(cipher), []byte(flipped(cipher, bit)), 1)
			refused("message", bit, platforms.HookRequest{Method: good.Method, Target: good.Target, Body: body})
		}
		if a := p.Receive(t.Context(), good); a.Status != 200 || len(in.got.Events) != 1 || len(in.got.Undecodable) != 0 {
			t.Errorf("%d, %+v", a.Status, in.got)
		}
	})
}

// flipped is s with one bit flipped.
func flipped(s string, bit int) string {
	b := []byte(s)
	b[bit/8] ^= 1 << (bit % 8)
	return string(b)
}

// TestEnvelopes: WeCom wraps what it encrypted; what else stands there counts for nothing.
func TestEnvelopes(t *testing.T) {
	in := &memInbox{}
	running(t, &api{}, in, func(t *testing.T, p *Bot) {
		bare := posted(p, ourXML, time.Now())
		cipher := enclosed(bare.Body)
		for n, body := range []string{
			"<xml><ToUserName><![CDATA[ww1]]></ToUserName><AgentID><![CDATA[]]></AgentID><Encrypt><![CDATA[" + cipher + "]]></Encrypt></xml>",
			`<?xml version="1.0"?>` + "\n<xml>\n<Encrypt>\n" + cipher + "\n</Encrypt>\n</xml>\n",
		} {
			bare.Body = []byte(body)
			if a := p.Receive(t.Context(), bare); a.Status != 200 || len(in.got.Events) != n+1 {
				t.Errorf("%s: %d, %q", body, a.Status, a.Refused)
			}
		}
	})
}

// TestTheQuestion whether the address is ours is answered with what was encrypted, and nothing else.
func TestTheQuestion(t *testing.T) {
	running(t, &api{}, &memInbox{}, func(t *testing.T, p *Bot) {
		cipher := encrypted(p.key, []byte("1616140317555161061"), ourCorp, 19, padded)
		seconds := strconv.FormatInt(time.Now().Unix(), 10)
		q := url.Values{"msg_signature": {signature(ourToken, seconds, ourNonce, cipher)}, "timestamp": {seconds}, "nonce": {ourNonce}, "echostr": {cipher}}
		a := p.Receive(t.Context(), platforms.HookRequest{Method: http.MethodGet, Target: platforms.HookPath(p.bot) + "?" + q.Encode()})
		if a.Status != 200 || string(a.Body) != "1616140317555161061" {
			t.Errorf("%d %q", a.Status, a.Body)
		}
		// Who saw a message go by has its signature, and must not have it read out.
		seen := posted(p, ourXML, time.Now())
		m, _ := elements(seen.Body)
		a = p.Receive(t.Context(), platforms.HookRequest{Method: http.MethodGet, Target: seen.Target + "&echostr=" + url.QueryEscape(m["Encrypt"])})
		if a.Status != 401 || a.Refused != platforms.BadSignature {
			t.Errorf("%d %q", a.Status, a.Body)
		}
	})
}

func TestWhoHasNotProvedIt(t *testing.T) {
	in := &memInbox{}
	running(t, &api{}, in, func(t *testing.T, p *Bot) {
		good := posted(p, ourXML, time.Now())
		for name, tc := range map[string]struct {
			change func(*platforms.HookRequest)
			want   platforms.HookRefusal
		}{
			"another time":  {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "timestamp=", "timestamp=1", 1) }, platforms.BadSignature},
			"another nonce": {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "nonce=1", "nonce=2", 1) }, platforms.BadSignature},
			"no signature":  {func(r *platforms.HookRequest) { r.Target = strings.Replace(r.Target, "msg_signature", "x", 1) }, platforms.BadSignature},
			"no XML":        {func(r *platforms.HookRequest) { r.Body = []byte("hello") }, platforms.BadSignature},
			"nothing in it": {func(r *platforms.HookRequest) { r.Body = []byte("<xml></xml>") }, platforms.BadSignature},
			"six min ago":   {func(r *platforms.HookRequest) { *r = posted(p, ourXML, time.Now().Add(-6*time.Minute)) }, platforms.StaleTimestamp},
			"another key":   {func(r *platforms.HookRequest) { *r = sealed(p, make([]byte, 32), ourCorp) }, platforms.BadSignature},
			"for another":   {func(r *platforms.HookRequest) { *r = sealed(p, p.key, "ww1") }, platforms.BadSignature},
			"no number":     {func(r *platforms.HookRequest) { *r = at(p, "", "1e9") }, platforms.BadSignature},
			"no time":       {func(r *platforms.HookRequest) { *r = at(p, "", "") }, platforms.BadSignature},
			"a bad target":  {func(r *platforms.HookRequest) { r.Target = "/\x7f?" }, platforms.BadSignature},
			"a directive":   {func(r *platforms.HookRequest) { r.Body = append([]byte("<!DOCTYPE a>"), r.Body...) }, platforms.BadSignature},
			"an entity": {func(r *platforms.HookRequest) {
				r.Body = bytes.Replace(r.Body, []byte("somebody"), []byte("&nbsp;"), 1)
			}, platforms.BadSignature},
			"too deep": {func(r *platforms.HookRequest) {
				r.Body = []byte(strings.Repeat("<a>", 8) + string(r.Body) + strings.Repeat("</a>", 8))
			}, platforms.BadSignature},
			"within another": {func(r *platforms.HookRequest) { r.Body = []byte("<a>" + string(r.Body) + "</a>") }, platforms.BadSignature},
			"upper case":     {func(r *platforms.HookRequest) { r.Target = upper(r.Target) }, platforms.BadSignature},
			"two envelopes":  {func(r *platforms.HookRequest) { r.Body = append(r.Body, r.Body...) }, platforms.BadSignature},
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
	running(t, &api{}, &memInbox{fail: errors.New("full")}, func(t *testing.T, p *Bot) {
		began := time.Now()
		if a := p.Receive(t.Context(), posted(p, ourXML, began)); a.Status != 503 || a.RetryAfter == 0 || time.Since(began) > wait {
			t.Errorf("%d after %v", a.Status, time.Since(began))
		}
	})
}

func TestStates(t *testing.T) {
	running(t, &api{}, &memInbox{}, func(t *testing.T, p *Bot) {
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" || !strings.Contains(p.HookRules().Enter, "Receive messages") {
			t.Errorf("%+v", s)
		}
		p.Receive(t.Context(), posted(p, ourXML, time.Now()))
		if s := p.Status(); s.State != platforms.Connected || s.Reason != "" {
			t.Errorf("%+v", s)
		}
	})
	running(t, &api{deny: notTrusted}, &memInbox{}, func(t *testing.T, p *Bot) {
		if s := p.Status(); s.State != platforms.Degraded || !strings.Contains(s.Reason, "add 192.0.2.7 to trusted IPs") {
			t.Errorf("%+v", s)
		}
	})
	p := opened(t, &api{}, "another-secret-of-it")
	if err := p.Run(t.Context(), &memInbox{}); !errors.Is(err, relay.ErrBadCredentials) || p.Status().State != platforms.BadCredentials {
		t.Errorf("%v, %+v", err, p.Status())
	}
}

// notTrusted is what WeCom says to an address that it was not told of.
const notTrusted = `{"errcode":60020,"errmsg":"not allow to access from your ip, hint: [17], from ip: 192.0.2.7, more info at https://x"}`

// TestARefusedAnswer is seen in the state until one is taken; no gateway learns our address.
func TestARefusedAnswer(t *testing.T) {
	w := &api{}
	running(t, w, &memInbox{}, func(t *testing.T, p *Bot) {
		w.say = notTrusted
		_, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "x"})
		ae, ok := errors.AsType[*relay.ActionError](err)
		if !ok || ae.Public != "not allow to access from your ip" || ae.Outcome != relay.NotSent {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if s := p.Status(); s.State != platforms.Degraded || !strings.Contains(s.Reason, "add 192.0.2.7 to trusted IPs") {
			t.Errorf("%+v", s)
		}
		w.say = ""
		if _, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "x"}); err != nil || p.Status().State != platforms.Connected {
			t.Errorf("%v, %+v", err, p.Status())
		}
	})
}

// TestTheSecretIsReplaced at WeCom, and not here: the bot ends with the next answer, and says why.
func TestTheSecretIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &api{}
		p := opened(t, w, ourSecret)
		done := make(chan error, 1)
		go func() { done <- p.Run(t.Context(), &memInbox{}) }()
		synctest.Wait()
		w.dead, w.deny = 100, `{"errcode":40001,"errmsg":"invalid credential `+ourSecret+`, hint: [1], from ip: 192.0.2.7"}`
		_, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "x"})
		if ae, ok := errors.AsType[*relay.ActionError](err); !ok || ae.Public != "bad_credentials" || strings.Contains(err.Error(), ourSecret) {
			t.Errorf("%v", err)
		}
		if err := <-done; !errors.Is(err, relay.ErrBadCredentials) || p.Status().State != platforms.BadCredentials || w.asked != 2 {
			t.Errorf("%v, %+v, %d questions", err, p.Status(), w.asked)
		}
	})
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

// TestPartsAreCutBetweenCharacters as people see them, and hold as many bytes as WeCom takes.
func TestPartsAreCutBetweenCharacters(t *testing.T) {
	for _, letter := range []string{"x", "ü", "世", "😀", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0323"} {
		w := &api{}
		whole := strings.Repeat(letter, 3*maxText/len(letter))
		if _, err := opened(t, w, ourSecret).Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: whole}); err != nil {
			t.Fatal(err)
		}
		var all string
		for n, m := range w.sent {
			text := m["text"].(map[string]any)["content"].(string)
			if len(text) > maxText || n < len(w.sent)-1 && len(text) <= maxText-len(letter) || strings.ReplaceAll(text, letter, "") != "" {
				t.Errorf("%s: part %d has %d bytes", letter, n, len(text))
			}
			all += text
		}
		if all != whole {
			t.Errorf("%s: %d bytes of %d came", letter, len(all), len(whole))
		}
	}
}

// TestAPersonIsNotFlooded: WeCom drops without a word what is above 30 messages a minute or 1,000 an hour.
func TestAPersonIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, &api{}, ourSecret)
		var at []time.Time
		for began := time.Now(); time.Since(began) < 3*time.Hour; {
			if _, err := p.Send(t.Context(), relay.Send{Chat: ourCorp + ":ann", Content: "x"}); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Now())
			for most, window := range map[int]time.Duration{30: time.Minute, 1000: time.Hour} {
				if n := len(at) - 1 - most; n >= 0 && at[len(at)-1].Sub(at[n]) < window {
					t.Fatalf("%d within %v", most+1, at[len(at)-1].Sub(at[n]))
				}
			}
		}
		if len(at) < 2900 {
			t.Errorf("only %d in three hours", len(at))
		}
	})
}

// TestATokenIsRenewedOnce, and fetched once for all who need one.
func TestATokenIsRenewedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &api{dead: 1, slow: time.Second}
		p := opened(t, w, ourSecret)
		all := func() (errs []error) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			for n := range 8 {
				wg.Go(func() {
					_, err := p.Send(t.Context(), relay.Send{Chat: relay.ChatID(fmt.Sprintf("%s:user%d", ourCorp, n)), Content: "x"})
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				})
			}
			wg.Wait()
			return errs
		}
		if err := errors.Join(all()...); err != nil || w.asked != 2 || len(w.sent) != 8 {
			t.Errorf("%v, %d questions, %d sent", err, w.asked, len(w.sent))
		}
		w.dead = 100 // whatever WeCom gives it refuses
		refused := func(questions int) {
			t.Helper()
			for _, err := range all() {
				ae, ok := errors.AsType[*relay.ActionError](err)
				if !ok || ae.Public != "bad_credentials" || ae.Outcome != relay.NotSent || strings.Contains(err.Error(), "access-token") {
					t.Errorf("%v", err)
				}
			}
			if w.asked != questions {
				t.Errorf("%d questions, want %d", w.asked, questions)
			}
		}
		refused(2)
		time.Sleep(afterRenewal)
		refused(3)
		refused(3)
	})
}

// TestNobodyAsksAgainAndAgain for a token when WeCom gives none.
func TestNobodyAsksAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &api{deny: `{"errcode":45009,"errmsg":"api freq out of limit"}`, slow: time.Second}
		p := opened(t, w, ourSecret)
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				_, err := p.Send(ctx, relay.Send{Chat: relay.ChatID(fmt.Sprintf("%s:user%d", ourCorp, n)), Content: "x"})
				if ae, ok := errors.AsType[*relay.ActionError](err); !ok || !ae.Retried() || ae.Outcome != relay.NotSent {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		if w.asked > 6 {
			t.Errorf("%d questions in 25 seconds", w.asked)
		}
	})
}

// TestAQuestionEndsWithItsCaller, and the next one asks it.
func TestAQuestionEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := opened(t, &api{slow: 10 * time.Second}, ourSecret)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for n, ctx := range []context.Context{short, t.Context(), t.Context()} {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				token, err := p.api.access(ctx, "")
				if n == 0 && (!errors.Is(err, context.DeadlineExceeded) || token != "") || n > 0 && (err != nil || token != "access-token-1") {
					t.Errorf("caller %d: %q, %v", n, token, err)
				}
			})
		}
		wg.Wait()
	})
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
		"no licence":      {`{"errcode":0,"errmsg":"ok","unlicenseduser":"ann"}`, false, ourCorp + ":ann", "forbidden: the user has no licence for the application", relay.NotSent},
		"its own words":   {`{"errcode":40056,"errmsg":"invalid agentid, hint: [1], from ip: 192.0.2.7"}`, false, ourCorp + ":ann", "invalid agentid", relay.NotSent},
		"everybody":       {"", false, ourCorp + ":@all", "chat not found", relay.NotSent},
		"two":             {"", false, ourCorp + ":ann|bob", "chat not found", relay.NotSent},
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
	if checkAES(relay.NewSecret([]byte("short"))) == nil || checkID("ann") == nil || checkID(ourCorp+":@all") == nil || checkID(ourCorp+":a|b") == nil || checkID(ourCorp+":ann") != nil {
		t.Error("aes key or id")
	}
}

// TestCost: a request is read in little memory.
func TestCost(t *testing.T) {
	const runs = 200
	p := opened(t, &api{}, ourSecret)
	r := posted(p, ourXML, time.Now())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		read(t, p, r)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > 64<<10 {
		t.Errorf("%d bytes", n)
	}
}

// BenchmarkStranger: what the largest request costs that is not WeCom's.
func BenchmarkStranger(b *testing.B) {
	p := opened(b, &api{}, ourSecret)
	r := posted(p, ourXML, time.Now())
	r.Body = []byte("<xml><Encrypt>" + strings.Repeat("A", maxBody-40) + "</Encrypt></xml>")
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := p.opened(r); refusal == nil {
			b.Fatal("not refused")
		}
	}
}

func BenchmarkRead(b *testing.B) {
	p := opened(b, &api{}, ourSecret)
	r := posted(p, ourXML, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		read(b, p, r)
	}
}

// read verifies and reads a request.
func read(t testing.TB, p *Bot, r platforms.HookRequest) {
	plain, refusal := p.opened(r)
	m, err := elements(plain)
	if ev, err2 := p.event(m); refusal != nil || err != nil || err2 != nil || ev == nil {
		t.Fatalf("%+v, %v, %v", refusal, err, err2)
	}
}
