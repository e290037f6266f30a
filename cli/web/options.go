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
	// URL is the address at which people open the pages (see Address), without a trailing slash; its host is always one
	// of our names.
	URL            string
	TrustedProxies routes.Proxies
	TLS            *tls.Config // nil: plain http
	Now            func() time.Time
	Refused        func() // called for each connection that was refused; nil: not counted
	// Login is how long an unused login lasts; 0 means 30 days.
	Login time.Duration
	// TrustHeader is the header in which one of TrustedProxies names the person that it has let in; empty: none does.
	TrustHeader string
	Ignored     func() // called for each request with this header from any other client; nil: not counted
	// Recheck is how often a running request checks that its session still exists; 0 means 5 s.
	Recheck time.Duration
}

// filled returns o with the defaults of unset fields.
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
