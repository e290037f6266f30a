package config

import (
	"cmp"
	"errors"
	"fmt"
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

// bots judges the [[bots]] tables, in which variables override keys. A network without a table gets a bot if a variable
// is set for it.
func (l *loader) bots(raws []*rawTable) {
	count := make(map[relay.PlatformID]int)
	opened := make(map[relay.Bot]Place)
	for _, raw := range raws {
		count[l.networkOf(raw).Name]++
	}
	for _, raw := range raws {
		network := l.networkOf(raw)
		values := l.fileKeys(raw, network)
		if network.Name == "" {
			continue
		}
		if count[network.Name] == 1 && l.node == nil {
			override(network, values, l.envValues(network))
		}
		l.bot(network, values, raw.at, opened)
	}
	for _, network := range l.networks {
		if l.node != nil { // the variables are the node's
			break
		}
		env := l.envValues(network)
		names := slices.Sorted(maps.Keys(env))
		switch {
		case len(env) == 0 || count[network.Name] == 1:
		case count[network.Name] > 1:
			l.faults.add(env[names[0]].at, "the file has %d %s bots, and the variable does not say which bot it is for: set the key in the file", count[network.Name], network.Name)
		default:
			l.bot(network, env, env[names[0]].at, opened)
		}
	}
}

// networkOf returns the network that a table names. Its name is empty if there is no such network.
func (l *loader) networkOf(raw *rawTable) platforms.Network {
	for _, it := range raw.items {
		for _, k := range l.networks {
			if it.path[len(it.path)-1] == "platform" && it.kind == text && it.text == string(k.Name) {
				return k
			}
		}
	}
	return platforms.Network{}
}

// fileKeys checks the keys of one table, and returns the usable ones but platform with their values. network is empty
// if the table names none, or an unknown one.
func (l *loader) fileKeys(raw *rawTable, network platforms.Network) map[string]item {
	common := append(keyNames(botKeys()), credentialKeys(network)...)
	names := append(common, keyNames(network.Keys)...)
	ours := strings.Join(l.networkNames(), ", ")
	values := make(map[string]item)
	hasPlatform := false
	for _, it := range raw.items {
		key := it.path[1]
		hasPlatform = hasPlatform || len(it.path) == 2 && key == "platform"
		switch {
		case len(it.path) == 2 && pasted(network, key) != "":
			ways := waysTo(pasted(network, key))
			l.faults.add(it.at, "%s does not belong in this file: put it into a file of its own and write %s, or write %s", withArticle(ways[2]), ways[0], ways[1])
		case len(it.path) > 2 || !slices.Contains(names, key):
			if network.Name != "" || len(it.path) > 2 || nearest(key, names) != "" { // an unknown platform has keys we cannot know
				l.faults.add(it.at, "unknown key%s", l.belongs(key, names))
			}
		case it.kind == list && isList(network, key):
			values[key] = it
		case it.kind != text && (slices.Contains(common, key) || it.kind != flag && it.kind != number):
			l.faults.add(it.at, "want %s", wants[text])
		case key != "platform":
			values[key] = it
		case network.Name == "":
			l.faults.add(it.at, "unknown platform%s; this program speaks %s", hint(it.text, l.networkNames()), ours)
		}
	}
	if !hasPlatform {
		l.faults.add(raw.at, "platform is missing; this program speaks %s", ours)
	}
	return values
}

// bot judges one bot: its keys, the address of its network's API and its credentials. If all are good, it opens the
// bot, which finds what only the network's package knows, and adds it to the configuration. values are the bot's keys,
// at is where the bot stands, and opened has the bots so far.
func (l *loader) bot(network platforms.Network, values map[string]item, at Place, opened map[relay.Bot]Place) {
	before := len(l.faults)
	o := platforms.Options{Values: make(map[string]string), PublicURL: l.cfg.PublicURL}
	for _, key := range network.Keys {
		o.Values[key.Name] = key.Default
		v, ok := values[key.Name]
		if !ok {
			if key.Check != nil && key.Check(key.Default) != nil {
				l.faults.add(at, "%s is missing: %s", key.Name, key.Help)
			}
			continue
		}
		o.Values[key.Name] = v.text
		if key.Path {
			l.setBase(v.at)
			path, err := l.abs(v.text)
			l.faults.note(v.at, err)
			o.Values[key.Name] = path
		}
		var err error
		if key.Check != nil {
			err = key.Check(v.text)
		}
		if key.Outside && err == nil && v.text != "" {
			err = Outside(l.cfg.Guard(l.cfg.Listen, l.cfg.MetricsListen, l.cfg.Web.Listen), v.text)
		}
		if err != nil && len(v.text) > 16 { // it may be a token in the wrong place
			l.faults.add(v.at, "%s", strings.ReplaceAll(err.Error(), v.text, "…"))
		} else {
			l.faults.note(v.at, err)
		}
	}
	if backwards(o.Values) {
		where, ok := values[retryMax]
		if !ok {
			where = values[retryWait]
		}
		l.faults.add(where.at, "%s is less than %s: the first pause would be longer than the longest", retryMax, retryWait)
	}
	if v, ok := values["api_base"]; ok {
		base, err := parseBase(v.text)
		if err == nil && holdsToken(network, base) {
			err = errors.New("holds a token: write the address without it, and put the token into a file of its own")
		}
		if err == nil && !l.cfg.Insecure && remotePlain(base) {
			err = errors.New("plain http beyond localhost would show the token; use https, or write insecure = true if the network is trusted")
		}
		l.faults.note(v.at, err)
		o.APIBase = base
	}
	if len(network.Secrets) > 0 {
		o.Secrets = make(map[string]relay.Secret)
	}
	for n, c := range credentials(network) {
		secret := l.credentialOf(network, c, values, at)
		if n == 0 {
			o.Token = secret
			continue
		}
		o.Secrets[c.Name] = secret
	}
	if len(l.faults) > before {
		return
	}
	probe := o
	probe.Log = slog.New(slog.DiscardHandler)
	p, err := network.Open(probe)
	if err != nil {
		l.faults.add(at, "%v", err)
		return
	}
	bot := Bot{Network: network, Options: o}
	if src, ok := values[waysTo(credentials(network)[0].Name)[0]]; ok {
		l.setBase(src.at)
		bot.TokenFile, _ = l.abs(src.text) // without an error: credentialOf has read that file
	}
	if _, _, called := platforms.Called(p); called {
		bot.HookPath = platforms.HookPath(p.ID())
	}
	if first, ok := opened[p.ID()]; ok {
		route := ""
		if bot.HookPath != "" {
			route = "; both would be called at " + bot.HookPath
		}
		l.faults.add(at, "the same bot as on line %d: one bot can be hosted once%s", first.Line, route)
		return
	}
	opened[p.ID()] = at
	l.cfg.Bots = append(l.cfg.Bots, bot)
}

// credentials returns the secrets that a bot of the network needs, its token first. In a network without CheckToken it
// may need none.
func credentials(k platforms.Network) []platforms.SecretKey {
	return append([]platforms.SecretKey{{Name: cmp.Or(k.Token, "token"), Check: k.CheckToken}}, k.Secrets...)
}

// holdsToken reports whether a part of an address's path is a credential of the network's.
func holdsToken(k platforms.Network, base string) bool {
	if k.CheckToken == nil || k.CheckToken(aFileName) == nil {
		return false
	}
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		for _, p := range []string{part, strings.TrimPrefix(part, "bot")} { // as in Telegram's addresses
			if k.CheckToken(relay.NewSecret([]byte(p))) == nil {
				return true
			}
		}
	}
	return false
}

// waysTo returns the keys by which a credential can be given: NAME_file, NAME_env, and NAME, which can be a variable
// but not a key of the file.
func waysTo(name string) []string { return []string{name + "_file", name + "_env", name} }

// credentialKeys returns the keys of a network's credentials in a table.
func credentialKeys(k platforms.Network) (keys []string) {
	for _, c := range credentials(k) {
		keys = append(keys, waysTo(c.Name)[:2]...)
	}
	return keys
}

// aFileName is a name that people give to a file with a credential. A check that takes it for a credential cannot tell
// whether a value is a credential or the name of its file.
var aFileName = relay.NewSecret([]byte("bot.token"))

// lentEnv returns the variable that a message proposes for a credential.
func lentEnv(k platforms.Network, name string) string {
	if name == "token" {
		name = "bot_token"
	}
	return strings.ToUpper(string(k.Name) + "_" + name)
}

// credentialOf finds one credential of a bot by the key that gives it, reads it and checks its form. It refuses two
// such keys, and a credential that stands in place of its file's name.
func (l *loader) credentialOf(network platforms.Network, c platforms.SecretKey, values map[string]item, at Place) (s relay.Secret) {
	ways := waysTo(c.Name)
	keys := slices.DeleteFunc(slices.Clone(ways), func(k string) bool { _, ok := values[k]; return !ok })
	if len(keys) == 0 {
		if c.Check != nil {
			l.faults.add(at, `no %s: write %s = "%s.%s" or %s = "%s"`, spoken(c.Name), ways[0], network.Name, c.Name, ways[1], lentEnv(network, c.Name))
		}
		return s
	}
	src := values[keys[0]]
	var err error
	switch here := relay.NewSecret([]byte(strings.TrimSpace(src.text))); {
	case len(keys) > 1:
		err = fmt.Errorf("give the %s once: %s or %s", spoken(c.Name), ways[0], ways[1])
	case keys[0] == c.Name:
		s = here
	case c.Check != nil && c.Check(here) == nil && c.Check(aFileName) != nil && !l.exists(src.text):
		err = fmt.Errorf("this is %s itself: put it into a file of its own and write that file's name here", withArticle(c.Name))
	case keys[0] == ways[0]:
		l.setBase(src.at)
		s, err = l.secretFile(src.text)
	default:
		l.namedVars = append(l.namedVars, src.text)
		s, err = l.secretEnv(src.text)
	}
	if err == nil && c.Check != nil {
		err = c.Check(s)
	}
	for _, other := range l.networks { // tokens of networks with a guide are known by their form
		if err != nil && ways[0] == waysTo(credentials(network)[0].Name)[0] && other.Name != network.Name && other.Guide != "" && !other.Formless && other.CheckToken != nil && other.CheckToken(s) == nil {
			err = errors.New(OtherToken + other.Label + ", but the bot should be one of " + cmp.Or(network.Label, string(network.Name)))
		}
	}
	l.faults.note(src.at, err)
	return s
}

// OtherToken begins the fault of a token that is another network's; its name follows.
const OtherToken = "this is a token of "

// spoken returns a key as people say it.
func spoken(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "_", " "), "aes", "AES")
}

// withArticle returns the key as people say it, with its article.
func withArticle(key string) string {
	if strings.ContainsRune("aeiou", rune(key[0])) {
		return "an " + spoken(key)
	}
	return "a " + spoken(key)
}

// pasted returns the name of the credential that somebody wrote into the file itself under key; empty: none.
func pasted(k platforms.Network, key string) string {
	key = strings.ToLower(key)
	all := credentials(k)
	if slices.ContainsFunc(all, func(c platforms.SecretKey) bool { return c.Name == key }) {
		return key
	}
	if slices.Contains([]string{"token", "bot_token", "api_token", "secret"}, key) {
		return all[0].Name
	}
	return ""
}

func (l *loader) networkNames() (names []string) {
	for _, k := range l.networks {
		names = append(names, string(k.Name))
	}
	return names
}

// isList reports whether a key of the network's may be a list.
func isList(k platforms.Network, key string) bool {
	return slices.ContainsFunc(k.Keys, func(of platforms.Key) bool { return of.Name == key && of.List })
}

func keyNames(keys []platforms.Key) (names []string) {
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// envKeys returns the keys of a network that can be set by a variable: all keys of its table, and the token.
func envKeys(k platforms.Network) []string {
	keys := slices.DeleteFunc(keyNames(botKeys()), func(key string) bool { return key == "platform" })
	for _, c := range credentials(k) {
		keys = append(keys, waysTo(c.Name)...)
	}
	return append(keys, keyNames(k.Keys)...)
}

func botEnv(k platforms.Network, key string) string {
	return envPrefix + strings.ToUpper(string(k.Name)+"_"+key)
}

func (l *loader) envValues(k platforms.Network) map[string]item {
	values := make(map[string]item)
	for _, key := range envKeys(k) {
		name := botEnv(k, key)
		if v, ok := l.env[name]; ok {
			kind := text
			if isList(k, key) {
				kind = list
			}
			values[key] = item{text: unquoted(v, kind), at: Place{File: environment, Path: name}}
		}
	}
	return values
}

// override puts the environment's values over the file's. A credential from the environment replaces
// the file's, however that was given.
func override(k platforms.Network, values, env map[string]item) {
	for _, c := range credentials(k) {
		ways := waysTo(c.Name)
		if slices.ContainsFunc(ways, func(k string) bool { _, ok := env[k]; return ok }) {
			maps.DeleteFunc(values, func(k string, _ item) bool { return slices.Contains(ways, k) })
		}
	}
	maps.Copy(values, env)
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

// Remote reports whether other machines can reach a listener on addr (host:port).
func Remote(addr string) bool { return remoteHost(addr) != "" }

// remoteHost returns the host of host:port, for a message, if other machines can reach it; else empty.
func remoteHost(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || localHost(host) {
		return ""
	}
	return cmp.Or(host, "every interface")
}
