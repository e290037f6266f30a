package handler

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// fileTOML is handlers.toml as it is written.
type fileTOML struct {
	Handlers []handlerTOML `toml:"handlers"`
}

type handlerTOML struct {
	Name    string      `toml:"name"`
	Run     []string    `toml:"run"`
	Command string      `toml:"command"`
	Read    []string    `toml:"read"`
	Write   []string    `toml:"write"`
	Network bool        `toml:"network"`
	Format  string      `toml:"format"`
	Payload []fieldTOML `toml:"payload"`
	Agent   bool        `toml:"agent"`
	Timeout string      `toml:"timeout"`
	Peers   []string    `toml:"peers"`
	Sandbox string      `toml:"sandbox"`
}

type fieldTOML struct {
	Name   string   `toml:"name"`
	Type   string   `toml:"type"`
	Min    any      `toml:"min"`
	Max    any      `toml:"max"`
	Values []string `toml:"values"`
}

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$`)
	commandForm = regexp.MustCompile(`^/[A-Za-z0-9_-]{1,32}$`)
	fieldForm   = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
)

const maxName = 64 // bytes, of a handler and of a field

// Load reads and checks the file at path. guarded are paths that no handler may see: those of the credential and of the
// runner's state. The error is config.Faults with everything that is wrong.
func Load(path string, guarded ...string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, config.Faults{{Place: config.Place{File: path}, What: config.Reason(err).Error()}}
	}
	j := judge{file: path, lines: make(map[string]int), cfg: &Config{}}
	if j.dir, err = filepath.Abs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	for _, p := range append(guarded, path) {
		if p != "" {
			j.cfg.Guarded = append(j.cfg.Guarded, resolved(p))
		}
	}
	var f fileTOML
	d := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, j.syntax(err)
	}
	j.find(data)
	j.all(f.Handlers)
	if len(j.faults) > 0 {
		slices.SortStableFunc(j.faults, func(a, b config.Fault) int { return cmp.Compare(a.Line, b.Line) })
		return nil, j.faults
	}
	return j.cfg, nil
}

// judge collects the faults of a file.
type judge struct {
	file, dir string
	lines     map[string]int // the line in the file, by a path: "2.payload.0.min" is of handler number 2
	cfg       *Config
	faults    config.Faults
}

// syntax returns the faults of a file that is not TOML, or has unknown keys or values of wrong types.
func (j *judge) syntax(err error) config.Faults {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var all config.Faults
		for _, e := range missing.Errors {
			line, _ := e.Position()
			all = append(all, config.Fault{Place: config.Place{File: j.file, Line: line, Path: strings.Join(e.Key(), ".")}, What: "unknown key"})
		}
		return all
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := e.Position()
		return config.Faults{{Place: config.Place{File: j.file, Line: line, Path: strings.Join(e.Key(), ".")}, What: strings.TrimPrefix(e.Error(), "toml: ")}}
	}
	return config.Faults{{Place: config.Place{File: j.file}, What: err.Error()}}
}

// find stores in lines where each handler and each of its keys is in the file. A list's elements get the list's line,
// and those that are inline tables the line of their last key.
func (j *judge) find(data []byte) {
	var p unstable.Parser
	p.Reset(data)
	counts := make(map[string]int)
	var at string // the table that the next keys belong to
	line := func(n *unstable.Node) int {
		for key := n.Key(); key.Next(); {
			return p.Shape(key.Node().Raw).Start.Line
		}
		return 0
	}
	var note func(at string, n *unstable.Node)
	note = func(at string, n *unstable.Node) {
		j.lines[at] = cmp.Or(j.lines[at], line(n))
		for c, i := n.Value().Children(), 0; c.Next(); i++ {
			each := at
			if n.Value().Kind == unstable.Array {
				each = fmt.Sprintf("%s.%d", at, i)
				j.lines[each] = j.lines[at]
				if c.Node().Kind == unstable.InlineTable {
					for k := c.Node().Children(); k.Next(); {
						note(each+"."+keyOf(k.Node()), k.Node())
						j.lines[each] = line(k.Node())
					}
				}
			}
		}
	}
	for p.NextExpression() {
		switch n := p.Expression(); n.Kind {
		case unstable.ArrayTable:
			key := keyOf(n)
			if last, below := strings.CutPrefix(key, "handlers."); below {
				at = fmt.Sprintf("%d.%s", counts["handlers"]-1, last)
				counts[at]++
				at = fmt.Sprintf("%s.%d", at, counts[at]-1)
			} else {
				at = fmt.Sprint(counts[key])
				counts[key]++
			}
			j.lines[at] = line(n)
		case unstable.KeyValue:
			note(at+"."+keyOf(n), n)
		}
	}
}

// keyOf returns the key of a node with its dots.
func keyOf(n *unstable.Node) string {
	var parts []string
	for key := n.Key(); key.Next(); {
		parts = append(parts, string(key.Node().Data))
	}
	return strings.Join(parts, ".")
}

// fault notes a fault of handler number i, counted from 0, at its key or, if key is empty, of the handler itself. If
// the file does not have the key, the line is that of the table around it.
func (j *judge) fault(i int, key, format string, args ...any) {
	at := fmt.Sprintf("%d.%s", i, key)
	for strings.Contains(at, ".") && j.lines[at] == 0 {
		at = at[:strings.LastIndexByte(at, '.')]
	}
	j.faults = append(j.faults, config.Fault{Place: config.Place{File: j.file, Line: j.lines[at], Path: key}, What: fmt.Sprintf(format, args...)})
}

// all checks the handlers, each by itself and then all of them together.
func (j *judge) all(list []handlerTOML) {
	if len(list) == 0 {
		j.faults = append(j.faults, config.Fault{Place: config.Place{File: j.file}, What: "no handlers: write [[handlers]] with name, run and command"})
	}
	for i, raw := range list {
		j.cfg.Handlers = append(j.cfg.Handlers, j.one(i, raw))
	}
	j.names()
	j.peers()
	j.paths()
}

// one returns the handler number i, after checking it by itself.
func (j *judge) one(i int, raw handlerTOML) *Handler {
	h := &Handler{
		Name: raw.Name, Run: raw.Run, Command: raw.Command, Network: raw.Network, Agent: raw.Agent, Peers: raw.Peers, Timeout: defaultTimeout,
	}
	if !nameForm.MatchString(h.Name) || len(h.Name) > maxName || strings.HasPrefix(h.Name, "xml") || slices.Contains([]string{rootResult, rootReply, rootThought, rootHalt, rootHuh}, h.Name) {
		j.fault(i, "name", `want a name such as "backup" or "calculator.add": lower-case letters, digits, - and _ in parts with dots between them, and none of result, reply, thought, halt and huh`)
	}
	if h.Command != "" && !commandForm.MatchString(h.Command) {
		j.fault(i, "command", `want a command such as "/backup": a slash, then at most 32 letters, digits, - and _`)
	}
	switch raw.Format {
	case "", "text":
	case "xml":
		h.XML = true
	default:
		j.fault(i, "format", `want "text" or "xml"`)
	}
	if h.Agent && !h.XML {
		j.fault(i, "agent", `needs format = "xml": text is never misuse`)
	}
	if raw.Timeout != "" {
		d, err := time.ParseDuration(raw.Timeout)
		if err != nil || d < time.Second || d > maxTimeout {
			j.fault(i, "timeout", `want a time from "1s" to "60s"`)
		} else {
			h.Timeout = d
		}
	}
	switch raw.Sandbox {
	case "":
	case "none":
		h.Uncaged = true
		if raw.Read != nil || raw.Write != nil || raw.Network {
			j.fault(i, "sandbox", "read, write and network say what the cage allows, and this handler has none")
		}
	default:
		j.fault(i, "sandbox", `want "none", or no such line`)
	}
	if raw.Payload != nil { // an empty list is a payload without fields, not a missing one
		h.Payload = []Field{}
	}
	for n, f := range raw.Payload {
		h.Payload = append(h.Payload, j.field(i, n, f, raw.Payload[:n]))
	}
	j.program(i, h)
	h.Read, h.Write = j.shown(i, "read", raw.Read), j.shown(i, "write", raw.Write)
	return h
}

// field returns the field number n of a payload, after checking it. before are the fields in front of it.
func (j *judge) field(i, n int, raw fieldTOML, before []fieldTOML) Field {
	key := func(k string) string { return fmt.Sprintf("payload.%d.%s", n, k) }
	f := Field{Name: raw.Name, Kind: Kind(raw.Type), Values: raw.Values}
	if !fieldForm.MatchString(f.Name) || len(f.Name) > 32 || strings.HasPrefix(f.Name, "xml") {
		j.fault(i, key("name"), "want a name of lower-case letters, digits and _, at most 32")
	}
	if slices.ContainsFunc(before, func(o fieldTOML) bool { return o.Name == raw.Name }) {
		j.fault(i, key("name"), "the field %q is there twice", raw.Name)
	}
	if !slices.Contains([]Kind{String, Integer, Decimal, Boolean, Enum}, f.Kind) {
		j.fault(i, key("type"), "want string, integer, decimal, boolean or enum")
	}
	if (f.Kind == Enum) != (len(f.Values) > 0) || len(f.Values) > 25 || slices.ContainsFunc(f.Values, func(v string) bool { return v == "" || len(v) > 100 }) {
		j.fault(i, key("values"), `an enum wants values = ["small", "large"], at most 25 of 100 bytes, and no other type has any`)
	}
	f.Min, f.Max = j.bound(i, key("min"), f.Kind, raw.Min), j.bound(i, key("max"), f.Kind, raw.Max)
	if f.Min != nil && f.Max != nil && f.Min.Cmp(f.Max) > 0 {
		j.fault(i, key("max"), "is below min")
	}
	return f
}

// bound returns a bound of a field; nil: there is none.
func (j *judge) bound(i int, key string, k Kind, raw any) *big.Rat {
	switch v := raw.(type) {
	case nil:
		return nil
	case int64:
		if k == Integer || k == Decimal || k == String && v >= 0 && v <= 6000 {
			return new(big.Rat).SetInt64(v)
		}
	case float64:
		if n := new(big.Rat).SetFloat64(v); n != nil && k == Decimal {
			return n
		}
	}
	j.fault(i, key, "bounds are whole numbers of an integer, numbers of a decimal, and how many characters a string has, at most 6000")
	return nil
}

// program makes the program of a handler an absolute path, after checking that the handler can run it.
func (j *judge) program(i int, h *Handler) {
	if len(h.Run) == 0 || h.Run[0] == "" {
		j.fault(i, "run", `want the program and its arguments, such as ["./backup.sh"]`)
		return
	}
	if slices.ContainsFunc(h.Run, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		j.fault(i, "run", "has a zero byte in it")
		return
	}
	program := h.Run[0]
	if strings.ContainsRune(program, '/') {
		program = j.path(program)
	} else if program = inSearchPath(program); program == "" {
		j.fault(i, "run", "%s is in none of %s", h.Run[0], searchPath)
		return
	}
	switch st, err := os.Stat(program); {
	case err != nil:
		j.fault(i, "run", "%s: %s", program, config.Reason(err))
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
		j.fault(i, "run", "%s is no program: chmod +x %s", program, program)
	case under(program, hidden...):
		j.fault(i, "run", "%s: no cage shows this folder of the machine's", program)
	default:
		h.Run = append([]string{program}, h.Run[1:]...)
	}
}

// inSearchPath returns the path of the first program with that name in searchPath; empty: there is none. It never looks in
// the current folder.
func inSearchPath(name string) string {
	for dir := range strings.SplitSeq(searchPath, ":") {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// path returns p as an absolute path; a relative p starts from the file's folder.
func (j *judge) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(j.dir, p)
}

// hidden are folders of the machine that every cage has its own version of.
var hidden = []string{"/proc", "/sys", "/dev"}

// shown returns list, the paths that a handler wants to see beside its thread's folder, as absolute paths, without
// those at fault.
func (j *judge) shown(i int, key string, list []string) (out []string) {
	for n, p := range list {
		at, p := fmt.Sprintf("%s.%d", key, n), j.path(p)
		real := resolved(p)
		_, err := os.Stat(p)
		switch {
		case err != nil:
			j.fault(i, at, "%s: %s", p, config.Reason(err))
		case real == "/" || under(real, hidden...):
			j.fault(i, at, "%s: no handler may see this folder of the machine's", p)
		default:
			out = append(out, p)
		}
	}
	return out
}

// names refuses a name or a command that two handlers have, and a second handler that has no command and is no peer.
func (j *judge) names() {
	rest := "" // the name of the handler that gets all messages that no command matches
	for i, h := range j.cfg.Handlers {
		for _, o := range j.cfg.Handlers[:i] {
			if h.Name == o.Name {
				j.fault(i, "name", "another handler has this name")
			}
			if h.Command != "" && h.Command == o.Command {
				j.fault(i, "command", "%s has this command", o.Name)
			}
		}
		if h.Command != "" || j.cfg.called(h) {
			continue
		}
		if rest != "" {
			j.fault(i, "", "%s gets what no command matches already, and nobody calls %s as a peer: give it a command", rest, h.Name)
		}
		rest = cmp.Or(rest, h.Name)
	}
}

// peers refuses peers that cannot be called, and handlers that call one another in a circle.
func (j *judge) peers() {
	for i, h := range j.cfg.Handlers {
		if len(h.Peers) > 0 && !h.XML {
			j.fault(i, "peers", `needs format = "xml": peers are called by fragments`)
		}
		for n, name := range h.Peers {
			at := fmt.Sprintf("peers.%d", n)
			switch o := j.cfg.byName(name); {
			case o == nil:
				j.fault(i, at, "there is no handler %q", name)
			case !o.XML:
				j.fault(i, at, `%s needs format = "xml": text has no fields`, name)
			case slices.ContainsFunc(h.Peers, func(p string) bool { return onePart(p, name) }):
				j.fault(i, at, "%q begins with the name of another peer: the two cannot be told apart in a fragment", name)
			}
		}
		if circle := j.circle([]*Handler{h}); circle != "" {
			j.fault(i, "peers", "they call one another in a circle: %s", circle)
		}
	}
}

// onePart reports whether name is peer with one more part.
func onePart(peer, name string) bool {
	part, ok := strings.CutPrefix(name, peer+".")
	return ok && part != "" && !strings.Contains(part, ".")
}

// circle returns in words how the first handler of way calls itself through its peers; empty: it does not.
func (j *judge) circle(way []*Handler) string {
	last := way[len(way)-1]
	for _, name := range last.Peers {
		o := j.cfg.byName(name)
		switch {
		case o == way[0]:
			var names []string
			for _, w := range way {
				names = append(names, w.Name)
			}
			return strings.Join(append(names, o.Name), " → ")
		case o == nil || slices.Contains(way, o):
			continue
		}
		if c := j.circle(append(slices.Clip(way), o)); c != "" {
			return c
		}
	}
	return ""
}

// paths refuses paths that no handler may see. It also refuses a handler whose program or paths are where another
// handler may write: the other handler could put another program or a link there.
func (j *judge) paths() {
	for i, h := range j.cfg.Handlers {
		if h.Uncaged {
			continue
		}
		for key, list := range map[string][]string{"read": h.Read, "write": h.Write} {
			for n, p := range list {
				for _, g := range j.cfg.Guarded {
					if real := resolved(p); under(real, g) || under(g, real) {
						j.fault(i, fmt.Sprintf("%s.%d", key, n), "%s is where %s is, which no handler may see", p, g)
						break
					}
				}
			}
		}
		for o, other := range j.cfg.Handlers {
			for _, w := range h.Write {
				w := resolved(w)
				if o != i && len(other.Run) > 0 && under(resolved(other.Run[0]), w) {
					j.fault(o, "run", "%s may write to %s, and so put another program there", h.Name, w)
				}
				for key, list := range map[string][]string{"read": other.Read, "write": other.Write} {
					for n, p := range list {
						if p := resolved(p); p != w && under(p, w) {
							j.fault(o, fmt.Sprintf("%s.%d", key, n), "%s may write to %s, and so put a link to another folder there", h.Name, w)
						}
					}
				}
			}
		}
	}
}

// under reports whether path is one of the folders, or below one.
func under(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, strings.TrimSuffix(f, "/")+"/") })
}

// resolved returns path without links, as far as it exists, from the root.
func resolved(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}
