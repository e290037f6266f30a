// Package guard makes all requests to an address that somebody else named (a gateway's wake URL), or that a setting
// names beside the networks' own (a web hook's reply_url). It decides which URLs may be requested, and its client
// connects to nothing else.
//
// It does not resolve names before it connects, follow redirects, send cookies or use a proxy:
// each would let the address that was judged differ from the address that gets the request.
//
// Invariants:
//
//  1. Every connection attempt is judged on the resolved address and port, after name resolution
//     and before the first byte (no rebinding in between).
//  2. An address that is not known to be public is blocked, unless Options.Allow opens it.
//  3. Link-local and metadata addresses, multicast, reserved ranges and our own listeners are
//     never opened, whatever Options.Allow says.
//  4. A spelling that two programs could read differently is refused, not interpreted.
//  5. A redirect is returned like any response, not followed; at most Options.Body bytes of a body can be read.
//  6. A refusal quotes neither the URL nor the address of its name. (The *url.Error that http.Client puts around it
//     quotes the URL: unwrap it before showing it.)
package guard

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	connectWithin = 5 * time.Second
	totalWithin   = 10 * time.Second
	maxHeader     = 16 << 10
	maxBody       = 64 << 10 // where Options say nothing else
)

// ErrBlocked matches every refusal, for errors.Is.
var ErrBlocked = errors.New("blocked")

// blocked is the reason for a refusal.
type blocked string

func (why blocked) Error() string { return "blocked: " + string(why) }

func (blocked) Is(target error) bool { return target == ErrBlocked }

// notOpened ends the refusals that Options.Allow would lift; Closed recognizes them by it.
const notOpened = " that is not opened"

// Closed returns the kind of the address, such as "a loopback address", if err refuses one that Options.Allow would
// open.
func Closed(err error) (kind string, ok bool) {
	why, _ := errors.AsType[blocked](err)
	return strings.CutSuffix(string(why), notOpened)
}

// Options are the settings of a Guard. The zero value allows public addresses only and knows no listener of ours.
type Options struct {
	// Allow are ranges that the operator opened. Private, carrier-grade NAT, unique local and loopback addresses in
	// them become reachable, and for all addresses in them every port but our own.
	Allow []netip.Prefix
	// Own are the ports our listeners are bound to; on them no address of this machine is reachable.
	Own []uint16
	// OwnHosts are the names and addresses by which others know a listener of ours (the host of public_url), with a
	// port or, for all of its ports, without one.
	OwnHosts []string
	// Body is how many bytes of a response's body can be read; 0 means 64 KiB.
	Body int64
	// Resolver resolves names; nil means the system's.
	Resolver *net.Resolver
	// Interfaces returns the addresses of this machine; nil means those of its network interfaces. After an error every
	// address counts as ours.
	Interfaces func() ([]netip.Addr, error)
}

// Guard judges outgoing requests. Its methods may be called from any goroutine.
type Guard struct {
	options  Options
	hosts    []ownHost
	classify func(netip.Addr) class // tests replace it, to have something public on loopback
	client   *http.Client
}

// New makes a guard.
func New(o Options) *Guard {
	if o.Interfaces == nil {
		o.Interfaces = interfaceAddrs
	}
	o.Body = cmp.Or(o.Body, maxBody)
	g := &Guard{options: o, classify: classify}
	for _, h := range o.OwnHosts {
		g.hosts = append(g.hosts, parseOwnHost(h))
	}
	dialer := &net.Dialer{Timeout: connectWithin, Resolver: o.Resolver, ControlContext: g.control}
	g.client = &http.Client{
		Timeout:       totalWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &transport{g, &http.Transport{
			Proxy:                  nil, // a proxy would do the dialing
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connectWithin,
			DisableKeepAlives:      true, // each request connects, and each connection is judged
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		}},
	}
	return g
}

// Anywhere returns what to allow for an address that only the operator can set: this machine and private networks, too.
func Anywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// For returns a guard with other opened ranges and another bound on bodies in bytes, which knows the same listeners.
func (g *Guard) For(allow []netip.Prefix, body int64) *Guard {
	o := g.options
	o.Allow, o.Body = allow, body
	return New(o)
}

// Client returns the only client for URLs that somebody else named. For a URL or an address that is not allowed it
// returns ErrBlocked; reading a body past Options.Body is an *http.MaxBytesError.
func (g *Guard) Client() *http.Client { return g.client }

// Transport returns Client's transport, for callers with their own time limit and redirect policy: it follows no
// redirects.
func (g *Guard) Transport() http.RoundTripper { return g.client.Transport }

// transport checks the URL of every request, then hands it on.
type transport struct {
	guard *Guard
	base  http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := t.guard.CheckURL(r.URL.String()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // ours to close, says http.RoundTripper
		}
		return nil, err
	}
	res, err := t.base.RoundTrip(r)
	if why, ok := errors.AsType[blocked](err); ok {
		return nil, why // without the resolved address (invariant 6)
	}
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, t.guard.options.Body)
	return res, nil
}

// control judges the resolved address of one connection attempt.
func (g *Guard) control(_ context.Context, _, address string, _ syscall.RawConn) error { // invariant 1
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return blocked("not an address")
	}
	return g.judge(ap)
}

// judge returns nil if a connection to ap is allowed, and otherwise the refusal.
func (g *Guard) judge(ap netip.AddrPort) error {
	addr, port := ap.Addr(), ap.Port()
	if addr.Zone() != "" {
		return blocked("an address with a zone")
	}
	addr = addr.Unmap()
	c := g.classify(addr)
	allowed := slices.ContainsFunc(g.options.Allow, func(p netip.Prefix) bool { return p.Contains(addr) })
	switch {
	case c.never:
		return blocked(c.name)
	case c.name != "" && !allowed:
		return blocked(c.name + notOpened)
	case port == 0:
		return blocked("port 0")
	case !allowed && !publicPort(port):
		return blocked("a port that is not for the web")
	case g.ours(addr, port):
		return blocked("our own listener")
	}
	return nil
}

func interfaceAddrs() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("interface addresses: %w", err)
	}
	out := make([]netip.Addr, 0, len(all))
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
}
