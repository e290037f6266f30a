package sms

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

const ourBody = "AccountSid=AC00000000000000000000000000000001&ApiVersion=2010-04-01&Body=Gr%C3%BC%C3%9Fe+%F0%9F%91%8B+%26+more&From=%2B4915112345678&MessageSid=SM00000000000000000000000000000001&NumMedia=0&NumSegments=1&SmsMessageSid=SM00000000000000000000000000000001&SmsSid=SM00000000000000000000000000000001&SmsStatus=received&To=%2B15005550006"

const (
	ourToken  = "0123456789abcdef0123456789abcdef"
	ourOrigin = "https://relay.example.net"
	ourPath   = "/webhooks/sms/15005550006"
)

// TestSignatureVectors: Twilio's own, and some that its library computed. No bit of a signature may change, and none
// of what it covers.
func TestSignatureVectors(t *testing.T) {
	const sum = "?bodySHA256=1a59e522e02ce50ad2c27c11a6d30f8667489c199580627fe9e3e33e2b0e91d5"
	theirs := "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"
	for name, v := range map[string]struct{ token, origin, target, body, want string }{
		"Twilio's":         {"12345", "https://mycompany.com", "/myapp.php?foo=1&bar=2", theirs, "RSOYDt4T1cUTdK1PDd93/VVr8B8="},
		"ours":             {ourToken, ourOrigin, ourPath, ourBody, "peOd5KyDpMdhssmRlZcdIXsxpoA="},
		"with the port":    {ourToken, ourOrigin, ourPath, ourBody, "+YPcWNFJFpZfwWCqNebtSpFJGGo="},
		"repeated names":   {ourToken, ourOrigin, ourPath, ourBody + "&Extra=b&Extra=a&Extra=b", "JELR7OnrGqOh43UtQsJvI8loTlg="},
		"an empty one":     {ourToken, ourOrigin, ourPath, strings.Replace(ourBody, "Gr%C3%BC%C3%9Fe+%F0%9F%91%8B+%26+more", "", 1), "pVlHQ4zYWpvo9mRmkgNsOWgPJWE="},
		"a query":          {ourToken, ourOrigin, ourPath + "?a=it's%20b&c=%2B", ourBody, "AbIaKP9uIKt5nIBNSjc6z+LpG9s="},
		"JSON and its sum": {ourToken, ourOrigin, ourPath + sum, `{"a":1,"b":"ü"}`, "I0CIS643LnUOXlj+pPfnAJx4abk="},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(target, signature, body string) bool {
				_, ok := verified([]byte(v.token), signature, spellings(v.origin), target, []byte(body))
				return ok
			}
			if !check(v.target, v.want, v.body) {
				t.Fatal("not verified")
			}
			for flipped := range platformtest.Flips(v.want) {
				if check(v.target, flipped, v.body) {
					t.Errorf("the signature %q", flipped)
				}
			}
			for flipped := range platformtest.Flips(v.target) {
				if check(flipped, v.want, v.body) {
					t.Errorf("the target %q", flipped)
				}
			}
			for flipped := range platformtest.Flips(v.body) {
				before, _ := url.ParseQuery(v.body)
				after, err := url.ParseQuery(flipped)
				same := err == nil && before.Encode() == after.Encode() && v.body[0] != '{' // %2b and %2B are one
				if check(v.target, v.want, flipped) != same {
					t.Errorf("the body %q", flipped)
				}
			}
		})
	}
}

func TestSpellings(t *testing.T) {
	for origin, other := range map[string]string{
		"https://relay.example.net":         "https://relay.example.net:443",
		"https://relay.example.net:443":     "https://relay.example.net",
		"https://relay.example.net:8443/at": "https://relay.example.net/at",
		"http://127.0.0.1:8080":             "http://127.0.0.1",
		"http://[::1]":                      "http://[::1]:80",
	} {
		if got := spellings(origin); len(got) != 2 || got[0] != origin || got[1] != other {
			t.Errorf("%s: %q", origin, got)
		}
	}
}

// TestWhatIsNotCovered: neither what cannot be read as a parameter nor an id that was made longer by what Twilio
// signed as a parameter of its own.
func TestWhatIsNotCovered(t *testing.T) {
	sign := "peOd5KyDpMdhssmRlZcdIXsxpoA="
	if _, ok := verified([]byte(ourToken), sign, []string{ourOrigin}, ourPath, []byte(ourBody+"&a;b=1")); ok {
		t.Error("a parameter that cannot be read")
	}
	p := opened(t, &twilio{}, ourNumber, ourToken)
	longer := strings.Replace(ourBody, "&NumMedia=0", "NumMedia0", 1)
	form, ok := verified([]byte(ourToken), sign, []string{ourOrigin}, ourPath, []byte(longer))
	if !ok || len(form.Get("MessageSid")) <= sidLen {
		t.Fatalf("%t %v", ok, form)
	}
	if ev, ok := p.event(form, time.Now()); ok {
		t.Errorf("a new id for an old message: %s", ev.ID)
	}
}

// FuzzForm: what a stranger posts is refused, and what Twilio signs makes an event with an id and an author, or none.
func FuzzForm(f *testing.F) {
	f.Add(ourBody, "")
	f.Add(ourBody+"&Extra=b&Extra=a&Extra=b&Latitude=1&Longitude=2&MediaContentType0=image/png", "?a=it's%20b&c=%2B")
	f.Add(`{"a":1}`, "?bodySHA256=00")
	f.Fuzz(func(t *testing.T, body, query string) {
		p := opened(t, &twilio{}, ourNumber, ourToken)
		form, ok := verified(p.token.Reveal(), "peOd5KyDpMdhssmRlZcdIXsxpoA=", p.origins, ourPath+query, []byte(body))
		if params, _ := url.ParseQuery(ourBody); ok && (query != "" || signature(nil, "", form) != signature(nil, "", params)) {
			t.Fatalf("verified: %q %q", query, body)
		}
		form, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		sign := signature(p.token.Reveal(), ourOrigin+ourPath, form)
		got, ok := verified(p.token.Reveal(), sign, p.origins, ourPath, []byte(body))
		if !ok || got.Encode() != form.Encode() {
			t.Fatalf("not verified: %q", body)
		}
		if ev, ok := p.event(got, time.Now()); ok && (ev.ID == "" || ev.Source.UserID == "" || ev.Type == "") {
			t.Errorf("%q: %+v", body, ev)
		}
	})
}

// BenchmarkReceive is verifying and normalising one message: at most 0.5 ms and 64 KiB.
func BenchmarkReceive(b *testing.B) {
	p := opened(b, &twilio{}, ourNumber, ourToken)
	b.ReportAllocs()
	for b.Loop() {
		form, ok := verified(p.token.Reveal(), "peOd5KyDpMdhssmRlZcdIXsxpoA=", p.origins, ourPath, []byte(ourBody))
		if _, made := p.event(form, time.Now()); !ok || !made {
			b.Fatal("not received")
		}
	}
}
