package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// mainShard is the only shard of a configuration without [[shard]] tables: that file itself.
const mainShard = "main"

// Shard is a part of a cluster that one node leads at a time: bots, people and gateways with a database of their own.
type Shard struct {
	Config *Config // the shard's own settings, and those that all shards of a node share
	Weight float64 // the shard's load in proportion to that of the other shards; above 0
}

// Led returns the shards that this node may lead.
func (c *Config) Led() []Shard {
	if len(c.Shards) == 0 {
		return []Shard{{c, 1}}
	}
	return c.Shards
}

// OneOf returns the shard's name if there are several shards; otherwise it is empty.
func (c *Config) OneOf() string {
	if c.Prefix == "" {
		return ""
	}
	return c.Shard
}

func (c *Config) shardNames() string {
	var names []string
	for _, s := range c.Led() {
		names = append(names, s.Config.Shard)
	}
	return strings.Join(names, ", ")
}

// WhichShard returns the error of a command that needs --shard to know which database is meant. It is for
// configurations with several shards.
func (c *Config) WhichShard() error {
	return fmt.Errorf("%s has several shards (%s): say with --shard which one is meant", c.File, c.shardNames())
}

var shardName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func shardKeys() []platforms.Key {
	return []platforms.Key{
		{Name: "name", Help: "its name, of small letters, digits and -; it is reached below /s/NAME of this listener"},
		{Name: "config", Help: "its file, such as this one, without what all shards share: listen, data_dir, insecure, trusted_proxies, [tls], [metrics], [cluster], [log], listen under [web]"},
		{Name: "dsn_file", Help: "a file with the address of another PostgreSQL, for this shard"},
		{Name: "weight", Default: "1", Help: "how much it has to do, beside the other shards"},
	}
}

// common reports whether all shards of a node have the setting in common.
func (s setting) common() bool {
	return slices.Contains([]string{"tls", "metrics", "cluster", "log"}, s.section) ||
		slices.Contains([]string{dataDirKey, "listen", "insecure", "trusted_proxies", "web.listen"}, s.path())
}

// forAll reports whether the setting may be in a file with [[shard]] tables: it then counts for all shards, or is their
// default.
func (s setting) forAll() bool {
	return s.common() || s.section == "vault" || s.path() == "public_url"
}

// shards judges the [[shard]] tables, and the files that they name.
func (l *loader) shards(raws []*rawTable, src Source) {
	if len(raws) == 0 {
		return
	}
	if l.node != nil {
		l.faults.add(raws[0].at, "a shard has no shards: write it in %s", l.node.File)
		return
	}
	if !l.cfg.Cluster.On() {
		l.faults.add(raws[0].at, "does nothing without dsn_file under [cluster]")
	}
	for _, s := range l.settings {
		if at, given := l.places[s.path()]; given && !s.forAll() {
			l.faults.add(at, "belongs in the files of the shards, since there are [[shard]] tables")
		}
	}
	for _, raw := range raws {
		l.shard(raw, src)
	}
	for n, one := range l.cfg.Shards {
		for _, other := range l.cfg.Shards[:n] {
			l.faults.apart(one.Config, other.Config)
		}
	}
}

// shard checks one [[shard]] table, and loads the file that the table names with a loader of its own. The shard is
// added unless that file is of no use.
func (l *loader) shard(raw *rawTable, src Source) {
	values := make(map[string]item)
	for _, it := range raw.items {
		i := slices.IndexFunc(shardKeys(), func(k platforms.Key) bool { return len(it.path) == 2 && k.Name == it.path[1] })
		want := map[bool]unstable.Kind{true: number, false: text}[it.path[1] == "weight"]
		switch {
		case i < 0:
			l.faults.add(it.at, "unknown key%s", hint(it.path[1], keyNames(shardKeys())))
		case it.kind != want:
			l.faults.add(it.at, "want %s", wants[want])
		default:
			values[it.path[1]] = it
		}
	}
	for _, key := range []string{"name", "config"} {
		if _, ok := values[key]; !ok {
			l.faults.add(raw.at, "%s is missing", key)
			return
		}
	}
	name, s := values["name"].text, Shard{Weight: 1}
	switch first := slices.IndexFunc(l.cfg.Shards, func(s Shard) bool { return s.Config.Shard == name }); {
	case !shardName.MatchString(name):
		l.faults.add(values["name"].at, "want at most 40 small letters, digits and -, the first no -")
		return
	case first >= 0:
		l.faults.add(values["name"].at, "another shard has that name")
		return
	}
	if it, ok := values["weight"]; ok {
		l.faults.note(it.at, into(&s.Weight, func(v string) (float64, error) {
			n, err := numberIn(1, 1000)(v)
			return float64(n), err
		})(it.text))
	}
	in := newLoader(Source{Env: src.Env, Networks: src.Networks, Pending: src.Pending})
	in.node = &l.cfg
	dsn := l.cfg.Cluster.DSN
	if it, ok := values["dsn_file"]; ok {
		l.setBase(it.at)
		var err error
		dsn, err = l.secretFile(it.text)
		l.faults.note(it.at, err)
	}
	in.cfg.inherit(&l.cfg, name, dsn)
	in.settings = slices.DeleteFunc(in.declare(), setting.common)
	for _, s := range in.declare() {
		if value, given := l.cfg.values[s.path()]; given && s.common() {
			in.cfg.values[s.path()] = value
		}
	}
	l.setBase(values["config"].at)
	path, err := l.abs(values["config"].text)
	var data []byte
	if err == nil {
		data, err = regular(path, src.Found)
	}
	if err != nil {
		l.faults.note(values["config"].at, Reason(err))
		return
	}
	in.file = path
	if in.load(path, data, Source{}) {
		s.Config = &in.cfg
		l.cfg.Shards = append(l.cfg.Shards, s)
	}
	l.faults = append(l.faults, in.faults...)
	l.namedVars = append(l.namedVars, in.namedVars...)
}

// inherit sets those parts of a shard's configuration that all shards of the node share.
func (c *Config) inherit(n *Config, name string, dsn relay.Secret) {
	c.Shard, c.Prefix, c.DataDir, c.DataDirGiven = name, "/s/"+name, filepath.Join(n.DataDir, "shards", name), n.DataDirGiven
	c.Listen, c.Insecure, c.TrustedProxies, c.TLS, c.MetricsListen, c.Web.Listen = n.Listen, n.Insecure, n.TrustedProxies, n.TLS, n.MetricsListen, n.Web.Listen
	c.Cluster, c.Log, c.Vault = n.Cluster, n.Log, n.Vault
	c.Cluster.DSN = dsn
}

// apart refuses settings that two shards must not have in common.
func (f *Faults) apart(one, other *Config) {
	if one.PublicURL != "" && one.PublicURL == other.PublicURL {
		f.add(one.Place("public_url"), "shard %s has that address, too", other.Shard)
	}
	for _, b := range one.Bots {
		for _, o := range other.Bots {
			if b.Network.Name == o.Network.Name && !b.Options.Token.IsZero() && b.Options.Token.Same(o.Options.Token) && b.HookPath == "" {
				f.add(Place{File: one.File}, "shard %s has that %s bot, too: one bot can be hosted once", other.Shard, b.Network.Name)
			}
		}
	}
}

// regular returns the text of the file at path, if it may serve as a configuration. found: nobody named the file.
func regular(path string, found bool) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = errors.New("is no ordinary file")
	case st.Size() > maxFile:
		err = errors.New("is too large for a configuration")
	case found:
		if err = files.Foreign(path); err != nil {
			err = fmt.Errorf("it was found here and is not read, because %w: to read it anyway, add --config %s", err, path)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// At splits the public address of a shard into its host, in small letters, and its path, with which the paths of all
// requests to the shard begin there. Both are empty if the address is invalid.
func At(address string) (host, path string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", ""
	}
	return strings.ToLower(u.Hostname()), u.Path
}
