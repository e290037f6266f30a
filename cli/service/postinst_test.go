package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAPackageSendsToSetup, when it is new; an upgrade says nothing.
func TestAPackageSendsToSetup(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"getent", "useradd", "install", "chown", "systemctl"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]bool{"configure": true, "1": true, "configure 0.1.0": false, "2": false} {
		cmd := exec.Command("/bin/sh", append([]string{"../../packaging/postinst"}, strings.Fields(args)...)...)
		cmd.Env = []string{"PATH=" + bin}
		said, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if got := strings.Contains(string(said), "sudo hermes-connector setup"); got != want || strings.Contains(string(said), "systemctl") {
			t.Errorf("%s: said %q", args, said)
		}
	}
}

// TestTheUnitsUsers are made by the packages. That of handle is not dynamic: systemd would forbid openat2 then, by which
// bubblewrap opens what a cage shows.
func TestTheUnitsUsers(t *testing.T) {
	postinst, err := os.ReadFile("../../packaging/postinst")
	if err != nil {
		t.Fatal(err)
	}
	_, users, _ := strings.Cut(string(postinst), "for user in ")
	users, _, _ = strings.Cut(users, ";")
	for _, name := range []string{"hermes-connector", "hermes-connector-handle"} {
		unit, err := os.ReadFile(name + ".service")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(unit), "\nUser="+name+"\n") || !slices.Contains(strings.Fields(users), name) {
			t.Errorf("%s does not run as a user of its own that postinst makes: %q", name, users)
		}
		if name == "hermes-connector-handle" && (strings.Contains(string(unit), "\nDynamicUser=") || strings.Contains(string(unit), "\nRestrictSUIDSGID=")) {
			t.Errorf("%s forbids openat2", name)
		}
	}
}
