package config

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/relay/identity"
)

// clashes refuses settings that are valid alone, but not together.
func (l *loader) clashes() {
	if l.node != nil { // the node's own configuration has these settings, and is checked
		return
	}
	listeners := l.cfg.Listeners()
	for n, later := range listeners {
		for _, first := range listeners[:n] {
			if sameDoor(first.Addr, later.Addr) {
				l.faults.add(l.places[later.Setting], "is the port of %s too: give each its own", first.Setting)
				break
			}
		}
	}
	for _, p := range l.cfg.TrustedProxies {
		// The networks fc00::/7 are private ones of IPv6.
		if p.Addr().Is4() && p.Bits() < 8 || p.Bits() < 7 {
			l.faults.add(l.places["trusted_proxies"], "%s trusts anybody to say where a request comes from: name your proxy's address", p)
		}
	}
}

// web refuses settings of the pages that have no effect, or let anybody in.
func (l *loader) web() {
	for _, key := range []string{"public_url", "login", "trust_header"} {
		at, given := l.places["web."+key]
		if !given {
			continue
		}
		switch {
		case l.node != nil && l.cfg.Web.URL == "":
			l.faults.add(at, "does nothing without public_url under [web]: the pages of each shard have a name of their own")
		case l.cfg.Web.Listen == "":
			l.faults.add(at, "does nothing without listen under [web]")
		case key == "public_url" && strings.Count(l.cfg.Web.URL, "/") > 2:
			l.faults.add(at, "the pages have a host of their own: write the address without a path")
		case key == "trust_header" && len(l.cfg.TrustedProxies) == 0:
			l.faults.add(at, "nobody's header is believed: name the proxy that writes it in trusted_proxies")
		}
	}
	if l.node != nil && l.cfg.Web.URL == "" {
		l.cfg.Web.Listen = ""
	}
}

// cluster refuses settings of a node where there is no cluster, and an http address under advertise when the listener
// speaks https.
func (l *loader) cluster() {
	for _, key := range []string{"node", "advertise", "lease"} {
		if at, given := l.places["cluster."+key]; given && !l.cfg.Cluster.On() {
			l.faults.add(at, "does nothing without dsn_file under [cluster]")
		}
	}
	if l.cfg.TLS.On() && strings.HasPrefix(l.cfg.Cluster.Advertise, "http:") {
		l.faults.add(l.places["cluster.advertise"], "the listener speaks https, as [tls] says: write https://")
	}
}

// wholeTLS refuses a certificate without its key, and a key without its certificate.
func (l *loader) wholeTLS() {
	for key, other := range map[string]string{"cert_file": "key_file", "key_file": "cert_file"} {
		at, given := l.places["tls."+key]
		if _, both := l.places["tls."+other]; given && !both {
			l.faults.add(at, "%s must be given too", other)
		}
	}
}

// notify refuses a web hook that cannot be called, and settings of a web hook when none is given.
func (l *loader) notify() {
	_, url := l.places["notify.url"]
	_, file := l.places["notify.token_file"]
	for _, key := range []string{"format", "token_file", "token_env"} {
		if at, given := l.places["notify."+key]; given && !url {
			l.faults.add(at, "does nothing without url under [notify]")
		} else if given && file && key == "token_env" {
			l.faults.add(at, "is given as token_file too: give one of the two")
		}
	}
	if l.cfg.Notify.URL == "" {
		return
	}
	_, err := l.cfg.Guard(l.cfg.Listen, l.cfg.MetricsListen, l.cfg.Web.Listen).For(guard.Anywhere(), 0).CheckURL(l.cfg.Notify.URL)
	if err != nil && strings.Contains(l.cfg.Notify.URL, "://localhost") {
		err = errors.New("write 127.0.0.1 in place of localhost")
	}
	l.faults.note(l.places["notify.url"], err)
}

// identity refuses a mode whose keys are missing, and keys of another mode, which would have no effect.
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

// oneKeySource refuses a second source of the vault's key.
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

// sameDoor reports whether two listeners conflict: they have the same port, and an address in common.
func sameDoor(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || netaddr.Everywhere(hostA) || netaddr.Everywhere(hostB) || localHost(hostA) && localHost(hostB) && (hostA == "localhost" || hostB == "localhost")
}

// The keys of the shortest and the longest pause between tries, in networks that have them.
const (
	retryWait = "retry_wait"
	retryMax  = "retry_max"
)

// backwards reports whether the longest pause of a bot is shorter than the shortest. Values that are not durations are
// refused elsewhere.
func backwards(values map[string]string) bool {
	first, err1 := time.ParseDuration(values[retryWait])
	most, err2 := time.ParseDuration(values[retryMax])
	return err1 == nil && err2 == nil && most < first
}
