package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// fileName is the configuration file's name in every folder that is searched.
const fileName = "connector.toml"

const envPrefix = "HERMES_CONNECTOR_"

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Source says where a configuration comes from.
type Source struct {
	// Path is the file to read. Empty: connector.toml here, else in $XDG_CONFIG_HOME/hermes-connector
	// (default ~/.config/hermes-connector), else in /etc/hermes-connector, else no file at all.
	Path string
	// Env is the environment, as from os.Environ. A variable set to nothing counts as absent.
	Env []string
	// Kinds are the platforms a bot may be of.
	Kinds []platforms.Kind
}

// Load reads and judges the configuration. Its error is a Faults with everything that is wrong.
// No file and no variable is a valid configuration without bots.
func Load(src Source) (*Config, error) {
	l := newLoader(src)
	path, data := l.read(src.Path)
	doc := &document{}
	if path != "" && len(l.judge.faults) == 0 {
		l.cfg.File, l.folderOfFile = path, filepath.Dir(path)
		var ok bool
		if doc, ok = parse(data, &l.judge); !ok {
			return nil, l.judge.err()
		}
	}
	return l.load(doc)
}

// loader turns a document and the environment into a Config.
type loader struct {
	judge        judge
	env          map[string]string
	kinds        []platforms.Kind
	cfg          Config
	places       map[string]place // by setting.path: where its value came from
	folderOfFile string
	// base is what a relative path is relative to: folderOfFile, or empty for the working folder.
	base string
	// lent are variables the file names (token_env), which may have our prefix.
	lent []string
}

func newLoader(src Source) *loader {
	l := &loader{env: make(map[string]string), kinds: src.Kinds, places: make(map[string]place)}
	for _, kv := range src.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" {
			l.env[name] = value
		}
	}
	return l
}

// read finds and reads the file. An empty path: there is none.
func (l *loader) read(path string) (string, []byte) {
	candidates := []string{path}
	if path == "" {
		candidates = []string{fileName}
		if dir := l.folder("XDG_CONFIG_HOME", ".config"); dir != "" {
			candidates = append(candidates, filepath.Join(dir, fileName))
		}
		candidates = append(candidates, filepath.Join("/etc/hermes-connector", fileName))
	}
	for _, c := range candidates {
		l.judge.file = c
		st, err := os.Stat(c)
		if errors.Is(err, fs.ErrNotExist) && path == "" {
			continue
		}
		var data []byte
		switch {
		case err != nil:
		case !st.Mode().IsRegular():
			err = errors.New("is no ordinary file")
		case st.Size() > maxFile:
			err = errors.New("is too large for a configuration")
		default:
			data, err = os.ReadFile(c)
		}
		if err != nil {
			l.judge.add(place{}, "%v", reason(err))
		}
		return c, data
	}
	l.judge.file = fileName
	return "", nil
}

func (l *loader) load(doc *document) (*Config, error) {
	bots := l.assign(doc)
	l.defaults()
	l.wholeTLS()
	l.identity()
	l.plainHTTP()
	l.oneKeySource()
	l.bots(bots)
	l.unknownEnv()
	if err := l.judge.err(); err != nil {
		return nil, err
	}
	return &l.cfg, nil
}

// assign sets everything outside [[bots]] from the file, then from the environment, and
// returns the bots' keys.
func (l *loader) assign(doc *document) []*rawBot {
	known := make(map[string]setting)
	for _, s := range settings() {
		known[s.path()] = s
	}
	reported := make(map[string]bool) // sections
	for _, s := range doc.sections {
		l.section(s, reported)
	}
	bots := make([]*rawBot, len(doc.bots))
	for i, line := range doc.bots {
		bots[i] = &rawBot{at: place{line: line, path: botsSection}}
	}
	for _, it := range doc.items {
		if it.bot >= 0 {
			bots[it.bot].items = append(bots[it.bot].items, it)
			continue
		}
		s, ok := known[strings.Join(it.path, ".")]
		at := place{line: it.line, path: spellPath(it.path)}
		if !ok || strings.Contains(it.path[0], ".") {
			l.unknownKey(it, at, reported)
			continue
		}
		v, ok := s.want.spelt(it)
		if !ok {
			l.judge.add(at, "want %s", s.want)
			continue
		}
		l.set(s, v, at)
	}
	vaultReplaced := false
	for _, s := range settings() {
		v, ok := l.env[s.env()]
		if !ok {
			continue
		}
		if s.section == "vault" && !vaultReplaced { // one source replaces another, whichever key it has
			vaultReplaced, l.cfg.Vault = true, Vault{}
			maps.DeleteFunc(l.places, func(path string, _ place) bool { return strings.HasPrefix(path, "vault.") })
		}
		l.set(s, v, place{env: s.env()})
	}
	return bots
}

func (l *loader) set(s setting, value string, at place) {
	l.places[s.path()] = at
	l.from(at)
	if err := s.set(l, value); err != nil {
		l.judge.add(at, "%v", err)
	}
}

// from makes relative paths relative to where a value stands.
func (l *loader) from(at place) {
	l.base = ""
	if at.line > 0 {
		l.base = l.folderOfFile
	}
}

// section judges a header.
func (l *loader) section(s item, reported map[string]bool) {
	name := spellPath(s.path)
	at := place{line: s.line, path: name}
	switch known := len(s.path) == 1 && slices.Contains(sections(), s.path[0]); {
	case isBots(s.path):
		l.judge.add(at, "write [[bots]] with double brackets: one table per bot")
	case known && s.kind == headerOfMany:
		l.judge.add(at, "write [%s] with single brackets", name)
	case known || reported[s.path[0]]:
	default:
		l.judge.add(at, "unknown section%s", hint(s.path[0], append(sections(), botsSection)))
		reported[s.path[0]] = true
	}
}

// unknownKey judges a key that is in no section we know. The keys of an unknown section are not
// reported one by one.
func (l *loader) unknownKey(it item, at place, reported map[string]bool) {
	head := it.path[0]
	var here []string // the keys it could have meant
	for _, s := range settings() {
		if len(it.path) == 1 && s.section == "" || len(it.path) > 1 && s.section == head {
			here = append(here, s.key)
		}
	}
	switch {
	case head == botsSection && len(it.path) == 1:
		l.judge.add(at, "write [[bots]]: one table per bot")
	case head == botsSection: // the header was reported
	case len(it.path) == 1 && slices.Contains(sections(), head):
		l.judge.add(at, "is a section: write [%s]", head)
	case len(it.path) == 1:
		l.judge.add(at, "unknown key%s", hint(head, here))
	case slices.Contains(sections(), head):
		if head == "vault" && it.path[1] == "passphrase" {
			l.judge.add(at, "a passphrase does not belong in this file: write passphrase_file or passphrase_env")
			return
		}
		l.judge.add(at, "unknown key%s", hint(it.path[1], here))
	case !reported[head]:
		l.judge.add(at, "unknown section %s%s", spell(head), hint(head, append(sections(), botsSection)))
		reported[head] = true
	}
}

// defaults fills in what neither the file nor the environment gave.
func (l *loader) defaults() {
	for _, s := range settings() {
		if _, given := l.places[s.path()]; !given && s.def != "" && (s.mode == "" || s.mode == l.cfg.Identity.Mode) {
			l.set(s, s.def, place{path: s.path()})
			delete(l.places, s.path())
		}
	}
	if _, given := l.places["data_dir"]; !given {
		dir, _, _ := strings.Cut(l.env["STATE_DIRECTORY"], ":")
		if dir == "" {
			dir = l.folder("XDG_DATA_HOME", ".local/share")
		}
		at := place{path: "data_dir"}
		if dir == "" {
			l.judge.add(at, "there is no home folder that could hold the data: write data_dir")
		} else if err := setDataDir(l, dir); err != nil {
			l.judge.add(at, "%v", err)
		}
	}
	if _, given := l.places["backup.dir"]; !given {
		l.cfg.Backup.Dir = filepath.Join(l.cfg.DataDir, "snapshots")
	}
	v := &l.cfg.Vault
	if _, given := l.places["vault.key_file"]; !given && v.Passphrase.IsZero() && v.Credential == "" {
		if err := setKeyFile(l, filepath.Join(l.cfg.DataDir, "vault.key")); err != nil {
			l.judge.add(place{path: "vault.key_file"}, "%v", err)
		}
	}
}

// folder is $name/hermes-connector, else ~/under/hermes-connector; empty without a home.
func (l *loader) folder(name, under string) string {
	root := l.env[name]
	if root == "" || !filepath.IsAbs(root) {
		if l.env["HOME"] == "" {
			return ""
		}
		root = filepath.Join(l.env["HOME"], under)
	}
	return filepath.Join(root, "hermes-connector")
}

// abs makes a path of the configuration absolute.
func (l *loader) abs(v string) (string, error) {
	if v == "" {
		return "", errors.New("is empty")
	}
	if v == "~" || strings.HasPrefix(v, "~/") {
		if l.env["HOME"] == "" {
			return "", errors.New("~ means the home folder, and $HOME is not set")
		}
		return filepath.Join(l.env["HOME"], v[1:]), nil
	}
	if !filepath.IsAbs(v) {
		v = filepath.Join(l.base, v)
	}
	return filepath.Abs(v)
}

// plainHTTP refuses to carry credentials, or names and numbers, unencrypted where others could listen.
func (l *loader) plainHTTP() {
	if l.cfg.Insecure {
		return
	}
	if at, given := l.places["listen"]; given && l.cfg.Listen != "" && !localAddr(l.cfg.Listen) && !l.cfg.TLS.On() {
		l.judge.add(at, "plain http on %s; give [tls] a certificate, or write insecure = true if a proxy terminates TLS", spellHost(l.cfg.Listen))
	}
	if at, given := l.places["metrics.listen"]; given && l.cfg.Metrics.Listen != "" && !localAddr(l.cfg.Metrics.Listen) {
		l.judge.add(at, "plain http on %s; metrics are never encrypted: write insecure = true if the network is trusted", spellHost(l.cfg.Metrics.Listen))
	}
	if at, given := l.places["public_url"]; given && remotePlain(l.cfg.PublicURL) {
		l.judge.add(at, "plain http beyond localhost; use https, or write insecure = true if the network is trusted")
	}
	for _, called := range []struct{ path, address string }{
		{"identity.jwks_url", l.cfg.Identity.JWKSURL}, {"identity.introspect_url", l.cfg.Identity.IntrospectURL},
	} {
		if at, given := l.places[called.path]; given && remotePlain(called.address) {
			l.judge.add(at, "plain http beyond localhost; use https, or write insecure = true if the network is trusted")
		}
	}
}

// oneKeySource refuses two sources for the vault's key.
func (l *loader) oneKeySource() {
	var sources []place
	for _, s := range settings() {
		if at, given := l.places[s.path()]; given && s.section == "vault" {
			sources = append(sources, at)
		}
	}
	if len(sources) > 1 {
		l.judge.add(sources[1], "give one source for the vault's key: key_file, passphrase_file, passphrase_env or credential")
	}
}

// unknownEnv reports variables with our prefix that mean nothing.
func (l *loader) unknownEnv() {
	known := slices.Clone(l.lent)
	for _, s := range settings() {
		known = append(known, s.env())
	}
	for _, k := range l.kinds {
		for _, key := range envKeys(k) {
			known = append(known, botEnv(k, key))
		}
	}
	var unknown []string
	for name := range l.env {
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.judge.add(place{env: name}, "unknown variable%s", hint(name, known))
	}
}
