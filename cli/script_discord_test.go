package cli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// interaction [-forged|-stale] METHOD PATH FILE STATUS calls the server as Discord does, which signs with the key of the
// seed 00 01 … 1f. {ID} in the file becomes an id of now. The answer must have that status; its body goes to the file
// "answer", its header to "header".
func interaction(ts *testscript.TestScript, neg bool, args []string) {
	how := ""
	if len(args) == 5 {
		how, args = args[0], args[1:]
	}
	if neg || len(args) != 4 {
		ts.Fatalf("usage: interaction [-forged|-stale] METHOD PATH FILE STATUS")
	}
	now := time.Now()
	id := (now.UnixMilli() - time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()) << 22
	body := bytes.ReplaceAll([]byte(ts.ReadFile(args[2])), []byte("{ID}"), []byte(strconv.FormatInt(id, 10)))
	if how == "-stale" {
		now = now.Add(-time.Hour)
	}
	seconds := strconv.FormatInt(now.Unix(), 10)
	seed := make([]byte, ed25519.SeedSize)
	for n := range seed {
		seed[n] = byte(n)
	}
	sign := ed25519.Sign(ed25519.NewKeyFromSeed(seed), append([]byte(seconds), body...))
	if how == "-forged" {
		sign[0] ^= 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, args[0], ts.Getenv("SERVER")+args[1], bytes.NewReader(body))
	ts.Check(err)
	// A refusal comes before the body is sent, however slow the server is.
	patient := &http.Transport{ExpectContinueTimeout: patience, DisableKeepAlives: true}
	r.Header.Set("Expect", "100-continue")
	r.Header.Set("X-Signature-Ed25519", hex.EncodeToString(sign))
	r.Header.Set("X-Signature-Timestamp", seconds)
	a, err := patient.RoundTrip(r)
	ts.Check(err)
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), append(bytes.TrimSpace(text), '\n'), 0o600))
	var header bytes.Buffer
	ts.Check(a.Header.Write(&header))
	ts.Check(os.WriteFile(ts.MkAbs("header"), header.Bytes(), 0o600))
	if got := fmt.Sprint(a.StatusCode); got != args[3] {
		ts.Fatalf("%s %s is answered with %s, want %s: %s", args[0], args[1], got, args[3], text)
	}
}
