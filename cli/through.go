package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server"
	"github.com/hermes-connector/hermes-connector/relay/server/through"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

// finder returns a function that finds the leader of cfg's shard, and the key by which the nodes recognise each other.
func finder(node *cluster.Node, cfg *config.Config) func(context.Context) (through.Leader, error) {
	// known is the leader whose key was made last. The key is made once for each leader's run, because a passphrase
	// takes a while to open the vault.
	var known through.Leader
	return func(ctx context.Context) (through.Leader, error) {
		name, run, address, err := node.Leader(cfg.Shard)
		l := through.Leader{Name: name, Run: run, URL: address}
		switch {
		case err != nil:
			return through.Leader{}, fmt.Errorf("who leads is not known: %w", err)
		case run == "":
			return l, nil
		case name == cfg.Cluster.Node:
			return l, errors.New("this node begins to lead")
		case address == "":
			return l, fmt.Errorf("node %s leads, and does not say where it can be reached: set advertise under [cluster] there", name)
		case known.Run == run:
			l.Key = known.Key
			return l, nil
		}
		wrapped, err := node.Vault(ctx, cfg.Shard)
		if err != nil {
			return through.Leader{}, fmt.Errorf("who leads is not known: %w", err)
		}
		if len(wrapped) == 0 {
			return l, fmt.Errorf("node %s begins to lead", name)
		}
		v, err := vault.Existing(ctx, wrappedKey(wrapped), cfg.Vault.Key())
		if err != nil {
			return l, err
		}
		l.Key, known = nodeKey(v), l
		known.Key = l.Key
		return l, nil
	}
}

// receiver returns a receiver for the requests that other nodes pass on; nil: this process is alone.
func (m *membership) receiver(cfg *config.Config, v *vault.Vault, log *slog.Logger) *through.Receiver {
	if m == nil {
		return nil
	}
	return &through.Receiver{Key: nodeKey(v), Bound: bound(cfg), Log: log}
}

// nodeKey returns the key by which nodes that can open v recognise each other.
func nodeKey(v *vault.Vault) through.Key {
	return func(message []byte) []byte { return v.MAC("node", relay.NewSecret(message)) }
}

// bound returns the headers, beside the X-Forwarded ones, from which the leader learns who calls: that in which a proxy
// names the person who opens the web pages.
func bound(cfg *config.Config) []string {
	if cfg.Web.TrustHeader == "" {
		return nil
	}
	return []string{cfg.Web.TrustHeader}
}

// nodeTLS returns the TLS configuration for calls to another node at host. The other node's certificate must be valid
// for host, or be the same as this node's own one (own; nil: there is none), whose key only the nodes have.
func nodeTLS(own *tls.Config, host string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(c tls.ConnectionState) error {
			leaf, between := c.PeerCertificates[0], x509.NewCertPool()
			if own != nil {
				if pair, err := own.GetCertificate(&tls.ClientHelloInfo{}); err == nil && pair.Leaf != nil && pair.Leaf.Equal(leaf) {
					return nil
				}
			}
			for _, one := range c.PeerCertificates[1:] {
				between.AddCert(one)
			}
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Intermediates: between})
			return err
		},
	}
}

// advertisedTLS returns the configuration with which other nodes check the certificate at cfg's advertise.
func advertisedTLS(cfg *config.Config) *tls.Config {
	u, err := url.Parse(cfg.Cluster.Advertise)
	if err != nil || u.Scheme != "https" {
		return nil
	}
	var own *tls.Config // nil if it cannot be read, which other checks report
	if cfg.TLS.On() {
		own, _ = server.Certificates(cfg.TLS.CertFile, cfg.TLS.KeyFile, nil)
	}
	return nodeTLS(own, u.Hostname())
}
