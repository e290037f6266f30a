package telegram

import (
	"context"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

var _ platformtest.Previewer = (*harness)(nil)

// TestPreviewsOfListedHosts: what is sent and edited has a preview if all of it leads to a listed host, also behind formats.
func TestPreviewsOfListedHosts(t *testing.T) {
	texts := map[string]string{
		"https://example.org/a": "", "see [here](https://example.org/a) and **https://example.org**": "",
		"[https://example.org/](https://evil.example)": noPreview, "see [here](https://example.org/a) and [there](https://evil.example)": noPreview,
	}
	for _, text := range platformtest.Links() {
		texts[text] = noPreview
	}
	texts["[![a cat](https://evil.example/hunter2.png)](https://example.org/)"] = "" // whose picture's address is not sent
	for text, want := range texts {
		onFake(t, func(t *testing.T, ctx context.Context, f *fakeAPI, p *Bot) {
			s := p.opts
			s["previews"] = "example.org"
			p.previews = s.Previews()
			if _, err := p.Send(ctx, relay.Send{Chat: dm, Content: text}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Edit(ctx, relay.Edit{Chat: dm, Message: "501", Content: text}); err != nil {
				t.Fatal(err)
			}
			for _, method := range []string{"sendMessage", "editMessageText"} {
				if got := f.callsTo(method)[0].Get("link_preview_options"); got != want {
					t.Errorf("%s of %q has the options %q, want %q", method, text, got, want)
				}
			}
		})
	}
}
