package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/hermes-connector/hermes-connector/relay/guard"
)

// Guard is the guard of everything that a gateway, or a setting beside the networks' own addresses, can make the
// server ask for. listeners are where the server listens, or would: HOST:PORT each, or nothing.
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

// outside reports why the server would not ask for raw.
func (c *Config) outside(raw string) error {
	_, err := c.Guard(c.Listen, c.MetricsListen, c.Web.Listen).CheckURL(raw)
	if u, e := url.Parse(raw); err != nil && e == nil {
		if _, e := netip.ParseAddr(u.Hostname()); e == nil {
			return fmt.Errorf("%w; [wake] allow opens addresses of your own networks", err)
		}
	}
	return err
}
