package service

import (
	"os"
	"os/exec"
	"path/filepath"
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
