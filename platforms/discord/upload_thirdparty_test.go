package discord

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// kept keeps the last form that went through it.
type kept struct {
	kind string
	body []byte
}

func (k *kept) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		k.kind, k.body = r.Header.Get("Content-Type"), body
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader([]byte(`{"id":"501"}`)))}, nil
}

// TestThirdPartyUpload: npm's busboy reads in our uploads what we put in: the words, the file's name and each of its bytes.
func TestThirdPartyUpload(t *testing.T) {
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	copy(content[1<<20:], "\r\n--\r\n--boundary--\r\n")
	for name, tc := range map[string]struct {
		file relay.File
		want string // the file's name
	}{
		"a picture":     {relay.File{Name: "Grüße 👋.png", FileFacts: relay.FileFacts{Mime: "image/png"}}, "Grüße 👋.png"},
		"an odd name":   {relay.File{Name: `a"b; filename="c.txt`, FileFacts: relay.FileFacts{Mime: "text/plain"}}, `a'b; filename='c.txt`},
		"a voice note":  {relay.File{Name: "x.ogg", FileFacts: relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg", Duration: 7e9}}, "x.ogg"},
		"an empty file": {relay.File{Name: "x.txt", FileFacts: relay.FileFacts{Mime: "text/plain"}}, "x.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			var k kept
			p, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), Transport: &k, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			whole := content
			if name == "an empty file" {
				whole = []byte{}
			}
			tc.file.Content, tc.file.Size = bytes.NewReader(whole), int64(len(whole))
			if _, err := p.SendMedia(t.Context(), relay.SendMedia{Chat: chat, Kind: "voice", Caption: "Tschüß", File: tc.file}); err != nil {
				t.Fatal(err)
			}
			if name == "a voice note" { // the last request was its caption
				if k.kind != "application/json" {
					t.Errorf("the caption came as %s", k.kind)
				}
				if _, err := p.SendMedia(t.Context(), relay.SendMedia{Chat: chat, Kind: "voice", File: tc.file}); err != nil {
					t.Fatal(err)
				}
			}
			parts := platformtest.ReadForm(t, k.kind, k.body)
			if len(parts) != 2 {
				t.Fatalf("%d parts", len(parts))
			}
			said, file := parts[0], parts[1]
			var words struct{ Attachments []struct{ Filename string } }
			if err := json.Unmarshal(said.Content, &words); err != nil || said.Name != "payload_json" || said.Cut {
				t.Errorf("the first part is %s: %v", said.Name, err)
			}
			if len(words.Attachments) != 1 || words.Attachments[0].Filename != tc.file.Name {
				t.Errorf("attachments are %+v", words.Attachments)
			}
			if !bytes.Equal(file.Content, whole) {
				t.Error("other bytes came out")
			}
			file.Content = nil
			if diff := cmp.Diff(platformtest.FormPart{Name: "files[0]", Type: tc.file.Mime, File: tc.want}, file); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}
