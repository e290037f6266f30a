package discord

import (
	"context"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// free lists what Discord was free to fetch of what f read, and quiet how much it was told not to.
func free(f *fakeREST) (contents []string, quiet int) {
	for _, c := range append(f.callsTo("POST", ""), f.callsTo("PATCH", "")...) {
		body := c.Body
		if first, ok := body["message"].(obj); ok { // of a post
			body = first
		}
		content, _ := body["content"].(string)
		flags, _ := body["flags"].(float64)
		switch {
		case content == "":
		case int(flags)&4 == 0:
			contents = append(contents, content)
		default:
			quiet++
		}
	}
	return contents, quiet
}

// says sends text in every way that there is beside those of the conformance suite, and in these, too.
func says(t *testing.T, ctx context.Context, f *fakeREST, p *Bot, text string) {
	t.Helper()
	f.has("/channels/43", obj{"id": "43", "type": 15, "guild_id": "9"})
	ask := relay.Prompt{Chat: chat, Content: text, Kind: "choice", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: "yes"}}}
	media := relay.SendMedia{Chat: chat, Kind: "image", File: sentPicture(), Caption: text}
	for way, say := range map[string]func() (relay.Result, error){
		"message": func() (relay.Result, error) { return p.Send(ctx, relay.Send{Chat: chat, Content: text}) },
		"edit":    func() (relay.Result, error) { return p.Edit(ctx, relay.Edit{Chat: chat, Message: "7", Content: text}) },
		"caption": func() (relay.Result, error) { return p.SendMedia(ctx, media) },
		"first answer": func() (relay.Result, error) {
			return p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: text}, true)
		},
		"follow-up": func() (relay.Result, error) {
			return p.Respond(ctx, slashCapability(), relay.Send{Chat: chat, Content: text}, false)
		},
		"question":          func() (relay.Result, error) { return p.RespondPrompt(ctx, slashCapability(), ask, true) },
		"caption as answer": func() (relay.Result, error) { return p.RespondMedia(ctx, slashCapability(), media, true) },
		"caption behind it": func() (relay.Result, error) { return p.RespondMedia(ctx, slashCapability(), media, false) },
		"post": func() (relay.Result, error) {
			return p.CreateThread(ctx, relay.ThreadCreate{Chat: "43", Name: "x", SeedText: text})
		},
		"whisper": func() (relay.Result, error) { return relay.Result{}, p.whisper(ctx, aside{slashCapability(), text}) },
	} {
		if _, err := say(); err != nil {
			t.Fatalf("%s of %q: %v", way, text, err)
		}
	}
}

// TestNoPreviewOfAnAnswer: an interaction's answers, and posts, have no previews either, whether that goes for all links or
// for all that do not lead to a listed host.
func TestNoPreviewOfAnAnswer(t *testing.T) {
	for _, setting := range []string{"false", "example.org"} {
		for _, text := range platformtest.Links() {
			onRESTWith(t, map[string]string{"previews": setting}, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				says(t, ctx, f, p, text)
				if got, quiet := free(f); len(got) > 0 || quiet != 10 {
					t.Errorf("previews = %s: Discord may fetch what %q links to, and not what %d link to; want 10", setting, got, quiet)
				}
			})
		}
	}
}

func TestPreviewOfAListedHost(t *testing.T) {
	for setting, text := range map[string]string{"example.org": "see [here](https://example.org/a)", "true": "see [here](https://evil.example/)"} {
		onRESTWith(t, map[string]string{"previews": setting}, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
			says(t, ctx, f, p, text)
			if got, quiet := free(f); len(got) != 10 || quiet > 0 {
				t.Errorf("previews = %s: %q may have previews, and %d not; want 10 that may", setting, got, quiet)
			}
		})
	}
}

// TestAStreamedLinkMayBeShownInTheEnd: the flag of a message that could not have previews goes with the edit that can.
func TestAStreamedLinkMayBeShownInTheEnd(t *testing.T) {
	onRESTWith(t, map[string]string{"previews": "example.org"}, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		if _, err := p.Send(ctx, relay.Send{Chat: chat, Content: "https://examp"}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Edit(ctx, relay.Edit{Chat: chat, Message: "501", Content: "https://example.org/"}); err != nil {
			t.Fatal(err)
		}
		first, last := f.callsTo("POST", "")[0].Body["flags"], f.callsTo("PATCH", "")[0].Body["flags"]
		if first != 4.0 || last != 0.0 {
			t.Errorf("flags are %v, then %v; want 4, then 0", first, last)
		}
	})
}

var _ platformtest.Previewer = (*harness)(nil)
