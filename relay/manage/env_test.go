package manage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnvLinesInShells: a shell that reads the lines has the values that a gateway reads.
func TestEnvLinesInShells(t *testing.T) {
	env := map[string]string{
		envURL: "http://127.0.0.1:8787", envSecret: "abc234", envPlatforms: "telegram,discord",
		envBotIDs:  `{"telegram":{"botId":"1"},"discord":{"botId":"2"}}`,
		envWakeURL: "https://home.example/wake?a=1&b=$x;y z#`w`\\\"~*",
	}
	file := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(file, []byte(strings.Join(envLines(env, envURL, envSecret, envPlatforms, envBotIDs, envWakeURL), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"sh", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		for name, want := range env {
			out, err := exec.Command(path, "-c", `. "$1"; printf %s "$`+name+`"`, shell, file).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s reads %s as %q, %v; want %q", shell, name, out, err, want)
			}
		}
	}
	if got := quoteEnv("https://x/it's"); got != "'https://x/it%27s'" {
		t.Errorf("a quote in a URL becomes %s", got)
	}
}
