package config

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// headerOfMany is the kind of a [[section]] header.
const headerOfMany = unstable.ArrayTable

// rawBot is one [[bots]] table, or the variables that stand for one.
type rawBot struct {
	at    place // its header; a variable when the environment alone makes the bot
	items []item
	kind  platforms.Kind // see kindOf
}

// given is a value with where it came from.
type given struct {
	value string
	at    place
}

// bots judges the [[bots]] tables, completed by the environment.
func (l *loader) bots(raws []*rawBot) {
	count := make(map[relay.PlatformID]int)
	opened := make(map[relay.Bot]place)
	for _, raw := range raws {
		raw.kind = l.kindOf(raw)
		count[raw.kind.Name]++
	}
	for _, raw := range raws {
		values, ok := l.fileKeys(raw)
		if !ok {
			continue
		}
		if count[raw.kind.Name] == 1 {
			override(values, l.envValues(raw.kind))
		}
		l.bot(raw.kind, values, raw.at, opened)
	}
	for _, kind := range l.kinds {
		env := l.envValues(kind)
		names := slices.Sorted(maps.Keys(env))
		switch {
		case len(env) == 0 || count[kind.Name] == 1:
		case count[kind.Name] > 1:
			l.judge.add(env[names[0]].at, "the file has %d %s bots, and the variable does not say which bot it is for: set the key in the file", count[kind.Name], kind.Name)
		default:
			l.bot(kind, env, env[names[0]].at, opened)
		}
	}
}

// kindOf is the kind a table names; its name is empty when the kind is none of ours.
func (l *loader) kindOf(raw *rawBot) platforms.Kind {
	for _, it := range raw.items {
		for _, k := range l.kinds {
			if it.path[len(it.path)-1] == "platform" && it.kind == unstable.String && it.text == string(k.Name) {
				return k
			}
		}
	}
	return platforms.Kind{}
}

// fileKeys judges the keys of one table. ok is false when its platform is missing or unknown.
func (l *loader) fileKeys(raw *rawBot) (values map[string]given, ok bool) {
	ok = raw.kind.Name != ""
	names := append(keyNames(botKeys()), keyNames(raw.kind.Keys)...)
	values = make(map[string]given)
	hasPlatform := false
	for _, it := range raw.items {
		key := it.path[1]
		at := place{line: it.line, path: spellPath(it.path)}
		scalar := it.kind == unstable.String || it.kind == unstable.Bool || it.kind == unstable.Integer
		common := slices.Contains(keyNames(botKeys()), key)
		switch {
		case len(it.path) == 2 && isTokenKey(key):
			l.judge.add(at, "a token does not belong in this file: put it into a file of its own and write token_file, or write token_env")
		case len(it.path) > 2 || !slices.Contains(names, key):
			if ok || len(it.path) > 2 || nearest(key, names) != "" { // an unknown platform has keys we cannot know
				l.judge.add(at, "unknown key%s", hint(key, names))
			}
		case common && it.kind != unstable.String || !scalar:
			l.judge.add(at, "want %s", text)
			hasPlatform = hasPlatform || key == "platform"
		case key == "platform":
			hasPlatform = true
			if !ok {
				l.judge.add(at, "unknown platform%s; this program speaks %s", hint(it.text, l.kindNames()), strings.Join(l.kindNames(), ", "))
			}
		default:
			values[key] = given{it.text, at}
		}
	}
	if !hasPlatform {
		l.judge.add(raw.at, "platform is missing; this program speaks %s", strings.Join(l.kindNames(), ", "))
	}
	return values, ok
}

// isTokenKey: words under which people write a credential.
func isTokenKey(key string) bool {
	return slices.Contains([]string{"token", "bot_token", "api_token", "secret"}, strings.ToLower(key))
}

// bot judges one bot as a whole and adds it to the configuration.
func (l *loader) bot(kind platforms.Kind, values map[string]given, at place, opened map[relay.Bot]place) {
	before := len(l.judge.faults)
	o := platforms.Options{Values: make(map[string]string)}
	for _, key := range kind.Keys {
		o.Values[key.Name] = key.Default
		v, ok := values[key.Name]
		if !ok {
			continue
		}
		o.Values[key.Name] = v.value
		if key.Path {
			l.from(v.at)
			path, err := l.abs(v.value)
			if err != nil {
				l.judge.add(v.at, "%v", err)
			}
			o.Values[key.Name] = path
		}
		if key.Check == nil {
			continue
		}
		if err := key.Check(v.value); err != nil {
			l.judge.add(v.at, "%s", elide(err.Error(), v.value))
		}
	}
	if v, ok := values["api_base"]; ok {
		base, err := parseBase(v.value)
		if err == nil && !l.cfg.Insecure && remotePlain(base) {
			err = errors.New("plain http beyond localhost would show the token; use https, or write insecure = true if the network is trusted")
		}
		if err != nil {
			l.judge.add(v.at, "%v", err)
		}
		o.APIBase = base
	}
	o.Token = l.token(kind, values, at)
	if len(l.judge.faults) > before {
		return
	}
	probe := o
	probe.Log = slog.New(slog.DiscardHandler)
	p, err := kind.Open(probe)
	if err != nil {
		l.judge.add(at, "%v", err)
		return
	}
	if first, ok := opened[p.Bot()]; ok {
		l.judge.add(at, "the same bot as on line %d: one bot can be hosted once", first.line)
		return
	}
	opened[p.Bot()] = at
	l.cfg.Bots = append(l.cfg.Bots, Bot{Kind: kind, Options: o})
}

// elide takes a value out of a message when it is long enough to be a token in the wrong place.
func elide(message, value string) string {
	if len(value) <= 16 {
		return message
	}
	return strings.ReplaceAll(message, value, "…")
}

// token finds a bot's credential. A kind without a CheckToken has none.
func (l *loader) token(kind platforms.Kind, values map[string]given, at place) relay.Secret {
	needed := kind.CheckToken != nil
	looksLike := func(v string) bool { return needed && kind.CheckToken(relay.NewSecret([]byte(v))) == nil }
	inFile, hasFile := values["token_file"]
	inEnv, hasEnv := values["token_env"]
	direct, hasDirect := values["token"] // from its variable only
	var (
		s   relay.Secret
		src given
		err error
	)
	switch {
	case hasFile && hasEnv || hasDirect && (hasFile || hasEnv):
		l.judge.add(inFile.or(inEnv).at, "give the token once: token_file or token_env")
		return s
	case hasDirect:
		src, s = direct, relay.NewSecret([]byte(strings.TrimSpace(direct.value)))
	case hasFile && looksLike(inFile.value), hasEnv && looksLike(inEnv.value):
		l.judge.add(inFile.or(inEnv).at, "this is a token itself: put it into a file of its own and write that file's name here")
		return s
	case hasFile:
		src = inFile
		l.from(src.at)
		s, err = l.secretFile(src.value)
	case hasEnv:
		src = inEnv
		l.lent = append(l.lent, src.value)
		s, err = l.secretEnv(src.value)
	case !needed:
		return s
	default:
		l.judge.add(at, `no token: write token_file = "%s.token" or token_env = "%s_BOT_TOKEN"`, kind.Name, strings.ToUpper(string(kind.Name)))
		return s
	}
	if err == nil && needed {
		err = kind.CheckToken(s)
	}
	if err != nil {
		l.judge.add(src.at, "%v", err)
	}
	return s
}

// or is g unless it was not given.
func (g given) or(other given) given {
	if g == (given{}) {
		return other
	}
	return g
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

// botEnv is the variable of a bot's key.
func botEnv(k platforms.Kind, key string) string {
	return envPrefix + strings.ToUpper(string(k.Name)+"_"+key)
}

func (l *loader) envValues(k platforms.Kind) map[string]given {
	values := make(map[string]given)
	for _, key := range envKeys(k) {
		name := botEnv(k, key)
		if v, ok := l.env[name]; ok {
			values[key] = given{v, place{env: name}}
		}
	}
	return values
}

// override puts the environment's values over the file's. A token from the environment replaces
// the file's, however that was given.
func override(values, env map[string]given) {
	sources := []string{"token", "token_file", "token_env"}
	if slices.ContainsFunc(sources, func(k string) bool { _, ok := env[k]; return ok }) {
		for _, k := range sources {
			delete(values, k)
		}
	}
	maps.Copy(values, env)
}

// localAddr reports whether host:port can be reached from this machine only.
func localAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && localHost(host)
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

// spellHost is the host of host:port, for a message.
func spellHost(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if host == "" {
		return "every interface"
	}
	return host
}
