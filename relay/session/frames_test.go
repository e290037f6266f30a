package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func TestNoHello(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		want time.Duration
	}{
		"default": {Options{}, 30 * time.Second},
		"set":     {Options{Hello: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &hub{}, tc.o, func(t *testing.T, r *rig) {
				start := time.Now()
				r.listen()
				_ = r.wantClose(websocket.StatusPolicyViolation, "no hello")
				if got := time.Since(start); got != tc.want {
					t.Errorf("closed after %v, want %v", got, tc.want)
				}
				r.wantCount(count.SessionNoHello, 1)
			})
		})
	}
}

func TestActionBeforeHello(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.listen()
		r.ask("1", say("hi"))
		r.refused("1", relay.NotSent, "network")
		r.send(wire.Hello{Platform: "telegram"})
		r.ask("2", say("hi"))
		if _, ok := r.next().(wire.Descriptor); !ok {
			t.Error("no descriptor")
		}
		r.succeeded("2", "")
	})
}

func TestOneDescriptorPerHello(t *testing.T) { // invariant 5
	pumps := 0
	h := &hub{pump: func(ctx context.Context, s *Session) error {
		pumps++
		if err := s.Push(ctx, event(1, 1), nil); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.listen()
		r.send(wire.Hello{Platform: "discord"})
		var got []string
		if d, ok := r.next().(wire.Descriptor); ok {
			got = append(got, string(d.Platform))
		}
		if in, ok := r.next().(wire.Inbound); ok {
			got = append(got, in.Buffer)
		}
		for _, p := range []relay.PlatformID{"telegram", "relay"} {
			r.send(wire.Hello{Platform: p})
			if d, ok := r.next().(wire.Descriptor); ok {
				got = append(got, string(d.Platform))
			}
		}
		if want := []string{"discord", "1-1", "telegram", "relay"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if pumps != 1 {
			t.Errorf("Pump was called %d times, want 1", pumps)
		}
	})
}

func TestFraming(t *testing.T) {
	const hello = `{"type":"hello","platform":"telegram","botId":"1"}` + "\n"
	const ask = `{"type":"outbound","requestId":"1","action":{"op":"send","chat_id":"c","content":"hi"}}`
	for name, messages := range map[string][]string{
		"one frame per message":         {hello, ask + "\n"},
		"all in one message":            {hello + ask + "\n"},
		"no newline at the end":         {hello, ask},
		"carriage returns and blanks":   {"\r\n  \r\n" + hello + "\n\n", ask + "\r\n"},
		"cut anywhere":                  {hello[:7], hello[7:] + ask[:30], ask[30:50], ask[50:]},
		"garbage between":               {"hello?\n", hello, "{broken\n", ask + "\n"},
		"a type of another age":         {hello, `{"type":"sing"}`, ask},
		"no type":                       {hello, `{}`, ask},
		"an outbound nobody can answer": {hello, `{"type":"outbound","action":{}}`, ask},
		"an ack of nothing we minted":   {hello, `{"type":"inbound_ack","bufferId":"07-1"}`, `{"type":"inbound_ack"}`, ask},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{ack: func(id relay.BufferID) error {
				t.Errorf("ack of %v", id)
				return nil
			}}
			inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
				r.listen()
				for _, m := range messages {
					r.write([]byte(m))
				}
				if _, ok := r.next().(wire.Descriptor); !ok {
					t.Error("no descriptor")
				}
				r.succeeded("1", "")
				r.nothing()
				bad := r.counts.get(count.SessionBadFrame) + r.counts.get(count.SessionUnknownFrame) + r.counts.get(count.SessionBadAck)
				want := map[string]int{
					"garbage between": 2, "a type of another age": 1, "no type": 1,
					"an outbound nobody can answer": 1, "an ack of nothing we minted": 2,
				}[name]
				if bad != want {
					t.Errorf("odd frames counted = %d, want %d", bad, want)
				}
			})
		})
	}
}

func TestBinaryIsText(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.listen()
		line, _ := wire.Encode(wire.Hello{Platform: "telegram"})
		if err := r.gw.Write(t.Context(), websocket.MessageBinary, line); err != nil {
			t.Errorf("write: %v", err)
		}
		if _, ok := r.next().(wire.Descriptor); !ok {
			t.Error("no descriptor")
		}
	})
}

func TestFramesThatEndTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		messages []string
		code     websocket.StatusCode
		reason   string
	}{
		"an array":                     {[]string{"[1]\n"}, websocket.StatusInvalidFramePayloadData, "frame is not a JSON object"},
		"a word":                       {[]string{"true\n"}, websocket.StatusInvalidFramePayloadData, "frame is not a JSON object"},
		"a message of 1 MiB and 1":     {[]string{strings.Repeat("x", wire.MaxFrame+1)}, websocket.StatusMessageTooBig, "frame over 1 MiB"},
		"a frame over 1 MiB in pieces": {[]string{strings.Repeat("x", wire.MaxFrame), "x"}, websocket.StatusMessageTooBig, "frame over 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
				r.greet()
				for _, m := range tc.messages {
					r.write([]byte(m))
				}
				var closed *Closed
				if err := r.wantClose(tc.code, tc.reason); !errors.As(err, &closed) || closed.Code != tc.code {
					t.Errorf("Run = %v, want closed %d", err, tc.code)
				}
			})
		})
	}
}

func TestFramesBehindTheEndAreNotHandled(t *testing.T) {
	h := &hub{ack: func(relay.BufferID) error {
		t.Error("an acknowledgement behind the end was handled")
		return nil
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.listen()
		r.write([]byte("[1]\n" + `{"type":"inbound_ack","bufferId":"1-1"}` + "\n"))
		_ = r.wantClose(websocket.StatusInvalidFramePayloadData, "frame is not a JSON object")
	})
}

func TestFrameOfOneMiBIsTaken(t *testing.T) {
	got := 0
	h := &hub{do: func(_ context.Context, r relay.Request) (relay.Result, error) {
		got = len(r.Action.(relay.Send).Content)
		return relay.Result{}, nil
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		line, _ := wire.Encode(wire.Outbound{Request: relay.Request{ID: "1", Action: say("")}})
		n := wire.MaxFrame - len(line)
		r.ask("1", say(strings.Repeat("x", n)))
		r.succeeded("1", "")
		if got != n {
			t.Errorf("content = %d bytes, want %d", got, n)
		}
	})
}

func TestPanicCostsOneFrame(t *testing.T) { // invariant 6
	h := &hub{
		ack:       func(relay.BufferID) error { panic("ack") },
		interrupt: func(relay.SessionKey, *string) { panic("interrupt") },
		goingIdle: func(context.Context, *Session) error { panic("idle") },
		waitOpen: func(_ context.Context, r relay.Request) error {
			if r.ID == "1" {
				panic("allow")
			}
			return nil
		},
		do: func(_ context.Context, r relay.Request) (relay.Result, error) {
			if r.ID == "2" {
				panic("action")
			}
			return relay.Result{MessageID: "m"}, nil
		},
	}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.send(wire.InboundAck{Buffer: "1-1"})
		r.send(wire.Interrupt{Session: "k"})
		r.send(wire.GoingIdle{})
		r.ask("1", say("hi"))
		r.refused("1", relay.NotSent, "network")
		r.ask("2", say("hi"))
		r.refused("2", relay.MaybeSent, "timed out")
		r.ask("3", say("hi"))
		r.succeeded("3", "m")
		r.wantCount(count.SessionPanic, 5)
	})
}

func TestAckAndInterruptReachTheHandler(t *testing.T) {
	var mu sync.Mutex
	var got []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, what)
	}
	h := &hub{
		ack: func(id relay.BufferID) error { note("ack " + id.String()); return nil },
		interrupt: func(key relay.SessionKey, reason *string) {
			if reason == nil {
				note("interrupt " + string(key))
			} else {
				note("interrupt " + string(key) + " " + *reason)
			}
		},
	}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		why := "stop"
		r.send(wire.InboundAck{Buffer: "a1-7"})
		r.send(wire.Interrupt{Session: "k", Reason: &why})
		r.send(wire.Interrupt{Session: "k"})
		synctest.Wait()
		if want := []string{"ack a1-7", "interrupt k stop", "interrupt k"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestGoingIdle(t *testing.T) { // invariant 5
	var pushing chan struct{} // made in the bubble
	acked, flips := 0, 0
	h := &hub{
		pump: func(ctx context.Context, s *Session) error {
			defer close(pushing)
			return s.Push(ctx, event(1, 1), nil)
		},
		goingIdle: func(context.Context, *Session) error {
			if flips++; flips > 1 {
				t.Errorf("%d flips at once", flips)
			}
			<-pushing // as a flip waits for the push in progress
			flips--
			return nil
		},
		ack: func(relay.BufferID) error { acked++; return nil },
	}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		pushing = make(chan struct{})
		// The outbox is full, so that the pump's push hangs.
		for range outboxFull + 1 {
			r.s.Tell(wire.InterruptInbound{Session: "k"})
		}
		r.send(wire.Hello{Platform: "telegram"})
		r.send(wire.GoingIdle{})
		r.send(wire.GoingIdle{})
		r.send(wire.InboundAck{Buffer: "1-1"})
		synctest.Wait()
		if acked != 1 {
			t.Errorf("acks read while the flip waits = %d, want 1", acked)
		}
		r.listen()
		order := ""
		for range outboxFull + 1 + 4 {
			switch r.next().(type) {
			case wire.Descriptor:
				order += "d"
			case wire.Inbound:
				order += "i"
			case wire.GoingIdleAck:
				order += "a"
			}
		}
		if order != "diaa" {
			t.Errorf("order = %s, want descriptor, inbound, two acks", order)
		}
	})
}

func TestHelloWaitsForTheFlip(t *testing.T) {
	var order []string
	var release chan struct{} // made in the bubble
	h := &hub{
		goingIdle: func(context.Context, *Session) error {
			<-release
			order = append(order, "idle")
			return nil
		},
		hello: func(_ *Session, f wire.Hello) (relay.Descriptor, error) {
			order = append(order, "hello")
			return relay.Bare(f.Platform), nil
		},
	}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		release = make(chan struct{})
		r.greet()
		r.send(wire.GoingIdle{})
		r.send(wire.Hello{Platform: "telegram"})
		synctest.Wait()
		close(release)
		synctest.Wait()
		if want := []string{"hello", "idle", "hello"}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

// TestAnOfferedFrameEndsNoSession: what the gateway can do without is dropped when it does not read.
func TestAnOfferedFrameEndsNoSession(t *testing.T) {
	h := &hub{}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		for range 10 * outboxMax {
			r.s.Offer(wire.InterruptInbound{Session: "k"})
		}
		r.s.Tell(wire.GoingIdleAck{})
		r.listen()
		offered := 0
		for {
			if _, ok := r.next().(wire.GoingIdleAck); ok {
				break
			}
			offered++
		}
		if offered == 0 || offered > outboxFull+1 {
			t.Errorf("%d were written, want at most %d", offered, outboxFull+1)
		}
	})
}
