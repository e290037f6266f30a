package transfer

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/media"
)

// onPipes runs a test of connections without buffers in a bubble, whose time passes at once.
func onPipes(t *testing.T, run func(t *testing.T, r *rig, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := newPipes()
		r.serve(t, p)
		run(t, r, func() net.Conn {
			c := p.dial()
			t.Cleanup(func() { _ = c.Close() })
			return c
		})
	})
}

// head writes the head of an upload of size bytes.
func head(t *testing.T, c net.Conn, as string, size int) {
	t.Helper()
	write(t, c, fmt.Sprintf("POST /relay/media HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", as, size))
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// answer reads an answer.
func answer(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestAnUploadThatMovesGoesOn, also past the times that hold for everybody else; one that does not is over.
func TestUploadTimes(t *testing.T) { // invariant 3
	for name, tc := range map[string]struct {
		size  int
		pause time.Duration // before each byte
		code  int
		after time.Duration // at most
	}{
		"a minute and a half, byte by byte": {10, 9 * time.Second, 200, 91 * time.Second},
		"ten seconds of silence":            {10, 11 * time.Second, 400, 11 * time.Second},
		"nothing at all":                    {10, time.Hour, 400, 10 * time.Second},
		"five minutes":                      {40, 9 * time.Second, 400, 301 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				c, began := dial(), time.Now()
				head(t, c, "home", tc.size)
				ended, over := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					for range tc.size {
						select {
						case <-time.After(tc.pause):
						case <-over:
							return
						}
						if _, err := io.WriteString(c, "x"); err != nil {
							return
						}
					}
				}()
				res, body := answer(t, c)
				if took := time.Since(began); res.StatusCode != tc.code || took > tc.after {
					t.Errorf("%d %s after %v, want %d after at most %v", res.StatusCode, body, took, tc.code, tc.after)
				}
				close(over)
				_ = c.Close()
				<-ended
				if kept := len(r.files); (tc.code == 200) != (kept == 1) {
					t.Errorf("%d files kept", kept)
				}
			})
		})
	}
}

// TestDownloadTimes: a gateway that reads a little now and then gets its file, one that reads nothing does not.
func TestDownloadTimes(t *testing.T) { // invariant 3
	const size = 64
	for name, tc := range map[string]struct {
		pause time.Duration // before each 8 bytes
		whole bool
	}{
		"a bit every five seconds": {5 * time.Second, true},
		"a bit every 29 seconds":   {29 * time.Second, true},
		"36 seconds of silence":    {36 * time.Second, false},
		"five minutes":             {29*time.Second + 900*time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				id := r.put("home", "a.bin", bytes.Repeat([]byte{1}, size))
				c := dial()
				write(t, c, fmt.Sprintf("GET /relay/media/%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer home\r\n\r\n", id))
				var got int
				for buf := make([]byte, 8); ; {
					n, err := c.Read(buf)
					if err != nil {
						break
					}
					if i := bytes.Index(buf[:n], []byte{1}); i >= 0 {
						got += n - i
						time.Sleep(tc.pause)
					}
				}
				if whole := got == size; whole != tc.whole || whole != (len(r.served) == 1) {
					t.Errorf("%d of %d bytes came, and %d are told of as served", got, size, len(r.served))
				}
			})
		})
	}
}

// TestADownloadHasFiveMinutes, however steadily it is read.
func TestADownloadHasFiveMinutes(t *testing.T) {
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		id := r.put("home", "a.bin", bytes.Repeat([]byte{1}, 3<<20))
		c, began := dial(), time.Now()
		write(t, c, fmt.Sprintf("GET /relay/media/%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer home\r\n\r\n", id))
		for buf := make([]byte, 16<<10); ; time.Sleep(10 * time.Second) {
			if _, err := c.Read(buf); err != nil {
				break
			}
		}
		if took := time.Since(began); took > 311*time.Second || took < 290*time.Second || len(r.served) != 0 {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestWhoWaitsForAPlace: four of an instance run; a fifth waits twelve seconds, is told so then, and finds a place that came
// free. Others are not held up.
func TestWhoWaitsForAPlace(t *testing.T) { // invariant 3
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		var running []net.Conn
		for range maxEach {
			c := dial()
			head(t, c, "home", 2)
			write(t, c, "x")
			running = append(running, c)
		}
		synctest.Wait()
		fifth, began := dial(), time.Now()
		head(t, fifth, "home", 1)
		other := dial()
		head(t, other, "away", 1)
		write(t, other, "x")
		if res, body := answer(t, other); res.StatusCode != 200 || time.Since(began) > 0 {
			t.Errorf("another gateway's: %d %s after %v", res.StatusCode, body, time.Since(began))
		}
		stop := make(chan struct{})
		go func() { // they go on all the while
			defer close(stop)
			time.Sleep(9 * time.Second)
			for _, c := range running[1:] {
				_, _ = io.WriteString(c, "x")
			}
		}()
		time.Sleep(8 * time.Second)
		write(t, running[0], "x")
		if res, body := answer(t, running[0]); res.StatusCode != 200 {
			t.Errorf("one that ran: %d %s", res.StatusCode, body)
		}
		write(t, fifth, "x")
		if res, body := answer(t, fifth); res.StatusCode != 200 || time.Since(began) < 8*time.Second {
			t.Errorf("the fifth: %d %s after %v", res.StatusCode, body, time.Since(began))
		}
		<-stop
	})
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		var going sync.WaitGroup
		defer going.Wait()
		for range maxEach {
			c := dial()
			head(t, c, "home", 1<<20)
			going.Go(func() {
				for range 15 {
					_, _ = c.Write(make([]byte, 17<<10))
					time.Sleep(time.Second)
				}
			})
		}
		synctest.Wait()
		fifth, began := dial(), time.Now()
		head(t, fifth, "home", 1)
		res, body := answer(t, fifth)
		if took := time.Since(began); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || took != placeTime || !strings.Contains(body, "at once") {
			t.Errorf("the fifth: %d %s after %v", res.StatusCode, body, took)
		}
		if r.counted["media_busy"] != 1 {
			t.Errorf("counted %v", r.counted)
		}
	})
}

// TestATransferGivesWay: one byte every four seconds goes on while nobody waits, and is told why it ends when somebody does.
func TestATransferGivesWay(t *testing.T) { // invariant 3
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		for range maxEach - 1 {
			head(t, dial(), "home", 2)
		}
		slow := dial()
		head(t, slow, "home", 100)
		told := make(chan string)
		go func() {
			res, body := answer(t, slow)
			_ = slow.Close()
			told <- fmt.Sprint(res.StatusCode, res.Header.Get("Retry-After"), body)
		}()
		var writes sync.WaitGroup
		defer writes.Wait()
		writes.Go(func() {
			for range 90 {
				if _, err := io.WriteString(slow, "x"); err != nil {
					return
				}
				time.Sleep(4 * time.Second)
			}
		})
		time.Sleep(30 * time.Second) // the three have brought nothing and are over
		for range maxEach - 1 {
			head(t, dial(), "home", 2)
		}
		synctest.Wait()
		c, began := dial(), time.Now()
		head(t, c, "home", 1)
		write(t, c, "x")
		if res, body := answer(t, c); res.StatusCode != 200 || time.Since(began) > time.Second {
			t.Errorf("%d %s after %v", res.StatusCode, body, time.Since(began))
		}
		if got := <-told; !strings.HasPrefix(got, "5035") || !strings.Contains(got, askedBack) {
			t.Errorf("the slow one was told %s", got)
		}
	})
}

// TestTransfersOfANeighbour: one tenant's four gateways take all places, with a byte every four seconds each, and come again
// as soon as they are refused; another's transfers wait no longer than patience.
func TestTransfersOfANeighbour(t *testing.T) { // invariant 3
	for name, hog := range map[string]func(c net.Conn, as string, id relay.MediaID){
		"uploads": func(c net.Conn, as string, _ relay.MediaID) {
			_, _ = fmt.Fprintf(c, "POST /relay/media HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n", as)
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
			for {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(4 * time.Second)
			}
		},
		"downloads": func(c net.Conn, as string, id relay.MediaID) {
			_, _ = fmt.Fprintf(c, "GET /relay/media/%s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", id, as)
			for {
				if _, err := c.Read(make([]byte, 1)); err != nil {
					return
				}
				time.Sleep(4 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				over := make(chan struct{})
				var hogs sync.WaitGroup
				defer hogs.Wait()
				defer close(over)
				for n := range maxAll + 8 {
					as := fmt.Sprint("hog/", n%4)
					id := r.put(relay.InstanceID(as), "a.bin", make([]byte, 1<<20))
					hogs.Go(func() {
						for {
							select {
							case <-over:
								return
							default:
							}
							c := dial()
							stop := make(chan struct{})
							go func() {
								defer close(stop)
								hog(c, as, id)
							}()
							select {
							case <-stop:
							case <-over:
							}
							_ = c.Close()
							<-stop
						}
					})
				}
				for range 20 {
					time.Sleep(1500 * time.Millisecond)
					synctest.Wait()
					soonTaken(t, dial())
				}
			})
		})
	}
}

// soonTaken uploads a byte, and fails the test unless it is taken within patience, and the second in which that is seen.
func soonTaken(t *testing.T, c net.Conn) {
	t.Helper()
	began, sent := time.Now(), make(chan struct{})
	head(t, c, "home", 1)
	go func() { // who is refused is so before it is read
		defer close(sent)
		_, _ = io.WriteString(c, "x")
	}()
	res, body := answer(t, c)
	if took := time.Since(began); res.StatusCode != 200 || took > 4*time.Second {
		t.Errorf("%d %s after %v", res.StatusCode, body, took)
	}
	_ = c.Close()
	<-sent
}

// slowDisk writes what hogs brought until their place is asked back.
type slowDisk struct {
	*drawer
	over chan struct{}
}

func (d slowDisk) Put(ctx context.Context, i relay.InstanceID, name string, declared int64, body io.Reader) (relay.MediaID, int64, error) {
	if owner(string(i)).Tenant != "hog" {
		return d.drawer.Put(ctx, i, name, declared, body)
	}
	buf := make([]byte, 1)
	if _, err := body.Read(buf); err != nil {
		return "", 0, err
	}
	select {
	case <-ctx.Done():
	case <-d.over:
	}
	time.Sleep(time.Millisecond) // longer than it takes to end a read
	_, err := body.Read(buf)
	return "", 0, err
}

// TestAskedBackBetweenReads: an upload that does not read just when its place is asked back gives way as one that reads.
func TestAskedBackBetweenReads(t *testing.T) { // invariant 3
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		disk := slowDisk{r.drawer, make(chan struct{})}
		r.over(disk)
		var hogs sync.WaitGroup
		defer time.Sleep(time.Second) // what is written then ends
		defer hogs.Wait()
		defer close(disk.over)
		for n := range maxAll {
			c := dial()
			head(t, c, fmt.Sprint("hog/", n%4), 1000)
			write(t, c, "x")
			hogs.Go(func() { _, _ = io.Copy(io.Discard, c) })
			defer c.Close()
		}
		soonTaken(t, dial())
	})
}

// TestAStrangerHasTheDoorsTimes: nothing is waited for before the credential has verified.
func TestAStrangersBodyIsNotWaitedFor(t *testing.T) {
	onPipes(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		c, began := dial(), time.Now()
		head(t, c, "wrong", media.MaxFile)
		if res, body := answer(t, c); res.StatusCode != 401 || time.Since(began) > 2*time.Second {
			t.Errorf("%d %s after %v", res.StatusCode, body, time.Since(began))
		}
	})
}
