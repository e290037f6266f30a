package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// event is an inbound frame with a text of n bytes.
func event(seq uint64, n int) wire.Inbound {
	return wire.Inbound{
		Event: relay.Event{
			Source: relay.Source{Platform: "telegram", ChatID: "c", ChatType: relay.ChatDM},
			Type:   relay.TypeText, MessageID: "m", Text: strings.Repeat("x", n),
		},
		Buffer: relay.BufferID{Epoch: 1, Seq: seq}.String(),
	}
}

func TestPingsForADay(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		time.Sleep(24 * time.Hour) // virtual
		r.ask("1", say("still here?"))
		r.succeeded("1", "")
	})
}

func TestDeadPeerIsClosed(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.swallow()
		r.send(wire.Hello{Platform: "telegram"})
		start := time.Now()
		if err := <-r.run; !errors.Is(err, ErrLost) {
			t.Errorf("Run = %v, want %v", err, ErrLost)
		}
		if got, most := time.Since(start), pingEvery+pongTime; got > most {
			t.Errorf("the peer was found dead after %v, want at most %v", got, most)
		}
		r.wantCount(count.SessionNoPong, 1)
	})
}

func TestASignOfLife(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		if !r.s.Answers(t.Context()) {
			t.Error("a gateway that answers gave no sign of life")
		}
	})
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.swallow()
		start := time.Now()
		if r.s.Answers(t.Context()) {
			t.Error("a dead gateway gave a sign of life")
		}
		if d := time.Since(start); d != signTime {
			t.Errorf("that took %v, want %v", d, signTime)
		}
		select {
		case err := <-r.run:
			t.Errorf("the question ended the session: %v", err)
		default:
		}
	})
}

func TestDeafPeerSurvives(t *testing.T) {
	inBubble(t, &hub{}, Options{Hello: time.Hour}, func(t *testing.T, r *rig) {
		time.Sleep(pingEvery - 5*time.Second)
		r.send(wire.Hello{Platform: "telegram"})
		synctest.Wait() // the descriptor is half written: nobody reads, and the next ping gets stuck
		time.Sleep(writeTime - time.Second)
		r.listen()
		if _, ok := r.next().(wire.Descriptor); !ok {
			t.Fatal("no descriptor after the silence")
		}
		time.Sleep(time.Hour)
		r.ask("1", say("there?"))
		r.succeeded("1", "")
	})
}

func TestUnreadFramesAreNotJudged(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		if err := r.s.Push(t.Context(), event(1, 10), nil); err != nil {
			t.Fatalf("push: %v", err)
		}
		time.Sleep(24 * time.Hour) // no acknowledgement comes
		r.ask("1", say("there?"))
		if _, ok := r.next().(wire.Inbound); !ok {
			t.Error("no inbound frame")
		}
		r.succeeded("1", "")
	})
}

func TestSlowPeerIsClosed(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		start := time.Now()
		r.send(wire.Hello{Platform: "telegram"})
		err := <-r.run
		var closed *Closed
		if !errors.As(err, &closed) || closed.Code != websocket.StatusTryAgainLater {
			t.Errorf("Run = %v, want closed 1013", err)
		}
		if got := time.Since(start); got < writeTime || got > writeTime+closeTime {
			t.Errorf("closed after %v, want about %v", got, writeTime)
		}
		r.wantCount(count.SessionSlow, 1)
	})
}

func TestPushWaitsForRoomAndResultsDoNot(t *testing.T) { // invariant 4
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.send(wire.Hello{Platform: "telegram"})
		synctest.Wait()
		for n := range outboxFull {
			if err := r.s.Push(t.Context(), event(uint64(n), 1), nil); err != nil {
				t.Fatalf("push %d: %v", n, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.s.Push(ctx, event(99, 1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("push into a full outbox = %v, want the deadline", err)
		}
		pushed := make(chan error)
		go func() { pushed <- r.s.Push(t.Context(), event(100, 1), nil) }()
		synctest.Wait()
		r.ask("1", say("hi")) // read and answered although the pump waits
		synctest.Wait()
		r.listen()
		if err := <-pushed; err != nil {
			t.Errorf("push after room was made = %v, want nil", err)
		}
		order := ""
		for range 1 + outboxFull + 2 {
			switch f := r.next().(type) {
			case wire.Descriptor:
				order += "d"
			case wire.OutboundResult:
				order += "r"
			case wire.Inbound:
				if f.Buffer == (relay.BufferID{Epoch: 1, Seq: 100}).String() {
					order += "i"
				}
			}
		}
		if order != "dri" {
			t.Errorf("order = %s, want descriptor, result, late push", order)
		}
	})
}

func TestGatewayThatAsksAndNeverReadsIsCutOff(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		for range outboxMax + 2 {
			r.ask("1", say("before any hello"))
		}
		var closed *Closed
		if err := <-r.run; !errors.As(err, &closed) || closed.Reason != "too slow" {
			t.Errorf("Run = %v, want too slow", err)
		}
	})
}

func TestPushOfWhatCannotBeEncoded(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		if err := r.s.Push(t.Context(), event(1, wire.MaxFrame), nil); !errors.Is(err, ErrUnencodable) {
			t.Errorf("push of a frame over the limit = %v, want %v", err, ErrUnencodable)
		}
		r.s.End(CodeReplaced, "replaced")
		<-r.run
		if err := r.s.Push(t.Context(), event(1, 1), nil); !errors.Is(err, ErrEnded) {
			t.Errorf("push after the end = %v, want %v", err, ErrEnded)
		}
	})
}

func TestEnd(t *testing.T) {
	for _, tc := range []Closed{
		{Code: CodeReplaced, Reason: "replaced"},
		{Code: CodeUnauthorized, Reason: "unauthorized"},
		{Code: websocket.StatusGoingAway, Reason: "going away"},
	} {
		t.Run(tc.Reason, func(t *testing.T) {
			var cause error
			h := &hub{pump: func(ctx context.Context, _ *Session) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			}}
			inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
				r.greet()
				r.s.End(tc.Code, tc.Reason)
				r.s.End(websocket.StatusInternalError, "the second one loses")
				err := r.wantClose(tc.Code, tc.Reason)
				var closed *Closed
				if !errors.As(err, &closed) || *closed != tc {
					t.Errorf("Run = %v, want %v", err, &tc)
				}
				if !errors.Is(cause, err) {
					t.Errorf("the pump's cause = %v, want %v", cause, err)
				}
			})
		})
	}
}

func TestEndBeforeRun(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		// Run has most likely begun, but a session that is ended and only then run is the same.
		s := New(r.s.conn, r.s.peer, &hub{}, Options{})
		s.End(CodeReplaced, "replaced")
		live, end := context.WithCancelCause(t.Context())
		s.endable(end)
		if live.Err() == nil {
			t.Error("the context lives on")
		}
	})
}

func TestCloseHandshakeIsBounded(t *testing.T) {
	for name, gateway := range map[string]func(*rig){
		"a gateway that reads nothing":          func(*rig) {},
		"a gateway that reads and says nothing": func(r *rig) { r.swallow() },
		"a gateway that talks on":               func(r *rig) { r.swallow(); r.babble() },
	} {
		t.Run(name, func(t *testing.T) {
			acks := 0
			h := &hub{ack: func(relay.BufferID) error { acks++; return nil }}
			inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
				gateway(r)
				synctest.Wait()
				start, before := time.Now(), acks
				r.s.End(CodeReplaced, "replaced")
				<-r.run
				if got := time.Since(start); got > closeTime {
					t.Errorf("closing took %v, want at most %v", got, closeTime)
				}
				if acks != before {
					t.Errorf("acks handled after the end = %d, want 0", acks-before)
				}
			})
		})
	}
}

func TestGatewayHangsUp(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		if err := r.gw.Close(websocket.StatusNormalClosure, "bye"); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-r.run; !errors.Is(err, ErrHungUp) {
			t.Errorf("Run = %v, want %v", err, ErrHungUp)
		}
	})
}

func TestConnectionIsLost(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		_ = r.wire.Close()
		if err := <-r.run; !errors.Is(err, ErrLost) {
			t.Errorf("Run = %v, want %v", err, ErrLost)
		}
	})
}

func TestShutdown(t *testing.T) {
	h := &hub{do: func(ctx context.Context, r relay.Request) (relay.Result, error) {
		time.Sleep(10 * time.Second) // virtual
		return relay.Result{MessageID: "m"}, ctx.Err()
	}}
	acks := 0
	h.ack = func(relay.BufferID) error { acks++; return nil }
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("long"))
		synctest.Wait()
		r.end(errors.New("the connector is stopping"))
		synctest.Wait()
		r.ask("2", say("too late"))
		r.refused("2", relay.NotSent, "network")
		r.send(wire.InboundAck{Buffer: "1-1"})
		r.send(wire.Hello{Platform: "discord"})
		r.succeeded("1", "m")
		if err := r.wantClose(websocket.StatusGoingAway, "going away"); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if acks != 1 {
			t.Errorf("acks while draining = %d, want 1", acks)
		}
	})
}

func TestHurry(t *testing.T) {
	h := &hub{do: func(ctx context.Context, r relay.Request) (relay.Result, error) {
		<-ctx.Done()
		return relay.Result{}, fmt.Errorf("send: %w", context.Cause(ctx))
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("running"))
		r.ask("2", say("waiting"))
		synctest.Wait()
		r.end(errors.New("the connector is stopping"))
		time.Sleep(3 * time.Second)
		r.nothing()
		start := time.Now()
		r.hurry()
		r.refused("1", relay.MaybeSent, "timed out")
		r.refused("2", relay.NotSent, "network")
		if err := r.wantClose(websocket.StatusGoingAway, "going away"); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if got := time.Since(start); got > closeTime {
			t.Errorf("the end took %v, want at most %v", got, closeTime)
		}
	})
}

func TestHandlerErrorEndsTheSession(t *testing.T) {
	trouble := errors.New("store trouble")
	refused := &Closed{Code: websocket.StatusTryAgainLater, Reason: "copied credential"}
	for name, tc := range map[string]struct {
		h      *hub
		reason string
	}{
		"hello":      {&hub{hello: func(*Session, wire.Hello) (relay.Descriptor, error) { return relay.Descriptor{}, trouble }}, "try again later"},
		"its choice": {&hub{hello: func(*Session, wire.Hello) (relay.Descriptor, error) { return relay.Descriptor{}, refused }}, "copied credential"},
		"pump":       {&hub{pump: func(context.Context, *Session) error { return trouble }}, "try again later"},
		"ack":        {&hub{ack: func(relay.BufferID) error { return trouble }}, "try again later"},
		"going idle": {&hub{goingIdle: func(context.Context, *Session) error { return trouble }}, "try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.h, Options{}, func(t *testing.T, r *rig) {
				r.listen()
				r.write([]byte(`{"type":"hello","platform":"telegram","botId":"1"}
{"type":"inbound_ack","bufferId":"1-1"}
{"type":"going_idle"}
`))
				if err := r.wantClose(websocket.StatusTryAgainLater, tc.reason); !errors.Is(err, trouble) && !errors.Is(err, refused) {
					t.Errorf("Run = %v, want %v", err, trouble)
				}
			})
		})
	}
}
