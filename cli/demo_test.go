package cli

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// shown is what the demo prints.
type shown struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

// find waits for a match, and returns its first group.
func (s *shown) find(t *testing.T, pattern string) string {
	t.Helper()
	re, found := regexp.MustCompile(pattern), []string(nil)
	wait.Until(t, "the demo says "+pattern, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		found = re.FindStringSubmatch(s.all.String())
		return found != nil
	})
	return found[1]
}

// visitor is a browser that is logged in at the demo's pages.
type visitor struct {
	t    *testing.T
	site string
	http.Client
}

func (v *visitor) get(path string) string {
	v.t.Helper()
	res, err := v.Get(v.site + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %s, %v", path, res.Status, err)
	}
	return string(body)
}

// say says something in the chat, with a file if there is one.
func (v *visitor) say(text string, file []byte) {
	v.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("text", text)
	if file != nil {
		part, err := form.CreateFormFile("files", "bed.png")
		if err != nil {
			v.t.Fatal(err)
		}
		_, _ = part.Write(file)
	}
	_ = form.Close()
	res, err := v.Post(v.site+"/chat/demo/say", form.FormDataContentType(), &body)
	if err != nil {
		v.t.Fatal(err)
	}
	_ = res.Body.Close()
}

// sees waits until the chat's page has so many of a text.
func (v *visitor) sees(n int, text string) {
	v.t.Helper()
	wait.Until(v.t, fmt.Sprintf("the chat has %d times %q", n, text), func() bool { return strings.Count(v.get("/chat/demo"), text) >= n })
}

// TestDemoWithoutAnybody: the demo of a container, where nobody types, runs until it is stopped. Its link leads to the chat, its
// gateway does what gateways do, and nothing there says that it is too old for that.
func TestDemoWithoutAnybody(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, ended := new(shown), make(chan error, 1)
	go func() { ended <- demo(ctx, ctx, false, strings.NewReader(""), &hops{w: out}) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	}()
	out.find(t, `(it runs until you stop it)`)
	link, err := url.Parse(out.find(t, `open (http://\S+) in a browser`))
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, site: "http://" + link.Host, Client: http.Client{Jar: jar}}
	res, err := v.PostForm(v.site+"/login", link.Query())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.Request.URL.Path != "/chat/demo" {
		t.Errorf("the link leads to %s, want the chat", res.Request.URL.Path)
	}

	for n := range 6 {
		v.say(fmt.Sprintf("word %d", n), nil)
		v.sees(1, fmt.Sprintf("echo: word %d<", n))
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		v.say("look", picture.Bytes())
		v.sees(2*(n+1), "<img ") // there and back
	}
	v.say("edit", nil) // alone: what is said while it waits would come with it
	v.sees(1, " · edited")
	v.say("react", nil)
	v.sees(1, `class="reactions"`)
	v.sees(2, `name="option"`)
	for _, path := range []string{"/chat/demo", "/"} {
		if page := v.get(path); strings.Contains(page, "too old") || strings.Contains(page, "HC404") {
			t.Errorf("%s says that the demo's gateway is too old:\n%s", path, page)
		}
	}
	if page := v.get("/"); !strings.Contains(page, "Everything works") {
		t.Errorf("the status page does not say that everything works:\n%s", page)
	}
}
