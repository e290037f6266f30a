package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	// certificateFor is how long a certificate lasts. Browsers refuse some that last longer than 398 days.
	certificateFor = 397 * 24 * time.Hour
	// renewBefore is how long before its end there is a new one.
	renewBefore = 30 * 24 * time.Hour
)

// Certificate is a certificate of the connector's own, and its key, as PEM files. Nobody signs it, so a browser warns of it until it
// is told that this is the one: its fingerprint says so.
type Certificate struct {
	File, Key string
}

// Ensure makes the certificate, unless there is one for host that lasts. The key stays the same. host is what people open, a name or
// an address; the other names and addresses of this machine stand in a new certificate too, but that one of them has changed makes no
// new one: who told a browser to trust it would have to do so again.
func (c Certificate) Ensure(host string, now time.Time) error {
	key, err := c.key()
	if err != nil {
		return fmt.Errorf("key of the web pages: %w", err)
	}
	if pair, err := tls.LoadX509KeyPair(c.File, c.Key); err == nil && now.Add(renewBefore).Before(pair.Leaf.NotAfter) && pair.Leaf.VerifyHostname(host) == nil {
		return nil
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hermes-connector"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(certificateFor), // clocks of phones differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	called := []string{host, "localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		called = append(called, name, strings.TrimSuffix(name, ".local")+".local")
	}
	for _, a := range netaddr.All() {
		called = append(called, a.String())
	}
	for _, name := range called {
		if ip, err := netip.ParseAddr(name); err == nil {
			t.IPAddresses = append(t.IPAddresses, net.IP(ip.AsSlice()))
		} else if name != "" {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err == nil {
		err = write(c.File, "CERTIFICATE", der)
	}
	if err != nil {
		return fmt.Errorf("certificate of the web pages: %w", err)
	}
	return nil
}

// key is the key in its file, which is made when it is missing.
func (c Certificate) key() (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(c.Key)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err == nil {
			err = write(c.Key, "PRIVATE KEY", der)
		}
		return key, err
	}
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := key.(*ecdsa.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("%s cannot be read as a key: remove it, and the next start makes another", c.Key)
}

// write makes path a file of PEM, which its owner alone can read.
func write(path, kind string, der []byte) error {
	return files.Aside(path, ".web-*", func(f *os.File) error {
		files.Give(f, path)
		return pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	}, func(temp string) error { return files.Replace(temp, path, "") })
}

// Fingerprint is the certificate's SHA-256, as browsers show it; empty: there is none.
func (c Certificate) Fingerprint() string {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}
