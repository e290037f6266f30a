package transfer

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/media"
)

// listen is a listener on loopback.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// plainly serves h as package http does by itself.
func plainly(t testing.TB, h http.HandlerFunc) (base string) {
	l := listen(t)
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
	return "http://" + l.Addr().String()
}

// once is a client of which each request has a connection of its own, as a gateway's has.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}}

func fetchAll(t testing.TB, address, as string) {
	q, _ := http.NewRequest(http.MethodGet, address, nil)
	q.Header.Set("Authorization", "Bearer "+as)
	res, err := once.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); res.StatusCode != 200 || n != media.MaxFile || err != nil {
		t.Fatalf("%s, %d bytes, %v", res.Status, n, err)
	}
}

func post(t testing.TB, address, as string, body []byte) {
	q, _ := http.NewRequest(http.MethodPost, address, bytes.NewReader(body))
	q.Header.Set("Authorization", "Bearer "+as)
	res, err := once.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	_, _ = io.Copy(io.Discard, res.Body)
}

// inTurns runs everything in turns, b.N times, and reports the medians in MB/s and their ratio to the first.
func inTurns(b *testing.B, names []string, runs ...func()) {
	took := make([][]time.Duration, len(runs))
	for _, run := range runs {
		run() // once, so that everything is warm
	}
	for b.Loop() {
		for n, run := range runs {
			began := time.Now()
			run()
			took[n] = append(took[n], time.Since(began))
		}
	}
	var base time.Duration
	for n := range runs {
		slices.Sort(took[n])
		median := took[n][len(took[n])/2]
		if n == 0 {
			base = median
		}
		b.ReportMetric(float64(media.MaxFile)/1e6/median.Seconds(), names[n]+"-MB/s")
		if n > 0 {
			b.ReportMetric(float64(base)/float64(median), fmt.Sprintf("%s/%s", names[n], names[0]))
		}
	}
}

// BenchmarkDownload: of 25 MiB, beside http.ServeContent.
func BenchmarkDownload(b *testing.B) {
	r := newRig(b)
	content := make([]byte, media.MaxFile)
	id := r.put("home", "a.bin", content)
	path := filepath.Join(r.dir, string(id))
	base := plainly(b, func(w http.ResponseWriter, q *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			b.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, q, "a.bin", time.Time{}, f)
	})
	l := listen(b)
	r.serve(b, l)
	inTurns(b, []string{"ServeContent", "ours"},
		func() { fetchAll(b, base, "home") },
		func() { fetchAll(b, "http://"+l.Addr().String()+"/relay/media/"+string(id), "home") },
	)
}

// BenchmarkUpload: of 25 MiB to where a record says that it is there, beside a handler that copies the body to a file and
// syncs that.
func BenchmarkUpload(b *testing.B) {
	content := make([]byte, media.MaxFile)
	dir := b.TempDir()
	base := plainly(b, func(w http.ResponseWriter, q *http.Request) {
		f, err := os.CreateTemp(dir, "copy")
		if err == nil {
			defer f.Close()
			defer func() { _ = os.Remove(f.Name()) }()
			_, err = io.Copy(f, q.Body)
		}
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	at := noon
	r := newRig(b, func(o *Options) { o.Now = func() time.Time { at = at.Add(time.Minute); return at } })
	r.over(newKeeper(b, media.Options{MaxTotal: 1 << 40, Keep: time.Nanosecond}))
	l := listen(b)
	r.serve(b, l)
	inTurns(b, []string{"copy", "ours"},
		func() { post(b, base, "home", content) },
		func() { post(b, "http://"+l.Addr().String()+"/relay/media", "home", content) },
	)
}
