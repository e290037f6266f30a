package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
	"github.com/hermes-connector/hermes-connector/store"
)

// gateway is what gateways do, in their language and with its standard library: each request has a connection of its
// own, a total of 30 s for an upload, and 30 s for each read of a download.
const gateway = `
import hashlib, json, sys, urllib.error, urllib.request

base, size = sys.argv[1], int(sys.argv[2])
block = bytes(range(256)) * 4096
body = (b"\x89PNG\r\n\x1a\n" + block * (size // len(block) + 1))[:size]

def ask(method, url, bearer, data=None, headers={}):
    headers = {"Authorization": "Bearer " + bearer, **headers}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers, response.read(size + 1)
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()

said = {}
headers = {"Content-Type": "image/png", "X-Media-Filename": "Gr\u00fc\u00dfe.png"}
status, _, answer = ask("POST", base + "/relay/media", "home", body, headers)
answer = json.loads(answer)
said["upload"] = [status, answer.get("size")]
status, headers, got = ask("GET", base + "/relay/media/" + answer["id"], "home")
said["download"] = [status, len(got), int(headers["Content-Length"])]
said["same"] = hashlib.sha256(got).hexdigest() == hashlib.sha256(body).hexdigest()
disposition = headers["Content-Disposition"]
said["suffix"] = disposition.split("filename=", 1)[1].strip().strip('"').rsplit(".", 1)[1]
said["name"] = headers.get_filename()
said["type"] = headers.get_content_type()
said["others"] = ask("GET", base + "/relay/media/" + answer["id"], "away")[0]
said["stranger"] = ask("GET", base + "/relay/media/" + answer["id"], "wrong")[0]
said["unknown"] = ask("GET", base + "/relay/media/" + "0" * 32, "home")[0]
said["empty"] = ask("POST", base + "/relay/media", "home", b"")[0]
said["sha"] = hashlib.sha256(body).hexdigest()
print(json.dumps(said))
`

// python is the interpreter; without it the test is skipped, but where the partners of others are there, it must be.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("HERMES_CONNECTOR_PARTNERS") != "" {
			t.Fatal("python3 is not there")
		}
		t.Skip("python3 is not there")
	}
	return path
}

// newKeeper is a real store of files.
func newKeeper(t testing.TB, o media.Options) *media.Keeper {
	t.Helper()
	dir := t.TempDir()
	o.Sniff = sniff.Of
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := media.NewKeeper(filepath.Join(dir, "media"), db, nil, o)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// TestPythonUploadsAndDownloads the largest file, as gateways do.
func TestPythonUploadsAndDownloads(t *testing.T) {
	interpreter := python(t)
	r := newRig(t)
	r.over(newKeeper(t, media.Options{}))
	l := listen(t)
	r.serve(t, l)
	script := filepath.Join(t.TempDir(), "gateway.py")
	if err := os.WriteFile(script, []byte(gateway), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, script, "http://"+l.Addr().String(), "26214400")
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1", "PYTHONIOENCODING=utf-8")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var said struct {
		Upload, Download                 []int64
		Same                             bool
		Suffix, Name, Type, Sha          string
		Others, Stranger, Unknown, Empty int
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum := sha256.New()
	sum.Write([]byte("\x89PNG\r\n\x1a\n"))
	block := make([]byte, 256)
	for i := range block {
		block[i] = byte(i)
	}
	for left := media.MaxFile - 8; left > 0; left -= len(block) {
		sum.Write(block[:min(left, len(block))])
	}
	if said.Sha != hex.EncodeToString(sum.Sum(nil)) || !said.Same {
		t.Errorf("what came back is not what was sent: %s", out)
	}
	for name, ok := range map[string]bool{
		"upload":                  len(said.Upload) == 2 && said.Upload[0] == 200 && said.Upload[1] == media.MaxFile,
		"download":                len(said.Download) == 3 && said.Download[0] == 200 && said.Download[1] == media.MaxFile && said.Download[2] == media.MaxFile,
		"the plain name's suffix": said.Suffix == "png",
		"the name, as far as its library reads it": said.Name == "Gr_e.png",
		"the type":                 said.Type == "image/png",
		"who may not":              said.Others == 404 && said.Unknown == 404 && said.Stranger == 401,
		"an upload without a body": said.Empty == 400,
	} {
		if !ok {
			t.Errorf("%s: %s", name, out)
		}
	}
}
