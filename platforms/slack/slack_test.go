package slack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestCheckTokens(t *testing.T) {
	for token, ok := range map[string]bool{
		"": false, "xoxb-1-2-abc": true, "xoxb-": false, "xoxb-1 2": false, "xapp-1-A1-1-a": false, "xoxp-1-2": false,
	} {
		if err := checkToken(relay.NewSecret([]byte(token))); (err == nil) != ok {
			t.Errorf("%q: %v", token, err)
		}
	}
	for token, id := range map[string]relay.BotID{
		"": "", "xapp-1-A0123ABC-4567-89ef": "A0123ABC", "xapp-1-B0123-1-a": "", "xapp-2-A0-1-a": "", "xoxb-1-2-abc": "",
		"xapp-1-A0123ABC-4567-89ef\n": "",
	} {
		s := relay.NewSecret([]byte(token))
		if err := checkAppToken(s); (err == nil) != (id != "") || appID(s) != id {
			t.Errorf("%q: %v, the app %q, want %q", token, err, appID(s), id)
		}
	}
}

// TestManifest: it asks for the scopes that a bot needs, help slack shows it, and setup does.
func TestManifest(t *testing.T) {
	_, list, _ := strings.Cut(manifest, "bot: [")
	list, _, _ = strings.Cut(list, "]")
	asked := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if diff := cmp.Diff(scopes, asked); diff != "" {
		t.Errorf("the manifest's scopes (-needed +asked for):\n%s", diff)
	}
	topic, err := os.ReadFile(filepath.Join("..", "..", "cli", "help", "slack.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.ReplaceAll("\n"+strings.TrimSuffix(manifest, "\n"), "\n", "\n   ")
	if !strings.Contains(string(topic), "```yaml"+shown+"\n") {
		t.Errorf("help slack does not show the manifest:%s", shown)
	}
	if !strings.Contains(Network.Guide, manifest) {
		t.Error("setup does not show the manifest")
	}
}
