package guard

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
)

// Why says in fixed words why a request of Client failed, for callers that must not show its URL, because the errors of
// HTTP quote it. For a nil error it returns the empty text.
func Why(err error) string {
	if err == nil {
		return ""
	}
	var timeout interface{ Timeout() bool }
	switch uerr, _ := errors.AsType[*url.Error](err); {
	case errors.Is(err, ErrBlocked) && uerr != nil:
		return uerr.Err.Error() // the guard's own words
	case errors.Is(err, ErrBlocked):
		return ErrBlocked.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "name not resolved"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate not valid"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return "not reachable"
	}
	return "no answer"
}
