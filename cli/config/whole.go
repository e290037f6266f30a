package config

import (
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/identity"
)

// What is wrong with values that are right one by one.

func (l *loader) wholeTLS() {
	for key, other := range map[string]string{"cert_file": "key_file", "key_file": "cert_file"} {
		at, given := l.places["tls."+key]
		if _, both := l.places["tls."+other]; given && !both {
			l.faults.add(at, "%s must be given too", other)
		}
	}
}

// identity refuses a mode without its keys, and the keys of another mode: they would do nothing.
func (l *loader) identity() {
	mode, given := l.cfg.Identity.Mode, make(map[string]bool)
	for _, s := range l.settings {
		if at, ok := l.places[s.path()]; ok && s.mode != "" {
			given[s.key] = true
			if mode != "" && s.mode != mode {
				l.faults.add(at, "does nothing unless mode is %q", s.mode)
			}
		}
	}
	at := l.places["identity.mode"]
	need := func(keys ...string) {
		for _, k := range keys {
			if !given[k] {
				l.faults.add(at, "mode %q needs %s", mode, k)
			}
		}
	}
	switch mode {
	case identity.JWKS:
		need("issuer", "audience")
		if given["jwks_url"] == given["jwks_file"] {
			l.faults.add(at, "mode %q needs either jwks_url or jwks_file", mode)
		}
		if strings.HasPrefix(l.cfg.Identity.Audience, "agent:") {
			l.faults.add(l.places["identity.audience"], "begins as the audience of managed tokens does; choose another")
		}
	case identity.Introspect:
		need("introspect_url")
	}
}

// plainHTTP refuses to carry credentials, or names and numbers, unencrypted where others could listen.
func (l *loader) plainHTTP() {
	// insecure does not count for the web pages: whoever reads along has their session.
	at, given := l.places["web.listen"]
	if host := remoteHost(l.cfg.WebListen); given && host != "" && !l.cfg.TLS.On() && len(l.cfg.TrustedProxies) == 0 {
		l.faults.add(at, "plain http on %s; listen on 127.0.0.1, give [tls] a certificate, or name the proxy that stands in front in trusted_proxies", host)
	}
	at, given = l.places["web.public_url"]
	switch {
	case given && l.cfg.WebListen == "":
		l.faults.add(at, "does nothing without listen under [web]")
	case given && strings.Count(l.cfg.WebURL, "/") > 2:
		l.faults.add(at, "the pages have a host of their own: write the address without a path")
	}
	if l.cfg.Insecure {
		return
	}
	judge := func(path string, open bool, format string, args ...any) {
		if at, given := l.places[path]; given && open {
			l.faults.add(at, format, args...)
		}
	}
	host := remoteHost(l.cfg.Listen)
	judge("listen", host != "" && !l.cfg.TLS.On(), "plain http on %s; give [tls] a certificate, or write insecure = true if a proxy terminates TLS", host)
	host = remoteHost(l.cfg.MetricsListen)
	judge("metrics.listen", host != "", "plain http on %s; metrics are never encrypted: write insecure = true if the network is trusted", host)
	const dialed = "plain http beyond localhost; use https, or write insecure = true if the network is trusted"
	judge("public_url", remotePlain(l.cfg.PublicURL), dialed)
	judge("identity.jwks_url", remotePlain(l.cfg.Identity.JWKSURL), dialed)
	judge("identity.introspect_url", remotePlain(l.cfg.Identity.IntrospectURL), dialed)
}

func (l *loader) oneKeySource() {
	sources := 0
	for _, s := range l.settings {
		if at, given := l.places[s.path()]; given && s.section == "vault" {
			if sources++; sources == 2 {
				l.faults.add(at, "give one source for the vault's key: key_file, passphrase_file, passphrase_env or credential")
			}
		}
	}
}
