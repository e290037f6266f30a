package config

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// bots judges the [[bots]] tables, completed by the environment.
func (l *loader) bots(raws []*rawBot) {
	count := make(map[relay.PlatformID]int)
	opened := make(map[relay.Bot]Place)
	for _, raw := range raws {
		count[l.kindOf(raw).Name]++
	}
	for _, raw := range raws {
		kind := l.kindOf(raw)
		values := l.fileKeys(raw, kind)
		if kind.Name == "" {
			continue
		}
		if count[kind.Name] == 1 {
			env := l.envValues(kind)
			// A token from the environment replaces the file's, however that was given.
			if slices.ContainsFunc(tokenKeys, func(k string) bool { _, ok := env[k]; return ok }) {
				maps.DeleteFunc(values, func(k string, _ item) bool { return slices.Contains(tokenKeys, k) })
			}
			maps.Copy(values, env)
		}
		l.bot(kind, values, raw.at, opened)
	}
	for _, kind := range l.kinds {
		env := l.envValues(kind)
		names := slices.Sorted(maps.Keys(env))
		switch {
		case len(env) == 0 || count[kind.Name] == 1:
		case count[kind.Name] > 1:
			l.faults.add(env[names[0]].at, "the file has %d %s bots, and the variable does not say which bot it is for: set the key in the file", count[kind.Name], kind.Name)
		default:
			l.bot(kind, env, env[names[0]].at, opened)
		}
	}
}

// kindOf is the kind a table names; its name is empty when the kind is none of ours.
func (l *loader) kindOf(raw *rawBot) platforms.Kind {
	for _, it := range raw.items {
		for _, k := range l.kinds {
			if it.path[len(it.path)-1] == "platform" && it.kind == text && it.text == string(k.Name) {
				return k
			}
		}
	}
	return platforms.Kind{}
}

// fileKeys judges the keys of one table of the kind, which may be none of ours.
func (l *loader) fileKeys(raw *rawBot, kind platforms.Kind) map[string]item {
	common := keyNames(botKeys())
	names := append(common, keyNames(kind.Keys)...)
	ours := strings.Join(l.kindNames(), ", ")
	values := make(map[string]item)
	hasPlatform := false
	for _, it := range raw.items {
		key := it.path[1]
		hasPlatform = hasPlatform || len(it.path) == 2 && key == "platform"
		switch {
		case len(it.path) == 2 && slices.Contains([]string{"token", "bot_token", "api_token", "secret"}, strings.ToLower(key)):
			l.faults.add(it.at, "a token does not belong in this file: put it into a file of its own and write token_file, or write token_env")
		case len(it.path) > 2 || !slices.Contains(names, key):
			if kind.Name != "" || len(it.path) > 2 || nearest(key, names) != "" { // an unknown platform has keys we cannot know
				l.faults.add(it.at, "unknown key%s", hint(key, names))
			}
		case it.kind != text && (slices.Contains(common, key) || it.kind != flag && it.kind != number):
			l.faults.add(it.at, "want %s", wants[text])
		case key != "platform":
			values[key] = it
		case kind.Name == "":
			l.faults.add(it.at, "unknown platform%s; this program speaks %s", hint(it.text, l.kindNames()), ours)
		}
	}
	if !hasPlatform {
		l.faults.add(raw.at, "platform is missing; this program speaks %s", ours)
	}
	return values
}

func (l *loader) bot(kind platforms.Kind, values map[string]item, at Place, opened map[relay.Bot]Place) {
	before := len(l.faults)
	o := platforms.Options{Values: make(map[string]string)}
	for _, key := range kind.Keys {
		o.Values[key.Name] = key.Default
		v, ok := values[key.Name]
		if !ok {
			continue
		}
		o.Values[key.Name] = v.text
		if key.Path {
			l.from(v.at)
			path, err := l.abs(v.text)
			l.faults.note(v.at, err)
			o.Values[key.Name] = path
		}
		if key.Check == nil {
			continue
		}
		if err := key.Check(v.text); err != nil && len(v.text) > 16 { // it may be a token in the wrong place
			l.faults.add(v.at, "%s", strings.ReplaceAll(err.Error(), v.text, "…"))
		} else {
			l.faults.note(v.at, err)
		}
	}
	if v, ok := values["api_base"]; ok {
		base, err := parseBase(v.text)
		if err == nil && !l.cfg.Insecure && remotePlain(base) {
			err = errors.New("plain http beyond localhost would show the token; use https, or write insecure = true if the network is trusted")
		}
		l.faults.note(v.at, err)
		o.APIBase = base
	}
	o.Token = l.token(kind, values, at)
	if len(l.faults) > before {
		return
	}
	probe := o
	probe.Log = slog.New(slog.DiscardHandler)
	p, err := kind.Open(probe)
	if err != nil {
		l.faults.add(at, "%v", err)
		return
	}
	if first, ok := opened[p.Bot()]; ok {
		l.faults.add(at, "the same bot as on line %d: one bot can be hosted once", first.Line)
		return
	}
	opened[p.Bot()] = at
	l.cfg.Bots = append(l.cfg.Bots, Bot{Kind: kind, Options: o})
}

// tokenKeys are the ways to give a token; the last one is a variable's only.
var tokenKeys = []string{"token_file", "token_env", "token"}

// token finds a bot's credential. A kind without a CheckToken has none.
func (l *loader) token(kind platforms.Kind, values map[string]item, at Place) (s relay.Secret) {
	check := kind.CheckToken
	keys := slices.DeleteFunc(slices.Clone(tokenKeys), func(k string) bool { _, ok := values[k]; return !ok })
	if len(keys) == 0 {
		if check != nil {
			l.faults.add(at, `no token: write token_file = "%s.token" or token_env = "%s_BOT_TOKEN"`, kind.Name, strings.ToUpper(string(kind.Name)))
		}
		return s
	}
	src := values[keys[0]]
	var err error
	switch here := relay.NewSecret([]byte(strings.TrimSpace(src.text))); {
	case len(keys) > 1:
		err = errors.New("give the token once: token_file or token_env")
	case keys[0] == "token":
		s = here
	case check != nil && check(here) == nil:
		err = errors.New("this is a token itself: put it into a file of its own and write that file's name here")
	case keys[0] == "token_file":
		l.from(src.at)
		s, err = l.secretFile(src.text)
	default:
		l.lent = append(l.lent, src.text)
		s, err = l.secretEnv(src.text)
	}
	if err == nil && check != nil {
		err = check(s)
	}
	l.faults.note(src.at, err)
	return s
}

func (l *loader) kindNames() (names []string) {
	for _, k := range l.kinds {
		names = append(names, string(k.Name))
	}
	return names
}

func keyNames(keys []platforms.Key) (names []string) {
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// envKeys are the keys of a kind that have a variable: all of a table's, and the token itself.
func envKeys(k platforms.Kind) []string {
	keys := slices.DeleteFunc(keyNames(botKeys()), func(key string) bool { return key == "platform" })
	return slices.Concat([]string{"token"}, keys, keyNames(k.Keys))
}

func botEnv(k platforms.Kind, key string) string {
	return envPrefix + strings.ToUpper(string(k.Name)+"_"+key)
}

func (l *loader) envValues(k platforms.Kind) map[string]item {
	values := make(map[string]item)
	for _, key := range envKeys(k) {
		name := botEnv(k, key)
		if v, ok := l.env[name]; ok {
			values[key] = item{text: v, at: Place{File: environment, Path: name}}
		}
	}
	return values
}

func localHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// remotePlain reports whether an address is plain http to another machine.
func remotePlain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !localHost(u.Hostname())
}

// remoteHost is the host of host:port, for a message, if other machines can reach it; else empty.
func remoteHost(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || localHost(host) {
		return ""
	}
	return cmp.Or(host, "every interface")
}
