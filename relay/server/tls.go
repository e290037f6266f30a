package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// statEvery is the least time between two looks at the certificate files.
const statEvery = time.Second

// Certificates is the TLS configuration of a listener whose certificate chain and key are in these
// PEM files. They are read now; the error names the file at fault. A pair that was changed is read
// again during a later handshake, at the earliest a second after the last look; while the new
// one cannot be used (half written, say) the old one goes on, and log (nil means discard) gets one
// line for each change. Only HTTP/1.1 is offered: a WebSocket's upgrade needs it.
func Certificates(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &certificates{files: [2]string{certFile, keyFile}, log: log, looked: time.Now()}
	if err := c.reload(); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}, nil
}

// certificates is a certificate and its key, as they were last usable.
type certificates struct {
	// Set once, by Certificates.
	files [2]string // certificate, key
	log   *slog.Logger

	pair atomic.Pointer[tls.Certificate] // never nil after Certificates

	mu     sync.Mutex // held by the one handshake that looks; guards the fields below
	looked time.Time
	seen   [2]os.FileInfo // the files that were read last, whether or not they are pair
	broken bool           // they are not: read them again, somebody may give us the right to
	fault  string         // what was last logged about them
}

// current is the pair to use. A handshake does not wait for another one's look at the files.
func (c *certificates) current() *tls.Certificate {
	if !c.mu.TryLock() {
		return c.pair.Load()
	}
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= statEvery {
		c.looked = now
		before := c.seen
		switch err := c.reload(); {
		case err == nil:
			c.fault = ""
		case err.Error() != c.fault || !sameFiles(before, c.seen):
			c.fault = err.Error()
			c.log.Warn("certificate files cannot be used; going on with the old pair", "err", err)
		}
	}
	return c.pair.Load()
}

// reload reads the files if they are not those that were read last, or if those were broken.
func (c *certificates) reload() error {
	var now [2]os.FileInfo
	for i, name := range c.files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		now[i] = info
	}
	if !c.broken && sameFiles(c.seen, now) {
		return nil
	}
	// What was looked at before the reading: a change in between shows at the next look.
	c.seen, c.broken = now, true
	var text [2][]byte
	for i, name := range c.files {
		var err error
		if text[i], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("%s with key %s: %w", c.files[0], c.files[1], err)
	}
	c.pair.Store(&pair)
	c.broken = false
	if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		c.log.Warn("the certificate is not valid now; gateways will refuse it", "file", c.files[0],
			"from", pair.Leaf.NotBefore, "until", pair.Leaf.NotAfter)
	}
	return nil
}

// sameFiles reports whether files are as they were. One that was replaced is another, whatever its time.
func sameFiles(a, b [2]os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil || !os.SameFile(a[i], b[i]) ||
			a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
