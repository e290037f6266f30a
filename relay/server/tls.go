package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
)

// statEvery is the least time between two looks at the certificate files.
const statEvery = time.Second

// Certificates returns the TLS configuration of a listener whose certificate chain and key are in these PEM files. The
// error names the file at fault. A changed pair is read again during a later handshake; while it cannot be used, the
// old one stays, and log (nil means discard) gets one line for each change. Only HTTP/1.1 is offered: a WebSocket's
// upgrade needs it.
func Certificates(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	pair, err := files.Watch([]string{certFile, keyFile}, time.Now, func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return nil, fmt.Errorf("%s with key %s: %w", certFile, keyFile, err)
		}
		if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
			log.Warn("the certificate is not valid now; gateways will refuse it", "file", certFile,
				"from", pair.Leaf.NotBefore, "until", pair.Leaf.NotAfter)
		}
		return &pair, nil
	}, func(err error) {
		log.Warn("certificate files cannot be used; going on with the old pair", "err", err)
	})
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(statEvery), nil },
	}, nil
}
