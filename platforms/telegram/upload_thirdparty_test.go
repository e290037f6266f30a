package telegram

import (
	"bytes"
	"crypto/rand"
	"io"
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
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	k.kind, k.body = r.Header.Get("Content-Type"), body
	answer := []byte(`{"ok":true,"result":{"message_id":501}}`)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(answer))}, nil
}

// TestThirdPartyUpload: npm's busboy reads in our uploads what we put in: the parameters, the file's name and each of its
// bytes. (telegram-test-api knows no files.)
func TestThirdPartyUpload(t *testing.T) {
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	copy(content[1<<20:], "\r\n--\r\n--boundary--\r\n")
	var k kept
	p := openAt(t, platforms.Options{Transport: &k})
	if _, err := p.SendMedia(t.Context(), relay.SendMedia{
		Chat: "-1001", Kind: "image", Caption: "**Tschüß** 👋\n\"quoted\"", ReplyTo: "7",
		File: relay.File{
			Name: "Grüße \"x\".png", Content: bytes.NewReader(content),
			FileFacts: relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Size: int64(len(content))},
		},
	}); err != nil {
		t.Fatal(err)
	}
	parts := platformtest.ReadForm(t, k.kind, k.body)
	got := map[string]string{}
	for _, part := range parts[:len(parts)-1] {
		got[part.Name] = string(part.Content)
		if part.Cut || part.File != "" {
			t.Errorf("%s is cut, or a file", part.Name)
		}
	}
	want := map[string]string{
		"chat_id": "-1001", "caption": "Tschüß 👋\n\"quoted\"", "caption_entities": `[{"type":"bold","offset":0,"length":6}]`,
		"reply_parameters": `{"message_id":7,"allow_sending_without_reply":true}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	file := parts[len(parts)-1]
	if !bytes.Equal(file.Content, content) {
		t.Error("other bytes came out")
	}
	file.Content = nil
	if diff := cmp.Diff(platformtest.FormPart{Name: "photo", Type: "image/png", File: "Grüße 'x'.png"}, file); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}
