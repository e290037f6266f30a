package web

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// Options are the server's settings.
type Options struct {
	Log *slog.Logger // nil means discard
	// URL is where people open the pages (see Address), without a trailing slash; its host is always one of our names.
	URL            string
	TrustedProxies routes.Proxies
	TLS            *tls.Config // nil: plain http
	Now            func() time.Time
	Refused        func() // called for each connection that was turned away; nil: not counted
	// Login is how long a login lasts that nobody uses; 0 means 30 days.
	Login time.Duration
	// TrustHeader is the header in which one of TrustedProxies names who asks, whom it has let in itself; empty: none does.
	TrustHeader string
	Ignored     func() // called for each request that has this header from anybody else; nil: not counted
	// Recheck is how often a request under way looks whether its session still stands; 0 means 5 s.
	Recheck time.Duration
}

// filled is o with the defaults of what is not set.
func (o Options) filled() Options {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Recheck = cmp.Or(o.Recheck, 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Refused == nil {
		o.Refused = func() {}
	}
	if o.Ignored == nil {
		o.Ignored = func() {}
	}
	o.Login = cmp.Or(o.Login, 30*24*time.Hour)
	return o
}
