package cli

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// TestConfigurationsShown: what a topic shows of connector.toml could be one, and its commented keys too. Files are not
// there, and "…" stands for a value.
func TestConfigurationsShown(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```")
	commented := regexp.MustCompile(`(?m)^# (\w+ *= )`)
	seen := 0
	for _, topic := range helpTopics() {
		text, _ := helpText(topic.name)
		for _, m := range blocks.FindAllStringSubmatch(text, -1) {
			seen++
			for _, block := range []string{m[1], commented.ReplaceAllString(m[1], "$1")} {
				lines := strings.Split(block, "\n")
				_, err := config.Load(config.Source{
					Path: filepath.Join(t.TempDir(), "connector.toml"), Draft: []byte(block), Env: []string{"HOME=" + t.TempDir()}, Networks: configurable(),
				})
				faults, _ := errors.AsType[config.Faults](err)
				for _, f := range faults {
					if f.Line > 0 && !strings.Contains(lines[f.Line-1], "…") && !strings.HasPrefix(f.What, "cannot be read") {
						t.Errorf("%s: %s: %s", topic.name, lines[f.Line-1], f.What)
					}
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d configurations found: the test does not see them", seen)
	}
}
