package call

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// Block is what kept a call from the network.
type Block int

const (
	Unknown Block = iota // nothing did, or it cannot be told
	NoName               // the name of the network's host was not resolved
	NoWay                // the host was not reached, or did not answer
	Between              // something between the network and us answered in its place: a proxy, a page to log in at
)

// blockOf reads the error of a round trip.
func blockOf(err error) Block {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return Between
	case errors.As(err, &dns):
		return NoName
	case strange(err):
		return Between
	case errors.As(err, &op):
		return NoWay
	}
	return Unknown
}

// strange reports whether the other side spoke with a certificate that is not the network's, or no TLS at all.
func strange(err error) bool {
	var unverified *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unverified) || errors.As(err, &authority) || errors.As(err, &host) || errors.Is(err, http.ErrSchemeMismatch)
}

// compare notes how far the network's clock is ahead of now, if h says.
func (c *Client) compare(h http.Header, now time.Time) {
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		ahead := theirs.Sub(now)
		c.ahead.Store(&ahead)
	}
}

// Clock is what the network's clock shows now, by its newest answer, to about a second; zero: it never said.
func (c *Client) Clock() time.Time {
	if ahead := c.ahead.Load(); ahead != nil {
		return time.Now().Add(*ahead)
	}
	return time.Time{}
}
