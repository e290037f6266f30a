package session

import (
	"bufio"
	"bytes"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestAnIdleSessionHoldsNoBuffer, also after frames of all sizes and pings both ways; and its reader waits
// where the stack is small.
func TestAnIdleSessionHoldsNoBuffer(t *testing.T) {
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		for _, n := range []int{1, 100, sharedBuffer, 3 * sharedBuffer} {
			r.ask("1", say(strings.Repeat("x", n)))
			r.succeeded("1", "")
		}
		w, err := r.gw.Writer(t.Context(), 1)
		must.Succeed(t, err)
		line := bytes.Repeat([]byte(" "), 50)
		for range 2 { // a ping between two fragments
			_, _ = w.Write(line)
			_, _ = r.wire.Write(raw(0x89, "x"))
		}
		_, _ = w.Write([]byte("\n"))
		_ = w.Close()
		time.Sleep(3 * pingEvery)
		synctest.Wait()
		r.ask("1", say("x"))
		r.succeeded("1", "")
		synctest.Wait()
		m := r.s.conn.meter
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.in != nil || m.came != nil {
			t.Errorf("%d bytes are kept, in a buffer of the pool: %t", len(m.came), m.in != nil)
		}
		stacks := make([]byte, 1<<20)
		if text := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(text, "(*Session).receive(") || !strings.Contains(text, "(*meter).await(") {
			t.Error("the reader waits on a deep stack")
		}
		if r.s.unfinished != nil {
			t.Error("a timer is kept for a frame that has ended")
		}
	})
}

// writes is a connection that notes what is written to it.
type writes struct {
	net.Conn
	all [][]byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, bytes.Clone(p))
	return len(p), nil
}

// TestAFrameLeavesWhole: in one write, or in two when it is large, though the library's buffer is tiny.
func TestAFrameLeavesWhole(t *testing.T) {
	for _, n := range []int{0, 1, tinyBuffer - 2, tinyBuffer - 1, tinyBuffer, 125, 126, 1000, sharedBuffer - 4, sharedBuffer, 1<<16 - 1, 1 << 16, wire.MaxFrame} {
		frame := message(strings.Repeat("x", n))
		frame = append(frame[:len(frame)-n-4], frame[len(frame)-n:]...) // a server's has no mask
		frame[1] &^= 0x80
		m, to := newMeter(), &writes{}
		m.Conn = to
		w := bufio.NewWriterSize(m, tinyBuffer)
		for range 2 {
			to.all = nil
			head := len(frame) - n
			_, _ = w.Write(frame[:head])
			_, _ = w.Write(frame[head:])
			_ = w.Flush()
			if most := 1 + len(frame)/(sharedBuffer+1); len(to.all) > min(most, 2) || !bytes.Equal(bytes.Join(to.all, nil), frame) {
				t.Errorf("a frame of %d bytes leaves in %d writes, %d bytes", n, len(to.all), len(bytes.Join(to.all, nil)))
			}
		}
	}
}
