package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// TestKilledRekey: killed whenever it may be, a rekey leaves a vault that exactly one of both keys opens.
func TestKilledRekey(t *testing.T) {
	dir := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("hermes-connector", args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "RUNTIME_DIRECTORY=" + dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HERMES_CONNECTOR_LOOPBACK_DIR=loop"}
		return cmd
	}
	for _, name := range []string{"a", "b"} {
		text := "data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\n[vault]\nkey_file = \"" + name + ".key\"\n"
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := command("enroll", "home", "--new", "--config", "a.toml").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// How long one takes, from the start of the process to its end.
	began := time.Now()
	if out, err := command("vault", "rekey", "--config", "b.toml", "--from-key-file", "a.key", "--reseal").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(began)
	from, to, done, undone := "b", "a", 0, 0
	cycles := long.Pick(6, 24)
	for i := range cycles {
		cmd := command("vault", "rekey", "--config", to+".toml", "--from-key-file", from+".key", "--reseal")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(whole*time.Duration(i)/time.Duration(cycles), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		opens := make(map[string]bool)
		for _, name := range []string{"a", "b"} {
			out, err := command("gateway", "rotate", "home", "--config", name+".toml").CombinedOutput()
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
