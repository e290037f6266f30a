package platformtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// partnersEnv names the environment variable with the path of a node_modules folder: it has npm packages by others, on
// which our tests try our output.
const partnersEnv = "HERMES_CONNECTOR_PARTNERS"

// Partner returns the folder of an npm package. The test is skipped where the packages are not installed.
func Partner(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(partnersEnv)
	if dir == "" {
		t.Skipf("%s is not set", partnersEnv)
	}
	return filepath.Join(dir, name)
}

// AskPartner runs script in Node: the body of an async JavaScript function with the parameters partner, which is the
// package, and input. The function's result goes into output. Both input and output pass as JSON. name is a package
// that can be required, or a module of a package that can only be imported: "file-type/index.js". The test is skipped
// if the packages are not installed.
func AskPartner(t *testing.T, name, script string, input, output any) {
	t.Helper()
	const frame = `const path = process.argv[1];
		(path.endsWith('.js') ? import(require('url').pathToFileURL(path)) : Promise.resolve(require(path)))
			.then(partner => (async (partner, input) => {%s})(partner, JSON.parse(require('fs').readFileSync(0))))
			.then(v => console.log(JSON.stringify(v)))`
	cmd := exec.CommandContext(t.Context(), "node", "-e", strings.Replace(frame, "%s", script, 1), Partner(t, name))
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var trouble bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), &trouble
	answer, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(answer, output)
	}
	if err != nil {
		t.Fatalf("%s: %v, %s", name, err, trouble.String())
	}
}

// Running runs p until the test ends. It returns a function that lists the batches that p has handed in so far.
func Running(t *testing.T, p platforms.Bot) func() []platforms.Batch {
	t.Helper()
	in := &inbox{bot: p.ID()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, in.fault()); err != nil {
			t.Error(err)
		}
	})
	return in.batches
}

// FormPart is a part of a form as busboy, npm's parser of forms, reads it.
type FormPart struct {
	Name, Type string
	File       string // the file's name; empty: this is a field
	Content    []byte
	Cut        bool // busboy read only the beginning of the part
}

// ReadForm parses a request's body with busboy. The test is skipped where busboy is not installed.
func ReadForm(t *testing.T, contentType string, body []byte) (parts []FormPart) {
	t.Helper()
	AskPartner(t, "busboy", `return await new Promise((done, fail) => {
		const parts = [], form = partner({headers: {'content-type': input.type}, defParamCharset: 'utf8', limits: {fileSize: 1 << 30}});
		form.on('field', (name, value, info) => parts.push({
			name, type: info.mimeType, content: Buffer.from(value).toString('base64'), cut: info.valueTruncated || info.nameTruncated}));
		form.on('file', (name, stream, info) => {
			const part = {name, type: info.mimeType, file: info.filename}, chunks = [];
			parts.push(part);
			stream.on('data', c => chunks.push(c));
			stream.on('close', () => Object.assign(part, {content: Buffer.concat(chunks).toString('base64'), cut: !!stream.truncated}));
		});
		form.on('error', fail);
		form.on('close', () => done(parts));
		form.end(Buffer.from(input.body, 'base64'));
	});`, map[string]any{"type": contentType, "body": body}, &parts)
	return parts
}
