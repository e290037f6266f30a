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
	Unknown Block = iota // there was none, or it is not known which
	NoName               // the name of the network's host was not resolved
	NoWay                // the host was not reached, or did not answer
	Between              // something between the network and us answered in its place: a proxy, a page to log in at
)

// blockOf returns what was in the way of req, whose round trip failed with err and brought no answer. naming says that
// the look-up of the host's name had not succeeded. If req goes through a proxy, the fault is the proxy's.
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

// blockOf returns what err, the error of a round trip, says was in the way.
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

// strange reports whether err says that the other side has a certificate that is not the network's, or no TLS at all.
func strange(err error) bool {
	var unverified *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unverified) || errors.As(err, &authority) || errors.As(err, &host) || errors.Is(err, http.ErrSchemeMismatch)
}

// compare stores how far the network's clock is ahead of now, if h has a Date.
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

// Clock returns the network's time now, to about a second; zero: no answer with a time has come after since. Older
// answers are not used, because this machine's clock may have been set after them.
func (c *Client) Clock(since time.Time) time.Time {
	if said := c.ahead.Load(); said != nil && !said.at.Before(since) {
		return time.Now().Add(said.ahead)
	}
	return time.Time{}
}
