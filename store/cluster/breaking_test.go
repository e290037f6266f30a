package cluster

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// breaking is a way to a server that breaks now and then: after some bytes of either side, often in the middle of a message.
type breaking struct {
	port   int
	breaks atomic.Bool
	broke  atomic.Int64
}

func newBreaking(t *testing.T, to int) *breaking {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	b := &breaking{port: l.Addr().(*net.TCPAddr).Port}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(to)))
			if err != nil {
				_ = in.Close()
				continue
			}
			both := func() { _ = in.Close(); _ = out.Close() }
			wg.Go(func() { b.pass(in, out); both() })
			wg.Go(func() { b.pass(out, in); both() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return b
}

// pass copies until either end closes, or chance does.
func (b *breaking) pass(from io.Reader, to io.Writer) {
	buf := make([]byte, 512)
	for {
		n, err := from.Read(buf)
		if b.breaks.Load() && rand.IntN(12) == 0 {
			_, _ = to.Write(buf[:rand.IntN(n+1)])
			b.broke.Add(1)
			return
		}
		if _, wrong := to.Write(buf[:n]); err != nil || wrong != nil {
			return
		}
	}
}
