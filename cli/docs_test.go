package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestPlatformsTopic: the table of abilities says what the binary can do.
func TestPlatformsTopic(t *testing.T) {
	text, _ := helpText("platforms")
	cells := func(line string) (out []string) {
		for c := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			out = append(out, strings.TrimSpace(c))
		}
		return out
	}
	can := make(map[string]map[string]bool) // by platform and operation
	var head []string
	for line := range strings.SplitSeq(text, "\n") {
		switch row := cells(line); {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--"):
		case head == nil:
			head = row
		default:
			for n, platform := range head[1:] {
				if can[platform] == nil {
					can[platform] = make(map[string]bool)
				}
				can[platform][row[0]] = row[n+1] == "✓"
			}
		}
	}
	secret := func(s string) relay.Secret { return relay.NewSecret([]byte(s)) }
	tokens := map[relay.PlatformID]string{
		"telegram": "1:x", "discord": "MTIzNDU2Nzg5.abcdef.ghijklmnopqrstuvwxyz", "sms": strings.Repeat("0", 32),
		"slack": "xoxb-1-2-abc", "wecom_callback": "secret", "webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "matrix": "syt_0123456789",
		"whatsapp_cloud": "access-token",
	}
	values := map[relay.PlatformID]map[string]string{
		"signal":         {"account": "+4915112345678"},
		"whatsapp_cloud": {"phone_number_id": "106540352242922"},
		"sms":            {"account_sid": "AC" + strings.Repeat("0", 32), "from": "+15005550006"},
		"wecom_callback": {"corp_id": "ww0123456789abcdef", "agent_id": "1"},
		"webhook":        {"name": "doorbell"},
		"matrix":         {"homeserver": "example.net", "user_id": "@hermes:example.net"},
	}
	secrets := map[string]relay.Secret{
		"app_token": secret("xapp-1-A0TEST-1-abc"), "callback_token": secret("t"), "aes_key": secret("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"),
		"app_secret": secret("app-secret"), "verify_token": secret("verify-token"),
	}
	for _, k := range configurable() {
		p, err := k.Open(platforms.Options{Token: secret(tokens[k.Name]), Values: values[k.Name], Secrets: secrets, PublicURL: "https://relay.example.net"})
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		if len(can[string(k.Name)]) == 0 {
			t.Errorf("help platforms has no column %s", k.Name)
		}
		ops := platforms.Ops(p)
		for op, said := range can[string(k.Name)] {
			if said != slices.Contains(ops, relay.Op(op)) {
				t.Errorf("help platforms says %t of %s on %s", said, op, k.Name)
			}
		}
		for _, op := range ops {
			if _, said := can[string(k.Name)][string(op)]; !said {
				t.Errorf("help platforms has no row %s", op)
			}
		}
	}
}

// TestReadme: it is short, and leads to every topic; the topics that were promised are there.
func TestReadme(t *testing.T) {
	text := readme(t, "README.md")
	if n := len(strings.Fields(text)); n > 1000 {
		t.Errorf("README.md has %d words, want at most 1000", n)
	}
	var names []string
	for _, topic := range helpTopics() {
		names = append(names, topic.name)
		if !strings.Contains(text, "(cli/help/"+topic.name+".md)") {
			t.Errorf("README.md does not link to %s", topic.name)
		}
	}
	for _, want := range strings.Fields("docker systemd proxy lan configuration discord telegram gateways tenants backup troubleshooting glossary upgrade") {
		if !slices.Contains(names, want) {
			t.Errorf("there is no topic %s", want)
		}
	}
}

// TestReadmeInAClone: the README begins with what works in a clone, before anything is installed, and .ci/run runs that;
// what nobody can have yet is not promised.
func TestReadmeInAClone(t *testing.T) {
	text := readme(t, "README.md")
	sections := strings.Split(text, "\n## ")
	if len(sections) < 3 {
		t.Fatal("README.md has no sections")
	}
	for _, want := range []string{"In a clone\n", "\n    go run . demo --once\n", "\n    go test ./...\n"} {
		if !strings.Contains(sections[1], want) {
			t.Errorf("the first section of README.md does not contain %q:\n%s", want, sections[1])
		}
	}
	if !strings.HasPrefix(sections[2], "Install\n") || !strings.Contains(readme(t, filepath.Join(".ci", "run")), "/^## In a clone$/,/^## Install$/") {
		t.Error(".ci/run does not run what README.md shows for a clone")
	}
	for _, promise := range []string{"@latest", "go install", "docker pull"} {
		if strings.Contains(text, promise) {
			t.Errorf("README.md promises %q, which nobody can have yet", promise)
		}
	}
}

// revealers are the files that may take a secret out of its wrapping, besides those of the vault and the wrapping's own.
var revealers = strings.Fields(`
	cli/setup/bot.go cli/setup/install.go cli/web/login.go cli/webhook.go platforms/discord/callbacks.go platforms/discord/discord.go
	platforms/discord/forward.go platforms/discord/gateway/gateway.go platforms/discord/interaction.go
	platforms/discord/respond.go platforms/discord/rest/rest.go platforms/httpcall/httpcall.go platforms/matrix/client.go platforms/matrix/matrix.go platforms/slack/fetch.go platforms/slack/rest/rest.go platforms/slack/slack.go platforms/sms/receive.go
	platforms/sms/send.go platforms/sms/sms.go platforms/telegram/client.go platforms/telegram/hook.go
	platforms/telegram/telegram.go platforms/webhook/sign.go platforms/wecom/client.go platforms/wecom/crypt.go
	platforms/wecom/receive.go platforms/wecom/wecom.go platforms/whatsapp/api.go platforms/whatsapp/media.go platforms/whatsapp/receive.go
	platforms/whatsapp/whatsapp.go relay/agents/caller.go relay/manage/enroll.go relay/manage/provision.go relay/notify/hook.go relay/token/bearer.go store/cluster/engine.go`)

// TestRevealers: each of revealers reveals a secret, and nobody else does.
func TestRevealers(t *testing.T) {
	reveals := regexp.MustCompile(`\.Reveal(String)?\(\)`)
	var found []string
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "vault/") || name == "relay/secret.go" {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && reveals.Match(b) {
			found = append(found, name)
		}
		return err
	})
	if diff := cmp.Diff(revealers, found); err != nil || diff != "" {
		t.Errorf("%v; files that reveal a secret (-may +do):\n%s", err, diff)
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
	path := regexp.MustCompile(`^(relay|platforms|store|vault|cli|packaging|testdata)(/[a-z_.0-9]+)*$`)
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
