package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var operator = audit.Actor{Kind: audit.ActorCLI, Name: "ann"}

func TestNothingIsWrong(t *testing.T) {
	o := newHouse(t)
	before, err := os.ReadFile(o.Config.Database())
	if err != nil {
		t.Fatal(err)
	}
	r := Run(t.Context(), o)
	if r.Running || len(r.Findings) != 1 || r.Findings[0].Code != finding.NotRunning.Code {
		t.Errorf("%+v; want nothing but that no server runs", r)
	}
	after, err := os.ReadFile(o.Config.Database())
	if err != nil || string(before) != string(after) { // invariant 2
		t.Errorf("the database was changed: %v", err)
	}
}

// TestSeeded seeds what the files of a stopped server and its machine can have wrong.
func TestSeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		seed func(t *testing.T, o *Options)
		want []string
	}{
		"no data folder": {func(t *testing.T, o *Options) { remove(t, o.Config.DataDir) }, []string{"HC301 DATA"}},
		"a folder that cannot be written to": {func(_ *testing.T, o *Options) {
			o.Faults = config.Faults{{Place: config.Place{File: "connector.toml", Path: "data_dir"}, What: "this user may make no file there"}} // said once
			o.machine.may = func(string) error { return syscall.EROFS }
		}, []string{"HC302 DATA"}},
		"a folder of the server's, which this user may not look into": {func(_ *testing.T, o *Options) {
			o.machine.may = func(string) error { return syscall.EACCES }
			o.Guest = "sudo hermes-connector doctor"
		}, []string{"HC590 DATA"}},
		"a folder of this user's own that cannot be written to": {func(_ *testing.T, o *Options) {
			o.machine.may = func(string) error { return syscall.EACCES }
		}, []string{"HC302 DATA"}},
		"files that this user may not read": {func(_ *testing.T, o *Options) {
			o.Guest = "sudo hermes-connector doctor"
			o.Faults = config.Faults{
				{Place: config.Place{File: "connector.toml", Line: 3, Path: "bots.token_file"}, What: "cannot be read: permission denied", Denied: true},
				{Place: config.Place{File: "connector.toml", Line: 5, Path: "listn"}, What: "unknown key"},
			}
		}, []string{"HC501 connector.toml:5: listn", "HC590 connector.toml:3: bots.token_file"}},
		"files of this user's own that cannot be read": {func(_ *testing.T, o *Options) {
			o.Faults = config.Faults{{Place: config.Place{File: "connector.toml", Line: 3, Path: "bots.token_file"}, What: "cannot be read: permission denied", Denied: true}}
		}, []string{"HC501 connector.toml:3: bots.token_file"}},
		"a folder for snapshots that is none: the server starts": {func(_ *testing.T, o *Options) {
			o.Config.Backup.Dir = "/dev/null"
			o.Faults = config.Faults{{Place: config.Place{File: "connector.toml", Path: "backup.dir"}, What: "/dev/null is no folder", Starts: true}}
		}, []string{"HC331 /dev/null"}},
		"nothing is set up": {func(t *testing.T, o *Options) {
			remove(t, o.Config.DataDir)
			o.Config.Bots = nil
		}, []string{"HC504"}},
		"a bot was taken out": {func(_ *testing.T, o *Options) {
			o.Config.Bots, o.Config.File = nil, "connector.toml"
			o.Service = func(db *store.DB, v *vault.Vault) (*manage.Service, error) {
				return manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Networks: []platforms.Network{{Name: "pigeon"}}}), nil
			}
		}, []string{"HC504", "HC408 pigeon"}},
		"a folder that others read": {func(t *testing.T, o *Options) { chmod(t, o.Config.DataDir, 0o755) }, []string{"HC303 DATA"}},
		"a folder in memory":        {onDisk(disk{kind: 0x01021994, free: 1 << 30}), []string{"HC304 DATA"}},
		"a folder over NFS":         {onDisk(disk{kind: 0x6969, free: 1 << 30}), []string{"HC305 DATA"}},
		"a folder over SMB":         {onDisk(disk{kind: 0xff534d42, free: 1 << 30}), []string{"HC305 DATA"}},
		"no room":                   {onDisk(disk{free: 200<<20 - 1}), []string{"HC320 DATA"}},
		"room enough":               {onDisk(disk{free: 200 << 20}), nil},
		"no inodes":                 {onDisk(disk{free: 1 << 30, inodes: 1 << 20, left: 999}), []string{"HC321 DATA"}},
		"a disk that says nothing": {func(_ *testing.T, o *Options) {
			o.machine.disk = func(string) (disk, error) { return disk{}, errors.New("no") }
		}, []string{"HC590 DATA"}},

		"the key lost": {func(t *testing.T, o *Options) { remove(t, o.Config.Vault.KeyFile) }, []string{"HC306 DATA/vault.key"}},
		"the key lax": {func(t *testing.T, o *Options) { // in a folder that others can pass
			raw, err := os.ReadFile(o.Config.Vault.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			o.Config.Vault.KeyFile = filepath.Join(filepath.Dir(o.Config.DataDir), "open", "vault.key")
			writeFile(t, o.Config.Vault.KeyFile, string(raw), 0o644)
			chmod(t, filepath.Dir(o.Config.Vault.KeyFile), 0o755)
		}, []string{"HC307 KEY"}},
		"the key lax in its own folder": {func(t *testing.T, o *Options) { chmod(t, o.Config.Vault.KeyFile, 0o644) }, []string{"HC307 DATA/vault.key"}},
		"the key garbage":               {func(t *testing.T, o *Options) { writeFile(t, o.Config.Vault.KeyFile, "garbage\n", 0o600) }, []string{"HC308 DATA/vault.key"}},
		"the key empty":                 {func(t *testing.T, o *Options) { writeFile(t, o.Config.Vault.KeyFile, "", 0o600) }, []string{"HC308 DATA/vault.key"}},
		"another's key": {func(t *testing.T, o *Options) {
			writeFile(t, o.Config.Vault.KeyFile, strings.Repeat("ab", 32)+"\n", 0o600)
		}, []string{"HC309 DATA/vault.key"}},

		"a database that is none": {func(t *testing.T, o *Options) {
			writeFile(t, o.Config.Database(), strings.Repeat("x", 20_000), 0o600)
		}, []string{"HC310 DATA/connector.db"}},
		"a database that was cut": {func(t *testing.T, o *Options) {
			if err := os.Truncate(o.Config.Database(), 8192); err != nil {
				t.Fatal(err)
			}
		}, []string{"HC310 DATA/connector.db"}},
		"a database that others read": {func(t *testing.T, o *Options) { chmod(t, o.Config.Database(), 0o604) }, []string{"HC313 DATA/connector.db"}},

		"no snapshot for two days": {func(t *testing.T, o *Options) { // the key tells since when there is a database
			chtime(t, o.Config.Vault.KeyFile, time.Now().Add(-49*time.Hour))
		}, []string{"HC330 DATA/snapshots"}},
		"an old snapshot": {func(t *testing.T, o *Options) {
			o.snapshot(t, time.Now().Add(-49*time.Hour), nil)
			chtime(t, o.Config.Vault.KeyFile, time.Now().Add(-90*time.Hour))
		}, []string{"HC330 DATA/snapshots"}},
		"an old snapshot that holds all": {func(t *testing.T, o *Options) {
			o.snapshot(t, time.Now().Add(-49*time.Hour), nil)
			chtime(t, o.Config.Vault.KeyFile, time.Now().Add(-90*time.Hour))
			chtime(t, o.Config.Database(), time.Now().Add(-50*time.Hour))
		}, nil},
		"a good snapshot": {func(t *testing.T, o *Options) { o.snapshot(t, time.Now().Add(-time.Hour), nil) }, nil},
		"a spoilt snapshot": {func(t *testing.T, o *Options) {
			o.snapshot(t, time.Now().Add(-time.Hour), func(raw []byte) []byte { return raw[:len(raw)/2] })
		}, []string{"HC332 DATA/snapshots/SNAPSHOT"}},

		"the port taken": {func(_ *testing.T, o *Options) {
			o.Config.Listen = "127.0.0.1:8787"
			o.machine.listen = func(string, string) error { return &net.OpError{Op: "listen", Err: syscall.EADDRINUSE} }
		}, []string{"HC202 127.0.0.1:8787"}},
		"a privileged port": {func(_ *testing.T, o *Options) {
			o.Config.Listen = "127.0.0.1:443"
			o.machine.listen = func(string, string) error { return &net.OpError{Op: "listen", Err: syscall.EACCES} }
		}, []string{"HC203 127.0.0.1:443"}},
		"another machine's address": {func(_ *testing.T, o *Options) {
			o.Config.MetricsListen = "192.0.2.1:9464"
			o.Config.TLS = config.TLS{}
			o.machine.listen = func(_, addr string) error {
				if addr == "192.0.2.1:9464" {
					return &net.OpError{Op: "listen", Err: syscall.EADDRNOTAVAIL}
				}
				return nil
			}
		}, []string{"HC204 192.0.2.1:9464", "HC205 192.0.2.1:9464"}},
		"in the clear": {func(_ *testing.T, o *Options) { o.Config.Listen = "0.0.0.0:0" }, []string{"HC205 0.0.0.0:0"}},
		"in the clear in a container": {func(_ *testing.T, o *Options) {
			o.Config.Listen, o.Config.Insecure = "0.0.0.0:0", true
			o.machine.boxed = func() bool { return true }
		}, nil},
		"in the clear in a container, unasked": {func(_ *testing.T, o *Options) {
			o.Config.Listen = "0.0.0.0:0"
			o.machine.boxed = func() bool { return true }
		}, []string{"HC205 0.0.0.0:0"}},
		"no folder for temporary files": {func(t *testing.T, o *Options) {
			o.machine.copies = []string{filepath.Join(t.TempDir(), "none"), t.TempDir()}
		}, nil},
		"no folder for a copy": {func(t *testing.T, o *Options) {
			o.machine.copies = []string{filepath.Join(t.TempDir(), "none")}
		}, []string{"HC590 DATA/connector.db"}},
		"web pages for a proxy": {func(_ *testing.T, o *Options) { o.Config.Web.Listen = "0.0.0.0:0" }, nil},
		"metrics in the clear":  {func(_ *testing.T, o *Options) { o.Config.MetricsListen = ":0" }, []string{"HC205 :0"}},

		"a damaged database, and a bot's dead token": {func(t *testing.T, o *Options) {
			if err := os.Truncate(o.Config.Database(), 8192); err != nil {
				t.Fatal(err)
			}
			o.Config.Bots = make([]config.Bot, 1)
			said := finding.DeadToken.Of("pigeon:1", "it is dead", "get another")
			o.Bots = func() ([]platforms.Bot, error) {
				return []platforms.Bot{&bird{platforms.Examination{Findings: finding.List{said}}}}, nil
			}
		}, []string{"HC101 pigeon:1", "HC310 DATA/connector.db"}},
		"a bot of which its network complains": {func(_ *testing.T, o *Options) {
			service := o.Service
			said := finding.DeadToken.Of("pigeon:1", "it is dead", "get another")
			o.Bots = func() ([]platforms.Bot, error) {
				return []platforms.Bot{&bird{platforms.Examination{Findings: finding.List{said}, Clock: time.Now().Add(time.Minute)}}}, nil
			}
			_ = service
			bots := o.Bots
			o.Service = func(db *store.DB, v *vault.Vault) (*manage.Service, error) {
				all, err := bots()
				return manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Bots: all}), err
			}
		}, []string{"HC101 pigeon:1", "HC201 clock"}},
		"a configuration with faults": {func(_ *testing.T, o *Options) {
			o.Faults = config.Faults{{Place: config.Place{File: "connector.toml", Line: 3, Path: "listn"}, What: "unknown key"},
				{Place: config.Place{File: "connector.toml", Path: "data_dir"}, What: "others can read or change that folder (mode 0755): chmod 700 it"}}
		}, []string{"HC501 connector.toml:3: listn"}},
		"another network's token": {func(t *testing.T, o *Options) { // nor is it said that there is no bot
			o.records(t, func(svc *manage.Service, _ *store.DB) {
				if _, err := svc.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: "pigeon", User: "bob"}); err != nil {
					t.Fatal(err)
				}
			})
			o.Faults = config.Faults{{Place: config.Place{File: "connector.toml", Line: 4, Path: "bots.token_file"}, What: config.OtherToken + "Swan, but the bot should be one of Pigeon"}}
			o.Bots = func() ([]platforms.Bot, error) { return nil, nil }
			o.Service = func(db *store.DB, v *vault.Vault) (*manage.Service, error) {
				return manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Networks: []platforms.Network{{Name: "pigeon"}}}), nil
			}
		}, []string{"HC102 connector.toml:4: bots.token_file"}},
		"a gateway that never came": {func(t *testing.T, o *Options) {
			o.records(t, func(svc *manage.Service, _ *store.DB) {
				if _, err := svc.Enroll(t.Context(), operator, manage.Enroll{Name: "attic"}); err != nil {
					t.Fatal(err)
				}
			})
		}, []string{"HC401 gateway attic", "HC407 gateway attic"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newHouse(t)
			tc.seed(t, &o)
			for i := range tc.want {
				name := newestName(o)
				tc.want[i] = strings.NewReplacer("SNAPSHOT", name, "KEY", o.Config.Vault.KeyFile).Replace(tc.want[i])
			}
			wantFound(t, o, tc.want...)
		})
	}
}

func newestName(o Options) string {
	all, _ := filepath.Glob(filepath.Join(o.Config.Backup.Dir, "*"))
	if len(all) == 0 {
		return ""
	}
	return filepath.Base(all[len(all)-1])
}

// snapshot is one of that time, as a Keeper names it.
func (o Options) snapshot(t *testing.T, at time.Time, spoil func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(o.Config.Backup.Dir, "connector-"+at.UTC().Format("20060102T150405Z")+"-7.db")
	writeFile(t, path, "", 0o600)
	o.records(t, func(_ *manage.Service, db *store.DB) {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Backup(t.Context(), f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if spoil != nil {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, string(spoil(raw)), 0o600)
	}
}

func onDisk(d disk) func(*testing.T, *Options) {
	return func(_ *testing.T, o *Options) { o.machine.disk = func(string) (disk, error) { return d, nil } }
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func chtime(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseThatIsHeld(t *testing.T) {
	o := newHouse(t)
	db, err := store.Open(o.Config.Database(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	seedProcess(t, o.machine.proc, 41, "/usr/bin/slow-starter", o.Config.Database())
	got := wantFound(t, o, "HC311 DATA/connector.db")
	if !strings.Contains(got[0].What, "slow-starter (process 41)") {
		t.Errorf("%q does not say who holds it", got[0].What)
	}
}

// seedProcess puts one into what stands for /proc.
func seedProcess(t *testing.T, proc string, pid int, cmdline string, open ...string) {
	t.Helper()
	dir := filepath.Join(proc, fmt.Sprint(pid))
	writeFile(t, filepath.Join(dir, "cmdline"), strings.ReplaceAll(cmdline, " ", "\x00")+"\x00", 0o600)
	for n, to := range open {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "fd"), 0o700), os.Symlink(to, filepath.Join(dir, "fd", fmt.Sprint(n)))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhyADatabaseCannotBeUsed(t *testing.T) {
	for want, err := range map[string]error{
		"HC312": fmt.Errorf("open: %w (schema 99)", store.ErrNewer), "HC310": fmt.Errorf("open: %w", store.ErrDamaged), "HC590": syscall.EIO,
	} {
		wantCodes(t, ofDatabase("connector.db", err), want)
	}
}

func TestOtherServers(t *testing.T) {
	o := newHouse(t)
	seedProcess(t, o.machine.proc, 7, "/usr/bin/hermes-connector serve --config a.toml", "/dev/null", "/srv/other/connector.db")
	seedProcess(t, o.machine.proc, 8, "hermes-connector serve", o.Config.Database())
	seedProcess(t, o.machine.proc, 9, "hermes-connector status", "/srv/third/connector.db")
	seedProcess(t, o.machine.proc, 10, "vi serve", "/srv/fourth/connector.db")
	seedProcess(t, o.machine.proc, 11, "/opt/"+filepath.Base(os.Args[0])+" serve", "/srv/renamed/connector.db")
	o.Others = []string{"/srv/fifth", "/srv/other"}
	wantFound(t, o, "HC503 /srv/fifth", "HC503 /srv/other", "HC503 /srv/renamed")
}

// TestOneBotInTwoServers: another server is worth a word, and a warning only if it hosts a bot of ours.
func TestOneBotInTwoServers(t *testing.T) {
	o, other := newHouse(t), newHouse(t)
	db, err := store.Open(other.Config.Database(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	other.serving(t, admin.Handler(manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Bots: []platforms.Bot{&bird{}}}), db, admin.Server{}))
	o.Others = []string{other.Config.DataDir}
	got := wantFound(t, o, "HC506 "+other.Config.DataDir)
	if !strings.Contains(got[1].What, "pigeon:1") || !got[1].Wrong() {
		t.Errorf("%+v; want a warning that names the bot", got)
	}
	o.Config.Bots = nil
	o.Config.Web.Listen = "127.0.0.1:0" // the bot of the pages is not shared
	if got := wantFound(t, o, "HC503 "+other.Config.DataDir); got[1].Wrong() {
		t.Errorf("%+v; want no warning", got)
	}
}

// TestOtherServersAreAskedSideBySide: each answers only when both were asked.
func TestOtherServersAreAskedSideBySide(t *testing.T) {
	o := newHouse(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var asked sync.WaitGroup
	both := make(chan struct{})
	for range 2 {
		other := newHouse(t)
		db, err := store.Open(other.Config.Database(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		svc := admin.Handler(manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Bots: []platforms.Bot{&bird{}}}), db, admin.Server{})
		asked.Add(1)
		first := sync.OnceFunc(asked.Done)
		other.serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first()
			select {
			case <-both:
			case <-ctx.Done():
			}
			svc.ServeHTTP(w, r)
		}))
		o.Others = append(o.Others, other.Config.DataDir)
	}
	go func() { asked.Wait(); close(both) }()
	if found := o.others(ctx, nil); len(found) != 2 || found[0].Code != "HC506" || found[1].Code != "HC506" {
		t.Errorf("%+v; want two servers that host a bot of ours", found)
	}
}

// TestWhatAGuestIsTold: nothing of the server's is to be given away for a look at it.
func TestWhatAGuestIsTold(t *testing.T) {
	o := newHouse(t)
	o.machine.may = func(string) error { return syscall.EACCES }
	o.Guest = "sudo hermes-connector doctor"
	for _, f := range wantFound(t, o, "HC590 DATA") {
		if strings.Contains(f.Fix, "chown") || f.Severity == finding.Unchecked && f.Fix != "`sudo hermes-connector doctor`" {
			t.Errorf("%+v", f)
		}
	}
	o.Guest, o.machine.may = "", func(string) error { return syscall.EROFS }
	for _, f := range wantFound(t, o, "HC302 DATA") {
		if strings.Contains(f.Fix, "chown") {
			t.Errorf("%+v; want nothing of chown where nothing can be changed", f)
		}
	}
}

func TestWhoHasThePort(t *testing.T) {
	o := newHouse(t)
	o.Config.Listen = "127.0.0.1:8787"
	o.machine.listen = func(string, string) error { return syscall.EADDRINUSE }
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	writeFile(t, filepath.Join(o.machine.proc, "net", "tcp"), head+
		"   0: 0100007F:2253 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 111 1 x\n"+
		"   1: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 x\n", 0o600)
	seedProcess(t, o.machine.proc, 5, "/usr/sbin/nginx -g", "socket:[222]")
	seedProcess(t, o.machine.proc, 6, "/usr/bin/caller", "socket:[111]")
	got := wantFound(t, o, "HC202 127.0.0.1:8787")
	if !strings.Contains(got[0].What, "nginx (process 5)") {
		t.Errorf("%q does not say who has the port", got[0].What)
	}
}

func TestAConfigurationThatCannotBeRead(t *testing.T) {
	r := Run(t.Context(), Options{Faults: config.Faults{{Place: config.Place{File: "connector.toml", Line: 2}, What: "not valid TOML"}}})
	if got := fmt.Sprint(codes(Options{Config: &config.Config{DataDir: "/x"}}, r.Findings)); got != "[HC501 connector.toml:2 HC590 the rest]" {
		t.Errorf("found %s", got)
	}
}

// TestWhatHangs: doctor is in time, and says what it could not look at.
func TestWhatHangs(t *testing.T) { // invariant 1
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), Within)
		defer cancel()
		got := run(ctx, []check{
			{"a disk", 2 * time.Second, func(context.Context) finding.List { <-end; return nil }},
			{"one that obeys", time.Second, func(ctx context.Context) finding.List {
				<-ctx.Done()
				return finding.List{finding.NoBot.Of("it", "speaks late", "no")}
			}},
			{"a network", time.Hour, func(context.Context) finding.List { <-end; return nil }},
			{"the rest", time.Second, func(context.Context) finding.List { return finding.List{finding.NoBot.Of("", "seen", "no")} }},
		})
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v, want 5 s at most", took)
		}
		var said []string
		for _, all := range got {
			for _, f := range all {
				said = append(said, f.Code+" "+f.About)
			}
		}
		if fmt.Sprint(said) != "[HC590 a disk HC504 it HC590 a network HC504 ]" {
			t.Errorf("found %q", said)
		}
		close(end)
	})
}

// serving lets svc be asked over the admin socket of o.
func (o Options) serving(t *testing.T, h http.Handler) {
	t.Helper()
	l, err := admin.Listen(t.Context(), o.Config.Socket())
	if err != nil {
		t.Fatal(err)
	}
	srv, done := &http.Server{Handler: h}, make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
}

func TestARunningServerIsAsked(t *testing.T) {
	o := newHouse(t)
	db, err := store.Open(o.Config.Database(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	said := finding.DiskLow.Of("/", "little room", "make room")
	svc := manage.New(db, nil, nil, nil, nil, nil, manage.Settings{
		Bots:     []platforms.Bot{&bird{platforms.Examination{Findings: finding.List{finding.DeadToken.Of("pigeon:1", "dead", "get another")}}}},
		Findings: func(bool) finding.List { return finding.List{said} },
	})
	o.serving(t, admin.Handler(svc, db, admin.Server{}))
	wantFound(t, o, "HC101 pigeon:1", "HC320 /")
	o.Offline = true
	wantFound(t, o, "HC320 /", "HC590 the networks")
	if r := Run(t.Context(), o); !r.Running {
		t.Error("the server is not said to run")
	}
	// A known socket leads to it when the configuration cannot be read any more.
	c, err := admin.Dial(t.Context(), o.Config.Socket())
	if err != nil {
		t.Fatal(err)
	}
	blind := Options{Server: c, Faults: config.Faults{{Place: config.Place{File: "connector.toml", Line: 2}, What: "not valid TOML"}}}
	r := Run(t.Context(), blind)
	if got := fmt.Sprint(codes(o, r.Findings)); got != "[HC101 pigeon:1 HC501 connector.toml:2 HC320 / HC590 the rest]" || !r.Running {
		t.Errorf("found %s, running %t", got, r.Running)
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	o := newHouse(t)
	end := make(chan struct{})
	o.serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(func() { close(end) })
	wantFound(t, o, "HC505", "HC590 bots and gateways")
}

func TestAServerOfAnotherVersion(t *testing.T) {
	o := newHouse(t)
	o.serving(t, http.NotFoundHandler())
	got := wantFound(t, o, "HC590 the server")
	if !strings.Contains(got[0].What, "another version") {
		t.Errorf("%q does not say why", got[0].What)
	}
}

// watcher is a bot that looks around while its network is asked.
type watcher struct {
	*bird
	look func()
}

func (w watcher) Examine(context.Context, []relay.Place) platforms.Examination {
	w.look()
	return platforms.Examination{}
}

// TestNoCopyIsLeftBehind: not even when a network hangs and the program ends meanwhile.
func TestNoCopyIsLeftBehind(t *testing.T) {
	o := newHouse(t)
	dir, asked := t.TempDir(), false
	o.machine.copies = []string{dir}
	o.Service = func(db *store.DB, _ *vault.Vault) (*manage.Service, error) {
		return manage.New(db, nil, nil, nil, nil, nil, manage.Settings{Words: words.Words{}, Bots: []platforms.Bot{watcher{&bird{}, func() {
			asked = true
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("there is %v (%v), want nothing", left, err)
			}
		}}}}), nil
	}
	Run(t.Context(), o)
	if !asked {
		t.Error("the network was not asked")
	}
}

// TestTheServerSaysWhatListensInTheClear, so that status and doctor agree.
func TestTheServerSaysWhatListensInTheClear(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir(), Listen: "0.0.0.0:8787"}
	chmod(t, cfg.DataDir, 0o700)
	for _, tc := range []struct {
		tls  config.TLS
		want bool
	}{{config.TLS{}, true}, {config.TLS{CertFile: "cert.pem", KeyFile: "key.pem"}, false}} {
		cfg.TLS = tc.tls
		got := slices.ContainsFunc(Host(cfg, time.Now()), func(f finding.Finding) bool { return f.Code == finding.InTheClear.Code && f.About == cfg.Listen })
		if got != tc.want {
			t.Errorf("with %+v: told %v, want %v", tc.tls, got, tc.want)
		}
	}
}

// TestAFileThatWasSetAside is named at a node of a cluster.
func TestAFileThatWasSetAside(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir()}
	chmod(t, cfg.DataDir, 0o700)
	aside := cfg.Database() + ".set-aside-20261128T040000.000000000Z"
	for _, path := range []string{cfg.Database(), cfg.Database() + ".before-cluster-20261128T040000.000000000Z", aside} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named := func() (about []string) {
		for _, f := range Host(cfg, time.Now()) {
			if f.Code == finding.FileAside.Code {
				about = append(about, f.About)
			}
		}
		return about
	}
	if got := named(); len(got) != 0 {
		t.Errorf("there is no cluster: %v", got)
	}
	cfg.Cluster.DSN = relay.NewSecret([]byte("postgres://db"))
	if got := named(); !slices.Equal(got, []string{aside}) {
		t.Errorf("named: %v", got)
	}
}

// TestSpools: a spool that is held, full or damaged is found; one that is none of these is not.
func TestSpools(t *testing.T) {
	root := t.TempDir()
	dir := func(name string) string { return filepath.Join(root, name) }
	var all []string
	for _, name := range []string{"empty", "free", "full", "held", "damaged"} {
		all = append(all, dir(name))
		if name == "empty" {
			continue
		}
		s, err := spool.Open(dir(name), spool.Options{Gateway: "desk", Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		for n := range map[string]int{"full": 20}[name] {
			if err := s.Append(spool.Entry{Digest: strconv.Itoa(n), Key: "k", Event: relay.Event{Text: strings.Repeat("x", 900<<10)}}); err != nil {
				t.Fatal(err)
			}
		}
		defer s.Close() //nolint:errcheck // twice, for most
		if name != "held" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir("damaged"), "spool"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range spools(all) {
		got = append(got, f.Code+" "+filepath.Base(f.About))
	}
	if want := []string{"HC508 full", "HC509 held", "HC510 damaged"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
