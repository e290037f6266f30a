package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// closedWithin is how long the worst gateway may keep a session.
const closedWithin = 90 * time.Second

// raw is a frame as bytes: opcode with the FIN bit, masked with zeros.
func raw(first byte, payload string) []byte {
	head := []byte{first, 0x80 | byte(min(len(payload), 126))}
	if len(payload) >= 126 {
		head = binary.BigEndian.AppendUint16(head, uint16(len(payload)))
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

// every writes b below the WebSocket after each pause, until the connection is gone.
func (r *rig) every(pause time.Duration, b []byte) {
	r.helpers.Go(func() {
		for {
			if _, err := r.wire.Write(b); err != nil {
				return
			}
			time.Sleep(pause) // virtual
		}
	})
}

// repeat sends line as one message after each pause, until the connection is gone.
func (r *rig) repeat(pause time.Duration, line string) { r.every(pause, message(line)) }

func message(line string) []byte {
	if len(line) < 1<<16 {
		return raw(0x81, line)
	}
	head := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, uint64(len(line)))
	return append(append(head, 0, 0, 0, 0), line...)
}

func TestHostileGatewaysAreClosed(t *testing.T) {
	policy := func(reason string) *Closed { return &Closed{Code: websocket.StatusPolicyViolation, Reason: reason} }
	const second, quick = time.Second, time.Millisecond
	for name, tc := range map[string]struct {
		do    func(*rig)
		want  *Closed // nil: the connection is given up
		count count.Counter
	}{
		"never reads": {
			func(r *rig) { r.send(wire.Hello{Platform: "telegram"}) }, errTooSlow, count.SessionSlow},
		"reads a byte a second": {func(r *rig) {
			r.send(wire.Hello{Platform: "telegram"})
			r.helpers.Go(func() {
				for b := make([]byte, 1); ; time.Sleep(second) {
					if _, err := r.wire.Read(b); err != nil {
						return
					}
				}
			})
		}, errTooSlow, count.SessionSlow},
		"reads, and answers no ping": {func(r *rig) {
			r.send(wire.Hello{Platform: "telegram"})
			r.swallow()
		}, nil, count.SessionNoPong},
		"writes a byte a second": {func(r *rig) {
			r.greet()
			_, _ = r.wire.Write(message(strings.Repeat("x", 1000))[:20])
			r.every(second, []byte("x"))
		}, nil, count.SessionNoPong},
		"writes a fragment a second": {func(r *rig) {
			r.greet()
			w, _ := r.gw.Writer(r.t.Context(), websocket.MessageText)
			r.helpers.Go(func() {
				for {
					if _, err := w.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(second)
				}
			})
		}, policy("frame not finished in time"), count.SessionUnfinished},
		"writes a piece of a frame a second": {func(r *rig) {
			r.greet()
			r.repeat(second, "x")
		}, policy("frame not finished in time"), count.SessionUnfinished},
		"never says hello": {
			func(r *rig) { r.listen(); r.repeat(second, `{"type":"interrupt"}`+"\n") }, policy("no hello"), count.SessionNoHello},
		"acknowledges what it was not sent": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"inbound_ack","bufferId":"1-1"}`) }, policy("too many bad frames"), count.SessionManyFaults},
		"acknowledges what nobody mints": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"inbound_ack","bufferId":"?"}`) }, policy("too many bad frames"), count.SessionManyFaults},
		"floods hellos": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"hello","platform":"discord"}`) }, policy("too many hellos"), count.SessionManyHellos},
		"floods requests": {func(r *rig) {
			r.swallow()
			r.send(wire.Hello{Platform: "telegram"})
			r.repeat(quick, `{"type":"outbound","requestId":"1","action":{"op":"typing","chat_id":"c"}}`)
		}, policy("too many frames"), count.SessionManyFrames},
		"floods interrupts": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"interrupt","session_key":"k"}`) }, policy("too many interrupts"), count.SessionManyInterrupts},
		"floods going_idle": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"going_idle"}`) }, policy("too many going_idle"), count.SessionManyIdles},
		"floods frames of another age": {
			func(r *rig) { r.greet(); r.repeat(quick, `{"type":"presence"}`) }, policy("too many frames"), count.SessionManyFrames},
		"floods lines that are no JSON": {
			func(r *rig) { r.greet(); r.repeat(quick, "garbage\n") }, policy("too many bad frames"), count.SessionManyFaults},
		"floods lines in one message": {
			func(r *rig) { r.greet(); r.repeat(second, strings.Repeat(`{"type":"presence"}`+"\n", 500)) }, policy("too many frames"), count.SessionManyFrames},
		"more lines in a message than are split": {
			func(r *rig) { r.greet(); r.repeat(second, strings.Repeat("{}\n", wire.MaxLines+1)) }, policy("too many frames"), count.SessionManyFrames},
		"floods blank messages": {
			func(r *rig) { r.greet(); r.repeat(quick, "\n") }, policy("too many frames"), count.SessionManyFrames},
		"a MiB of garbage a second, in lines": {
			func(r *rig) { r.greet(); r.repeat(second, strings.Repeat("x", wire.MaxFrame-1)+"\n") }, policy("too much data"), count.SessionManyBytes},
		"a MiB of garbage a second, without end": {
			func(r *rig) { r.greet(); r.repeat(second, strings.Repeat("x", wire.MaxFrame)) }, errTooLarge, 0},
		"floods pings": {
			func(r *rig) { r.greet(); r.every(quick, raw(0x89, "")) }, policy("too many frames"), count.SessionManyFrames},
		"floods large pings": {
			func(r *rig) { r.greet(); r.every(10*quick, raw(0x89, strings.Repeat("x", 125))) }, policy("too many frames"), count.SessionManyFrames},
		"floods pongs": {
			func(r *rig) { r.greet(); r.every(quick, raw(0x8a, "")) }, policy("too many frames"), count.SessionManyFrames},
		"a message of empty fragments": {
			func(r *rig) { r.greet(); _, _ = r.wire.Write(raw(0x01, "")); r.every(quick, raw(0x00, "")) }, policy("frame not finished in time"), count.SessionUnfinished},
		"a message of tiny fragments": {
			func(r *rig) { r.greet(); _, _ = r.wire.Write(raw(0x01, "x")); r.every(quick, raw(0x00, "x")) }, policy("frame not finished in time"), count.SessionUnfinished},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &hub{ignore: true}, Options{}, func(t *testing.T, r *rig) {
				start := time.Now()
				tc.do(r)
				err := <-r.run
				var told *Closed
				switch {
				case tc.want == nil && !errors.Is(err, ErrLost):
					t.Errorf("Run = %v, want %v", err, ErrLost)
				case tc.want != nil && (!errors.As(err, &told) || told.Code != tc.want.Code || told.Reason != tc.want.Reason):
					t.Errorf("Run = %v, want %v", err, tc.want)
				}
				if took := time.Since(start); took > closedWithin {
					t.Errorf("closed after %v, want at most %v", took, closedWithin)
				}
				if tc.count != 0 {
					r.wantCount(tc.count, 1)
				}
			})
		})
	}
}

// TestTheReasonIsTold: a gateway that reads learns why, although it is in the middle of a flood.
func TestTheReasonIsTold(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.every(0, raw(0x8a, ""))
		_ = r.wantClose(websocket.StatusPolicyViolation, "too many frames")
	})
}

func TestHealthyGatewaysMeetNoLimit(t *testing.T) {
	edit := strings.Repeat("x", 4<<10)
	for name, f := range map[string]func(t *testing.T, r *rig){
		"a drain at 5,000 acknowledgements a second": func(t *testing.T, r *rig) {
			for range long.Pick(5, 20) {
				for range 5000 {
					r.send(wire.InboundAck{Buffer: relay.BufferID{Epoch: 1 << 60, Seq: 1 << 40}.String()})
				}
				time.Sleep(time.Second)
			}
		},
		"the largest command manifest, for every identity of sixteen": func(t *testing.T, r *rig) {
			command, _ := json.Marshal(map[string]string{"name": "c", "description": strings.Repeat("x", 1000)})
			for range 16 {
				r.send(wire.Hello{Platform: "discord", Manifest: slices.Repeat([]json.RawMessage{command}, 500)})
				r.next()
			}
		},
		"ten minutes of streamed answers and typing in sixteen chats": func(t *testing.T, r *rig) {
			for range 600 {
				for c := range 16 {
					chat := relay.ChatID(fmt.Sprint(c))
					r.ask("e", relay.Edit{Chat: chat, Message: "m", Content: edit})
					r.ask("t", relay.Typing{Chat: chat})
				}
				time.Sleep(time.Second)
				for range 32 {
					r.next()
				}
			}
		},
		"256 requests at once": func(t *testing.T, r *rig) {
			for n := range maxWaiting {
				r.ask("1", relay.Send{Chat: relay.ChatID(fmt.Sprint(n)), Content: edit})
			}
			for range maxWaiting {
				r.succeeded("1", "")
			}
		},
		"a ping every 20 seconds for a day": func(t *testing.T, r *rig) {
			time.Sleep(7 * time.Second) // never at the moment of ours: the rig's pipe has no buffer for two pongs
			for range 24 * 180 {
				if _, err := r.wire.Write(raw(0x89, "abcd")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
			}
		},
		"frames that never end with their message": func(t *testing.T, r *rig) {
			for range 30 {
				if _, err := r.wire.Write(message(`"later"}` + "\n" + `{"type":`)); err != nil {
					return
				}
				time.Sleep(10 * time.Second)
			}
		},
		"a proxy that cuts a frame of 1 MB into 4 KiB": func(t *testing.T, r *rig) {
			w, _ := r.gw.Writer(t.Context(), websocket.MessageText)
			line, _ := wire.Encode(wire.Outbound{Request: relay.Request{ID: "1", Action: say(strings.Repeat("x", 1_000_000))}})
			for len(line) > 0 {
				n := min(len(line), 4096)
				_, _ = w.Write(line[:n])
				line = line[n:]
			}
			_ = w.Close()
			r.succeeded("1", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
				r.greet()
				f(t, r)
				synctest.Wait()
				select {
				case err := <-r.run:
					t.Errorf("the session ended: %v", err)
				default:
				}
			})
		})
	}
}

func TestWhatAnActionHeldIsThereAgain(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		for _, id := range []relay.RequestID{"first", "second", "third"} {
			r.ask(id, say(strings.Repeat("x", 1_000_000)))
			r.succeeded(id, "")
		}
	})
}

func TestActionsAreBoundedInBytes(t *testing.T) {
	h := &hub{do: func(ctx context.Context, _ relay.Request) (relay.Result, error) {
		<-ctx.Done()
		return relay.Result{}, ctx.Err()
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		big := strings.Repeat("x", 1_000_000)
		r.ask("runs", say(big))
		synctest.Wait()
		r.nothing()
		r.ask("refused", say(big))
		r.refused("refused", relay.NotSent, "network: busy")
		r.ask("small", say("x"))
		r.nothing()
		r.hurry()
	})
}
