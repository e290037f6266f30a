package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fakeCDN is where files are, and the API beside it: as a transport, by URL. An error is one of the connection.
type fakeCDN struct {
	files map[string]func() (*http.Response, error)
	api   *fakeREST
	asked []string
}

func (f *fakeCDN) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "discord.com" {
		return f.api.RoundTrip(r)
	}
	if r.Header.Get("Authorization") != "" || r.Header.Get("Accept-Encoding") != "identity" {
		return nil, fmt.Errorf("headers %v", r.Header)
	}
	f.asked = append(f.asked, r.URL.String())
	answer, ok := f.files[r.URL.String()]
	if !ok {
		answer = statusCode(http.StatusNotFound)
	}
	resp, err := answer()
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

func statusCode(code int) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}, nil
	}
}

func holds(content string, length int64) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: length, Body: io.NopCloser(strings.NewReader(content))}, nil
	}
}

func leads(to string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: 302, Header: http.Header{"Location": {to}}, Body: http.NoBody}, nil
	}
}

// broken is a file that ends with an error.
func broken() func() (*http.Response, error) {
	return func() (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: 9, Body: io.NopCloser(io.MultiReader(strings.NewReader("cob"), failingReader{}))}, nil
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// The addresses of a file; the query of each must not show up anywhere.
const (
	hmCanary = "hm=CANARY"
	oldURL   = "https://cdn.discordapp.com/attachments/42/6/glaze.txt?ex=ffffffff&" + hmCanary
	pastURL  = "https://cdn.discordapp.com/attachments/42/6/glaze.txt?ex=386d4380&" + hmCanary // 1 January 2000, when bubbles begin
	freshURL = "https://cdn.discordapp.com/attachments/42/6/glaze.txt?ex=fffffffe&" + hmCanary
	awayURL  = "https://files.example.net/glaze.txt?" + hmCanary
)

func TestFetchMedia(t *testing.T) {
	const message = "GET /channels/42/messages/:id"
	inMessage := func(url string) func(restCall) (int, any) {
		return func(restCall) (int, any) {
			return 200, obj{"id": "5", "channel_id": "42", "attachments": []obj{{"id": "6", "url": url}}}
		}
	}
	forwarded := func(restCall) (int, any) {
		return 200, obj{"id": "5", "message_snapshots": []obj{{"message": obj{"attachments": []obj{{"id": "6", "url": freshURL}}}}}}
	}
	fresh := map[string]func() (*http.Response, error){freshURL: holds("cobalt", 6)}
	for name, tc := range map[string]struct {
		ref     fileRef
		size    int64
		files   map[string]func() (*http.Response, error)
		message func(restCall) (int, any)
		faults  []restFault
		cdn     string

		content string
		state   relay.MediaState // of a failure for good
		why     string
		failed  bool // for now
		reads   int  // of the message
		asked   []string
	}{
		"there":                         {files: map[string]func() (*http.Response, error){oldURL: holds("cobalt", 6)}, content: "cobalt", asked: []string{oldURL}},
		"a fresh URL on 404":            {files: fresh, message: inMessage(freshURL), content: "cobalt", reads: 1, asked: []string{oldURL, freshURL}},
		"on 403":                        {files: map[string]func() (*http.Response, error){oldURL: statusCode(403), freshURL: holds("cobalt", 6)}, message: inMessage(freshURL), content: "cobalt", reads: 1, asked: []string{oldURL, freshURL}},
		"without a try once it expired": {ref: fileRef{URL: pastURL}, files: fresh, message: inMessage(freshURL), content: "cobalt", reads: 1, asked: []string{freshURL}},
		"of a forwarded message":        {files: fresh, message: forwarded, content: "cobalt", reads: 1, asked: []string{oldURL, freshURL}},
		"the fresh one is gone too":     {message: inMessage(freshURL), state: relay.MediaGone, why: whyGone, reads: 1, asked: []string{oldURL, freshURL}},
		"the file was taken out": {
			message: func(restCall) (int, any) {
				return 200, obj{"id": "5", "attachments": []obj{{"id": "7", "url": freshURL}}}
			},
			state: relay.MediaGone, why: whyGone, reads: 1, asked: []string{oldURL},
		},
		"the message is gone":        {faults: []restFault{{status: 404, code: 10008, words: "Unknown Message"}}, state: relay.MediaGone, why: whyGone, reads: 1, asked: []string{oldURL}},
		"or not for the bot":         {faults: []restFault{{status: 403, code: 50001, words: "Missing Access"}}, state: relay.MediaGone, why: whyGone, reads: 1, asked: []string{oldURL}},
		"the API is broken":          {faults: []restFault{{status: 503}}, failed: true, reads: 1, asked: []string{oldURL}},
		"a sticker is in no message": {ref: fileRef{URL: "https://media.discordapp.net/stickers/9.gif"}, state: relay.MediaGone, why: whyGone, asked: []string{"https://media.discordapp.net/stickers/9.gif"}},
		"too large by its message":   {size: 25<<20 + 1, state: relay.MediaTooLarge, why: platforms.WhyTooLarge},
		"just not too large":         {size: 25 << 20, files: map[string]func() (*http.Response, error){oldURL: holds("cobalt", 25<<20)}, content: "cobalt", asked: []string{oldURL}},
		"too large by its length":    {files: map[string]func() (*http.Response, error){oldURL: holds("c", 25<<20+1)}, state: relay.MediaTooLarge, why: platforms.WhyTooLarge, asked: []string{oldURL}},
		"too large when it is read": {
			files: map[string]func() (*http.Response, error){oldURL: holds(strings.Repeat("c", 25<<20+1), -1)},
			state: relay.MediaTooLarge, why: platforms.WhyTooLarge, asked: []string{oldURL},
		},
		"the server is broken":    {files: map[string]func() (*http.Response, error){oldURL: statusCode(502)}, failed: true, asked: []string{oldURL}},
		"and busy":                {files: map[string]func() (*http.Response, error){oldURL: statusCode(429)}, failed: true, asked: []string{oldURL}},
		"or wants something else": {files: map[string]func() (*http.Response, error){oldURL: statusCode(415)}, state: relay.MediaGone, why: whyGone, asked: []string{oldURL}},
		"no connection": {
			files:  map[string]func() (*http.Response, error){oldURL: func() (*http.Response, error) { return nil, errors.New("connection refused") }},
			failed: true, asked: []string{oldURL},
		},
		"a connection that breaks": {files: map[string]func() (*http.Response, error){oldURL: broken()}, failed: true, asked: []string{oldURL}},
		"elsewhere":                {ref: fileRef{URL: awayURL}, state: relay.MediaGone, why: whyGone},
		"without TLS":              {ref: fileRef{URL: "http://cdn.discordapp.com/a?" + hmCanary}, state: relay.MediaGone, why: whyGone},
		"on another port":          {ref: fileRef{URL: "https://cdn.discordapp.com:8443/a?" + hmCanary}, state: relay.MediaGone, why: whyGone},
		"a name that looks alike":  {ref: fileRef{URL: "https://cdn.discordapp.com.example.net/a?" + hmCanary}, state: relay.MediaGone, why: whyGone},
		"with a user's name":       {ref: fileRef{URL: "https://me@cdn.discordapp.com/a?" + hmCanary}, state: relay.MediaGone, why: whyGone},
		"a fresh URL elsewhere":    {message: inMessage(awayURL), state: relay.MediaGone, why: whyGone, reads: 1, asked: []string{oldURL}},
		"a redirect to elsewhere":  {files: map[string]func() (*http.Response, error){oldURL: leads(awayURL)}, state: relay.MediaGone, why: whyGone, asked: []string{oldURL}},
		"a redirect within Discord": {
			files:   map[string]func() (*http.Response, error){oldURL: leads("https://media.discordapp.net/x"), "https://media.discordapp.net/x": holds("cobalt", 6)},
			content: "cobalt", asked: []string{oldURL, "https://media.discordapp.net/x"},
		},
		"a redirect to itself": {
			files: map[string]func() (*http.Response, error){oldURL: leads(oldURL)}, state: relay.MediaGone, why: whyGone,
			asked: []string{oldURL, oldURL, oldURL, oldURL},
		},
		"the operator's own": {
			ref: fileRef{URL: "http://127.0.0.1:8082/a"}, cdn: "http://127.0.0.1:8082/", content: "cobalt",
			files: map[string]func() (*http.Response, error){"http://127.0.0.1:8082/a": holds("cobalt", 6)}, asked: []string{"http://127.0.0.1:8082/a"},
		},
		"not the operator's": {ref: fileRef{URL: "http://127.0.0.1:8083/a?" + hmCanary}, cdn: "http://127.0.0.1:8082", state: relay.MediaGone, why: whyGone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newFakeREST()
				cdn := &fakeCDN{files: tc.files, api: api}
				var log platformtest.Log
				p, err := open(platforms.Options{
					Token: relay.NewSecret([]byte(testToken)), Transport: cdn, Log: log.Logger(), Values: map[string]string{keyCDN: tc.cdn},
				})
				if err != nil {
					t.Fatal(err)
				}
				if tc.message != nil {
					api.answer(message, tc.message)
				}
				api.fail(message, tc.faults...)
				ref := tc.ref
				if ref.URL == "" {
					ref.URL = oldURL
				}
				if tc.ref.URL == "" || tc.ref.URL == pastURL {
					ref.Channel, ref.Message, ref.ID = 42, 5, "6"
				}
				content, err := fetch(t.Context(), p, relay.Attachment{Ref: ref.String(), Size: tc.size})
				var me *platforms.MediaError
				switch {
				case errors.As(err, &me) != (tc.state != ""), me != nil && (me.State != tc.state || me.Why != tc.why):
					t.Errorf("error is %#v", err)
				case (err != nil) != (tc.failed || tc.state != ""):
					t.Errorf("error is %v", err)
				case err == nil && content != tc.content:
					t.Errorf("content is %q", content)
				}
				if err != nil && strings.Contains(err.Error()+log.String(), "CANARY") {
					t.Errorf("the URL is in %q or the log", err)
				}
				if got := len(api.callsTo("GET", "/channels/42/messages/5")); got != tc.reads {
					t.Errorf("the message was read %d times, want %d", got, tc.reads)
				}
				if diff := cmp.Diff(tc.asked, cdn.asked); diff != "" {
					t.Errorf("files asked for (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// fetch is the whole file of a.
func fetch(ctx context.Context, p *Bot, a relay.Attachment) (string, error) {
	body, err := p.FetchMedia(ctx, a)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(body)
	return string(raw), errors.Join(err, body.Close())
}

func TestFetchMediaOfNoReference(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		for _, ref := range []string{"", "x", "{}", "[]", `{"u":""}`} {
			_, err := p.FetchMedia(ctx, relay.Attachment{Ref: ref})
			var me *platforms.MediaError
			if !errors.As(err, &me) || me.State != relay.MediaGone {
				t.Errorf("FetchMedia(%q) = %v", ref, err)
			}
		}
		if len(f.paths()) != 0 {
			t.Errorf("requests %q", f.paths())
		}
	})
}

func TestPublicURL(t *testing.T) {
	onREST(t, func(t *testing.T, _ context.Context, _ *fakeREST, p *Bot) {
		soon := fmt.Sprintf("https://cdn.discordapp.com/a.png?ex=%x", time.Now().Add(soonExpired-time.Second).Unix())
		for name, tc := range map[string]struct {
			a    relay.Attachment
			want string
		}{
			"a picture":      {relay.Attachment{Kind: relay.TypePhoto, Ref: fileRef{URL: oldURL}.String()}, oldURL},
			"a sticker":      {relay.Attachment{Kind: relay.TypeSticker, Ref: fileRef{URL: "https://cdn.discordapp.com/stickers/9.png"}.String()}, "https://cdn.discordapp.com/stickers/9.png"},
			"a document":     {relay.Attachment{Kind: relay.TypeDocument, Ref: fileRef{URL: oldURL}.String()}, ""},
			"expired":        {relay.Attachment{Kind: relay.TypePhoto, Ref: fileRef{URL: pastURL}.String()}, ""},
			"nearly expired": {relay.Attachment{Kind: relay.TypePhoto, Ref: fileRef{URL: soon}.String()}, ""},
			"elsewhere":      {relay.Attachment{Kind: relay.TypePhoto, Ref: fileRef{URL: awayURL}.String()}, ""},
			"no reference":   {relay.Attachment{Kind: relay.TypePhoto}, ""},
		} {
			if got, ok := p.PublicURL(tc.a); got != tc.want || ok != (tc.want != "") {
				t.Errorf("%s: %q, %v", name, got, ok)
			}
		}
	})
}

func TestCDNKey(t *testing.T) {
	for value, ok := range map[string]bool{
		"": true, "http://127.0.0.1:8082": true, "https://files.example.net/cdn/": true,
		"files.example.net": false, "ftp://x": false, "http://": false, "http://me@x": false, "http://x?y": false, "http://x#y": false,
	} {
		if err := cdnKey().Check(value); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
