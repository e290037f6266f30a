package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay/guard"
)

// Guard makes the guard of requests to addresses that gateways name (wake URLs, files), and to those of reply_url and
// [notify]. It refuses the server's own: listeners are where the server listens, or would, HOST:PORT each, or nothing.
func (c *Config) Guard(listeners ...string) *guard.Guard {
	o := guard.Options{Allow: c.Wake.Allow}
	for _, l := range listeners {
		_, port, _ := net.SplitHostPort(l)
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n != 0 {
			o.Own = append(o.Own, uint16(n))
		}
	}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		o.OwnHosts = append(o.OwnHosts, u.Host)
	}
	return guard.New(o)
}

// Outside is nil, or why g refuses requests to the URL raw, with what to write under [wake] if that would allow them.
func Outside(g *guard.Guard, raw string) error {
	_, err := g.CheckURL(raw)
	u, parseErr := url.Parse(raw)
	if kind, ok := guard.Closed(err); ok && parseErr == nil {
		return fmt.Errorf("%s is %s; to allow it, write allow = [%q] under [wake]", u.Hostname(), kind, u.Hostname())
	}
	return err
}
