package sms

import (
	"net/url"
	"testing"
)

const ourBody = "AccountSid=AC00000000000000000000000000000001&ApiVersion=2010-04-01&Body=Gr%C3%BC%C3%9Fe+%F0%9F%91%8B+%26+more&From=%2B4915112345678&MessageSid=SM00000000000000000000000000000001&NumMedia=0&NumSegments=1&SmsMessageSid=SM00000000000000000000000000000001&SmsSid=SM00000000000000000000000000000001&SmsStatus=received&To=%2B15005550006"

const (
	ourToken   = "0123456789abcdef0123456789abcdef"
	ourAddress = "https://relay.example.net/webhooks/sms/15005550006"
)

// TestSignatureVectors: Twilio's own, and some that its library computed.
func TestSignatureVectors(t *testing.T) {
	for name, v := range map[string]struct{ token, address, body, want string }{
		"Twilio's": {
			"12345", "https://mycompany.com/myapp.php?foo=1&bar=2",
			"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212", "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
		},
		"ours":             {ourToken, ourAddress, ourBody, "peOd5KyDpMdhssmRlZcdIXsxpoA="},
		"with the port":    {ourToken, ourAddress, ourBody, "+YPcWNFJFpZfwWCqNebtSpFJGGo="},
		"repeated names":   {ourToken, ourAddress, ourBody + "&Extra=b&Extra=a&Extra=b", "JELR7OnrGqOh43UtQsJvI8loTlg="},
		"a query":          {ourToken, ourAddress + "?a=it's%20b&c=%2B", ourBody, "AbIaKP9uIKt5nIBNSjc6z+LpG9s="},
		"JSON and its sum": {ourToken, ourAddress + "?bodySHA256=1a59e522e02ce50ad2c27c11a6d30f8667489c199580627fe9e3e33e2b0e91d5", `{"a":1,"b":"ü"}`, "I0CIS643LnUOXlj+pPfnAJx4abk="},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(v.address)
			if err != nil {
				t.Fatal(err)
			}
			check := func(signature, body string) bool {
				form, _ := url.ParseQuery(body)
				return verified([]byte(v.token), signature, u, []byte(body), form)
			}
			if !check(v.want, v.body) {
				t.Fatal("not verified")
			}
			for at := range len(v.want) * 8 {
				b := []byte(v.want)
				b[at/8] ^= 1 << (at % 8)
				if check(string(b), v.body) {
					t.Fatalf("bit %d of the signature may change", at)
				}
			}
			for at := range len(v.body) * 8 {
				b := []byte(v.body)
				b[at/8] ^= 1 << (at % 8)
				before, _ := url.ParseQuery(v.body)
				after, _ := url.ParseQuery(string(b))
				if before.Encode() != after.Encode() && check(v.want, string(b)) { // %2b and %2B are one
					t.Fatalf("bit %d of the body may change: %s", at, b)
				}
			}
		})
	}
	u, _ := url.Parse(ourAddress)
	form, _ := url.ParseQuery(ourBody)
	form.Set("Body", "")
	if !verified([]byte(ourToken), "pVlHQ4zYWpvo9mRmkgNsOWgPJWE=", u, nil, form) {
		t.Error("an empty parameter")
	}
}
