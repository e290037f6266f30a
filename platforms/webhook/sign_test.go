package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const specSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// TestSignatureVectors: the specification's, and one computed by its reference library.
func TestSignatureVectors(t *testing.T) {
	keys, err := keys(relay.NewSecret([]byte(specSecret)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ id, at, body, want string }{
		{"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"msg_doorbell_1", "1767225600", `{"text":"The doorbell rang","user":"door","title":"Doorbell"}`, "v1,/vN94lzi/NWsVP3XZJg2gm6M2plcnqDxwv7WwlHLndg="},
	} {
		if got := signature(keys[0], v.id, v.at, []byte(v.body)); got != v.want {
			t.Errorf("%s: %s, want %s", v.id, got, v.want)
		}
		header := "v1a,abc " + v.want + " v1,c2hvcnQ="
		if !verified(keys, header, v.id, v.at, []byte(v.body)) {
			t.Errorf("%s: not verified", v.id)
		}
		for flipped := range platformtest.Flips(v.want) { // no bit of the signature may change
			if verified(keys, flipped, v.id, v.at, []byte(v.body)) {
				t.Errorf("the signature %q", flipped)
			}
		}
		for flipped := range platformtest.Flips(v.id + "." + v.at + "." + v.body) { // nor of what it covers
			id, rest, _ := strings.Cut(flipped, ".")
			at, body, _ := strings.Cut(rest, ".")
			if isID(id) && verified(keys, v.want, id, at, []byte(body)) {
				t.Errorf("signed: %q", flipped)
			}
		}
	}
}

func TestSecrets(t *testing.T) {
	for text, n := range map[string]int{
		specSecret:                            1,
		specSecret + "\n" + specSecret + "\n": 2,
		"":                                    0,
		"whsec_":                              0,
		"whsec_c2hvcnQ=":                      0,
		"secret":                              0,
		NewSecret().RevealString():            1,
		specSecret + "\nnonsense":             0,
		"whsec_" + strings.Repeat("A", 88):    0, // 66 bytes
	} {
		got, err := keys(relay.NewSecret([]byte(text)))
		if len(got) != n || (err == nil) != (n > 0) {
			t.Errorf("%q: %d keys, %v", text, len(got), err)
		}
		if err != nil && text != "" && len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("%v quotes the secret", err)
		}
	}
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"msg_1": true, "": false, "a.b": false, "a b": false, "ü": false, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "~": true,
	} {
		if isID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

// request is one that somebody with the specification's secret makes at a time.
func request(id string, at time.Time, body string) (h http.Header) {
	keys, _ := keys(relay.NewSecret([]byte(specSecret)))
	seconds := itoa(at.Unix())
	h = make(http.Header)
	h.Set(headerID, id)
	h.Set(headerTime, seconds)
	h.Set(headerSign, signature(keys[0], id, seconds, []byte(body)))
	return h
}

// TestSeveralSecrets: each verifies, and the first signs.
func TestSeveralSecrets(t *testing.T) {
	another := NewSecret().RevealString()
	both, err := keys(relay.NewSecret([]byte(another + "\n" + specSecret + "\n")))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := keys(relay.NewSecret([]byte(another)))
	old, _ := keys(relay.NewSecret([]byte(specSecret)))
	if by := signature(both[0], "a", "1", nil); by != signature(first[0], "a", "1", nil) || !verified(both, by, "a", "1", nil) {
		t.Error("the first does not sign")
	}
	if !verified(both, signature(old[0], "a", "1", nil), "a", "1", nil) || verified(old, signature(first[0], "a", "1", nil), "a", "1", nil) {
		t.Error("the second does not verify, or what is not there does")
	}
}

// FuzzHeaders: no header that a stranger can think of is taken for a signature.
func FuzzHeaders(f *testing.F) {
	f.Add("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", `{"test": 2432232314}`)
	f.Add("a", "1", "v1a,abc v1, v1,c2hvcnQ=", "")
	key, _ := keys(NewSecret())
	f.Fuzz(func(t *testing.T, id, at, header, body string) {
		if verified(key, header, id, at, []byte(body)) {
			t.Fatal("forged")
		}
		if !isID(id) {
			return
		}
		if !verified(key, "v2,x "+signature(key[0], id, at, []byte(body)), id, at, []byte(body)) {
			t.Fatal("not verified")
		}
		if when, a, ok := inbox.Stale(at, time.Now()); ok == (a.Status != 0) || ok && time.Since(when).Abs() > inbox.Fresh+time.Minute {
			t.Errorf("%q: %v, %d", at, when, a.Status)
		}
	})
}

// FuzzKeys: a secret's text makes keys or an error, which does not quote it.
func FuzzKeys(f *testing.F) {
	f.Add(specSecret + "\n" + specSecret)
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := keys(relay.NewSecret([]byte(text)))
		if (len(got) == 0) != (err != nil) {
			t.Fatalf("%d keys, %v", len(got), err)
		}
		for _, k := range got {
			if len(k) < minSecret || len(k) > maxSecret {
				t.Errorf("a key of %d bytes", len(k))
			}
		}
	})
}

// FuzzBody: a body makes an event of this hook's, or an error that a caller may read.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"text":"The doorbell rang","user":"door","title":"Doorbell","chat":"7"}`, `{"type":"a.b","data":{"x":[1,null]}}`, `{"text":"/new"}`, `[]`, `{"text":"\ud800"}`,
	} {
		f.Add([]byte(body))
	}
	p := opened(f, "", nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		ev, err := p.event("msg_1", time.Now(), body)
		if err != nil {
			return
		}
		user, ok := p.DirectUser(ev.Source.ChatID)
		if !ok || user != ev.Source.UserID || ev.Text == "" || !utf8.ValidString(ev.Text+string(ev.Source.ChatID)) || strings.Count(string(user), ":") > 1 {
			t.Errorf("%q: %+v", body, ev)
		}
	})
}

// BenchmarkReceive is verifying and normalising one message: at most 0.5 ms and 64 KiB.
func BenchmarkReceive(b *testing.B) {
	p, body := opened(b, "", nil), []byte(`{"text":"The doorbell rang","user":"door","title":"Doorbell"}`)
	b.ReportAllocs()
	for b.Loop() {
		ok := verified(p.keys, "v1,/vN94lzi/NWsVP3XZJg2gm6M2plcnqDxwv7WwlHLndg=", "msg_doorbell_1", "1767225600", body)
		if _, err := p.event("msg_doorbell_1", time.Now(), body); !ok || err != nil {
			b.Fatal("not received")
		}
	}
}
