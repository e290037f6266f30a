package discord

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The key pair of the vectors: the seed is 00 01 02 … 1f.
const vectorKey = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

func vectorPrivate() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for n := range seed {
		seed[n] = byte(n)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// vectors are what Discord's own package signed with the key at 1767225600.
var vectors = []struct{ body, sign, answer string }{
	{
		`{"type":1}`,
		"25aa4784bff62901fdfb578701f99af3dd1d7ebd0a0de05316b3453d30c2d592ce160c002a6c878a7fae2e0dd551179e7f002c0a600c04899e3c5fd7e652d00a",
		`{"type":1}`,
	},
	{
		`{"id":"1","application_id":"2","type":2,"token":"aW50ZXJhY3Rpb24","channel_id":"3","data":{"id":"4","name":"status","type":1},"user":{"id":"5","username":"ann"}}`,
		"04faa614fb8919642a09bfd66cb9ca00e5a061be0a8c65958c1fe737e82be630a2a47ad41fe759930238b5c0b5b29a064da5555cd9f148df307eb7497fae180f",
		`{"type":5}`,
	},
}

const vectorTime = 1767225600

const (
	pong  = `{"type":1}`
	later = `{"type":5}`
	quiet = `{"type":6}`
	busy  = `{"type":4,"data":{"content":"I am busy, try again.","flags":64}}`
	lost  = `{"type":4,"data":{"content":"I do not understand this.","flags":64}}`
	away  = `{"type":4,"data":{"content":"I cannot be used here.","flags":64}}`
)

// endpointValues turn the endpoint on.
func endpointValues(values map[string]string) map[string]string {
	out := map[string]string{keyPublicKey: vectorKey}
	maps.Copy(out, values)
	return out
}

// signedAt is Discord's request with that body.
func signedAt(at time.Time, body []byte) platforms.HookRequest {
	seconds := strconv.FormatInt(at.Unix(), 10)
	sign := ed25519.Sign(vectorPrivate(), append([]byte(seconds), body...))
	return hookRequest(hex.EncodeToString(sign), seconds, body)
}

func hookRequest(sign, seconds string, body []byte) platforms.HookRequest {
	h := http.Header{}
	h.Set("x-signature-ed25519", sign)
	h.Set("x-signature-timestamp", seconds)
	return platforms.HookRequest{Method: http.MethodPost, Header: h, Body: body}
}

// post is a request of Discord's now, and its answer, which is written when post returns.
func post(ctx context.Context, p *Bot, body any) platforms.HookAnswer {
	ctx, written := context.WithCancel(ctx)
	defer written()
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return p.Receive(ctx, signedAt(time.Now(), raw))
}

// command is a slash command of ann's in her direct messages, as f would send it.
func (f *fakeDiscord) command(token string) obj {
	return obj{
		"id": f.id(), "application_id": testBotID, "type": 2, "token": token, "channel_id": "500",
		"channel": obj{"id": "500", "type": 1}, "user": obj{"id": "4001", "username": "ann"},
		"data": obj{"id": "1", "name": "ask", "type": 1, "options": []obj{{"name": "what", "type": 3, "value": token}}},
	}
}

func wantAnswer(t testing.TB, a platforms.HookAnswer, want string, refused platforms.HookRefusal) {
	t.Helper()
	if a.Status != http.StatusOK || a.Type != "application/json" || string(a.Body) != want || a.Refused != refused {
		t.Errorf("%d %s %s, refused %q; want %s, refused %q", a.Status, a.Type, a.Body, a.Refused, want, refused)
	}
}

func wantUnauthorized(t testing.TB, a platforms.HookAnswer, why platforms.HookRefusal, what string) {
	t.Helper()
	if a.Status != http.StatusUnauthorized || string(a.Body) != `{"error":"unauthorized"}` || a.Refused != why {
		t.Errorf("%s: %d %s, refused %q; want 401, refused %q", what, a.Status, a.Body, a.Refused, why)
	}
}

// onEndpoint runs test with a bot that Discord calls over HTTP too, in a bubble of its own time.
func onEndpoint(t *testing.T, test func(t *testing.T, f *fakeDiscord, p *Bot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f := newFakeDiscord()
		test(t, f, f.testBot(t, f.pipe(t), t.Output(), endpointValues(nil)))
	})
}

func TestNoKeyNoRoute(t *testing.T) {
	f := newFakeDiscord()
	f.address = "http://fake.discord"
	if r := f.testBot(t, nil, t.Output(), nil).HookRules(); len(r.Methods) != 0 {
		t.Errorf("without a key: %+v", r)
	}
	p := f.testBot(t, nil, t.Output(), endpointValues(nil))
	if r := p.HookRules(); len(r.Methods) != 1 || r.Methods[0] != http.MethodPost || r.MaxBody != 1<<20 {
		t.Errorf("with a key: %+v", r)
	}
	for _, key := range []string{"x", vectorKey[2:], vectorKey + "00", strings.Replace(vectorKey, "a", "g", 1), " " + vectorKey} {
		_, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), Values: map[string]string{keyPublicKey: key}})
		if err == nil || !strings.Contains(err.Error(), "public_key: want the 64 hex digits") {
			t.Errorf("key %q: %v", key, err)
		}
	}
	wantUnauthorized(t, f.testBot(t, nil, t.Output(), nil).Receive(t.Context(), signedAt(time.Now(), []byte(pong))), platforms.BadSignature, "without a key")
}

// TestEndpointVectors: what Discord's own package signed is believed for five minutes, and proved first.
func TestEndpointVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(vectorTime-301, 0)))
		f, in := newFakeDiscord(), newTestInbox()
		p := f.testBot(t, f.pipe(t), t.Output(), endpointValues(nil))
		r := run(t, p, in)
		ask := func(sign, body string) (a platforms.HookAnswer, proved bool) {
			q := hookRequest(sign, strconv.Itoa(vectorTime), []byte(body))
			q.Verified = func() { proved = true }
			ctx, written := context.WithCancel(t.Context())
			defer written()
			return p.Receive(ctx, q), proved
		}
		for _, tc := range []struct {
			wait time.Duration
			ok   bool
		}{{0, false}, {time.Second, true}, {5 * time.Minute, true}, {5 * time.Minute, true}, {time.Second, false}} {
			time.Sleep(tc.wait)
			for _, v := range vectors {
				a, proved := ask(v.sign, v.body)
				if tc.ok {
					wantAnswer(t, a, v.answer, "")
				} else if wantUnauthorized(t, a, platforms.StaleTimestamp, "a stale one"); a.Skew.Abs() != 301*time.Second {
					t.Errorf("the clocks differ by %v", a.Skew)
				}
				if proved != tc.ok {
					t.Errorf("proved: %v", proved)
				}
			}
		}
		synctest.Wait()
		in.await(t, "/status")
		r.end(t)
	})
}

// TestEveryBitCounts of the signature's text, of the time, and of the body; and there is one spelling of a signature.
func TestEveryBitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(vectorTime, 0)))
		f := newFakeDiscord()
		f.address = "http://fake.discord"
		p := f.testBot(t, nil, t.Output(), endpointValues(nil))
		v := vectors[1]
		parts := []string{v.sign, strconv.Itoa(vectorTime), v.body}
		ask := func(what string, parts []string) {
			t.Helper()
			q := hookRequest(parts[0], parts[1], []byte(parts[2]))
			q.Verified = func() { t.Errorf("%s is believed", what) }
			wantUnauthorized(t, p.Receive(t.Context(), q), platforms.BadSignature, what)
		}
		for n := range parts {
			for bit := range 8 * len(parts[n]) {
				flipped := []byte(parts[n])
				flipped[bit/8] ^= 1 << (bit % 8)
				other := append([]string{}, parts...)
				other[n] = string(flipped)
				ask(fmt.Sprintf("part %d, bit %d", n, bit), other)
			}
		}
		for _, sign := range []string{"", strings.ToUpper(v.sign), v.sign + "00", v.sign[2:], v.sign[1:], strings.Repeat("0", 128)} {
			ask("signature "+sign, []string{sign, parts[1], parts[2]})
		}
		for _, seconds := range []string{"", "x", "-1", "1767225600.0", "99999999999999999999"} {
			ask("time "+seconds, []string{v.sign, seconds, v.body})
			if seconds != "" { // signed, but no time
				sign := hex.EncodeToString(ed25519.Sign(vectorPrivate(), []byte(seconds+v.body)))
				ask("signed time "+seconds, []string{sign, seconds, v.body})
			}
		}
	})
}

// TestEndpointAnswers: as over the socket.
func TestEndpointAnswers(t *testing.T) {
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := newTestInbox()
		with := func(changes obj) obj {
			c := f.command("tok")
			maps.Copy(c, changes)
			return c
		}
		button := obj{"type": 3, "data": obj{"component_type": 2, "custom_id": "hp1:p:yes"}, "message": obj{"id": "7"}}
		form := obj{"type": 5, "data": obj{"custom_id": "f", "components": []obj{{"type": 18, "component": obj{"custom_id": "a", "value": "b"}}}}}
		wantAnswer(t, post(t.Context(), p, f.command("early")), busy, platforms.NotStored) // nobody would hand it in
		wantAnswer(t, post(t.Context(), p, obj{"type": 1}), pong, "")
		r := run(t, p, in)
		for _, tc := range []struct {
			body   obj
			answer string
			text   string // of the event; empty: there is none
		}{
			{obj{"type": 1, "id": "8", "token": "t", "application_id": testBotID, "version": 1}, pong, ""},
			{with(nil), later, "/ask tok"},
			{with(button), quiet, "/yes"},
			{with(form), later, "a=b"},
			{with(obj{"type": 4}), `{"type":8,"data":{"choices":[]}}`, ""},
			{with(obj{"context": 2}), away, ""},
			{with(obj{"channel": obj{"id": "500", "type": 3}}), away, ""},
			{with(obj{"type": 77}), away, ""},
		} {
			before := len(in.texts())
			wantAnswer(t, post(t.Context(), p, tc.body), tc.answer, "")
			synctest.Wait()
			got := in.texts()[before:]
			if strings.Join(got, "") != tc.text {
				t.Errorf("%v becomes %q, want %q", tc.body, got, tc.text)
			}
		}
		time.Sleep(20 * time.Minute)
		r.end(t)
		wantAnswer(t, post(t.Context(), p, f.command("late")), busy, platforms.NotStored)
		for _, call := range f.counts().calls {
			if strings.Contains(call, "/callback") || strings.HasPrefix(call, "DELETE") {
				t.Errorf("%s", call)
			}
		}
	})
}

// TestTheAnswerWaitsForNothing: while nothing can be stored and nothing looked up, 1,000 interactions are answered,
// each in no time at all, and whoever comes then is told to try again. What is never stored loses its placeholder
// before its token ends.
func TestTheAnswerWaitsForNothing(t *testing.T) {
	t.Parallel()
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := newTestInbox()
		stalled := make(chan struct{})
		in.judge = func(ctx context.Context, _ platforms.Batch) error {
			select {
			case <-stalled:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		began := time.Now()
		r := run(t, p, in) // the socket connects, and its state cannot be stored
		synctest.Wait()
		for n := range maxHeld {
			wantAnswer(t, post(t.Context(), p, f.command(fmt.Sprint("tok-", n))), later, "")
		}
		wantAnswer(t, post(t.Context(), p, f.command("one-more")), busy, platforms.NotStored)
		wantAnswer(t, post(t.Context(), p, obj{"type": 1}), pong, "")
		if d := time.Since(began); d != 0 {
			t.Errorf("the answers took %v", d)
		}
		time.Sleep(holdFor - time.Second)
		removed := func() (n int) {
			for _, c := range f.counts().calls {
				if strings.HasPrefix(c, "DELETE /webhooks/"+testBotID+"/tok-") && strings.HasSuffix(c, "/messages/@original") {
					n++
				}
			}
			return n
		}
		if n := removed(); n != 0 {
			t.Errorf("%d placeholders are gone already", n)
		}
		time.Sleep(20 * time.Second)
		if n := removed(); n != maxHeld {
			t.Errorf("%d placeholders are taken away, want %d", n, maxHeld)
		}
		wantAnswer(t, post(t.Context(), p, f.command("still-stalled")), busy, platforms.NotStored)
		close(stalled)
		time.Sleep(time.Minute)
		wantAnswer(t, post(t.Context(), p, f.command("again")), later, "")
		synctest.Wait()
		// Which of them the disk had in hand when they were given up nobody can tell.
		if got := in.texts(); len(got) == 0 || got[len(got)-1] != "/ask again" || len(got) > maxBatch+1 {
			t.Errorf("%d events are stored, the last is %q", len(got), got[len(got)-1:])
		}
		r.end(t)
		if n := removed(); n != maxHeld {
			t.Errorf("%d placeholders were taken away in the end, want %d", n, maxHeld)
		}
	})
}

// TestTooManyBytes: the bound on what waits is one of bytes, too.
func TestTooManyBytes(t *testing.T) {
	h := newHolding()
	q := newQueue()
	h.open(q)
	big := item{kind: kindInteraction, data: make([]byte, maxHeldBytes/4)}
	for range 4 {
		if !h.take(big) {
			t.Fatal("not taken")
		}
	}
	if h.take(big) {
		t.Error("too much is taken")
	}
	h.release(q.take(1))
	if !h.take(big) || h.take(big) {
		t.Error("what is released makes no place for one")
	}
}

// TestWhatIsGivenUpIsNotStored: only that of a batch, and not what still has time.
func TestWhatIsGivenUpIsNotStored(t *testing.T) {
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := newTestInbox()
		var broken atomic.Bool
		in.judge = func(context.Context, platforms.Batch) error {
			if broken.Load() {
				return errStall
			}
			return nil
		}
		r := run(t, p, in)
		time.Sleep(time.Minute)
		broken.Store(true)
		wantAnswer(t, post(t.Context(), p, f.command("old")), later, "") // the feeder tries it again and again
		f.say("500", "over the socket")
		time.Sleep(10 * time.Minute)
		wantAnswer(t, post(t.Context(), p, f.command("young")), later, "")
		time.Sleep(10 * time.Minute)
		broken.Store(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		in.await(t, "over the socket", "/ask young")
		r.end(t)
		if in.overlaps != 0 {
			t.Errorf("%d batches at once", in.overlaps)
		}
	})
}

// TestEndpointWithoutSocket: what comes over HTTP is handed in while the session is down, and does not move its state:
// what was said meanwhile is caught up with.
func TestEndpointWithoutSocket(t *testing.T) {
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := newTestInbox()
		in.places = places("500")
		r := run(t, p, in)
		time.Sleep(time.Minute)
		f.say("500", "before")
		time.Sleep(3 * time.Minute)
		before := stateOf(t, in)
		f.set(func() { f.down = true })
		f.cut()
		f.forget()
		f.say("500", "while nobody listened")
		time.Sleep(2 * time.Minute)
		wantAnswer(t, post(t.Context(), p, f.command("http")), later, "")
		time.Sleep(5 * time.Minute)
		in.await(t, "before", "/ask http")
		if after := stateOf(t, in); after.Seen != before.Seen || after.Gap != before.Gap || after.Session != before.Session {
			t.Errorf("the state is %+v, was %+v", after, before)
		}
		f.set(func() { f.down = false })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		in.await(t, "before", "/ask http", "while nobody listened")
		r.end(t)
	})
}

// TestEndpointWhileTheStateCannotBeRead: it waits, and nothing that was stored before is written over.
func TestEndpointWhileTheStateCannotBeRead(t *testing.T) {
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := &forgetful{testInbox: newTestInbox(), forgets: true}
		in.cursor = state{Base: p.base, Seen: 7}.encode()
		r := run(t, p, in)
		time.Sleep(time.Minute)
		wantAnswer(t, post(t.Context(), p, f.command("one")), later, "")
		time.Sleep(time.Minute)
		in.await(t)
		r.end(t) // the position was never read; what came is stored all the same
		in.await(t, "/ask one")
		if s := stateOf(t, in.testInbox); s.Seen != 7 {
			t.Errorf("the state is %+v", s)
		}
	})
}

// forgetful is an inbox whose cursor cannot be read.
type forgetful struct {
	*testInbox
	forgets bool
}

func (in *forgetful) Cursor(ctx context.Context) ([]byte, error) {
	if in.forgets {
		return nil, errStall
	}
	return in.testInbox.Cursor(ctx)
}

// TestTheStopSkipsWhatCameOverHTTP: what is nothing for the inbox is passed over behind it, too.
func TestTheStopSkipsWhatCameOverHTTP(t *testing.T) {
	onEndpoint(t, func(t *testing.T, _ *fakeDiscord, p *Bot) {
		f := &feeder{Bot: p, queue: newQueue()}
		p.memory.recall(state{})
		p.holding.open(f.queue)
		f.queue.put(item{seq: 3})
		p.holding.take(item{kind: kindInteraction, press: &interaction{ID: 7}})
		f.queue.put(item{seq: 9})
		f.skip()
		if seq := p.memory.read().Session.Seq; seq != 9 || len(p.holding.left()) != 1 {
			t.Errorf("sequence %d, %d held", seq, len(p.holding.left()))
		}
	})
}

// TestAnOrderlyStopKeepsWhatCameOverHTTP, which nobody would send again; and where it cannot, nobody is left waiting.
func TestAnOrderlyStopKeepsWhatCameOverHTTP(t *testing.T) {
	for _, heals := range []bool{true, false} {
		t.Run(fmt.Sprint("the disk heals: ", heals), func(t *testing.T) {
			onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
				in := newTestInbox()
				var stopping atomic.Bool
				in.judge = func(ctx context.Context, _ platforms.Batch) error {
					if !stopping.Load() {
						<-ctx.Done()
						return ctx.Err()
					}
					if !heals {
						return errStall
					}
					return nil
				}
				r := run(t, p, in)
				time.Sleep(time.Minute)
				f.say("500", "over the socket")
				for n := range 3 {
					wantAnswer(t, post(t.Context(), p, f.command(fmt.Sprint("tok-", n))), later, "")
				}
				wantAnswer(t, post(t.Context(), p, obj{"type": 2, "token": "tok-secret"}), lost, platforms.Unreadable)
				synctest.Wait()
				stopping.Store(true)
				began := time.Now()
				r.end(t)
				if d := time.Since(began); d > 2*lastWrite {
					t.Errorf("the stop took %v", d)
				}
				if heals {
					in.await(t, "/ask tok-0", "/ask tok-1", "/ask tok-2")
				} else {
					in.await(t)
				}
				deleted := 0
				for _, c := range f.counts().calls {
					if strings.HasPrefix(c, "DELETE /webhooks/"+testBotID+"/tok-") {
						deleted++
					}
				}
				if want := map[bool]int{true: 0, false: 3}[heals]; deleted != want {
					t.Errorf("%d placeholders were taken away, want %d", deleted, want)
				}
			})
		})
	}
}

// TestUnreadableOverHTTP: it is kept without its token, and Discord is told that all is well.
func TestUnreadableOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f, in := newFakeDiscord(), newTestInbox()
		var log platformtest.Log
		p := f.testBot(t, f.pipe(t), &log, endpointValues(nil))
		r := run(t, p, in)
		const token = "aW50ZXJhY3Rpb24tdG9rZW4-canary"
		f.await(t, "an identify", func() bool { return f.current != nil })
		nameless := f.command(token)
		nameless["data"] = obj{"id": "1", "type": 1}
		for _, body := range []any{
			obj{"type": "nonsense", "id": "1", "token": token}, []any{token}, token, nil,
			obj{"type": 2, "token": token, "channel_id": "5", "user": obj{"id": "6"}}, obj{"type": 2, "id": "1", "TOKEN": ""},
		} {
			wantAnswer(t, post(t.Context(), p, body), lost, platforms.Unreadable)
		}
		wantAnswer(t, post(t.Context(), p, nameless), later, "") // that shows later: its placeholder goes
		f.await(t, "the end of the placeholder", func() bool {
			return slices.Contains(f.calls, "DELETE /webhooks/"+testBotID+"/"+token+"/messages/@original")
		})
		wantAnswer(t, post(t.Context(), p, f.command("after")), later, "")
		in.await(t, "/ask after")
		r.end(t)
		kept := 0
		for _, b := range in.batches {
			for _, u := range b.Undecodable {
				kept++
				if bytes.Contains(u.Raw, []byte(token)) || strings.Contains(u.Err.Error(), token) {
					t.Errorf("the quarantine has the token: %s, %v", u.Raw, u.Err)
				}
			}
		}
		if kept != 7 {
			t.Errorf("%d are kept, want 7", kept)
		}
		if strings.Contains(log.String(), token) {
			t.Error("the log has the token")
		}
	})
}

// TestTheSameInteractionTwice: while it waits it is known already; after that the inbox knows it.
func TestTheSameInteractionTwice(t *testing.T) {
	onEndpoint(t, func(t *testing.T, f *fakeDiscord, p *Bot) {
		in := newTestInbox()
		stalled := make(chan struct{})
		in.judge = func(context.Context, platforms.Batch) error {
			<-stalled
			return nil
		}
		r := run(t, p, in)
		time.Sleep(time.Minute)
		c := f.command("tok")
		for range 3 {
			wantAnswer(t, post(t.Context(), p, c), later, "")
		}
		close(stalled)
		synctest.Wait()
		if n := in.count(); n != 1 {
			t.Errorf("%d events", n)
		}
		wantAnswer(t, post(t.Context(), p, c), later, "")
		f.dispatch(kindInteraction, c) // and over the socket
		time.Sleep(time.Minute)
		r.end(t)
		for _, ev := range in.events {
			if ev.ID != in.events[0].ID || !ev.At.Equal(in.events[0].At) || ev.Source != in.events[0].Source {
				t.Errorf("%+v is another event than %+v", ev, in.events[0])
			}
		}
	})
}

// TestAnswersWaitForTheHTTPAnswer: the web hook is there when Discord has read the answer to its request, or a moment
// later, however early a gateway answers.
func TestAnswersWaitForTheHTTPAnswer(t *testing.T) {
	for name, do := range through() {
		t.Run(name, func(t *testing.T) {
			onRESTWith(t, endpointValues(nil), func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				afterEpoch()
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				var known time.Time
				hooked := func(restCall) (int, any) {
					switch {
					case known.IsZero():
						t.Error("a request before the answer is written")
					case time.Now().After(known):
						return http.StatusOK, obj{"id": "501"}
					}
					return http.StatusNotFound, obj{"code": 10015, "message": "Unknown Webhook"}
				}
				for _, route := range []string{toHook, toOrigin, delOrigin} {
					f.answer(route, hooked)
				}
				p.holding.open(newQueue())
				request, written := context.WithCancel(t.Context())
				raw, err := json.Marshal(obj{
					"id": slashCapability().ID, "type": 2, "token": hookToken, "channel_id": string(chat), "user": obj{"id": "5"},
				})
				if err != nil {
					t.Fatal(err)
				}
				wantAnswer(t, p.Receive(request, signedAt(time.Now(), raw)), later, "")
				done := make(chan error)
				go func() { done <- do(ctx, p) }()
				time.Sleep(2 * time.Second)
				known = time.Now().Add(time.Second)
				written()
				if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("error: %v", err)
				}
				if d := time.Until(known).Abs(); d > lagTry {
					t.Errorf("done %v after the web hook was there", d)
				}
			})
		})
	}
}

// FuzzEndpoint: whatever Discord may sign gets an answer that it can read, and what is kept of it has no token.
func FuzzEndpoint(f *testing.F) {
	for _, name := range payloadNames(f) {
		if d := payload(f, name); d.Kind == kindInteraction {
			f.Add([]byte(d.Data))
		}
	}
	for _, v := range vectors {
		f.Add([]byte(v.body))
	}
	for _, raw := range []string{``, `null`, `[]`, `{"type":"1"}`, `{"type":2,"token":"CANARY","id":"1"}`, `{"Type":1,"TOKEN":"CANARY"}`, `{"type":3,"id":1,"channel_id":2,"token":"CANARY","user":{"id":3}}`} {
		f.Add([]byte(raw))
	}
	d := newFakeDiscord()
	d.address = "http://fake.discord"
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := d.testBot(t, nil, t.Output(), endpointValues(nil))
		q := newQueue()
		p.holding.open(q)
		ctx, written := context.WithCancel(t.Context())
		defer written()
		a := p.Receive(ctx, signedAt(time.Now(), raw))
		var c callback
		if err := json.Unmarshal(a.Body, &c); err != nil || a.Status != http.StatusOK || c.Type == 0 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		items := q.take(2)
		var top struct{ Token string }
		_ = json.Unmarshal(raw, &top) // what cannot be read has no token
		for _, i := range items {
			if kept := (struct{ Token *string }{}); json.Unmarshal(i.data, &kept) == nil && kept.Token != nil {
				t.Fatalf("kept: %s", i.data)
			}
			if i.press != nil && (i.press.token.RevealString() != top.Token || !i.press.wanted()) {
				t.Fatalf("taken: %+v", i.press)
			}
		}
		if deferred := c.Type == 5 || c.Type == 6; len(items) > 1 || (deferred || a.Refused != "") != (len(items) == 1) {
			t.Fatalf("%s, refused %q, and %d items", a.Body, a.Refused, len(items))
		}
	})
}

// BenchmarkEndpoint is all that is done for one command: to verify and read it, and to make its event.
func BenchmarkEndpoint(b *testing.B) {
	for _, name := range []string{"slash_sub", "press_prompt", "context_message", "modal"} {
		b.Run(name, func(b *testing.B) {
			d := newFakeDiscord()
			d.address = "http://fake.discord"
			p := d.testBot(b, nil, io.Discard, endpointValues(nil))
			q, r := newQueue(), worldReader(b)
			p.holding.open(q)
			raw := payload(b, name).Data
			signed := signedAt(time.Now(), raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				ctx, written := context.WithCancel(b.Context())
				if a := p.Receive(ctx, signed); a.Refused != "" {
					b.Fatalf("refused: %s", a.Refused)
				}
				written()
				items := q.take(maxBatch)
				if ev, _, err := r.interaction(b.Context(), items[0].press); err != nil || ev == nil {
					b.Fatal(err)
				}
				p.holding.release(items)
			}
		})
	}
}
