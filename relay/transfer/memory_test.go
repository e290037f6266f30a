package transfer

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/media"
)

// mostMemory is what all transfers together may hold at a time, and mostGarbage what they may take from first to last, in
// bytes. How much of the one becomes the other before it is collected depends on the machine, and is not looked at.
const (
	mostMemory  = 8 << 20
	mostGarbage = 32 << 20
)

// TestMemory: sixteen files of the largest size, up and then down, at once.
func TestMemory(t *testing.T) {
	r := newRig(t)
	k := newKeeper(t, media.Options{MaxTotal: 2 << 30})
	r.over(k)
	l := listen(t)
	r.serve(t, l)
	base, before := memory()
	var peak atomic.Int64
	all := func(run func(c net.Conn, who string)) {
		var wg, near sync.WaitGroup
		near.Add(maxAll)
		for n := range maxAll {
			wg.Go(func() {
				c, err := net.Dial("tcp", l.Addr().String())
				near.Done()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				near.Wait() // all at once
				run(c, fmt.Sprint("gateway", n/maxEach))
			})
		}
		wg.Wait()
	}
	look := func() {
		if now, _ := memory(); now > peak.Load() { // some are overlooked: each of them is one of many
			peak.Store(now)
		}
	}
	ids := make(chan string, maxAll)
	all(func(c net.Conn, who string) {
		fmt.Fprintf(c, "POST /relay/media HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", who, media.MaxFile)
		block := make([]byte, 64<<10)
		for n := range media.MaxFile / len(block) {
			if _, err := c.Write(block); err != nil {
				t.Error(err)
				return
			}
			if n%50 == 0 {
				look()
			}
		}
		answer, _ := io.ReadAll(c)
		var id string
		if at := len(answer) - len(`00000000000000000000000000000000","size":26214400}`) - 1; at > 0 {
			id = string(answer[at : at+32])
		}
		ids <- id + who
	})
	all(func(c net.Conn, _ string) {
		at := <-ids
		fmt.Fprintf(c, "GET /relay/media/%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", at[:32], at[32:])
		block, total := make([]byte, 64<<10), 0
		for n := 0; ; n++ {
			got, err := c.Read(block)
			if total += got; err != nil {
				break
			}
			if n%50 == 0 {
				look()
			}
		}
		if total < media.MaxFile {
			t.Errorf("%d bytes came", total)
		}
	})
	_, after := memory()
	theirs := int64(maxAll * 64 << 10) // this test's own blocks
	held, took := peak.Load()-base-theirs, after-before-2*theirs
	if held > mostMemory || took > mostGarbage {
		t.Errorf("%d transfers held %d KiB, want at most %d, and took %d KiB, want at most %d", maxAll, held>>10, mostMemory>>10, took>>10, mostGarbage>>10)
	} else {
		t.Logf("%d transfers held %d KiB and took %d KiB", maxAll, held>>10, took>>10)
	}
}

// memory is what the heap and the stacks hold that is in use, without garbage, and what was ever taken from the heap, in bytes.
func memory() (held, taken int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), int64(m.TotalAlloc)
}
