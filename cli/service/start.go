package service

import (
	"bytes"
	"os"
	"path/filepath"
)

const (
	// Name is the file name of the unit.
	Name = "hermes-connector.service"
	// Config is the folder from which the system's unit reads its configuration.
	Config = "/etc/hermes-connector"
	// System is the path of the system's unit if setup has written it, and no package has brought it.
	System = "/etc/systemd/system/" + Name
)

// Packaged reports whether a package has brought the system's unit.
func Packaged() bool {
	return exists("/usr/lib/systemd/system/"+Name) || exists("/lib/systemd/system/"+Name)
}

// User returns the path of this user's own unit; empty: there is no home folder.
func User() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "systemd", "user", Name)
}

// Runs reports whether systemd starts services here.
func Runs() bool { return exists("/run/systemd/system") }

// Start returns the command that starts the service with that configuration file; empty: there is no such service here.
func Start(config string) string {
	own, _ := os.ReadFile(User()) // if there is no such file, there is no unit
	return start(config, Runs(), Packaged() || exists(System), own)
}

// start is Start for given facts: whether systemd runs, whether the system has the unit, and the text of the user's own
// unit.
func start(config string, runs, system bool, own []byte) string {
	switch {
	case !runs:
		return ""
	case filepath.Dir(config) == Config && system:
		return "sudo systemctl start hermes-connector"
	case config != "" && bytes.Contains(own, []byte(" --config "+config+"\n")):
		return "systemctl --user start hermes-connector"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
