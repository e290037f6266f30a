package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/hermes-connector/hermes-connector/cli"
)

type service struct {
	Build       *struct{ Context, Dockerfile string }
	Environment map[string]string
	Secrets     []string
	Volumes     []string
	Networks    []string
	ReadOnly    bool `yaml:"read_only"`
	Tmpfs       []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

type compose struct {
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]any
	Networks map[string]any
}

// TestCompose: what the file names exists in it or beside it, and the program takes the connector's variables.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "packaging", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	connector, ok := c.Services["connector"]
	if !ok || connector.Build == nil || len(connector.Secrets) == 0 || len(c.Services) != 2 {
		t.Fatalf("services: %v", c.Services)
	}
	file := filepath.Join(repository, "packaging", connector.Build.Context, connector.Build.Dockerfile)
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if !connector.ReadOnly || !slices.Equal(connector.Tmpfs, []string{"/tmp"}) {
		t.Errorf("read-only: %v, with %q: nothing but /tmp is to be written to", connector.ReadOnly, connector.Tmpfs)
	}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[volume]; !ok {
				t.Errorf("%s mounts %s, which is no volume", name, v)
			}
		}
		for _, n := range s.Networks {
			if _, ok := c.Networks[n]; !ok && n != "default" {
				t.Errorf("%s is on the network %s, which is none", name, n)
			}
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s waits for %s, which is no service", name, other)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s has the secret %s, which has no file", name, secret)
			}
		}
	}
	judged(t, connector)
}

// judged lets `check` judge the variables, with the secret where a test may put it.
func judged(t *testing.T, connector service) {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(folder, "telegram_token")
	if err := os.WriteFile(secret, []byte("123456789:AAExampleExampleExampleExampleExample"), 0o444); err != nil {
		t.Fatal(err)
	}
	image := make(map[string]string)
	for _, kv := range settings.Env {
		name, value, _ := strings.Cut(kv, "=")
		image[name] = value
	}
	image["HERMES_CONNECTOR_DATA_DIR"] = folder
	seen := false
	for name, value := range connector.Environment {
		if strings.HasPrefix(value, "/run/secrets/") {
			seen = strings.TrimPrefix(value, "/run/secrets/") == connector.Secrets[0]
			value = secret
		}
		image[name] = value
	}
	if !seen {
		t.Error("no variable names the secret")
	}
	image["HERMES_CONNECTOR_PARTNERS"] = "" // of the tests, and no setting
	for name, value := range image {
		t.Setenv(name, value)
	}
	_ = os.Unsetenv("HERMES_CONNECTOR_PARTNERS")
	t.Chdir(t.TempDir())
	os.Args = []string{"hermes-connector", "check"}
	if code := cli.Main(); code != 0 {
		t.Errorf("check exits with %d", code)
	}
}
