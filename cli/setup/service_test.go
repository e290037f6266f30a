package setup

import (
	"slices"
	"strings"
	"testing"
)

const aUnit = "ExecStart=/usr/bin/hermes-connector serve\nExecReload=/usr/bin/hermes-connector reload\n"

func TestPlan(t *testing.T) {
	system := systemd{root: true, program: "/usr/local/bin/hc", config: systemConfig + "/connector.toml", unit: aUnit}
	at := func(change func(*systemd)) systemd {
		d := system
		change(&d)
		return d
	}
	for name, tc := range map[string]struct {
		d                  systemd
		haveUser, packaged bool
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
			commands: "useradd|install -d -m 0700|chmod 0755 /etc/hermes-connector|chown -R root:hermes-connector /t|chmod -R u=rwX,g=rX,o= /t|systemctl daemon-reload|systemctl enable --now",
		},
		"the system's, with a package": {
			d: system, haveUser: true, packaged: true,
			commands: "install|chmod 0755|chown|chmod|systemctl daemon-reload|systemctl enable --now",
		},
		"a program in a home folder": {d: at(func(d *systemd) { d.program = "/home/ann/hc" }), refused: "/usr/local/bin"},
		"a configuration elsewhere":  {d: at(func(d *systemd) { d.config = "/root/connector.toml" }), refused: "--config /etc/hermes-connector/connector.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			unit, commands, err := tc.d.plan("/t", tc.haveUser, tc.packaged)
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
