package cli

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // as the networks do
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/sms"
	"github.com/hermes-connector/hermes-connector/platforms/webhook"
	"github.com/hermes-connector/hermes-connector/platforms/wecom"
	"github.com/hermes-connector/hermes-connector/platforms/whatsapp"
	"github.com/hermes-connector/hermes-connector/relay"
)

const ourOrigin = "https://relay.example.net"

// caller is a network that calls its bot over HTTP, as the tests of all such networks play it. A network more is a
// row more in callers.
type caller struct {
	network platforms.Network
	values  map[string]string
	token   string
	secrets map[string]string // beside the token, by their names
	person  relay.UserID
	timed   bool          // a time is signed
	waits   time.Duration // for the disk, before it is told to come again
	replace func(*caller) // gives it another credential to sign with
	// signed is a request of the network's with what its person says, or with words that make no sense.
	signed func(c caller, id int, text string, at time.Time) *http.Request
	// forged makes it a stranger's.
	forged func(*http.Request)
	// badly is a request that is verified and makes no sense, and its answer.
	badly  func(c caller, at time.Time) *http.Request
	answer int
}

// callers are the networks. No two of the secrets in them are alike, and none stands anywhere by chance.
func hookCallers() []caller {
	return []caller{
		{
			network: sms.Network, token: "c0ffee5ad1e5f00dfacade0123456789", person: "+4915112345678",
			values: map[string]string{"account_sid": "AC00000000000000000000000000000001", "from": "+15005550006"},
			signed: func(c caller, id int, text string, _ time.Time) *http.Request {
				return texted(c, url.Values{
					"MessageSid": {fmt.Sprintf("SM%032d", id)}, "AccountSid": {c.values["account_sid"]}, "From": {string(c.person)},
					"To": {c.values["from"]}, "Body": {text}, "NumMedia": {"0"}, "SmsStatus": {"received"},
				})
			},
			waits: 10 * time.Second, replace: func(c *caller) { c.token = "feedbead0123456789c0ffee5ad1e5f0" },
			forged: func(r *http.Request) { r.Header.Set("X-Twilio-Signature", "peOd5KyDpMdhssmRlZcdIXsxpoA=") },
			badly: func(c caller, _ time.Time) *http.Request {
				return texted(c, url.Values{"AccountSid": {c.values["account_sid"]}, "To": {c.values["from"]}})
			},
			answer: http.StatusOK,
		},
		{
			network: wecom.Network, token: "Xq7-application-secret-of-wecom-Z", person: "ww0123456789abcdef:ann", timed: true,
			values:  map[string]string{"corp_id": "ww0123456789abcdef", "agent_id": "1000002"},
			secrets: map[string]string{"callback_token": "callbacktokenQDG6eKxyz", "aes_key": "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"},
			signed: func(c caller, id int, text string, at time.Time) *http.Request {
				return encrypted(c, fmt.Sprintf("<xml><ToUserName>"+c.values["corp_id"]+"</ToUserName><FromUserName>ann</FromUserName><CreateTime>%d</CreateTime>"+
					"<MsgType>text</MsgType><Content>%s</Content><MsgId>%d</MsgId><AgentID>1000002</AgentID></xml>", at.Unix(), text, id), at)
			},
			waits: 4 * time.Second, replace: func(c *caller) {
				c.secrets = map[string]string{"callback_token": "anothertoken0123", "aes_key": c.secrets["aes_key"]}
			},
			forged: func(r *http.Request) {
				q := r.URL.Query()
				q.Set("msg_signature", strings.Repeat("0", 40))
				r.URL.RawQuery = q.Encode()
			},
			badly:  func(c caller, at time.Time) *http.Request { return encrypted(c, "<xml><what/>", at) },
			answer: http.StatusOK,
		},
		{
			network: whatsapp.Network, token: "EAAGm0PX4ZCpsBA-of-a-system-user", person: "4915112345678",
			values:  map[string]string{"phone_number_id": "106540352242922"},
			secrets: map[string]string{"app_secret": "5ad1e5f00dfacade9876543210feedbe", "verify_token": "verify-me-with-these-words"},
			signed: func(c caller, id int, text string, at time.Time) *http.Request {
				return hubbed(c, fmt.Sprintf(`{"entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"106540352242922"},"messages":[`+
					`{"id":"wamid.%d","from":%q,"timestamp":"%d","type":"text","text":{"body":%q}}]}}]}]}`, id, c.person, at.Unix(), text))
			},
			waits: 8 * time.Second, replace: func(c *caller) {
				c.secrets = map[string]string{"app_secret": "another-secret-0123456789", "verify_token": c.secrets["verify_token"]}
			},
			forged: func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)) },
			badly:  func(c caller, _ time.Time) *http.Request { return hubbed(c, `{"entry":17}`) },
			answer: http.StatusOK,
		},
		{
			network: webhook.Network, token: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_c2Vjb25kLXNlY3JldC1saW5lLTAxMjM0NTY3ODk=", person: "doorbell:ann", timed: true,
			values: map[string]string{"name": "doorbell", "reply_url": "https://door.example.org/answers"},
			signed: func(c caller, id int, text string, at time.Time) *http.Request {
				return standard(c, fmt.Sprintf("msg_%d", id), fmt.Sprintf(`{"text":%q,"user":"ann"}`, text), at)
			},
			waits: 12 * time.Second, replace: func(c *caller) { c.token = strings.Fields(c.token)[1] },
			forged: func(r *http.Request) {
				r.Header.Set("Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
			},
			badly:  func(c caller, at time.Time) *http.Request { return standard(c, "msg_bad", `{"user":"ann"}`, at) },
			answer: http.StatusBadRequest,
		},
	}
}

// open makes the bot, whose requests w carries.
func (c caller) open(o platforms.Options, w http.RoundTripper) (platforms.Bot, error) {
	o.Token, o.Values, o.Transport, o.Outside, o.PublicURL = relay.NewSecret([]byte(c.token)), c.values, w, w, ourOrigin
	o.Secrets = make(map[string]relay.Secret)
	for name, s := range c.secrets {
		o.Secrets[name] = relay.NewSecret([]byte(s))
	}
	return c.network.Open(o)
}

// tokenKey is what the token is called in the configuration.
func (c caller) tokenKey() string { return cmp.Or(c.network.Token, "token") }

// path is where the network calls.
func (c caller) path() string {
	id := c.values["name"] + strings.TrimPrefix(c.values["from"], "+") + c.values["phone_number_id"]
	if c.network.Name == wecom.Name {
		id = c.values["corp_id"] + "-" + c.values["agent_id"]
	}
	return platforms.HookPath(relay.Bot{Platform: c.network.Name, ID: relay.BotID(id)})
}

// canaries are c's secrets, in every spelling that a program could give them.
func (c caller) canaries() (all []string) {
	secrets := strings.Fields(c.token)
	for _, s := range c.secrets {
		secrets = append(secrets, s)
	}
	for _, s := range slices.Clone(secrets) {
		coded, ok := strings.CutPrefix(s, "whsec_")
		if raw, err := base64.StdEncoding.DecodeString(coded); ok && err == nil {
			secrets = append(secrets, coded, string(raw))
		}
		if raw, err := base64.StdEncoding.DecodeString(s + "="); len(s) == 43 && err == nil {
			secrets = append(secrets, string(raw))
		}
	}
	if sid := c.values["account_sid"]; sid != "" { // as HTTP's basic scheme spells it
		all = append(all, base64.StdEncoding.EncodeToString([]byte(sid+":"+c.token)))
	}
	for _, s := range secrets {
		quoted := strconv.Quote(s)
		all = append(all, s, quoted[1:len(quoted)-1], url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
			base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	return all
}

// texted is Twilio's request.
func texted(c caller, form url.Values) *http.Request {
	var names []string
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	m := hmac.New(sha1.New, []byte(c.token))
	_, _ = io.WriteString(m, ourOrigin+c.path())
	for _, name := range names {
		_, _ = io.WriteString(m, name+form.Get(name))
	}
	r := httptest.NewRequest(http.MethodPost, ourOrigin+c.path(), strings.NewReader(form.Encode()))
	r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(m.Sum(nil)))
	return r
}

// hubbed is Meta's request.
func hubbed(c caller, body string) *http.Request {
	m := hmac.New(sha256.New, []byte(c.secrets["app_secret"]))
	_, _ = io.WriteString(m, body)
	r := httptest.NewRequest(http.MethodPost, ourOrigin+c.path(), strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	return r
}

// encrypted is WeCom's request.
func encrypted(c caller, doc string, at time.Time) *http.Request {
	key, err := base64.StdEncoding.DecodeString(c.secrets["aes_key"] + "=")
	if err != nil {
		panic(err)
	}
	plain := append([]byte("0123456789abcdef"), binary.BigEndian.AppendUint32(nil, uint32(len(doc)))...)
	plain = append(append(plain, doc...), c.values["corp_id"]...)
	pad := 32 - len(plain)%32
	plain = append(plain, bytes.Repeat([]byte{byte(pad)}, pad)...)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	cipher.NewCBCEncrypter(block, key[:aes.BlockSize]).CryptBlocks(plain, plain)
	sealed, seconds := base64.StdEncoding.EncodeToString(plain), strconv.FormatInt(at.Unix(), 10)
	parts := []string{c.secrets["callback_token"], seconds, "17", sealed}
	slices.Sort(parts)
	sum := sha1.Sum([]byte(strings.Join(parts, "")))
	q := url.Values{"msg_signature": {hex.EncodeToString(sum[:])}, "timestamp": {seconds}, "nonce": {"17"}}
	return httptest.NewRequest(http.MethodPost, ourOrigin+c.path()+"?"+q.Encode(), strings.NewReader("<xml><Encrypt>"+sealed+"</Encrypt></xml>"))
}

// standard is the request of a sender of Standard Webhooks, signed with the first line.
func standard(c caller, id, body string, at time.Time) *http.Request {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.Fields(c.token)[0], "whsec_"))
	if err != nil {
		panic(err)
	}
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "%s.%d.%s", id, at.Unix(), body)
	r := httptest.NewRequest(http.MethodPost, ourOrigin+c.path(), strings.NewReader(body))
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	return r
}

// The moods of networks.
const (
	kind     = iota // everything is done
	broken          // the connection breaks, with an error that quotes the request
	refusing        // the network refuses, and quotes the request
	confused        // an error page, which quotes the request
)

// accessToken is what WeCom gives for the application's secret: a secret, too.
const accessToken = "access-token-of-wecom-9f8e7d6c5b4a"

// world are the APIs of all networks.
type world struct {
	mu   sync.Mutex // guards the fields below
	mood int
	sent int
}

func (w *world) is(mood int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mood = mood
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	quoted := fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body)
	_, basic, _ := r.BasicAuth()
	quoted += " " + basic
	out := httptest.NewRecorder()
	token := strings.HasSuffix(r.URL.Path, "/gettoken")
	switch {
	case w.mood == broken:
		return nil, errors.New("broken: " + quoted)
	case w.mood == refusing && r.URL.Host == "qyapi.weixin.qq.com":
		_, _ = fmt.Fprintf(out, `{"errcode":60020,"errmsg":%q}`, "not allowed: "+quoted)
	case w.mood == refusing && r.URL.Host == "graph.facebook.com":
		out.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(out, `{"error":{"code":100,"message":%q}}`, "refused: "+quoted)
	case w.mood == refusing:
		out.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(out, `{"code":21408,"message":%q}`, "refused: "+quoted)
	case w.mood == confused:
		out.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(out, "<html>"+quoted)
	case token:
		_, _ = io.WriteString(out, `{"errcode":0,"access_token":"`+accessToken+`","expires_in":7200}`)
	default:
		if r.Method == http.MethodPost {
			w.sent++
		}
		_, _ = fmt.Fprintf(out, `{"errcode":0,"msgid":"m%[1]d","sid":"SM%[1]d","messages":[{"id":"wamid.ours%[1]d"}]}`, w.sent)
	}
	return out.Result(), nil
}
