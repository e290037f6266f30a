package config

import (
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// parseSize reads a number of bytes: "64MiB", "512KiB", "1GiB", "1000B".
func parseSize(s string) (int64, error) {
	bad := errors.New(`want a size such as "64MiB" (units B, KiB, MiB, GiB)`)
	digits := strings.TrimRight(s, "BKMGi")
	shift, ok := map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || err != nil || n > math.MaxInt64>>shift {
		return 0, bad
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

// parseNetworks reads addresses and networks, separated by commas.
func parseNetworks(v string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if ip, err := netip.ParseAddr(part); err == nil && ip.Zone() == "" {
			ip = ip.Unmap() // as callers' addresses are
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
