package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

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
		for at := range len(v.want) * 8 { // no bit of the signature may change
			b := []byte(v.want)
			b[at/8] ^= 1 << (at % 8)
			if verified(keys, string(b), v.id, v.at, []byte(v.body)) {
				t.Fatalf("bit %d of the signature may change", at)
			}
		}
		for at := range len(v.body) * 8 { // nor of what it covers
			b := []byte(v.body)
			b[at/8] ^= 1 << (at % 8)
			if verified(keys, v.want, v.id, v.at, b) {
				t.Fatalf("bit %d of the body may change", at)
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
