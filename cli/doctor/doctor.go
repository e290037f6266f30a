// Package doctor finds faults: in the configuration, the machine, the data folder and the way gateways connect, and,
// through the running server or a copy of the database, in bots and gateways. It changes nothing.
//
// Invariants:
//
//  1. Run returns within Within, whatever hangs; what could not be looked at is a finding.
//  2. The database and its folder are only read. Records of a stopped server are read from a copy: opening a database
//     changes it.
//  3. No finding contains a credential or what people wrote.
package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/vault"
)

// Within is how long Run may take.
//
// It leaves room for a machine that is slow to start a program and to end it: with both, doctor takes five seconds.
const Within = 4500 * time.Millisecond

// Options tell Run what to look at.
type Options struct {
	Config  *config.Config // from Glimpse; nil: the configuration cannot be read
	Faults  config.Faults
	Offline bool // ask no network
	// Guest is the command to run as the owner of the configuration and the server, when this user may not see
	// everything; empty: both are this user's.
	Guest string
	// Server is the running server; nil: look for one in the data folder.
	Server *admin.Client
	Others []string     // data folders of other servers on this machine that are known
	Spools []string     // folders of MCP servers of this user
	Limits store.Limits // of each gateway's buffer
	// Start is the fix when no server runs: the command that starts the server of this configuration.
	Start string
	// Check is the command that checks this configuration.
	Check string
	// Service makes a Service over db, which is a copy. v need not be the vault that sealed the values in it.
	Service func(db *store.DB, v *vault.Vault) (*manage.Service, error)
	// Cluster looks at the PostgreSQL that the nodes share; nil: this machine is alone.
	Cluster func(context.Context) (cluster.Overview, error)
	// Bots makes the configured bots, which do nothing until they are asked.
	Bots func() ([]platforms.Bot, error)
	Now  func() time.Time // nil means time.Now
	// Nodes is the TLS configuration with which other nodes check the certificate at this node's advertise.
	Nodes *tls.Config

	machine machine // tests replace parts of it
}

// Report is the result of Run.
type Report struct {
	Running  bool         `json:"running"`  // a server answered
	Findings finding.List `json:"findings"` // the worst first
}

// check is one part of the examination.
type check struct {
	name  string                             // what is checked, for a finding
	limit time.Duration                      // how long the check may take
	look  func(context.Context) finding.List // carries out the check
}

// Run looks for faults in everything, with the checks side by side, and returns the findings.
func Run(ctx context.Context, o Options) Report {
	r := look(ctx, o)
	r.Findings = append(finding.List{}, r.Findings...) // so that JSON has a list even when it is empty
	return r
}

// look is Run, except that its list of findings may be nil. It judges the configuration, asks the running server, if
// there is one, and then runs those checks that apply: with a server, the server asks the networks; without one, a copy
// of the database and the ports are examined in its place.
func look(ctx context.Context, o Options) Report {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	if o.Now == nil {
		o.Now = time.Now
	}
	o.machine = o.machine.orReal()
	o.machine.guest, o.machine.start = o.Guest, o.Start
	found := o.ofConfiguration()
	if o.Config == nil {
		if !slices.ContainsFunc(found, finding.Finding.Wrong) { // the list says only what was not looked at
			return Report{Findings: found}
		}
		found.Add(finding.NotLookedAt, "the rest", "not checked: it needs a readable configuration", "fix the configuration first")
		if o.Server == nil {
			return Report{Findings: finding.Merge(found, nil)}
		}
		server, state := o.reach(ctx)
		found = append(found, state...)
		if server != nil { // the server examines its own folder and bots, for which this configuration is not needed
			found = finding.Merge(server.ask(ctx), found)
		}
		return Report{Running: server != nil, Findings: finding.Merge(found, nil)}
	}
	server, state := o.reach(ctx)
	found = finding.Merge(state, found)
	checks := []check{
		{"the data folder", 2 * time.Second, func(context.Context) finding.List { return host(o.Config, o.machine, o.Now()) }},
		{"the snapshots", 3500 * time.Millisecond, o.snapshots(server != nil)},
		{"other servers", 2 * time.Second, func(ctx context.Context) finding.List { return o.others(ctx, server) }},
		{"the spools of MCP servers", 2 * time.Second, func(context.Context) finding.List { return spools(o.Spools) }},
	}
	found = append(found, inTheClear(o.Config, o.machine)...)
	if o.Offline {
		found.Add(finding.NotLookedAt, "the networks", "they and public_url were not asked", "`hermes-connector doctor` without --offline asks them")
	}
	switch {
	case server != nil:
		checks = append(checks, check{"the networks", Within, server.ask})
	case len(state) > 0 && state[0].Code == finding.NotRunning.Code:
		checks = append(checks,
			check{"the database", Within, o.stopped},
			check{"the ports", 3500 * time.Millisecond, func(context.Context) finding.List { return ports(o.Config, o.machine) }})
	}
	if o.Cluster != nil {
		checks = append(checks, check{"the cluster", 4 * time.Second, o.cluster})
	}
	if o.Config.PublicURL != "" && !o.Offline {
		run := ""
		if server != nil {
			run = server.first.Run
		}
		checks = append(checks, check{"public_url", 3500 * time.Millisecond, func(ctx context.Context) finding.List {
			return public(ctx, o.Config.PublicURL, server != nil, run, o.Now(), nil)
		}})
	}
	if base := o.Config.Cluster.Advertise + o.Config.Prefix; o.Config.Cluster.Advertise != "" && server != nil && !o.Offline {
		checks = append(checks, check{"advertise", 3500 * time.Millisecond, func(ctx context.Context) finding.List {
			return advertised(ctx, base, server.first.Run, o.Nodes)
		}})
	}
	for _, more := range run(ctx, checks) {
		found = finding.Merge(found, more)
	}
	if server == nil {
		found = o.less(found)
	}
	return Report{Running: server != nil, Findings: finding.Merge(found, nil)}
}

// less returns found without findings that only follow from others in it. If faults of the configuration removed bots,
// the missing bots are left out; if nothing is set up yet, everything that setup makes is left out.
func (o *Options) less(found finding.List) finding.List {
	of := func(follows ...*finding.Kind) func(finding.Finding) bool {
		return func(f finding.Finding) bool {
			return slices.ContainsFunc(follows, func(k *finding.Kind) bool { return k.Code == f.Code })
		}
	}
	if slices.ContainsFunc(o.Faults, func(f config.Fault) bool { return strings.HasPrefix(f.Path, "bots") }) {
		return slices.DeleteFunc(found, of(finding.NoBot, finding.BindingAstray, finding.GrantAstray))
	}
	if len(o.Config.Bots) > 0 || o.Config.Web.Listen != "" { // the pages have a bot
		return found
	}
	what, fix := "no bot is configured", "hermes-connector setup"
	if o.Config.File == "" {
		what = "nothing is set up yet: there is no configuration file, and no bot"
	}
	if o.Guest != "" {
		fix = "`sudo hermes-connector setup`"
	}
	found = slices.DeleteFunc(found, of(finding.NoBot))
	if _, err := os.Stat(o.Config.Database()); errors.Is(err, fs.ErrNotExist) {
		found = slices.DeleteFunc(found, of(finding.NotRunning, finding.DataMissing, finding.NoGateway))
	}
	return append(found, finding.NoBot.Of("", what, fix))
}

// run carries out the checks. It does not wait for a check that hangs, for example in a file system that does not
// answer: its goroutine ends with the program.
func run(ctx context.Context, checks []check) []finding.List {
	type result struct {
		n     int
		found finding.List
	}
	results := make(chan result, len(checks)) // room for all: a check that comes too late can still write
	out := make([]finding.List, len(checks))
	over := make([]<-chan struct{}, len(checks))
	for n, c := range checks {
		ctx, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		over[n] = ctx.Done()
		go func() { results <- result{n, c.look(ctx)} }()
	}
	done := make([]bool, len(checks))
	for n, c := range checks {
		for !done[n] {
			select {
			case r := <-results:
				done[r.n], out[r.n] = true, r.found
				continue
			case <-over[n]:
			}
			select { // a check that ends with its context may still say something
			case r := <-results:
				done[r.n], out[r.n] = true, r.found
			case <-time.After(grace):
				done[n] = true
				out[n] = finding.NotLookedAt.Alone(c.name, "it did not answer in time", "try again; if that does not help, check the machine and its disk")
			}
		}
	}
	return out
}

// grace is how long a check has to answer after its time is up.
const grace = 100 * time.Millisecond

// ofConfiguration returns the findings about the configuration. It leaves out what the function host describes better:
// the modes of the data folder and of the files in it, and a data folder to which this user cannot write.
func (o *Options) ofConfiguration() (out finding.List) {
	for _, f := range o.Faults {
		path := strings.ToLower(strings.TrimPrefix(f.Path, "HERMES_CONNECTOR_"))
		folder := slices.Contains([]string{"data_dir", "--data-dir"}, path)
		about, _, _ := strings.Cut(f.String(), ": "+f.What)
		switch key := slices.Contains([]string{"vault.key_file", "vault_key_file"}, path); {
		case strings.HasPrefix(f.What, "others can ") && (folder || key):
		case folder && o.deniedFolder():
		case f.Denied && o.Guest != "":
			out.Add(finding.NotLookedAt, about, "this user may not read it", o.machine.instead())
		case f.Starts:
			out.Add(finding.SnapshotFailed, o.Config.Backup.Dir, "no snapshot can be made: "+f.What, "name another folder as dir under [backup]")
		case strings.HasPrefix(f.What, config.OtherToken):
			out.Add(finding.OtherKind, about, f.What, "put the right bot's token there, or change its platform; `"+o.Check+"` then checks it again")
		default:
			out.Add(finding.BadConfiguration, about, f.What, "fix it there; `"+o.Check+"` then checks it again")
		}
	}
	return out
}

// deniedFolder reports whether the data folder exists and this user cannot write to it.
func (o *Options) deniedFolder() bool {
	if o.Config == nil {
		return false
	}
	err := o.machine.may(o.Config.DataDir)
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// running is the server that answered, with the diagnosis that it made without asking the networks.
type running struct {
	client *admin.Client
	first  manage.Diagnosis
	o      *Options
}

// reach finds the running server, and makes it examine itself. s is nil if no server answers, and then state says why;
// otherwise state has the server's findings.
func (o *Options) reach(ctx context.Context) (s *running, state finding.List) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := o.Server, error(nil)
	if c == nil {
		c, err = admin.Dial(ctx, o.Config.Socket())
	}
	if errors.Is(err, admin.ErrNoServer) {
		return nil, finding.NotRunning.Alone("", "no server is running on "+o.Config.DataDir+"; not checked without one: public_url, wake URLs, which bots the gateways serve", o.Start)
	}
	if errors.Is(err, admin.ErrDenied) {
		return nil, finding.NotLookedAt.Alone("the server", "this user may neither ask it nor see whether it runs", o.machine.instead())
	}
	if err != nil {
		return nil, finding.NotLookedAt.Alone("the server", err.Error(), o.machine.instead())
	}
	first, err := admin.Ask(ctx, c, ops.Diagnose, manage.Look{Offline: true})
	switch {
	case ctx.Err() != nil:
		found := finding.NoAnswer.Alone("", "the running server does not answer", "look at its log; if that does not help, restart it")
		found.Add(finding.NotLookedAt, "bots and gateways", "only the server knows their state", "try again when it answers")
		return nil, found
	case err != nil && o.Config != nil && o.Config.Cluster.On():
		return nil, finding.NotLookedAt.Alone("the node that leads", err.Error(), "fix that, or ask at another node")
	case err != nil:
		return nil, finding.NotLookedAt.Alone("the server", err.Error(), "restart the server, so that it has the same version as this command")
	}
	return &running{c, first, o}, first.Findings
}

// ask makes the server examine itself once more and ask the networks, too. It returns the server's findings.
func (s *running) ask(ctx context.Context) finding.List {
	if s.o.Offline {
		return nil
	}
	all, err := admin.Ask(ctx, s.client, ops.Diagnose, manage.Look{})
	switch {
	case ctx.Err() != nil:
		return finding.NotLookedAt.Alone("the networks", "the running server did not ask them in time", "try again")
	case err != nil:
		return finding.NotLookedAt.Alone("the networks", fmt.Sprintf("the running server could not ask them: %v", err), "try again")
	}
	return all.Findings
}
