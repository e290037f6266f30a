package config

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1B": 1, "512KiB": 512 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30,
		"": -1, "64": -1, "MiB": -1, "-1MiB": -1, "64MB": -1, "64 MiB": -1, "1.5GiB": -1, "9999999999GiB": -1, "1BB": -1,
	} {
		got, err := parseSize(in)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseSize(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestParseAge(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"14d": 14 * 24 * time.Hour, "60s": time.Minute, "1h30m": 90 * time.Minute,
		"": -1, "14": -1, "d": -1, "-1d": -1, "-5s": -1, "1.5d": -1, "99999d": -1,
	} {
		got, err := parseAge(in)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseAge(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"platform", "token_file", "token_env", "api_base"}
	for in, want := range map[string]string{
		"tokn": "token_file", "token_fil": "token_file", "tokenenv": "token_env", "plattform": "platform",
		"api": "api_base", "colour": "", "x": "",
	} {
		if got := nearest(in, keys); got != want {
			t.Errorf("nearest(%q) = %q, want %q", in, got, want)
		}
	}
}
