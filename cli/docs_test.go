package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func readme(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadmePlatforms: the table of abilities says what the binary can do.
func TestReadmePlatforms(t *testing.T) {
	text := readme(t, "README.md")
	head := regexp.MustCompile(`(?m)^\| platform \|(.*)\|$`).FindStringSubmatch(text)
	if head == nil {
		t.Fatal("README.md has no table of platforms")
	}
	var columns []relay.Op
	for c := range strings.SplitSeq(head[1], "|") {
		columns = append(columns, relay.Op(strings.TrimSpace(c)))
	}
	secret := func(s string) relay.Secret { return relay.NewSecret([]byte(s)) }
	tokens := map[relay.PlatformID]string{
		"telegram": "1:x", "discord": "MTIzNDU2Nzg5.abcdef.ghijklmnopqrstuvwxyz", "sms": strings.Repeat("0", 32),
		"wecom_callback": "secret", "webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	values := map[relay.PlatformID]map[string]string{
		"sms":            {"account_sid": "AC" + strings.Repeat("0", 32), "from": "+15005550006"},
		"wecom_callback": {"corp_id": "ww0123456789abcdef", "agent_id": "1"},
		"webhook":        {"name": "doorbell"},
	}
	secrets := map[string]relay.Secret{"callback_token": secret("t"), "aes_key": secret("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG")}
	for _, k := range kinds() {
		p, err := k.Open(platforms.Options{Token: secret(tokens[k.Name]), Values: values[k.Name], Secrets: secrets, PublicURL: "https://relay.example.net"})
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		ops := platforms.Ops(p)
		row := fmt.Sprintf("| %s |", k.Name)
		for _, c := range columns {
			if slices.Contains(ops, c) {
				row += " ✓ |"
			} else {
				row += " |"
			}
		}
		if !strings.Contains(text, "\n"+row+"\n") {
			t.Errorf("README.md lacks the row %s", row)
		}
		for _, op := range ops {
			if !slices.Contains(columns, op) {
				t.Errorf("README.md has no column for %s, which %s can do", op, k.Name)
			}
		}
	}
}

// TestReadmeCommands: every command the README names exists.
func TestReadmeCommands(t *testing.T) {
	root := newRoot(&app{})
	for _, m := range regexp.MustCompile("hermes-connector ([a-z][a-z-]*)").FindAllStringSubmatch(readme(t, "README.md"), -1) {
		word := m[1]
		cmd, _, err := root.Find([]string{word})
		if prose := []string{"holds", "database"}; err != nil && !slices.Contains(prose, word) || cmd == nil {
			t.Errorf("README.md speaks of `hermes-connector %s`, which is no command", word)
		}
	}
}

// TestArchitectureReveals: every file that takes a secret out of its wrapping is named.
func TestArchitectureReveals(t *testing.T) {
	text := readme(t, "ARCHITECTURE.md")
	reveals := regexp.MustCompile(`\.Reveal(String)?\(\)`)
	found := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "vault/") || name == "relay/secret.go" {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && reveals.Match(b) {
			found++
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s reveals a secret, and ARCHITECTURE.md does not name it", name)
			}
		}
		return err
	})
	if err != nil || found < 5 {
		t.Fatalf("%d files found, %v: the test does not see the code", found, err)
	}
}

// testNames are the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestArchitectureNames: the packages, files and tests that ARCHITECTURE.md names exist.
func TestArchitectureNames(t *testing.T) {
	text := readme(t, "ARCHITECTURE.md")
	tests := testNames(t)
	path := regexp.MustCompile(`^(relay|platforms|store|vault|cli|packaging|testdata|tools)(/[a-z_.0-9]+)*$`)
	seen := 0
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		name := m[1]
		switch {
		case path.MatchString(name):
			seen++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("ARCHITECTURE.md names %s: %v", name, err)
			}
		case strings.HasPrefix(name, "Test"):
			seen++
			if !tests[name] {
				t.Errorf("ARCHITECTURE.md names %s, which is no test", name)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d names found: the test does not see the page", seen)
	}
	for _, module := range regexp.MustCompile(`(?m)^\t(\S+) v[^\n]*$`).FindAllStringSubmatch(readme(t, "go.mod"), -1) {
		if strings.Contains(module[0], "// indirect") {
			continue
		}
		if !strings.Contains(text, "`"+module[1]+"`") {
			t.Errorf("ARCHITECTURE.md does not say why %s is there", module[1])
		}
	}
}
