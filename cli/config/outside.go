package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay/guard"
)

// Guard returns the guard for requests to addresses that gateways name (wake URLs, files), to reply_url and to
// [notify]. The guard refuses the server's own addresses. listeners are those that the server listens on or would
// listen on, as HOST:PORT; empty ones are ignored.
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

// Outside checks whether g allows requests to the URL raw. If a line under [wake] would allow it, the error gives that
// line.
func Outside(g *guard.Guard, raw string) error {
	_, err := g.CheckURL(raw)
	u, parseErr := url.Parse(raw)
	if kind, ok := guard.Closed(err); ok && parseErr == nil {
		return fmt.Errorf("%s is %s; to allow it, write allow = [%q] under [wake]", u.Hostname(), kind, u.Hostname())
	}
	return err
}
