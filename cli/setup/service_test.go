package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/service"
)

const aUnit = "ExecStart=/usr/bin/hermes-connector serve\nExecReload=/usr/bin/hermes-connector reload\n"

func TestPlan(t *testing.T) {
	system := systemd{root: true, program: "/usr/local/bin/hc", config: service.Config + "/connector.toml", unit: aUnit}
	at := func(change func(*systemd)) systemd {
		d := system
		change(&d)
		return d
	}
	for name, tc := range map[string]struct {
		d                  systemd
		haveUser, packaged bool   // with the user there is the data folder
		unit               string // a line of it; empty: none is written
		commands           string // first words of some, in order
		refused            string
	}{
		"a user's": {
			d: systemd{program: "/home/a b/hc", config: "/home/a/50%/c.toml"}, unit: `ExecStart="/home/a b/hc" serve --config /home/a/50%%/c.toml`,
			commands: "systemctl --user daemon-reload|systemctl --user enable --now hermes-connector.service",
		},
		"the system's": {
			d: system, unit: "ExecStart=/usr/local/bin/hc serve --config /etc/hermes-connector/connector.toml",
			commands: "useradd|install -d -m 0700|chmod 0755 /etc/hermes-connector|chown -R hermes-connector:hermes-connector /t|chmod -R u=rwX,go= /t|systemctl daemon-reload|systemctl enable --now",
		},
		"the system's, with a package": {
			d: system, haveUser: true, packaged: true,
			commands: "chmod 0755|chown|chmod|systemctl daemon-reload|systemctl enable --now",
		},
		"a program in a home folder": {d: at(func(d *systemd) { d.program = "/home/ann/hc" }), refused: "/usr/local/bin"},
		"a configuration elsewhere":  {d: at(func(d *systemd) { d.config = "/root/connector.toml" }), refused: "--config /etc/hermes-connector/connector.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			unit, commands, err := tc.d.plan("/t", tc.haveUser, tc.haveUser, tc.packaged)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) || len(commands) > 0 {
					t.Errorf("%v and %q, want a refusal with %q", err, commands, tc.refused)
				}
				return
			}
			if err != nil || (unit == "") != (tc.unit == "") || tc.unit != "" && !slices.Contains(strings.Split(unit, "\n"), tc.unit) {
				t.Errorf("%v, the unit is\n%s, want in it %s", err, unit, tc.unit)
			}
			var got []string
			for _, c := range commands {
				got = append(got, strings.Join(c, " "))
			}
			want := strings.Split(tc.commands, "|")
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("commands %q, want %q", got, want)
			}
		})
	}
}

// TestLeftBehind: a service has a data folder of its own, and must not begin with nothing without a word.
func TestLeftBehind(t *testing.T) {
	for name, tc := range map[string]struct{ before, services, refused bool }{
		"nothing was there":       {},
		"root had enrolled":       {before: true, refused: true},
		"the service has its own": {before: true, services: true},
	} {
		t.Run(name, func(t *testing.T) {
			before, services := t.TempDir(), t.TempDir()
			for dir, there := range map[string]bool{before: tc.before, services: tc.services} {
				if there {
					if err := os.WriteFile(filepath.Join(dir, "connector.db"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := leftBehind(before, services)
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "cp -a "+before+"/. "+services+" takes") {
				t.Errorf("%v, want a refusal: %t", err, tc.refused)
			}
			if err := leftBehind(before, before); err != nil {
				t.Errorf("its own data: %v", err)
			}
		})
	}
}
