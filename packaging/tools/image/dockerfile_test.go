package main

// packaging/Dockerfile and packaging/compose.yaml are tried as far as that goes without a Docker engine: the steps of the
// build are run by hand, and the program is started in a root folder made of what they leave. packaging/try-image runs the
// other image, of this program, in Podman.

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hermes-connector/hermes-connector/cli"
)

const repository = "../../.."

// instruction is one of a Dockerfile, with its stage.
type instruction struct{ stage, name, args string }

// instructions are those of the Dockerfile, lines that go on joined.
func instructions(t *testing.T) (all []instruction) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "packaging", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	joined := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), "")
	joined = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(joined, "")
	stage := ""
	for line := range strings.Lines(joined) {
		name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		if name == "FROM" {
			words := strings.Fields(args)
			stage = words[len(words)-1]
		}
		all = append(all, instruction{stage, name, args})
	}
	return all
}

// of are the arguments of all instructions of one name in one stage.
func of(all []instruction, stage, name string) (args []string) {
	for _, i := range all {
		if i.stage == stage && i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

// TestDockerfile: it says of its image what this program says, and the commands of both exist.
func TestDockerfile(t *testing.T) {
	all := instructions(t)
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	stages := make(map[string]bool)
	for _, i := range all {
		stages[i.stage] = true
		if !slices.Contains(known, i.name) {
			t.Errorf("%s is no instruction", i.name)
		}
		if m := regexp.MustCompile(`--from=(\S+)`).FindStringSubmatch(i.args); m != nil && !stages[m[1]] {
			t.Errorf("%s %s: no stage of that name before it", i.name, i.args)
		}
	}
	if got := said(t, all); !reflect.DeepEqual(got, settings) {
		t.Errorf("the Dockerfile says\n%+v, health %+v, want\n%+v, health %+v", got, got.Healthcheck, settings, settings.Healthcheck)
	}
	for _, args := range [][]string{settings.Healthcheck.Test[2:], settings.Cmd} {
		if c, _, err := cli.Command().Find(args); err != nil || c.Name() != args[0] {
			t.Errorf("hermes-connector has no command %q", args)
		}
	}
}

// said is what the Dockerfile says of its image.
func said(t *testing.T, all []instruction) v1.Config {
	t.Helper()
	c := v1.Config{Volumes: make(map[string]struct{}), ExposedPorts: make(map[string]struct{}), Healthcheck: &v1.HealthConfig{}}
	list := func(form string) (words []string) {
		if err := json.Unmarshal([]byte(form), &words); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		return words
	}
	for _, i := range all {
		if i.stage != "scratch" {
			continue
		}
		words := strings.Fields(i.args)
		switch i.name {
		case "ENV":
			c.Env = append(c.Env, words...)
		case "USER":
			c.User = i.args
		case "VOLUME":
			c.Volumes[i.args] = struct{}{}
		case "EXPOSE":
			for _, port := range words {
				c.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENTRYPOINT":
			c.Entrypoint = list(i.args)
		case "CMD":
			c.Cmd = list(i.args)
		case "HEALTHCHECK":
			times, form, _ := strings.Cut(i.args, " CMD ")
			c.Healthcheck.Test = append([]string{"CMD"}, list(form)...)
			flags := flag.NewFlagSet("HEALTHCHECK", flag.ContinueOnError)
			flags.DurationVar(&c.Healthcheck.Interval, "interval", 0, "")
			flags.DurationVar(&c.Healthcheck.Timeout, "timeout", 0, "")
			flags.DurationVar(&c.Healthcheck.StartPeriod, "start-period", 0, "")
			if err := flags.Parse(strings.Fields(times)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// TestGoIsNewEnough: the first stage has the Go that go.mod asks for, and the same one for everybody.
func TestGoIsNewEnough(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	from := of(instructions(t), "build", "FROM")
	if version == nil || len(from) != 1 || !regexp.MustCompile(` golang:`+string(version[1])+`[.0-9]*@sha256:[0-9a-f]{64} `).MatchString(from[0]) {
		t.Errorf("FROM %q, want a digest, and the Go of go.mod, which says %s", from, version)
	}
}

// TestNothingIsMissing: what the engine leaves out of the build is no file of the commit, for git would call the clone
// changed then, and the program its version "+dirty".
func TestNothingIsMissing(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "packaging", "Dockerfile.dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		keep bool
		is   *regexp.Regexp
	}
	var rules []rule
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		pattern, keep := strings.CutPrefix(line, "!")
		pattern = regexp.QuoteMeta(strings.TrimPrefix(pattern, "/"))
		pattern = strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`).Replace(pattern)
		rules = append(rules, rule{keep, regexp.MustCompile("^" + pattern + "(/|$)")})
	}
	ignored := func(file string) (yes bool) {
		for _, r := range rules { // the last one that fits counts
			if r.is.MatchString(file) {
				yes = !r.keep
			}
		}
		return yes
	}
	for file, want := range map[string]bool{
		"telegram.token": true, "packaging/secrets/home.env": true, "packaging/.env": true, "data/connector.db": true, "data/vault.key": true,
		"dist/x.deb": true, "hermes-connector": true, "main.go": false, ".git/HEAD": false,
	} {
		if ignored(file) != want {
			t.Errorf("%s is left out: %v, want %v", file, !want, want)
		}
	}
	out, err := exec.Command("git", "-C", repository, "ls-files").Output()
	if err != nil {
		t.Skip("no clone: ", err)
	}
	for file := range strings.Lines(string(out)) {
		if file = strings.TrimSpace(file); ignored(file) {
			t.Errorf("%s is left out of the build", file)
		}
	}
}

// TestBuildSteps runs the step of the first stage, its root folders moved, and starts the program in what it leaves.
func TestBuildSteps(t *testing.T) {
	all := instructions(t)
	runs := of(all, "build", "RUN")
	step := runs[len(runs)-1]
	dir := t.TempDir()
	for _, root := range []string{"/image", "/owned"} {
		step = strings.ReplaceAll(step, " "+root, " "+dir+root)
	}
	bundle := "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(bundle); err != nil {
		t.Skip("no certificates of Debian's here")
	}
	build := exec.Command("sh", "-ec", step)
	build.Dir = repository
	build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH=amd64", "TARGETVARIANT=", "GIT_CONFIG_GLOBAL="+filepath.Join(dir, "gitconfig"))
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	image := filepath.Join(dir, "image")
	for _, file := range []string{"usr/bin/hermes-connector", "usr/share/zoneinfo/zoneinfo.zip", "etc/passwd", "etc/group", bundle} {
		if st, err := os.Stat(filepath.Join(image, file)); err != nil || st.Size() == 0 {
			t.Errorf("the image has no %s: %v", file, err)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "owned", "data")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the data folder: %v, want mode 0700", err)
	}
	alike(t, image)
	if st, err := os.Stat(filepath.Join(image, "tmp")); err != nil || st.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("the temporary folder: %v, want mode 1777", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("the build is right; only root can start the program in a root folder of its own")
	}
	if err := os.Rename(filepath.Join(dir, "owned", "data"), filepath.Join(image, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(image, "data"), 65532, 65532); err != nil {
		t.Fatal(err)
	}
	lives(t, image)
}
