package httpcall

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"
)

// Block is the obstacle between a call and the network.
type Block int

const (
	Unknown Block = iota // nothing did, or it cannot be told
	NoName               // the name of the network's host was not resolved
	NoWay                // the host was not reached, or did not answer
	Between              // something between the network and us answered in its place: a proxy, a page to log in at
)

// blockOf reads the error of c's round trip, which ended without an answer; naming: the name of the host was still looked
// up. Whatever comes through a proxy is the proxy's word.
func (c *Client) blockOf(req *http.Request, err error, naming bool) Block {
	if t, ok := c.HTTP.Transport.(*http.Transport); ok && t.Proxy != nil {
		if proxy, err := t.Proxy(req); err != nil || proxy != nil {
			return Between
		}
	}
	if naming {
		return NoName
	}
	return blockOf(err)
}

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
		c.ahead.Store(&clock{theirs.Sub(now), now})
	}
}

// clock is how far the network's clock was ahead of ours at some time.
type clock struct {
	ahead time.Duration
	at    time.Time
}

// Clock returns the network's time now, to about a second; zero: it has not sent its time since then. An older answer
// may be from before this machine's clock was set.
func (c *Client) Clock(since time.Time) time.Time {
	if said := c.ahead.Load(); said != nil && !said.at.Before(since) {
		return time.Now().Add(said.ahead)
	}
	return time.Time{}
}
