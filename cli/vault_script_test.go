package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/vault"
)

// redeem FILE enrolls the gateway of an enrollment token, which proves itself by its identity URL.
func redeem(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: redeem FILE")
	}
	var token struct{ EnrollmentToken, IdentityURL, GatewayID string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &token))
	at := "http" + strings.TrimSuffix(strings.TrimPrefix(server(ts).url, "ws"), "/relay")
	identity, err := url.Parse(token.IdentityURL)
	ts.Check(err)
	var bearer struct {
		Token string `json:"access_token"`
	}
	call(ts, http.MethodGet, at+identity.Path, "", nil, &bearer)
	body, err := json.Marshal(map[string]string{"enrollmentToken": token.EnrollmentToken, "gatewayId": token.GatewayID})
	ts.Check(err)
	call(ts, http.MethodPost, at+"/relay/enroll", bearer.Token, body, &struct{}{})
}

// call makes a request that must succeed, and decodes the answer.
func call(ts *testscript.TestScript, method, to, bearer string, body []byte, into any) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	ts.Check(err)
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s %s: %s", method, to, resp.Status)
	}
	ts.Check(json.NewDecoder(resp.Body).Decode(into))
}

// missealed NAME spoils a gateway's sealed secret, in a record that is otherwise whole.
func missealed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: missealed NAME")
	}
	db, err := store.Open(ts.MkAbs("data/connector.db"), store.Options{})
	ts.Check(err)
	ts.Check(db.UpdateGateway(context.Background(), nil, relay.GatewayID(args[0]), func(g *store.Gateway, _ *store.Instance) error {
		sealed := g.Secrets[0].Sealed
		sealed[len(sealed)-1] ^= 1
		return nil
	}))
	ts.Check(db.Close())
}

// rekeying is a folder with one database, and the configurations a.toml and b.toml that name a key each.
type rekeying struct{ dir string }

func newRekeying(t *testing.T) rekeying {
	r := rekeying{t.TempDir()}
	for _, name := range []string{"a", "b"} {
		text := "data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\n[vault]\nkey_file = \"" + name + ".key\"\n"
		if err := os.WriteFile(filepath.Join(r.dir, name+".toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := r.command("enroll", "home", "--new", "--config", "a.toml").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func (r rekeying) command(args ...string) *exec.Cmd {
	cmd := exec.Command("hermes-connector", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"HOME=" + r.dir, "RUNTIME_DIRECTORY=" + r.dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HERMES_CONNECTOR_LOOPBACK_DIR=loop",
	}
	return cmd
}

func (r rekeying) rekey(to, from string, more ...string) *exec.Cmd {
	return r.command(append([]string{"vault", "rekey", "--config", to + ".toml", "--from-key-file", from + ".key"}, more...)...)
}

// has reports whether the database file holds these bytes, in whatever page.
func (r rekeying) has(t *testing.T, what []byte) bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, "data", "connector.db"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(content, what)
}

// vault is what the database holds of its vault: the wrapped data key.
func (r rekeying) vault(t *testing.T) []byte {
	t.Helper()
	db, err := store.Open(filepath.Join(r.dir, "data", "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, ok, err := db.Blob(context.Background(), vault.BlobName)
	if err = errors.Join(err, db.Close()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return wrapped
}

// killedBeforeItForgets kills a rekey between its commit and its end, so that was is no longer the vault and still in the file.
func (r rekeying) killedBeforeItForgets(t *testing.T, was []byte, cmd *exec.Cmd) (caught bool) {
	t.Helper()
	nice, err := exec.LookPath("nice") // the test looks often while the rekey does little, also where both have one processor
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = nice, append([]string{"nice", "-n", "10"}, cmd.Args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for { // the copy without free pages is made beside the database
		if made, _ := filepath.Glob(filepath.Join(r.dir, "data", "connector.db.new-*")); len(made) > 0 {
			break
		}
		select {
		case err := <-ended:
			t.Logf("a rekey was not caught: %v", err)
			return false
		default:
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	return r.has(t, was)
}

// TestAKilledRekeyIsFinished: what a rekey replaced does not stay in the file when it is killed after its commit.
func TestAKilledRekeyIsFinished(t *testing.T) {
	for name, tc := range map[string]struct {
		rekey  func(r rekeying) *exec.Cmd
		finish func(r rekeying) *exec.Cmd
		says   string
	}{
		"reseal, a start": {
			func(r rekeying) *exec.Cmd { return r.rekey("b", "a", "--reseal") },
			func(r rekeying) *exec.Cmd { return r.command("serve", "--config", "b.toml") }, "what a rekey replaced was removed",
		},
		"reseal, a rekey": {
			func(r rekeying) *exec.Cmd { return r.rekey("b", "a", "--reseal") },
			func(r rekeying) *exec.Cmd { return r.rekey("b", "b", "--reseal") }, "an earlier rekey was interrupted",
		},
		"another key, the same rekey": {
			func(r rekeying) *exec.Cmd { return r.rekey("b", "a") },
			func(r rekeying) *exec.Cmd { return r.rekey("b", "a") }, "an earlier rekey was interrupted",
		},
		"a lost key, a start": {
			func(r rekeying) *exec.Cmd { return r.command("vault", "rekey", "--config", "b.toml", "--lost") },
			func(r rekeying) *exec.Cmd { return r.command("serve", "--config", "b.toml") }, "what a rekey replaced was removed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				r := newRekeying(t)
				was := r.vault(t)
				if !r.killedBeforeItForgets(t, was, tc.rekey(r)) {
					continue
				}
				var log bytes.Buffer
				cmd := tc.finish(r)
				cmd.Stderr = &log
				stdout, err := cmd.StdoutPipe()
				if err = errors.Join(err, cmd.Start()); err != nil {
					t.Fatal(err)
				}
				line, _ := bufio.NewReader(stdout).ReadString('\n') // a server listens, a rekey is done
				_ = cmd.Process.Signal(os.Interrupt)
				_ = cmd.Wait()
				if !strings.Contains(log.String(), tc.says) {
					t.Errorf("it says %q and %s", line, &log)
				}
				if r.has(t, was) {
					t.Error("the former vault is still in the file")
				}
				return
			}
			t.Fatal("no rekey was caught between its commit and its end")
		})
	}
}

// TestKilledRekey: killed whenever it may be, a rekey leaves a vault that exactly one of both keys opens.
func TestKilledRekey(t *testing.T) {
	r := newRekeying(t)
	// How long one takes, from the start of the process to its end.
	began := time.Now()
	if out, err := r.rekey("b", "a", "--reseal").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(began)
	from, to, done, undone := "b", "a", 0, 0
	cycles := long.Pick(6, 24)
	for i := range cycles {
		cmd := r.rekey(to, from, "--reseal")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(whole*time.Duration(i)/time.Duration(cycles), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		opens := make(map[string]bool)
		for _, name := range []string{"a", "b"} {
			out, err := r.command("gateway", "rotate", "home", "--config", name+".toml").CombinedOutput()
			if opens[name] = err == nil; err != nil && !strings.Contains(string(out), "does not match the database") {
				t.Fatalf("cycle %d: %s", i, out)
			}
		}
		switch {
		case opens[to] && !opens[from]:
			from, to = to, from
			done++
		case opens[from] && !opens[to]:
			undone++
		default:
			t.Fatalf("cycle %d: the keys that open the vault: %v", i, opens)
		}
	}
	t.Logf("%d were done, %d were not", done, undone)
}
