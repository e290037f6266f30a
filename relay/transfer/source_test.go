package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/media"
)

// elsewhere is a server on 127.0.0.1, which the rig's guard opens.
type elsewhere struct {
	*httptest.Server
	requests atomic.Int32
}

func newElsewhere(t *testing.T, handle http.HandlerFunc) *elsewhere {
	t.Helper()
	s := &elsewhere{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// at is the server's address under another host.
func (s *elsewhere) at(host string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	return "http://" + host + ":" + port
}

// seeker is a finder over a rig's drawer. 127.0.0.1 is open to it, and connector.example is ours.
func (r *rig) seeker(change ...func(*guard.Options)) *Finder {
	o := guard.Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Body: media.MaxFile,
		OwnHosts: []string{"connector.example", "192.0.2.80:8787"}, Own: []uint16{8787},
	}
	for _, c := range change {
		c(&o)
	}
	return NewFinder(r.drawer, guard.New(o), r.count)
}

// source asks for a file and reads it.
func source(t *testing.T, f *Finder, i relay.InstanceID, address, name string) (relay.File, string, error) {
	t.Helper()
	file, done, err := f.Source(t.Context(), i, address, name)
	defer done()
	if err != nil {
		ae := relay.Explain(err)
		if ae.Outcome != relay.NotSent || strings.Contains(ae.Error(), "canary") {
			t.Errorf("error %q, outcome %v", ae.Error(), ae.Outcome)
		}
		for _, steers := range []string{"timed out", "network", "flood", "retry"} {
			if strings.Contains(strings.ToLower(ae.Public), steers) {
				t.Errorf("%q steers the gateway", ae.Public)
			}
		}
		return file, "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(file.Content, 0, file.Size))
	if err != nil {
		t.Error(err)
	}
	return file, string(b), nil
}

// TestOurOwnFilesAreNotAskedFor: a file's path is that file, whatever host a gateway dialled.
func TestOurOwnFilesAreNotAskedFor(t *testing.T) { // invariant 4
	r := newRig(t)
	id := string(r.put("home", "picture.png", jpeg))
	f := r.seeker()
	asked := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) { http.Error(w, "canary", http.StatusUnauthorized) })
	for name, tc := range map[string]struct {
		as, address, want string // empty: it is found
	}{
		"by our name":                   {"home", "https://connector.example/relay/media/" + id, ""},
		"by any name":                   {"home", "http://relay.lan:1234/relay/media/" + id, ""},
		"by an address that is blocked": {"home", "http://10.0.0.1/relay/media/" + id, ""},
		"below a proxy's prefix":        {"home", "https://proxy.example/hermes/relay/media/" + id, ""},
		"with a query":                  {"home", "https://connector.example/relay/media/" + id + "?canary", ""},
		"with a fragment":               {"home", "https://connector.example/relay/media/" + id + "#canary", ""},
		"another's":                     {"away", "https://connector.example/relay/media/" + id, "media not found or expired"},
		"another's, by its address":     {"away", "http://192.0.2.80:8787/relay/media/" + id, "media not found or expired"},
		"another's, by a blocked name":  {"away", "http://127.0.0.7:8787/relay/media/" + id, "media not found or expired"},
		"another's, by any name":        {"away", asked.URL + "/relay/media/" + id, "media not fetched: HTTP 401"},
		"expired":                       {"home", "https://connector.example/relay/media/" + strings.Repeat("0", 32), "media not found or expired"},
		"another path of ours":          {"home", "https://connector.example/healthz", "media not found or expired"},
		"our root":                      {"home", "https://connector.example", "media not found or expired"},
		"another port of our name":      {"home", "http://connector.example:9119/x", "media not found or expired"},
		"encoded":                       {"home", "https://connector.example/relay/media/%" + "61" + id[1:], "media not found or expired"},
		"capitals":                      {"home", "https://CONNECTOR.example/relay/media/" + strings.ToUpper(id), "media not found or expired"},
	} {
		t.Run(name, func(t *testing.T) {
			file, got, err := source(t, f, relay.InstanceID(tc.as), tc.address, "")
			if tc.want == "" && (err != nil || got != string(jpeg) || file.Name != "picture.jpg") {
				t.Errorf("%q %q, %v", file.Name, got, err)
			}
			if tc.want != "" && (err == nil || relay.Explain(err).Public != tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if n := asked.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestTheNameOfAFile: what the gateway says, else what it is called where it is; the extension is that of its bytes.
func TestTheNameOfAFile(t *testing.T) {
	r := newRig(t)
	f := r.seeker()
	id := string(r.put("home", "picture.png", jpeg))
	s := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) { _, _ = w.Write(jpeg) })
	for _, tc := range []struct{ address, name, want string }{
		{"http://h.example/relay/media/" + id, "", "picture.jpg"},
		{"http://h.example/relay/media/" + id, "Grüße.png", "Grüße.jpg"},
		{"http://h.example/relay/media/" + id, "../../etc/passwd", "passwd.jpg"},
		{s.URL + "/a/cat.gif?token=canary", "", "cat.jpg"},
		{s.URL + "/a/..%2f..%2fcat.jpg", "", "cat.jpg"},
		{s.URL + "/a/cat.jpg", "dog.jpg", "dog.jpg"},
		{s.URL, "", "photo.jpg"},
	} {
		file, got, err := source(t, f, "home", tc.address, tc.name)
		if err != nil || got != string(jpeg) || file.Name != tc.want || file.Format != relay.FormatJPEG || file.Size != int64(len(jpeg)) {
			t.Errorf("%s as %q: %+v, %v, want %q", tc.address, tc.name, file, err, tc.want)
		}
	}
}

// corpus are addresses behind which nothing is fetched: this machine's and its network's, the clouds' services, other
// protocols, and spellings that two programs read differently. PORT is that of a server which counts its requests.
var corpus = strings.Fields(`
	http://127.0.0.2:PORT/ http://localhost:PORT/ http://LOCALHOST:PORT/ http://localhost.:PORT/ http://a.localhost:PORT/
	http://[::1]:PORT/ http://[::ffff:127.0.0.2]:PORT/ http://[::127.0.0.2]:PORT/ http://[0:0:0:0:0:ffff:7f00:2]:PORT/
	http://2130706434:PORT/ http://0x7f000002:PORT/ http://0177.0.0.2:PORT/ http://127.2:PORT/ http://127.0.2:PORT/ http://0x7f.0.0.2:PORT/
	http://0:PORT/ http://0.0.0.0:PORT/ http://[::]:PORT/ http://[64:ff9b::7f00:2]:PORT/ http://[2002:7f00:2::]:PORT/
	http://127.0.0.2:PORT#@public.example/ http://public.example@127.0.0.2:PORT/ http://u:p@127.0.0.1:PORT/ http://127.0.0.2:PORT\@public.example/
	http://①②⑦.⓪.⓪.②:PORT/ http://127。0。0。2:PORT/ http://127.0.0.2%00.public.example:PORT/ http://%31%32%37.0.0.2:PORT/
	http://10.0.0.1/ http://172.16.0.1/ http://192.168.1.1/ http://100.64.0.1/ http://[fd00::1]/ http://[fe80::1]/ http://[fe80::1%25eth0]/
	http://169.254.169.254/latest/meta-data/ http://[fd00:ec2::254]/ http://metadata.google.internal/ http://100.100.100.200/ http://168.63.129.16/
	http://[::ffff:169.254.169.254]/ http://2852039166/ http://instance-data/ http://224.0.0.1/ http://255.255.255.255/ http://198.18.0.1/
	http://8.8.8.8:22/ http://8.8.8.8:25/ http://8.8.8.8:6379/ http://8.8.8.8:0/ http://8.8.8.8:65536/ http://8.8.8.8:/
	file:///etc/passwd ftp://127.0.0.1:PORT/ gopher://127.0.0.1:PORT/_x dict://127.0.0.1:PORT/ ldap://127.0.0.1:PORT/ data:text/plain,canary
	jar:http://127.0.0.1:PORT/ ws://127.0.0.1:PORT/ unix:///run/canary.sock //127.0.0.1:PORT/ /etc/passwd ../x canary http: http:// http:///x
	http:127.0.0.1:PORT/ http://:PORT/ HTTP://127.0.0.2:PORT/ http://127.0.0.1:PORT,127.0.0.2/ javascript:alert(1) http://[::1 http://%zz/
`)

// TestNothingIsFetchedFromWithin: neither directly nor behind a redirect.
func TestNothingIsFetchedFromWithin(t *testing.T) { // invariant 4
	r := newRig(t)
	f := r.seeker()
	target := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) { _, _ = w.Write(jpeg) })
	port := target.at("")[len("http://:"):]
	if _, got, err := source(t, f, "home", target.URL, ""); err != nil || got != string(jpeg) {
		t.Fatalf("what is open: %v", err)
	}
	var to string
	hop := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
	for _, address := range append(corpus, "", " ", "http://127.0.0.2:PORT/\r\nHost: x", "http://127.0.0.1:PORT/a\tb", "http://127.0.0.1:PORT/"+strings.Repeat("x", 3000)) {
		address = strings.ReplaceAll(address, "PORT", port)
		if _, _, err := source(t, f, "home", address, ""); err == nil {
			t.Errorf("%q was fetched", address)
		}
		// Behind a redirect an address may be relative to the one before: such a one leads back there.
		if u, err := url.Parse(address); err != nil || u.Scheme == "" && u.Host == "" || strings.HasPrefix(address, "//127.0.0.1") {
			continue
		}
		to = address
		if _, _, err := source(t, f, "home", hop.URL, ""); err == nil {
			t.Errorf("%q was fetched behind a redirect", address)
		}
	}
	if n := target.requests.Load(); n != 1 {
		t.Errorf("%d requests arrived", n-1)
	}
	r.quiet(t, "canary")
}

// TestRedirects: three are followed, each judged, none from https to http, and none is told where the last came from.
func TestRedirects(t *testing.T) { // invariant 4
	r := newRig(t)
	f := r.seeker()
	var told []string
	s := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) {
		told = append(told, q.Header.Get("Referer")+q.Header.Get("Authorization")+q.Header.Get("Cookie"))
		var left int
		_, _ = fmt.Sscanf(q.URL.Path, "/%d", &left)
		if left == 0 {
			_, _ = w.Write(jpeg)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, q, fmt.Sprintf("/%d?canary#canary", left-1), http.StatusTemporaryRedirect)
	})
	for left, want := range []string{"", "", "", "", "media not fetched: too many redirects"} {
		_, got, err := source(t, f, "home", fmt.Sprintf("%s/%d?canary", s.URL, left), "")
		if want == "" && (err != nil || got != string(jpeg)) || want != "" && (err == nil || relay.Explain(err).Public != want) {
			t.Errorf("%d redirects: %v, want %q", left, err, want)
		}
	}
	if slices.ContainsFunc(told, func(s string) bool { return s != "" }) || len(told) != 1+2+3+4+4 {
		t.Errorf("the server was told %q", told)
	}
	secure, plain := &http.Request{URL: &url.URL{Scheme: "https"}}, &http.Request{URL: &url.URL{Scheme: "http"}, Header: http.Header{}}
	if err := redirect(plain, []*http.Request{plain, secure}); err != errDowngrade {
		t.Errorf("from https to http: %v", err)
	}
	if err := redirect(plain, []*http.Request{plain}); err != nil {
		t.Errorf("from http to http: %v", err)
	}
}

// TestWhatCannotBeFetched: in words that say why, and no more.
func TestWhatCannotBeFetched(t *testing.T) {
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"a 404":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", 404) }, "HTTP 404"},
		"in part": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206) }, "HTTP 206"},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "HTTP 204"},
		"empty":   {func(w http.ResponseWriter, _ *http.Request) {}, "it is empty"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(jpeg)
		}, "it comes encoded"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "26214401") }, tooLarge},
		"endless":   {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, tooLarge},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("canary"))
		}, "no answer"},
		"no HTTP":     {raw("canary\r\n\r\n"), "no answer"},
		"a long head": {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("canary", 10_000) + "\r\n\r\n"), "no answer"},
		"no location": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(302) }, "HTTP 302"},
		"an identity": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "identity")
			_, _ = w.Write(jpeg)
		}, ""},
		"the largest":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, media.MaxFile)) }, ""},
		"a new socket": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Upgrade", "x"); w.WriteHeader(426) }, "HTTP 426"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s := newElsewhere(t, func(w http.ResponseWriter, q *http.Request) {
				if e := q.Header["Accept-Encoding"]; !slices.Equal(e, []string{"identity"}) {
					t.Errorf("asked for the encodings %q", e)
				}
				tc.serve(w, q)
			})
			_, _, err := source(t, r.seeker(), "home", s.URL+"/canary?canary", "")
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || relay.Explain(err).Public != "media not fetched: "+tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if left, _ := os.ReadDir(r.dir); len(left) != 0 {
				t.Errorf("%d files are left", len(left))
			}
		})
	}
	r := newRig(t)
	for address, want := range map[string]string{
		"http://canary.invalid/":      "its host is not known",
		"http://127.0.0.1:1/canary":   "no answer",
		"http://10.1.2.3/canary":      "its address is not open to gateways",
		"https://1.1.1.1:6379/canary": "its address is not open to gateways",
	} {
		if _, _, err := source(t, r.seeker(), "home", address, ""); err == nil || relay.Explain(err).Public != "media not fetched: "+want {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if r.counted["media_blocked"] != 2 || r.counted["media_sourced"] != 0 {
		t.Errorf("counted %v", r.counted)
	}
}

// endless writes more than a file may have, of no declared length.
func endless(w io.Writer) {
	for range 26 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
}

// raw answers with bytes that may be no HTTP.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, answer)
	}
}

// hanging answers, and then brings nothing, or does not even answer.
type hanging struct{ answers bool }

func (h hanging) RoundTrip(q *http.Request) (*http.Response, error) {
	if h.answers {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Request: q, Body: io.NopCloser(waiting{q.Context()})}, nil
	}
	<-q.Context().Done()
	return nil, q.Context().Err()
}

type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// TestAFetchHasTenSeconds, or less if its action has.
func TestAFetchHasTenSeconds(t *testing.T) {
	for _, answers := range []bool{false, true} {
		for _, left := range []time.Duration{time.Minute, 3 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				f := r.seeker()
				f.client.Transport = hanging{answers}
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				began := time.Now()
				_, done, err := f.Source(ctx, "home", "http://h.example/canary", "")
				done()
				if took := time.Since(began); took != min(left, fetchTime) || relay.Explain(err).Public != "media not fetched: it did not come within 10s" {
					t.Errorf("%v after %v", err, took)
				}
			})
		}
	}
}

// TestFetchesOfANeighbour: one tenant's four gateways fetch from servers that bring nothing, as much as they may, again and
// again; another's fetch waits no longer than patience.
func TestFetchesOfANeighbour(t *testing.T) { // invariant 3
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := r.seeker()
		f.client.Transport = mixed{hanging{answers: true}, still{}}
		ctx, cancel := context.WithCancel(t.Context())
		words := make(map[string]int)
		var hogs sync.WaitGroup
		for n := range maxAll + 8 {
			hogs.Go(func() {
				for ctx.Err() == nil {
					_, done, err := f.Source(ctx, relay.InstanceID(fmt.Sprint("hog/", n%4)), "http://slow.example/a", "")
					done()
					r.mu.Lock()
					words[relay.Explain(err).Public]++
					r.mu.Unlock()
				}
			})
		}
		for range 20 {
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			began := time.Now()
			_, done, err := f.Source(t.Context(), "home", "http://h.example/a", "")
			done()
			if took := time.Since(began); err != nil || took > 4*time.Second {
				t.Errorf("%v after %v", err, took)
			}
		}
		cancel()
		hogs.Wait()
		if words["media not fetched: "+askedBack] == 0 {
			t.Errorf("the neighbour read %v", words)
		}
	})
}

// TestFetchesAreFew: four of an instance at once, and who waits too long is told so. What is fetched takes no place.
func TestFetchesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := r.seeker()
		f.client.Transport = mixed{hanging{answers: true}, still{}}
		var all []func()
		for range 2 * maxEach {
			_, done, err := f.Source(t.Context(), "home", "http://h.example/a", "")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, done)
		}
		var slow sync.WaitGroup
		for range 3 * maxEach {
			slow.Go(func() {
				_, done, _ := f.Source(t.Context(), "home", "http://slow.example/a", "")
				done()
			})
		}
		synctest.Wait()
		if _, done, err := f.Source(t.Context(), "home", "http://h.example/a", ""); err == nil || relay.Explain(err).Public != "media not fetched: too many at once" {
			t.Errorf("one too many: %v", err)
			done()
		}
		if _, other, err := f.Source(t.Context(), "away", "http://h.example/a", ""); err != nil {
			t.Errorf("another instance's: %v", err)
		} else {
			other()
		}
		slow.Wait()
		for _, done := range all {
			done()
		}
		r.full = media.ErrNoSpace
		if _, _, err := f.Source(t.Context(), "home", "http://h.example/a", ""); relay.Explain(err).Public != "media not fetched: there is no space for it" {
			t.Errorf("without room: %v", err)
		}
		if n := f.places.Free(); n != maxAll {
			t.Errorf("%d places are free", n)
		}
	})
}

// mixed is two servers, of which slow.example is one.
type mixed struct{ slow, other http.RoundTripper }

func (m mixed) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Host == "slow.example" {
		return m.slow.RoundTrip(q)
	}
	return m.other.RoundTrip(q)
}

// still is a server that has one small file.
type still struct{}

func (still) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Request: q, Body: io.NopCloser(bytes.NewReader(jpeg))}, nil
}

// FuzzSource: whatever a gateway names, an answer is a file of its own or what is behind an open address, and an error
// neither quotes it nor steers the gateway.
func FuzzSource(f *testing.F) {
	for _, s := range append(corpus, "http://h.example/relay/media/00000000000000000000000000000000", "http://h.example/a/relay/media/x") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		r := newRig(t)
		id := r.put("home", "a.jpg", jpeg)
		s := r.seeker()
		s.client.Transport = refusing{}
		file, done, err := s.Source(t.Context(), "home", address, "")
		done()
		u, bad := url.Parse(strings.TrimSpace(address))
		if err == nil && (bad != nil || !strings.HasSuffix(u.Path, route+"/"+string(id))) {
			t.Errorf("%q is %+v", address, file)
		}
		if ae := relay.Explain(err); err != nil && (ae.Outcome != relay.NotSent || ae.Public != "media not found or expired" && !strings.HasPrefix(ae.Public, "media not fetched: ")) {
			t.Errorf("%q: %v", address, err)
		}
	})
}

// refusing reaches nobody.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
