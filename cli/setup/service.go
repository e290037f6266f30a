package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/store/files"
)

const (
	systemData = "/var/lib/hermes-connector"
	systemUser = "hermes-connector"
	userUnit   = `# Written by hermes-connector setup. systemctl --user edit hermes-connector changes it.
[Unit]
Description=hermes-connector: holds the chat bots for Hermes gateways
After=network-online.target

[Service]
Type=notify
ExecStart=%[1]s serve --config %[2]s
ExecReload=%[1]s reload --config %[2]s
TimeoutStartSec=5min
WatchdogSec=60
Restart=on-failure
RestartSec=5
# A wrong configuration is not tried again. A crash would leave Go with the same status: so it leaves with a signal.
RestartPreventExitStatus=2
Environment=GOTRACEBACK=crash
LimitCORE=0
TimeoutStopSec=40
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
`
)

// systemd is what the plan of a service depends on.
type systemd struct {
	root    bool   // a service of the system, and not of this user
	program string // the path of this program
	config  string // the path of the configuration
	unit    string // the text of the system's unit
}

// plan returns the steps that install the service: a unit, unless one is there, and commands. tokens is the folder of
// the tokens' files; haveUser, haveData and packaged say what is there already.
func (d systemd) plan(tokens string, haveUser, haveData, packaged bool) (unit string, commands [][]string, err error) {
	if !d.root {
		control := []string{"systemctl", "--user"}
		return fmt.Sprintf(userUnit, quoted(d.program), quoted(d.config)), [][]string{
			append(control, "daemon-reload"), {"systemctl", "--user", "enable", "--now", service.Name},
		}, nil
	}
	if filepath.Dir(d.config) != service.Config {
		return "", nil, fmt.Errorf("a system service reads %s/connector.toml, and not %s: run setup with --config %[1]s/connector.toml", service.Config, d.config)
	}
	if !haveUser {
		commands = append(commands, []string{
			"useradd", "--system", "--user-group", "--no-create-home", "--home-dir", systemData, "--shell", "/usr/sbin/nologin", systemUser,
		})
	}
	if !haveData { // systemd gives an existing folder to the user, with all in it, because the unit names it as StateDirectory
		commands = append(commands, []string{"install", "-d", "-m", "0700", "-o", systemUser, "-g", systemUser, systemData})
	}
	commands = append(commands,
		[]string{"chmod", "0755", service.Config},                      // only the folder of tokens contains secrets
		[]string{"chown", "-R", systemUser + ":" + systemUser, tokens}, // the next command keeps the group out, whose members may only give commands
		[]string{"chmod", "-R", "u=rwX,go=", tokens},
	)
	if !packaged {
		if strings.HasPrefix(d.program, "/home/") || strings.HasPrefix(d.program, "/root/") || strings.HasPrefix(d.program, "/tmp/") {
			return "", nil, fmt.Errorf("a system service cannot run %s: put the program into /usr/local/bin, and run setup from there", d.program)
		}
		unit = strings.NewReplacer("/usr/bin/hermes-connector serve", d.program+" serve --config "+d.config,
			"/usr/bin/hermes-connector reload", d.program+" reload --config "+d.config).Replace(d.unit)
	}
	return unit, append(commands, []string{"systemctl", "daemon-reload"}, []string{"systemctl", "enable", "--now", service.Name}), nil
}

// quoted returns a word of a unit's command line.
func quoted(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	if strings.ContainsAny(word, " \t\"'\\$;") {
		word = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$").Replace(word) + `"`
	}
	return word
}

// service installs the systemd unit and starts it: the system's as root, else the user's.
func (s *installation) service(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	path, _, packaged := s.unit()
	if path == "" {
		return errors.New("service: $HOME is not set")
	}
	d := systemd{root: s.Root, program: program, config: s.file, unit: service.Unit}
	tokens := s.tokenFolder()
	users, _ := os.ReadFile("/etc/passwd") // if it cannot be read, useradd reports the fault
	haveUser := strings.Contains("\n"+string(users), "\n"+systemUser+":")
	unit, commands, err := d.plan(tokens, haveUser, files.Exists(systemData), packaged)
	if err != nil {
		return err
	}
	if s.Root {
		if err := os.MkdirAll(tokens, 0o700); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	if unit != "" {
		err := create(path, []byte(unit), 0o644)
		switch {
		case errors.Is(err, fs.ErrExist):
			if there, err := os.ReadFile(path); err != nil || !strings.Contains(string(there), " --config "+quoted(d.config)) {
				return fmt.Errorf("%s exists already, for another configuration than %s: move it away, then run setup again", path, d.config)
			}
			s.say("%s exists already, and was not changed.", path)
		case err != nil:
			return fmt.Errorf("service: %w", err)
		default:
			s.say("✓ %s is written", path)
		}
	}
	for _, c := range commands {
		s.say("$ %s", strings.Join(c, " "))
		s.show()
		if err := s.Command(ctx, c[0], c[1:]...); err != nil {
			hint := "journalctl shows what the service logged"
			if !s.Root && c[2] == "daemon-reload" {
				hint = "a user's service needs a login of that user, not su or sudo; run as root, setup makes a system service"
			}
			return fmt.Errorf("%s: %w; %s", strings.Join(c, " "), err, hint)
		}
	}
	if !s.Root {
		s.say("A user's service ends when the user logs out. To keep it running: loginctl enable-linger")
	}
	return nil
}

// unit returns the path of the service's unit (empty: there is no home folder), whether the unit is there, and whether
// a package has brought it.
func (s *setup) unit() (path string, there, packaged bool) {
	if s.Root {
		path, packaged = service.System, service.Packaged()
	} else {
		path = service.User()
	}
	return path, packaged || files.Exists(path), packaged
}

// leftBehind returns an error if the folder data has a database and the service, which uses the folder services, would
// begin without one.
func leftBehind(data, services string) error {
	const database = "connector.db"
	if data == services || !files.Exists(filepath.Join(data, database)) || files.Exists(filepath.Join(services, database)) {
		return nil
	}
	return fmt.Errorf("the gateways that you have are in %s: cp -a %[1]s/. %[2]s takes them along; or rename that folder. Then run setup again", data, services)
}
