package platformtest

import (
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// Previewer is a Harness whose network fetches the links in messages, unless it is told not to.
type Previewer interface {
	// Fetched returns the texts of the bot's messages, edits, captions and drafts that the network got without being
	// told not to fetch their links.
	Fetched() []string
}

// Links returns texts that somebody may make an agent write, so that it puts a secret into an address of evil.example.
// Some look as if they led to example.org.
func Links() []string {
	return []string{
		"https://evil.example/?k=hunter2",
		"http://evil.example/?k=hunter2",
		"HTTPS://EVIL.EXAMPLE/?K=hunter2",
		"www.evil.example/hunter2",
		"evil.example/hunter2",
		"hunter2.evil.example",
		"Look at https://evil.example/hunter2, please.",
		"(https://evil.example/hunter2)",
		"<https://evil.example/hunter2>",
		"**https://evil.example/hunter2**",
		"||https://evil.example/hunter2||",
		"> https://evil.example/hunter2",
		"- https://evil.example/hunter2\n- https://example.org/",
		"# https://evil.example/hunter2",
		"| a | b |\n|---|---|\n| https://evil.example/hunter2 | c |",
		"`https://evil.example/hunter2`",
		"```\nhttps://evil.example/hunter2\n```",
		"[here](https://evil.example/hunter2)",
		"[https://example.org/](https://evil.example/hunter2)",
		"[here](<https://evil.example/hunter2> \"example.org\")",
		"[here][1]\n\n[1]: https://evil.example/hunter2",
		"[](https://evil.example/hunter2)",
		"![](https://evil.example/hunter2.png)",
		"![a cat](https://evil.example/hunter2.png)",
		"![a cat][1]\n\n[1]: https://evil.example/hunter2.png",
		"[![a cat](https://evil.example/hunter2.png)](https://example.org/)",
		"<img src=\"https://evil.example/hunter2.png\">",
		"<a href=\"https://evil.example/hunter2\">https://example.org/</a>",
		"https://example.org@evil.example/hunter2",
		"https://example.org:hunter2@evil.example/",
		"https://example.org,x@2130706433/hunter2",
		"https://example.org\\@evil.example/hunter2",
		"https://example.org.evil.example/hunter2",
		"https://evil.example/https://example.org/hunter2",
		"https://evil.example?https://example.org/hunter2",
		"https://evil.example#https://example.org/hunter2",
		"https://evil.example./hunter2",
		"https://evil.example:443/hunter2",
		"https://example.org:8443/hunter2",
		"https://sub.example.org/hunter2",
		"https://example.or\u200bg/hunter2",
		"https://ex\u00adample.org/hunter2",
		"https://\u202egro.elpmaxe/hunter2",
		"https://ex\u0430mple.org/hunter2",
		"https://xn--exmple-4nf.org/hunter2",
		"https://example。org/hunter2",
		"https://evil。example/hunter2",
		"https://evil%2eexample/hunter2",
		"https://2130706433/hunter2",
		"https://0x7f.1/hunter2",
		"https://[::1]/hunter2",
		"http:\\\\evil.example\\hunter2",
		"https:evil.example/hunter2",
		"ftp://evil.example/hunter2",
		"tg://resolve?domain=evil&start=hunter2",
		"hunter2@evil.example",
		"mailto:hunter2@evil.example",
		"https://example.org/ and then https://evil.example/hunter2",
		"https://example.org/|https://evil.example/hunter2",
		"https://example.org/\nhttps://evil.example/hunter2",
	}
}

// checkPreviews checks rule 18 of the package comment: previews. A quick run tries every sixth text.
func checkPreviews(b *bench) {
	h, tells := b.h.(Previewer)
	if !tells {
		return
	}
	ev := b.hear(Ann, shared(b.h), "hello")
	direct := b.hear(Ann, Direct, "hello to you alone").Source.ChatID
	ops := platforms.Describe(b.p).SupportedOps
	own := b.send(reply(ev, "one moment")).MessageID
	chat, meta := ev.Source.ChatID, reply(ev, "").Meta
	for n, text := range Links() {
		if n%long.Pick(6, 1) != 0 {
			continue
		}
		all := []relay.Action{
			relay.Send{Chat: chat, Content: text, Meta: meta},
			relay.Send{Chat: chat, Content: strings.Repeat("x", platforms.Describe(b.p).MaxMessageLength-10) + " " + text, Meta: meta},
			relay.Edit{Chat: chat, Message: own, Content: "so far: " + text, Meta: meta},
			relay.Edit{Chat: chat, Message: own, Content: text, Meta: meta},
			posting(ev, picture, text),
			relay.Prompt{Chat: chat, Content: text, Kind: "choice", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: text}}, Meta: meta},
			relay.ThreadCreate{Chat: chat, Name: "topic", SeedText: text, Meta: meta},
			relay.Draft{Chat: direct, DraftID: 1, Content: text, Meta: meta},
		}
		for _, a := range all {
			if !slices.Contains(ops, a.Op()) {
				continue
			}
			_, err := platforms.Do(b.ctx, b.p, a)
			must(string(a.Op()), err)
			if got := h.Fetched(); len(got) > 0 {
				fail("%s of %q: the network may fetch what %q links to", a.Op(), text, got)
			}
		}
	}
}
