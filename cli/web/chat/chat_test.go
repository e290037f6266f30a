package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a connector with one gateway, as far as the pages see it. It is its bots' Inbox too.
type world struct {
	mu     sync.Mutex // guards the fields below
	status manage.Status
	err    error // of Status
	binds  []manage.Bind
	no     error // why nobody is bound
	events []relay.Event
}

func (w *world) Status(context.Context, struct{}) (manage.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status, w.err
}

// fails has Status fail.
func (w *world) fails(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *world) Bind(_ context.Context, by audit.Actor, b manage.Bind) (manage.Binding, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if by.Kind != audit.ActorWeb || w.no != nil {
		return manage.Binding{}, w.no
	}
	w.binds = append(w.binds, b)
	return manage.Binding{}, nil
}

func (w *world) bound(context.Context, relay.InstanceID) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.binds) > 0, nil
}

func (w *world) Accept(_ context.Context, b platforms.Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, b.Events...)
	return nil
}

func (w *world) Cursor(context.Context) ([]byte, error) { return nil, nil }

func (w *world) is(st manage.InstanceStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Instances = []manage.InstanceStatus{st}
}

// rig is the pages of a world with the gateway home. Its bot runs.
func rig(t *testing.T) (*world, *local.Web, http.Handler) {
	w, bot := &world{}, local.NewWeb(local.NewRooms(), nil)
	w.is(manage.InstanceStatus{ID: "home", State: manage.Connected})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bot.Run(ctx, w) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	mux := http.NewServeMux()
	s := New(bot.Rooms(), w, Options{
		Bound: w.bound,
		Facts: func(c []byte) relay.FileFacts {
			if bytes.HasPrefix(c, []byte("\x89PNG")) {
				return relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Kind: relay.TypePhoto}
			}
			return relay.FileFacts{Format: relay.FormatOther, Mime: "text/html", Kind: relay.TypeDocument}
		},
	})
	s.Mount(mux, func(h http.Handler) http.Handler { return h })
	return w, bot, mux
}

// get is what a page answers.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
	return r
}

// post sends a form of texts and files, which are those whose names have a point.
func post(h http.Handler, path, accept string, fields ...string) *httptest.ResponseRecorder {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if strings.Contains(fields[i], ".") {
			part, _ := form.CreateFormFile("files", fields[i])
			_, _ = io.WriteString(part, fields[i+1])
		} else {
			_ = form.WriteField(fields[i], fields[i+1])
		}
	}
	_ = form.Close()
	req := httptest.NewRequest(http.MethodPost, path, &body)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Accept", accept)
	r := httptest.NewRecorder()
	h.ServeHTTP(r, req)
	return r
}

func TestSaying(t *testing.T) {
	w, _, h := rig(t)
	if r := get(h, "/chat/home"); r.Code != http.StatusOK || len(w.binds) > 0 {
		t.Errorf("looking: %d, and bound %d times", r.Code, len(w.binds))
	}
	if r := post(h, "/chat/home/say", "", "text", "Grüße\r\n<b>"); r.Code != http.StatusSeeOther || r.Header().Get("Location") != "/chat/home#text" {
		t.Errorf("saying: %d to %q", r.Code, r.Header().Get("Location"))
	}
	if r := post(h, "/chat/home/say", "text/plain", "text", "", "a/b\\cat.png", "\x89PNG", "evil\u202e.html", "<script>"); r.Code != http.StatusNoContent {
		t.Errorf("showing: %d %s", r.Code, r.Body)
	}
	if diff := cmp.Diff([]manage.Bind{{Name: "home", Platform: local.WebID, User: "home"}}, w.binds); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
	if len(w.events) != 2 || w.events[0].Text != "Grüße\n<b>" || w.events[0].Source.UserID != "home" {
		t.Fatalf("events: %+v", w.events)
	}
	files := w.events[1].Attachments
	if len(files) != 2 || files[0].Name != "cat.png" || files[0].Kind != relay.TypePhoto || files[1].Name != "evil_.html" {
		t.Fatalf("files: %+v", files)
	}
	page := get(h, "/chat/home").Body.String()
	for _, want := range []string{"Grüße\n&lt;b&gt;", `alt="cat.png"`, "evil_.html (8 bytes)"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page: %s", want, page)
		}
	}
	for ref, want := range map[string]string{files[0].Ref: "image/png", files[1].Ref: "application/octet-stream"} {
		r := get(h, "/chat/home/files/"+ref)
		if got := r.Header().Get("Content-Type"); r.Code != http.StatusOK || got != want || !strings.Contains(r.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("a file: %d, %s; want %s", r.Code, got, want)
		}
	}
	r := httptest.NewRequest("GET", "http://home.lan/chat/home/files/"+files[0].Ref, nil)
	r.Header.Set("Range", "bytes=1-2")
	part := httptest.NewRecorder()
	h.ServeHTTP(part, r)
	if part.Code != http.StatusPartialContent || part.Body.String() != "PN" {
		t.Errorf("a part of a file: %d %q; want PN", part.Code, part.Body)
	}
}

func TestRefusals(t *testing.T) {
	w, bot, h := rig(t)
	large := strings.Repeat("x", local.MaxWebFile+1)
	for name, tc := range map[string]struct {
		answer *httptest.ResponseRecorder
		status int
		words  string
	}{
		"nothing":         {post(h, "/chat/home/say", "text/plain", "text", " "), 400, "Write something"},
		"a long text":     {post(h, "/chat/home/say", "text/plain", "text", strings.Repeat("x", local.MaxWebLength+1)), 413, "16,000"},
		"a large file":    {post(h, "/chat/home/say", "text/plain", "a.bin", large), 413, "10 MB"},
		"a huge post":     {post(h, "/chat/home/say", "text/plain", "a.bin", large, "b.bin", large), 413, "10 MB"},
		"11 files":        {post(h, "/chat/home/say", "text/plain", strings.Split(strings.Repeat("a.bin x ", 11), " ")[:22]...), 413, "10 files"},
		"a page":          {post(h, "/chat/home/say", "", "text", ""), 400, "<h1>Not sent</h1>"},
		"no such gateway": {post(h, "/chat/nobody/say", "text/plain", "text", "hi"), 404, "no such gateway"},
		"no such button":  {press(h, "m1", "yes"), 409, "no such button"},
		"no such file":    {get(h, "/chat/home/files/x"), 404, "not kept"},
	} {
		if tc.answer.Code != tc.status || !strings.Contains(tc.answer.Body.String(), tc.words) {
			t.Errorf("%s: %d %.200s; want %d, %q", name, tc.answer.Code, tc.answer.Body, tc.status, tc.words)
		}
	}
	if r := httptest.NewRecorder(); true {
		h.ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/chat/home/say", strings.NewReader("text=hi")))
		if r.Code != http.StatusBadRequest {
			t.Errorf("another form: %d", r.Code)
		}
	}
	for err, want := range map[error]int{
		&manage.Error{Why: manage.NotFound, Message: "home was revoked"}: 409, errors.New("disk: /secret/path"): 503,
	} {
		w.mu.Lock()
		w.binds, w.no = nil, err
		w.mu.Unlock()
		r := post(h, "/chat/home/say", "text/plain", "text", "hi")
		if r.Code != want || strings.Contains(r.Body.String(), "/secret/path") {
			t.Errorf("not bound: %d %s, want %d", r.Code, r.Body, want)
		}
	}
	if n := len(bot.Rooms().View("home", "").Messages); n > 0 {
		t.Errorf("%d messages were said all the same", n)
	}
}

// TestFilesCostTheirSize: of what is posted one copy is made, and none of what is too large.
func TestFilesCostTheirSize(t *testing.T) {
	_, bot, h := rig(t)
	cost := func(size int) uint64 {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for _, name := range []string{"a.bin", "b.bin"} {
			part, _ := form.CreateFormFile("files", name)
			_, _ = part.Write(bytes.Repeat([]byte(name[:1]), size/2))
		}
		_ = form.Close()
		req := httptest.NewRequest(http.MethodPost, "/chat/home/say", &body)
		req.Header.Set("Content-Type", form.FormDataContentType())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(httptest.NewRecorder(), req)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if got := cost(8 << 20); got > 9<<20 {
		t.Errorf("8 MiB cost %d bytes", got)
	}
	for i, f := range bot.Rooms().View("home", "").Messages[0].Files {
		if _, content, _ := bot.Rooms().File(f.ID); len(content) != 4<<20 || bytes.Count(content, []byte{"ab"[i]}) != 4<<20 {
			t.Errorf("file %d came as something else", i)
		}
	}
	if got := cost(2 * local.MaxWebFile); got > 1<<20 {
		t.Errorf("what is refused costs %d bytes", got)
	}
}

// press presses a button of the room home.
func press(h http.Handler, message, option string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/chat/home/press", strings.NewReader(url.Values{"message": {message}, "option": {option}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/plain")
	r := httptest.NewRecorder()
	h.ServeHTTP(r, req)
	return r
}

func TestPressing(t *testing.T) {
	w, bot, h := rig(t)
	res, err := bot.Prompt(t.Context(), relay.Prompt{
		Chat: "home", Content: "go on?", PromptID: "p1", Options: []relay.PromptOption{{ID: "yes", Label: `"Ja" <b>`, Style: "danger"}, {ID: "no"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	page := get(h, "/chat/home").Body.String()
	for _, want := range []string{`<button class="danger" name="option" value="yes">&#34;Ja&#34; &lt;b&gt;</button>`, `value="no">no</button>`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not on the page: %s", want, page)
		}
	}
	if r := press(h, string(res.MessageID), "yes"); r.Code != http.StatusNoContent {
		t.Errorf("%d %s", r.Code, r.Body)
	}
	if len(w.events) != 1 || w.events[0].Prompt.OptionID != "yes" {
		t.Errorf("events: %+v", w.events)
	}
}

func TestStandings(t *testing.T) {
	at := time.Now().Add(-48 * time.Hour)
	for want, st := range map[string]manage.InstanceStatus{
		"home is connected.": {State: manage.Connected},
		"home is asleep, and wakes when you write. 1 message waits.":                 {State: manage.Asleep, Backlog: 1},
		"home is connected. It is quiet until 07:00. 1 message waits.":               {State: manage.Connected, Backlog: 1, Notes: []manage.Note{{Word: "quiet", Says: "quiet until 07:00"}}},
		"home is asleep. It is quiet until 07:00.":                                   {State: manage.Asleep, Notes: []manage.Note{{Word: "quiet", Says: "quiet until 07:00"}}},
		"home has never connected. What you write waits for it. 2 messages wait.":    {State: manage.Away, Backlog: 2},
		"home was revoked. Nothing can be sent to it.":                               {State: manage.Away, Revoked: true},
		"home is away since " + finding.Stamp(at) + ". What you write waits for it.": {State: manage.Away, LastSeenAt: at},
	} {
		st.ID = "home"
		if got := howIs(st).Words; got != want {
			t.Errorf("%+v: %q, want %q", st, got, want)
		}
	}
}

// answers is a browser's end of a stream.
type answers struct {
	*httptest.ResponseRecorder
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

// taken is what came since the last call.
func (a *answers) taken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.out.Reset()
	return a.out.String()
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, bot, h := rig(t)
		mark := bot.Rooms().View("home", "").Mark
		ctx, cancel := context.WithCancel(t.Context())
		a, ended := &answers{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
		go func() {
			defer close(ended)
			h.ServeHTTP(a, httptest.NewRequestWithContext(ctx, http.MethodGet, "/chat/home/live?since="+mark, nil))
		}()
		step := func(what string, do func() error, want ...string) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			synctest.Wait()
			got := a.taken()
			for _, part := range want {
				if !strings.Contains(got, part) {
					t.Errorf("%s: %q is not in %q", what, part, got)
				}
			}
			if len(want) == 0 && got != "" {
				t.Errorf("%s: %q", what, got)
			}
		}
		var sent relay.Result
		step("the beginning", func() error { return nil }, "event: state\n", "home is connected.")
		step("a message", func() (err error) {
			sent, err = bot.Send(t.Context(), relay.Send{Chat: "home", Content: "```\none\rtwo\nthree\n```"})
			return err
		}, "event: put\n", "data: <li id=\"m-", "one\ndata: two\ndata: three")
		step("typing", func() error { _, err := bot.Typing(t.Context(), relay.Typing{Chat: "home"}); return err }, "event: typing\ndata: 1\n\n")
		step("no more typing", func() error { time.Sleep(8 * time.Second); return nil }, "event: typing\ndata: 0\n\n")
		step("another room", func() error { _, err := bot.Send(t.Context(), relay.Send{Chat: "kids", Content: "x"}); return err })
		step("gone", func() error {
			_, err := bot.Delete(t.Context(), relay.Delete{Chat: "home", Message: sent.MessageID})
			return err
		}, "event: gone\ndata: m-"+string(sent.MessageID)+"\n\n")
		step("a state", func() error {
			w.is(manage.InstanceStatus{ID: "home", State: manage.Away, Warnings: []string{"look <here>"}})
			time.Sleep(page.Look)
			return nil
		}, "event: state\n", "never connected", "look &lt;here&gt;")
		step("revoked, with dead letters", func() error {
			w.is(manage.InstanceStatus{ID: "home", State: manage.Away, Revoked: true, Dead: 1})
			time.Sleep(page.Look)
			return nil
		}, "event: state\n", "home was revoked.")
		for _, path := range []string{"/chat", "/chat/home"} {
			if page := get(h, path); strings.Contains(page.Body.String(), "Chat with home") || strings.Contains(page.Body.String(), `href="/chat/home"`) {
				t.Errorf("%s offers a gateway that was revoked: %s", path, page.Body)
			}
		}
		step("enrolled anew", func() error {
			w.is(manage.InstanceStatus{ID: "home", State: manage.Away})
			time.Sleep(page.Look)
			return nil
		}, "event: state\n", "never connected")
		step("revoked, and nothing is left", func() error {
			w.is(manage.InstanceStatus{ID: "kids"})
			time.Sleep(page.Look)
			return nil
		}, "event: state\n", "home was revoked.")
		step("nothing", func() error { time.Sleep(page.Look); return nil }, page.StreamBeat)
		step("nothing again", func() error { time.Sleep(2 * page.Look); return nil }, page.StreamBeat+page.StreamBeat)
		w.fails(errors.New("disk"))
		step("a database that does not answer", func() error { time.Sleep(3 * page.Look); return nil })
		w.fails(nil)
		cancel()
		<-ended
		w.is(manage.InstanceStatus{ID: "home"})

		// Another run's page is loaded again.
		again, stop := context.WithCancel(t.Context())
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			h.ServeHTTP(a, httptest.NewRequestWithContext(again, http.MethodGet, "/chat/home/live?since=other.7", nil))
		}()
		step("another run's page", func() error { return nil }, "event: whole\ndata: /static/chat-")
		stop()
		<-ended
	})
}

func TestStreamsHaveABound(t *testing.T) {
	_, _, h := rig(t)
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	begun := make(chan struct{}, maxStreams)
	for range maxStreams {
		open.Go(func() {
			h.ServeHTTP(first{httptest.NewRecorder(), sync.OnceFunc(func() { begun <- struct{}{} })}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/chat/home/live?since=x.1", nil))
		})
	}
	for range maxStreams {
		<-begun
	}
	if r := get(h, "/chat/home/live"); r.Code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", r.Code)
	}
	cancel()
	open.Wait()
}

// first tells of the first bytes of an answer.
type first struct {
	*httptest.ResponseRecorder
	tell func()
}

func (f first) Write(p []byte) (int, error) {
	f.tell()
	return f.ResponseRecorder.Write(p)
}
