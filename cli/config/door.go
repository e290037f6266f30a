package config

import (
	"errors"
	"os"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/identity"
)

func setTLSKey(l *loader, v string) (err error) {
	l.cfg.TLS.KeyFile, err = l.abs(v)
	if err != nil {
		return err
	}
	if st, err := os.Stat(l.cfg.TLS.KeyFile); err == nil && st.Mode().Perm()&0o007 != 0 {
		// The group may read it: certificates are often shared by a group of services.
		return errors.New("anyone on this machine can read or change that file: chmod o= it")
	}
	return nil
}

// wholeTLS refuses half of a certificate.
func (l *loader) wholeTLS() {
	cert, hasCert := l.places["tls.cert_file"]
	key, hasKey := l.places["tls.key_file"]
	switch {
	case hasCert && !hasKey:
		l.judge.add(cert, "key_file must be given too")
	case hasKey && !hasCert:
		l.judge.add(key, "cert_file must be given too")
	}
}

// identity refuses a mode without its keys, and the keys of another mode: they would do nothing.
func (l *loader) identity() {
	mode, given := l.cfg.Identity.Mode, make(map[string]bool)
	for _, s := range settings() {
		if at, ok := l.places[s.path()]; ok && s.mode != "" {
			given[s.key] = true
			if mode != "" && s.mode != mode {
				l.judge.add(at, "does nothing unless mode is %q", s.mode)
			}
		}
	}
	at := l.places["identity.mode"]
	need := func(keys ...string) {
		for _, k := range keys {
			if !given[k] {
				l.judge.add(at, "mode %q needs %s", mode, k)
			}
		}
	}
	switch mode {
	case identity.JWKS:
		need("issuer", "audience")
		if given["jwks_url"] == given["jwks_file"] {
			l.judge.add(at, "mode %q needs either jwks_url or jwks_file", mode)
		}
		if strings.HasPrefix(l.cfg.Identity.Audience, "agent:") {
			l.judge.add(l.places["identity.audience"], "begins as the audience of managed tokens does; choose another")
		}
	case identity.Introspect:
		need("introspect_url")
	}
}
