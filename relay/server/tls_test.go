package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// certPair is a certificate for localhost, which is its own authority, and its key.
type certPair struct {
	leaf      *x509.Certificate
	cert, key []byte // PEM
}

func newPair(t *testing.T, serial int64) certPair {
	t.Helper()
	return newPairUntil(t, serial, 2999)
}

func newPairUntil(t *testing.T, serial int64, year int) certPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		NotBefore:    time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), // a bubble's clock begins in 2000
		NotAfter:     time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certPair{
		leaf: leaf,
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// putFile puts text in place of the file, with the clock's time.
func putFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// shake performs a handshake in memory and says which of the pairs was shown.
func shake(t *testing.T, server *tls.Config, client *tls.Config) (serial int64, err error) {
	t.Helper()
	here, there := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = there.Close() }()
		_ = tls.Server(there, server).HandshakeContext(t.Context())
	})
	conn := tls.Client(here, client)
	err = conn.HandshakeContext(t.Context())
	_ = here.Close()
	wg.Wait()
	if err != nil {
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func trusting(pairs ...certPair) *tls.Config {
	pool := x509.NewCertPool()
	for _, p := range pairs {
		pool.AddCert(p.leaf)
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

func TestCertificatesOverLoopback(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	p := newPair(t, 1)
	putFile(t, certFile, p.cert)
	putFile(t, keyFile, p.key)
	config, err := Certificates(certFile, keyFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(tls.NewListener(plain, config)); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	defer wg.Wait()
	defer func() { _ = srv.Close() }()

	// The client would speak HTTP/2 if the server did.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(p), ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	_, port, _ := net.SplitHostPort(plain.Addr().String())
	answer, err := client.Get("https://localhost:" + port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || string(body) != "HTTP/1.1" || answer.TLS.NegotiatedProtocol != "http/1.1" || answer.TLS.Version != tls.VersionTLS13 {
		t.Errorf("answer %q over %q, version %x, %v", body, answer.TLS.NegotiatedProtocol, answer.TLS.Version, err)
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		c := trusting(p)
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, version
		conn, err := tls.Dial("tcp", plain.Addr().String(), c)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("handshake of version %x: %v, want it to succeed: %v", version, err, want)
		}
	}
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	p, other := newPair(t, 1), newPair(t, 2)
	for name, tc := range map[string]struct {
		cert, key []byte // nil: no such file
		want      string // the name the error must contain
	}{
		"no certificate":      {nil, p.key, "cert.pem"},
		"no key":              {p.cert, nil, "key.pem"},
		"an empty file":       {[]byte{}, p.key, "cert.pem"},
		"half a certificate":  {p.cert[:len(p.cert)/2], p.key, "cert.pem"},
		"half a key":          {p.cert, p.key[:len(p.key)/2], "key.pem"},
		"the key of another":  {p.cert, other.key, "key.pem"},
		"files the other way": {p.key, p.cert, "cert.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			certFile, keyFile := filepath.Join(sub, "cert.pem"), filepath.Join(sub, "key.pem")
			for file, text := range map[string][]byte{certFile: tc.cert, keyFile: tc.key} {
				if text != nil {
					putFile(t, file, text)
				}
			}
			config, err := Certificates(certFile, keyFile, nil)
			if err == nil || config != nil || !strings.Contains(err.Error(), filepath.Join(sub, tc.want)) {
				t.Errorf("Certificates = %v, want an error that names %s", err, tc.want)
			}
		})
	}
}

func TestCertificatesAreReloaded(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first, second, third := newPair(t, 1), newPair(t, 2), newPair(t, 3)
	trust := trusting(first, second, third)
	synctest.Test(t, func(t *testing.T) {
		putFile(t, certFile, first.cert)
		putFile(t, keyFile, first.key)
		var log bytes.Buffer
		config, err := Certificates(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		shown := func(what string, want int64, lines int) {
			t.Helper()
			if got, err := shake(t, config, trust); got != want || err != nil {
				t.Errorf("%s: pair %d, %v; want %d", what, got, err, want)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != lines {
				t.Errorf("%s: %d lines in the log, want %d:\n%s", what, n, lines, &log)
			}
		}
		shown("at first", 1, 0)

		time.Sleep(statEvery / 2)
		putFile(t, certFile, second.cert)
		shown("half written, not looked yet", 1, 0)
		time.Sleep(statEvery)
		shown("half written", 1, 1)
		shown("half written, at once again", 1, 1)
		time.Sleep(statEvery)
		shown("half written for longer", 1, 1)
		putFile(t, keyFile, second.key)
		shown("whole, not looked yet", 1, 1)
		time.Sleep(statEvery)
		shown("whole", 2, 1)

		for _, broken := range [][]byte{[]byte("x"), third.cert[:100], []byte("y")} {
			before := strings.Count(log.String(), "level=WARN")
			putFile(t, certFile, broken)
			for range 3 {
				time.Sleep(statEvery)
				shown("broken", 2, before+1)
			}
		}
		if err := os.Remove(keyFile); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(statEvery)
			shown("no key", 2, 5)
		}
		// Put in place by renaming, with the time of the file before: another file all the same.
		info, err := os.Stat(certFile)
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, keyFile, third.key)
		fresh := filepath.Join(dir, "new.pem")
		putFile(t, fresh, third.cert)
		if err := errors.Join(os.Chtimes(fresh, time.Time{}, info.ModTime()), os.Rename(fresh, certFile)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(statEvery)
		shown("repaired", 3, 5)
	})
}

// A key whose rights were wrong is taken once they are right, though its time is the same.
func TestBrokenPairIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first, second := newPair(t, 1), newPair(t, 2)
	synctest.Test(t, func(t *testing.T) {
		putFile(t, certFile, first.cert)
		putFile(t, keyFile, first.key)
		config, err := Certificates(certFile, keyFile, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The right content appears behind the same size, time and name: what changed rights look like.
		time.Sleep(time.Second)
		putFile(t, certFile, second.cert)
		putFile(t, keyFile, bytes.Repeat([]byte("x"), len(second.key)))
		bad := time.Now()
		time.Sleep(statEvery)
		if got, err := shake(t, config, trusting(first)); got != 1 || err != nil {
			t.Fatalf("broken: pair %d, %v", got, err)
		}
		putFile(t, keyFile, second.key)
		if err := os.Chtimes(keyFile, time.Time{}, bad); err != nil {
			t.Fatal(err)
		}
		time.Sleep(statEvery)
		if got, err := shake(t, config, trusting(second)); got != 2 || err != nil {
			t.Errorf("put right: pair %d, %v; want 2", got, err)
		}
	})
}

// A certificate whose time is over is what the operator put there: it is served, and said to be so.
func TestAnExpiredCertificateIsSaid(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	over := newPairUntil(t, 1, 2000)
	putFile(t, certFile, over.cert)
	putFile(t, keyFile, over.key)
	var log bytes.Buffer
	if _, err := Certificates(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "not valid now") {
		t.Errorf("the log says %q", &log)
	}
}
