package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/notify"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

func parseFlag(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, errors.New("want true or false")
	}
	return b, nil
}

func numberIn(least, most int) func(string) (int, error) {
	return func(v string) (int, error) {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil || n < int64(least) || n > int64(most) {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return int(n), nil
	}
}

func parseText(v string) (string, error) {
	if v == "" {
		return "", errors.New("is empty")
	}
	return v, nil
}

// parseNode reads the name of a node.
func parseNode(v string) (string, error) {
	if v == "" || len(v) > 64 || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
		return "", errors.New("want at most 64 printing ASCII characters without spaces and slashes")
	}
	return v, nil
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// parseHeader reads the name of a header.
func parseHeader(v string) (string, error) {
	if !headerName.MatchString(v) {
		return "", errors.New(`want the name of a header, such as "Remote-User"`)
	}
	return v, nil
}

// parseReply reads a text for people, which may be empty. It fits one message of any network.
func parseReply(v string) (string, error) {
	if utf8.RuneCountInString(v) > 1000 {
		return "", errors.New("want at most 1,000 characters")
	}
	return v, nil
}

func parseListen(v string) (string, error) {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return "", errors.New(`want host:port, such as "127.0.0.1:8787"`)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("want a port from 0 to 65535")
	}
	return v, nil
}

// parseAdvertise reads the address at which other nodes reach this one.
func parseAdvertise(v string) (string, error) {
	base, err := parseBase(v)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(base)
	if ip, invalid := netip.ParseAddr(u.Hostname()); invalid == nil && ip.IsUnspecified() {
		err = errors.New("that is every address and none: write the one by which the other nodes reach this one")
	} else if u.Path != "" {
		err = errors.New("the address must not have a path: it is the listener's own")
	}
	return base, err
}

// parseBase checks an http address without user, query and fragment, and cuts its final slashes.
func parseBase(v string) (string, error) {
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New(`want an address such as "https://relay.example.net"`)
	case u.User != nil:
		return "", errors.New("the address must not contain a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("the address must not contain ? or #")
	}
	return strings.TrimRight(v, "/"), nil
}

// parsePublicURL also cuts /relay, which a gateway appends itself.
func parsePublicURL(v string) (string, error) {
	u, err := parseBase(v)
	return strings.TrimRight(strings.TrimSuffix(u, "/relay"), "/"), err
}

// parseEndpoint checks an address that is called exactly as given; it may have a query.
func parseEndpoint(v string) (string, error) {
	base, _, _ := strings.Cut(v, "?")
	if _, err := parseBase(base); err != nil {
		return "", err
	}
	return v, nil
}

func parseMode(v string) (identity.Mode, error) {
	switch mode := identity.Mode(v); mode {
	case identity.None, identity.JWKS, identity.Introspect:
		return mode, nil
	}
	return "", errors.New(`want "none", "jwks" or "introspect"`)
}

func parseNotifyFormat(v string) (notify.Format, error) {
	switch f := notify.Format(v); f {
	case notify.Text, notify.JSON, notify.Kuma:
		return f, nil
	}
	return "", errors.New(`want "text", "json" or "uptime-kuma"`)
}

func parseLevel(v string) (l slog.Level, err error) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, v) || l.UnmarshalText([]byte(v)) != nil {
		return l, errors.New(`want "debug", "info", "warn" or "error"`)
	}
	return l, nil
}

func parseFormat(v string) (asJSON bool, err error) {
	if v != "text" && v != "json" {
		return false, errors.New(`want "text" or "json"`)
	}
	return v == "json", nil
}

func parseRecipient(v string) (string, error) {
	_, err := parseText(v)
	return v, cmp.Or(err, backup.CheckRecipient(v))
}

// parseSize reads a number of bytes: "64MiB", "512KiB", "1GiB", "1000B".
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGi")
	shift, ok := map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt64>>shift {
		return 0, errors.New(`want a size such as "64MiB" (units B, KiB, MiB, GiB)`)
	}
	return int64(n) << shift, nil
}

// parseAge reads a span of time: "14d", or anything Go's durations accept ("60s", "1h30m").
func parseAge(s string) (time.Duration, error) {
	bad := errors.New(`want a span of time such as "14d", "12h" or "60s"`)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 65535 days fit a Duration
		if err != nil {
			return 0, bad
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, bad
	}
	return d, nil
}

// within adds bounds to parse. outside is the error for a value beyond them.
func within[T cmp.Ordered](parse func(string) (T, error), least, most T, outside string) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parse(s)
		if err == nil && (v < least || v > most) {
			err = errors.New(outside)
		}
		return v, err
	}
}

// parseNetworks reads addresses and networks, separated by commas.
func parseNetworks(v string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if ip, err := netip.ParseAddr(part); err == nil && ip.Zone() == "" {
			ip = ip.Unmap() // callers' addresses are unmapped, too
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(part)
		if ip := network.Addr(); err == nil && ip.Is4In6() {
			network = netip.PrefixFrom(ip.Unmap(), network.Bits()-96)
			if !network.IsValid() {
				err = errors.New("cuts the address in half")
			}
		}
		if err != nil {
			return nil, errors.New(`want addresses or networks, such as ["127.0.0.1", "10.0.0.0/8"]`)
		}
		out = append(out, network.Masked())
	}
	return out, nil
}

// unquoted removes the quotes and brackets of the configuration file from a variable's value. Error messages show
// values with them, and some readers of environment files do not remove them.
func unquoted(v string, want unstable.Kind) string {
	if inner, ok := strings.CutPrefix(v, "["); ok && want == list && strings.HasSuffix(inner, "]") {
		return strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSuffix(inner, "]"))
	}
	if len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}
