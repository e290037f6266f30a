package config

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// fileName is the configuration file's name in every folder that is searched.
const fileName = "connector.toml"

const (
	envPrefix = "HERMES_CONNECTOR_"
	envFile   = envPrefix + "CONFIG" // names the file if no flag does

	// activeHelp is a variable that shells set when they ask for completions. It is not a setting of ours.
	activeHelp = envPrefix + "ACTIVE_HELP"
)

// systemFile is the configuration of this machine's service.
const systemFile = "/etc/hermes-connector/" + fileName

const maxFile = 1 << 20 // bytes

const dataDirKey = "data_dir"

// Source says where a configuration comes from.
type Source struct {
	// Path is the file to read. Empty: the one that $HERMES_CONNECTOR_CONFIG names, else connector.toml here, else in
	// $XDG_CONFIG_HOME/hermes-connector (default ~/.config/hermes-connector), else in /etc/hermes-connector, else no
	// file at all. A file that nobody named must not be another user's.
	Path string
	// Found says that this program found Path itself: the file is not read if it is another user's.
	Found bool
	// DataDir is the data folder given by a flag, which replaces data_dir; empty: there was no flag.
	DataDir string
	// Draft, unless nil, is judged in place of the file at Path, which need not exist.
	Draft []byte
	// Pending has, by path, the content of files that Draft names and that do not exist yet.
	Pending map[string]relay.Secret
	// Env is the environment, as from os.Environ. A variable set to nothing counts as absent.
	Env []string
	// Networks are the platforms that a bot may be on.
	Networks []platforms.Network
	// Shard names the shard whose configuration is wanted; empty: the configuration that the file itself is.
	Shard string
}

// Load reads and judges the configuration. Its error is a Faults with everything that is wrong.
// No file and no variable is a valid configuration without bots.
func Load(src Source) (*Config, error) {
	cfg, faults := Glimpse(src)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// Glimpse reads as much of a configuration as its faults leave, for commands such as doctor that look for all that is
// wrong. A setting with a fault may be missing, so no server may run with the result. The result is nil if the file
// cannot be read as a whole, or names no data folder.
func Glimpse(src Source) (*Config, Faults) {
	l := newLoader(src)
	path, data := src.Path, src.Draft
	if data == nil {
		path, data = l.read(src)
	} else {
		l.file = path
	}
	if !l.load(path, data, src) {
		return nil, l.faults
	}
	if src.Shard == "" {
		return &l.cfg, l.faults
	}
	for _, s := range l.cfg.Led() {
		if s.Config.Shard == src.Shard {
			return s.Config, l.faults
		}
	}
	l.faults.add(Place{File: l.file}, "there is no shard %q: it has %s", src.Shard, l.cfg.shardNames())
	return nil, l.faults
}

// load makes l.cfg of data, the text of the file at path, and of the environment. It returns false if l.cfg is of no
// use: the file cannot be read, or there is no data folder.
func (l *loader) load(path string, data []byte, src Source) bool {
	file := parser{file: l.file, faults: &l.faults, seen: make(map[string]Place)}
	if path != "" && len(l.faults) == 0 {
		l.cfg.File, l.folderOfFile = path, filepath.Dir(path)
		if !file.parse(data) {
			return false
		}
	}
	if l.node != nil && slices.ContainsFunc(file.items, func(it item) bool { return len(it.path) == 2 && it.path[0] == "vault" }) {
		l.cfg.Vault = Vault{} // the shard's own [vault] replaces the node's
	}
	l.assign(file.items)
	l.flag(src.DataDir)
	l.defaults()
	l.wholeTLS()
	l.web()
	l.clashes()
	l.identity()
	l.notify()
	l.cluster()
	l.plainHTTP()
	l.oneKeySource()
	l.shards(file.named(shardSection), src)
	l.bots(file.named(botsSection))
	if len(l.cfg.Shards) > 0 && len(l.cfg.Bots) > 0 {
		l.faults.add(Place{File: l.file}, "bots belong in the files of the shards, since there are [[shard]] tables")
	}
	if l.node == nil {
		l.unknownEnv()
	}
	l.cfg.places = l.places
	return path == "" || l.cfg.File != "" && l.cfg.DataDir != "" // File is empty if the file could not be read
}

// File returns the path that Load would read; empty: there is no file.
func File(src Source) string {
	l := newLoader(src)
	path, _ := l.read(src)
	return path
}

// loader turns a file's items and the environment into a Config.
type loader struct {
	file         string // as the operator named it
	faults       Faults
	settings     []setting
	env          map[string]string
	networks     []platforms.Network
	pending      map[string]relay.Secret
	cfg          Config
	places       map[string]Place // by setting.path: where its value came from
	reported     map[string]bool  // unknown sections about which there is a fault already
	folderOfFile string
	// base is the folder that a relative path starts from: folderOfFile, or empty for the working folder.
	base string
	// namedVars are the variables that the file names (token_env). They may have our prefix.
	namedVars []string
	// node is the configuration that all shards share, if this loader reads a shard's; else nil.
	node *Config
}

func newLoader(src Source) *loader {
	l := &loader{
		file: fileName, networks: src.Networks, pending: src.Pending, env: make(map[string]string), places: make(map[string]Place), reported: make(map[string]bool),
	}
	l.settings, l.cfg.Shard, l.cfg.values = l.declare(), mainShard, make(map[string]string)
	for _, kv := range src.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" {
			l.env[name] = value
		}
	}
	return l
}

// read finds and reads the file. path is empty if there is none.
func (l *loader) read(src Source) (path string, data []byte) {
	given := cmp.Or(src.Path, l.env[envFile])
	candidates := []string{given}
	if given == "" {
		home := filepath.Join(l.folder("XDG_CONFIG_HOME", ".config"), fileName) // without a home folder this equals the first candidate
		candidates = []string{fileName, home, systemFile}
	}
	for _, c := range candidates {
		data, err := regular(c, (given == "" || src.Found) && c != systemFile) // root decides who may write systemFile
		if errors.Is(err, fs.ErrNotExist) && given == "" {
			continue
		}
		l.file = c
		l.faults.note(Place{File: c}, Reason(err))
		return c, data
	}
	return "", nil
}

// assign sets everything outside [[bots]] from the file, then from the environment.
func (l *loader) assign(items []item) {
	for _, it := range items { // headers first, so that an unknown section is reported once and not with each of its keys
		if it.kind == unstable.Table || it.kind == unstable.ArrayTable {
			l.section(it)
		}
	}
	for _, it := range items {
		path := strings.Join(it.path, ".")
		i := slices.IndexFunc(l.settings, func(s setting) bool { return s.path() == path })
		switch {
		case it.kind == unstable.Table || it.kind == unstable.ArrayTable:
		case i < 0 || strings.Contains(it.path[0], "."):
			l.unknownKey(it)
		case it.kind != l.settings[i].want:
			l.faults.add(it.at, "want %s", wants[l.settings[i].want])
		default:
			l.set(l.settings[i], it.text, it.at)
		}
	}
	vaultReplaced := false
	for _, s := range l.settings {
		v, ok := l.env[s.env()]
		if !ok || l.node != nil { // variables set the node's settings, not a shard's
			continue
		}
		if s.section == "vault" && !vaultReplaced { // the variables name another source of the key: the file's source goes
			vaultReplaced, l.cfg.Vault = true, Vault{}
			maps.DeleteFunc(l.places, func(path string, _ Place) bool { return strings.HasPrefix(path, "vault.") })
		}
		l.set(s, unquoted(v, s.want), Place{File: environment, Path: s.env()})
	}
}

// set sets s to a value, which was given at a place.
func (l *loader) set(s setting, value string, at Place) {
	l.places[s.path()], l.cfg.values[s.path()] = at, value
	l.setBase(at)
	l.faults.note(at, s.set(value))
}

// flag sets data_dir to the value of --data-dir, if that was given.
func (l *loader) flag(dataDir string) {
	if l.node != nil {
		return
	}
	i := slices.IndexFunc(l.settings, func(s setting) bool { return s.path() == dataDirKey })
	if dataDir != "" {
		l.set(l.settings[i], dataDir, Place{File: "command line", Path: "--data-dir"})
	}
	_, l.cfg.DataDirGiven = l.places[dataDirKey]
}

// setBase sets base for a value at that place: a relative path in the file starts from the file's folder, one in a
// variable or a flag from the working folder.
func (l *loader) setBase(at Place) {
	l.base = ""
	if at.Line > 0 {
		l.base = l.folderOfFile
	}
}

// section reports a header that is unknown, or has the wrong brackets.
func (l *loader) section(s item) {
	switch known := len(s.path) == 1 && slices.Contains(sections(), s.path[0]); {
	case isTables(s.path):
		l.faults.add(s.at, "write [[%s]] with double brackets: one table per %s", s.path[0], strings.TrimSuffix(s.path[0], "s"))
	case known && s.kind == unstable.ArrayTable:
		l.faults.add(s.at, "write [%s] with single brackets", s.path[0])
	case known || l.reported[s.path[0]]:
	default:
		l.faults.add(s.at, "unknown section%s", hint(s.path[0], append(sections(), manyTables...)))
		l.reported[s.path[0]] = true
	}
}

// unknownKey reports a key that is not a setting, and suggests a similar one.
func (l *loader) unknownKey(it item) {
	head, last := it.path[0], it.path[min(len(it.path)-1, 1)]
	var here []string // the keys of the section
	for _, s := range l.settings {
		if len(it.path) == 1 && s.section == "" || len(it.path) > 1 && s.section == head {
			here = append(here, s.key)
		}
	}
	switch known := slices.Contains(sections(), head); {
	case isTables(it.path):
		l.faults.add(it.at, "write [[%s]]: one table per %s", head, strings.TrimSuffix(head, "s"))
	case slices.Contains(manyTables, head): // its header has a fault already
	case l.node != nil && slices.ContainsFunc(l.declare(), func(s setting) bool { return s.common() && s.path() == strings.Join(it.path, ".") }):
		l.faults.add(it.at, "is the same for all shards: write it in %s", l.node.File)
	case known && len(it.path) == 1:
		l.faults.add(it.at, "is a section: write [%s]", head)
	case head == "vault" && last == "passphrase":
		l.faults.add(it.at, "a passphrase does not belong in this file: write passphrase_file or passphrase_env")
	case known || len(it.path) == 1:
		l.faults.add(it.at, "unknown key%s", l.belongs(last, here))
	case !l.reported[head]:
		l.faults.add(it.at, "unknown section %s%s", spell(head), hint(head, append(sections(), manyTables...)))
		l.reported[head] = true
	}
}

// defaults sets the settings that neither the file nor a variable set.
func (l *loader) defaults() {
	fill := func(path string, set func(string) error, value string) {
		if _, given := l.places[path]; given {
			return
		}
		l.base, l.cfg.values[path] = "", value
		l.faults.note(Place{File: l.file, Path: path}, set(value))
	}
	for _, s := range l.settings {
		if s.def != "" && (s.mode == "" || s.mode == l.cfg.Identity.Mode) {
			fill(s.path(), s.set, s.def)
		}
	}
	if l.node != nil {
		if l.node.PublicURL != "" {
			fill("public_url", into(&l.cfg.PublicURL, parsePublicURL), l.node.PublicURL+l.cfg.Prefix)
		}
	} else {
		fill(dataDirKey, func(dir string) error {
			dir, _, _ = strings.Cut(dir, ":")
			if dir = cmp.Or(dir, l.folder("XDG_DATA_HOME", ".local/share")); dir == "" {
				return errors.New("there is no home folder for the data: set data_dir")
			}
			return into(&l.cfg.DataDir, l.path(folder))(dir)
		}, l.env["STATE_DIRECTORY"])
		if name, err := os.Hostname(); err == nil && name != "" {
			fill("cluster.node", into(&l.cfg.Cluster.Node, parseNode), name)
		}
	}
	fill("backup.dir", into(&l.cfg.Backup.Dir, l.abs), filepath.Join(l.cfg.DataDir, "snapshots"))
	if v := &l.cfg.Vault; l.node == nil && v.Passphrase.IsZero() && v.Credential == "" {
		fill("vault.key_file", into(&v.KeyFile, l.path(private)), l.cfg.OwnKey())
	}
	l.closedToOthers()
}

// closedToOthers refuses a database or a vault's key in the data folder whose mode lets other users read or change it,
// even if they cannot enter the folder: a copy of the folder keeps the files' modes, and others may enter the copy.
func (l *loader) closedToOthers() {
	for _, f := range [][2]string{{"database", l.cfg.Database()}, {"vault's key", l.cfg.OwnKey()}} {
		st, err := os.Stat(f[1])
		if key := f[1] == l.cfg.OwnKey(); key && (l.cfg.Vault.KeyFile != f[1] || err == nil && private(f[1], st) != nil) {
			continue // the vault uses another key, or this one has that fault already
		}
		if err == nil && st.Mode().Perm()&OthersMay != 0 {
			at, given := l.places["data_dir"]
			if !given {
				at = Place{File: l.file, Path: "data_dir"}
			}
			l.faults.add(at, "others can read or change the %s in that folder (mode %04o): chmod 600 %s", f[0], st.Mode().Perm(), f[1])
		}
	}
}

// folder returns $name/hermes-connector, or ~/under/hermes-connector if $name is not set; empty without a home folder.
func (l *loader) folder(name, under string) string {
	root := l.env[name]
	if !filepath.IsAbs(root) {
		if l.env["HOME"] == "" {
			return ""
		}
		root = filepath.Join(l.env["HOME"], under)
	}
	return filepath.Join(root, "hermes-connector")
}

// abs returns the absolute form of the path v, which may begin with ~ or be relative to base.
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
	judge := func(path string, open bool, format string, args ...any) {
		if at, given := l.places[path]; given && open {
			l.faults.add(at, format, args...)
		}
	}
	host := remoteHost(l.cfg.Listen)
	judge("listen", host != "" && !l.cfg.TLS.On(), "plain http on %s; name a certificate under [tls], or write insecure = true if a proxy terminates TLS", host)
	host = remoteHost(l.cfg.MetricsListen)
	judge("metrics.listen", host != "", "plain http on %s; metrics are never encrypted: write insecure = true if the network is trusted", host)
	const dialed = "plain http beyond localhost; use https, or write insecure = true if the network is trusted"
	judge("public_url", remotePlain(l.cfg.PublicURL), dialed)
	judge("identity.jwks_url", remotePlain(l.cfg.Identity.JWKSURL), dialed)
	judge("identity.introspect_url", remotePlain(l.cfg.Identity.IntrospectURL), dialed)
}

// unknownEnv reports variables with our prefix that set nothing.
func (l *loader) unknownEnv() {
	known := []string{envFile[len(envPrefix):]} // without the prefix, which would make all names similar
	for _, s := range l.settings {
		known = append(known, s.env()[len(envPrefix):])
	}
	for _, k := range l.networks {
		for _, key := range envKeys(k) {
			known = append(known, botEnv(k, key)[len(envPrefix):])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if strings.HasPrefix(name, envPrefix) && name != activeHelp && !slices.Contains(l.namedVars, name) && !slices.Contains(known, name[len(envPrefix):]) {
			near := ""
			if n := nearest(name[len(envPrefix):], known); n != "" {
				near = " (did you mean " + envPrefix + n + "?)"
			}
			l.faults.add(Place{File: environment, Path: name}, "unknown variable%s", near)
		}
	}
}
