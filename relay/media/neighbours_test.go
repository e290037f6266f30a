package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestATenantFillsTheRoom: two gateways of one tenant fill it with uploads that they do not send, or have not ended, or with
// files that they do not take; another tenant's photo comes at once, and so does its upload.
func TestATenantFillsTheRoom(t *testing.T) {
	const size = 100
	hogs := []relay.InstanceID{"a1", "a2"}
	for name, fill := range map[string]func(t *testing.T, r *rig) (over func()){
		"unsent": func(t *testing.T, r *rig) func() {
			for n := range 40 {
				_, _, _ = r.k.Put(t.Context(), hogs[n%2], "a", size, bytes.NewReader(sized(size)))
			}
			return func() {}
		},
		"not ended": func(t *testing.T, r *rig) func() {
			body, end := io.Pipe()
			for n := range 40 {
				go func() { _, _, _ = r.k.Put(t.Context(), hogs[n%2], "a", size, body) }()
			}
			return func() { _ = end.Close() }
		},
		"not taken": func(t *testing.T, r *rig) func() {
			for n := range 10 {
				r.net.has(fmt.Sprint("hog", n), sized(size))
				r.accept(hogs[n%2:n%2+1], size, fmt.Sprint("hog", n))
			}
			return func() {}
		},
	} {
		for disk, free := range map[string]int64{"room for all": 1 << 40, "a full disk": minFree + 10*size} {
			t.Run(name+", "+disk, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var r *rig
					most := int64(10 * size)
					if disk == "a full disk" {
						most = 0
					}
					r = newRig(t, Options{MaxTotal: most, Free: func(string) (int64, error) {
						if r == nil || r.k == nil {
							return free, nil
						}
						return free - r.k.Stats().Bytes, nil
					}})
					r.enroll("a", hogs...)
					r.enroll("b", "b1")
					over := fill(t, r)
					synctest.Wait()
					began := time.Now()
					r.net.has("photo", sized(150))
					ev, _ := r.accept([]relay.InstanceID{"b1"}, 150, "photo")
					r.want(ev, relay.MediaHeld)
					if _, _, err := r.k.Put(t.Context(), "b1", "mine", 15, strings.NewReader("fifteen bytes..")); err != nil || time.Since(began) > 0 {
						t.Errorf("the upload: %v, after %v", err, time.Since(began))
					}
					over()
					synctest.Wait()
					if s := r.k.Stats(); s.Bytes > 10*size {
						t.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

// TestNobodysUploadPushesOutAnothersFile: a tenant that uploads without end has room of its own alone.
func TestNobodysUploadPushesOutAnothersFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MaxTotal: 1000})
		r.enroll("a", "a1")
		r.enroll("b", "b1")
		r.net.has("photo", sized(200))
		ev, buffers := r.accept([]relay.InstanceID{"b1"}, 200, "photo")
		r.want(ev, relay.MediaHeld)
		r.ack("b1", buffers[0])
		mine, _, err := r.k.Put(t.Context(), "b1", "mine", 200, bytes.NewReader(sized(200)))
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		for range 50 {
			id, _, err := r.k.Put(t.Context(), "a1", "a", 100, bytes.NewReader(sized(100)))
			if err == nil {
				taken++
				r.content("a1", id) // it was sent
			} else if !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
		}
		if taken != 50 || r.content("b1", mine) == nil || r.content("b1", ev.Attachments[0].ID) == nil {
			t.Errorf("%d of 50 taken; of the neighbour there is %v", taken, r.names())
		}
	})
}

// TestWhatIsNobodysGoesFirst: the files of an instance that was revoked, also when they are only found at a start.
func TestWhatIsNobodysGoesFirst(t *testing.T) {
	r := newRig(t, Options{})
	r.enroll("a", "a1")
	r.enroll("b", "b1")
	put := func(i relay.InstanceID, size int) relay.MediaID {
		id, _, err := r.k.Put(r.ctx(), i, "n", int64(size), bytes.NewReader(sized(size)))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	put("a1", 400)
	stays := put("b1", 500)
	if _, err := r.db.Revoke(r.ctx(), nil, "a1"); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.open(Options{MaxTotal: 1000})
	put("b1", 200)
	if s := r.k.Stats(); s != (Stats{Files: 2, Bytes: 700}) || len(r.names()) != 2 || r.content("b1", stays) == nil {
		t.Errorf("%+v, %v", s, r.names())
	}
}

// TestTurnsOfFetches: a tenant's five instances have many files coming, slowly; another's comes as soon as one of them is done.
func TestTurnsOfFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Timeout: 5 * time.Minute})
		r.enroll("a", "a0", "a1", "a2", "a3", "a4")
		r.enroll("b", "b1")
		for n := range 40 {
			ref := fmt.Sprint("slow", n)
			r.net.give(ref, func(ctx context.Context) (io.ReadCloser, error) {
				select {
				case <-time.After(time.Duration(10+n%7) * time.Second):
				case <-ctx.Done():
				}
				return io.NopCloser(strings.NewReader("x")), nil
			})
			r.accept([]relay.InstanceID{relay.InstanceID(fmt.Sprint("a", n%5))}, 1, ref)
		}
		synctest.Wait()
		began := time.Now()
		r.net.has("photo", []byte("x"))
		ev, _ := r.accept([]relay.InstanceID{"b1"}, 1, "photo")
		r.want(ev, relay.MediaHeld)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it came after %v", took)
		}
	})
}
