package platforms

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Settings are the checked values of a network's keys.
type Settings map[string]string

// Settings returns the values of keys, checked. A key that is not set has its default.
func (o Options) Settings(keys []Key) (Settings, error) {
	s := make(Settings, len(keys))
	for _, k := range keys {
		s[k.Name] = k.Default
		if v, ok := o.Values[k.Name]; ok {
			s[k.Name] = v
		}
		if err := k.Check(s[k.Name]); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return s, nil
}

// Checked returns the Settings of a bot, after checking its token with the function token, and its api_base. base
// describes the right api_base, for the person who typed another one.
func (o Options) Checked(token func(relay.Secret) error, base string, keys []Key) (Settings, error) {
	if err := token(o.Token); err != nil {
		return nil, err
	}
	if err := CheckBase(o.APIBase, base); err != nil {
		return nil, err
	}
	return o.Settings(keys)
}

// Duration returns the value of a key that DurationKey made.
func (s Settings) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(s[key]) // checked by Options.Settings
	return d
}

// DurationKey returns a key that holds a duration.
func DurationKey(name, value, help string) Key {
	return Key{Name: name, Default: value, Check: checkDuration, Help: help}
}

func checkDuration(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want a duration above zero, like 30s", v)
	}
	return nil
}

// OneOf makes the Check of a key whose value is one of words, of which there are at least two.
func OneOf(words ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(words, v) {
			return nil
		}
		last := len(words) - 1
		return fmt.Errorf("%q: want %s or %s", v, strings.Join(words[:last], ", "), words[last])
	}
}

// CheckBase accepts an empty api_base, or an http URL without credentials and query. want describes the right value,
// for the person who typed another one.
func CheckBase(base, want string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("api_base: want the URL of " + want)
	}
	return nil
}
