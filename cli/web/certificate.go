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
	// renewBefore is how long before its end it is renewed.
	renewBefore = 30 * 24 * time.Hour
)

// Certificate names the PEM files of the connector's own certificate and its key. The certificate is self-signed: a
// browser warns of it until a person has compared the fingerprint and accepted the certificate.
type Certificate struct {
	File, Key string
}

// Ensure makes the certificate, unless there is one for host that is not about to expire. The key stays the same. host
// is the name or address that people open. A new certificate also has this machine's other names and addresses, but a
// change of those alone makes no new certificate, which people would have to accept again.
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
	names := []string{host, "localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name, strings.TrimSuffix(name, ".local")+".local")
	}
	for _, a := range netaddr.All() {
		names = append(names, a.String())
	}
	for _, name := range names {
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

// key reads the key, and makes one if its file is missing.
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

// write replaces the file at path by one in PEM that only its owner can read.
func write(path, kind string, der []byte) error {
	return files.Aside(path, ".web-*", func(f *os.File) error {
		files.Give(f, path)
		return pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	}, func(temp string) error { return files.Replace(temp, path, "") })
}

// Fingerprint returns the certificate's SHA-256, as browsers show it; empty if there is no certificate.
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
