package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// posting is a file of the agent's.
func posting(chat relay.ChatID, caption, content string) relay.SendMedia {
	return relay.SendMedia{Chat: chat, Kind: "image", Caption: caption, File: relay.File{
		FileFacts: relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Ext: ".png", Kind: relay.TypePhoto, Size: int64(len(content))},
		Content:   strings.NewReader(content), Name: "cat.png",
	}}
}

func TestFilesIn(t *testing.T) {
	net, in := NewNetwork(), &inbox{}
	p := NewLoopback(net, nil)
	start(t, p, in)
	err := net.Say(t.Context(), Message{User: "ann", Files: []File{{Kind: relay.TypePhoto, Name: "a.png", Content: []byte("AAA"), Caption: "look"}, {Content: []byte("B")}}})
	if err != nil {
		t.Fatal(err)
	}
	got := in.events()[0].Attachments
	want := []relay.Attachment{
		{Ref: "m1/0", Kind: relay.TypePhoto, Name: "a.png", Size: 3, Caption: "look"},
		{Ref: "m1/1", Kind: relay.TypeDocument, Size: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("attachments (-want +got):\n%s", d)
	}
	down := errors.New("down")
	net.FailFetch(down)
	if _, err := p.FetchMedia(t.Context(), got[0]); !errors.Is(err, down) {
		t.Errorf("a fetch that was to fail: %v", err)
	}
	if content, err := fetch(t, p, got[0]); content != "AAA" || err != nil {
		t.Errorf("fetched %q, %v", content, err)
	}
	net.Forget(got[0].Ref)
	_, err = p.FetchMedia(t.Context(), got[0])
	if me := new(platforms.MediaError); !errors.As(err, &me) || me.State != relay.MediaGone {
		t.Errorf("a deleted file: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.FetchMedia(ended, got[1]); !errors.Is(err, context.Canceled) {
		t.Errorf("on an ended context: %v", err)
	}
}

func fetch(t *testing.T, p *Loopback, a relay.Attachment) (string, error) {
	t.Helper()
	r, err := p.FetchMedia(t.Context(), a)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	return string(content), errors.Join(err, r.Close())
}

func TestFilesOut(t *testing.T) {
	net := NewNetwork()
	p := NewLoopback(net, nil)
	long := strings.Repeat("x", MaxLength) + "y"
	res, err := p.SendMedia(t.Context(), posting("@ann", long, "PNG"))
	if err != nil || res.MessageID != "m1" || len(res.MessageIDs) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	want := []Act{
		{Op: relay.OpSendMedia, Chat: "@ann", Message: "m1", Text: long[:MaxLength], File: SentFile{Kind: "image", Name: "cat.png", Mime: "image/png", Size: 3}},
		{Op: relay.OpSend, Chat: "@ann", Message: "m2", Text: "y"},
	}
	if d := cmp.Diff(want, net.Acts()); d != "" {
		t.Errorf("acts (-want +got):\n%s", d)
	}
	if content, ok := net.Sent("@ann", "m1"); string(content) != "PNG" || !ok {
		t.Errorf("the network has %q, %t", content, ok)
	}
	huge, unread := posting("@ann", "", ""), posting("@ann", "", "abc")
	huge.File.Size = MaxFile + 1
	unread.File.Size = 5
	none := relay.SendMedia{Chat: "@ann"}
	for what, a := range map[string]relay.SendMedia{"too large": huge, "cannot be read": unread, "no file": none} {
		if _, err := p.SendMedia(t.Context(), a); err == nil || relay.Explain(err).Outcome != relay.NotSent || len(net.Acts()) != 2 {
			t.Errorf("%s: %v, %d acts", what, err, len(net.Acts()))
		}
	}
}

func TestButtons(t *testing.T) {
	net, in := NewNetwork(), &inbox{}
	p := NewLoopback(net, nil)
	start(t, p, in)
	ask := relay.Prompt{Chat: "park/garden", Content: strings.Repeat("x", MaxLength) + "go on?", Kind: "choice", PromptID: "k.1",
		Options: []relay.PromptOption{{ID: "y", Label: "Yes"}, {ID: "n", Label: "No"}}, Meta: relay.Metadata{ThreadID: "roses"}}
	res, err := p.Prompt(t.Context(), ask)
	if err != nil || res.MessageID != "m2" {
		t.Fatalf("%+v, %v", res, err)
	}
	last := net.Acts()[1]
	if want := (Act{Op: relay.OpPrompt, Chat: ask.Chat, Thread: "roses", Message: "m2", Text: "go on?", Prompt: "k.1", Options: "y n"}); last != want {
		t.Errorf("the last act is %+v, want %+v", last, want)
	}
	if d := cmp.Diff(map[string]string{"y": "Yes", "n": "No"}, net.Buttons(ask.Chat, "m2")); d != "" {
		t.Errorf("buttons (-want +got):\n%s", d)
	}
	for range 2 {
		if err := net.Say(t.Context(), Message{User: "ann", Chat: ask.Chat, Thread: "roses", Press: &Press{"m2", "k.1", "y"}}); err != nil {
			t.Fatal(err)
		}
	}
	first, second := in.events()[0], in.events()[1]
	if first.ID == second.ID || first.MessageID == second.MessageID {
		t.Error("two presses are one event")
	}
	if d := cmp.Diff(&relay.PromptResponse{PromptID: "k.1", OptionID: "y", Label: "Yes", PromptMessageID: "m2"}, first.Prompt); d != "" {
		t.Errorf("press (-want +got):\n%s", d)
	}
	if first.Text != "/y" || first.Type != relay.TypeCommand || !first.Traits.Press || first.Source.ThreadID != "roses" {
		t.Errorf("the press is %+v", first)
	}
	in.batches[1].Refused(second.ID, "This question is closed")
	if got, want := net.Acts()[2], (Act{Op: OpNotice, Chat: ask.Chat, Thread: "roses", Message: second.MessageID, Text: "This question is closed"}); got != want {
		t.Errorf("the person reads %+v, want %+v", got, want)
	}
	for range 2 {
		if err := p.Unprompt(t.Context(), ask.Chat, "m2"); err != nil || net.Buttons(ask.Chat, "m2") != nil {
			t.Errorf("buttons off: %v, %v", err, net.Buttons(ask.Chat, "m2"))
		}
	}
	ask.Options = make([]relay.PromptOption, MaxButtons+1)
	if _, err := p.Prompt(t.Context(), ask); err == nil || !strings.HasPrefix(relay.Explain(err).Public, "unsupported op prompt: ") {
		t.Errorf("too many buttons: %v", err)
	}
}

func TestFilesInFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, filesFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"a.jpg": []byte("JPG"), "big": bytes.Repeat([]byte("x"), MaxFile+1)} {
		if err := os.WriteFile(filepath.Join(dir, filesFolder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, filesFolder, "link")); err != nil {
		t.Fatal(err)
	}
	in := &inbox{}
	synctest.Test(t, func(t *testing.T) {
		p := open(t, dir)
		stop := start(t, p, in)
		write(t, dir, "ann photo:a.jpg look\nann press:m1:k.1:y\n")
		settle()
		evs := in.events()
		if len(evs) != 2 || len(evs[0].Attachments) != 1 || evs[1].Prompt == nil {
			t.Fatalf("accepted %+v", evs)
		}
		if content, err := fetch(t, p, evs[0].Attachments[0]); content != "JPG" || err != nil {
			t.Errorf("fetched %q, %v", content, err)
		}
		for name, want := range map[string]relay.MediaState{"none": relay.MediaGone, ".": relay.MediaGone, "big": relay.MediaTooLarge} {
			_, err := fetch(t, p, relay.Attachment{Ref: name})
			if me := new(platforms.MediaError); !errors.As(err, &me) || me.State != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		for _, name := range []string{"link", "../say"} {
			if content, err := fetch(t, p, relay.Attachment{Ref: name}); err == nil {
				t.Errorf("%s leads out of the folder: %.20q", name, content)
			}
		}
		if res, err := p.SendMedia(t.Context(), posting("@ann", "here", "PNG")); err != nil || res.MessageID == "" {
			t.Errorf("%+v, %v", res, err)
		}
		if err := p.Unprompt(t.Context(), "@ann", "m9"); err != nil { // from before a restart
			t.Error(err)
		}
		synctest.Wait()
		stop()
	})
	posted, err := os.ReadFile(filepath.Join(dir, postedFile))
	want := `{"op":"send_media","chat":"@ann","messageId":"m1","text":"here","file":{"kind":"image","name":"cat.png","mime":"image/png","size":3,"saved":"m1.png"}}
{"op":"unprompt","chat":"@ann","messageId":"m9"}
`
	if string(posted) != want || err != nil {
		t.Errorf("posted:\n%s%v\nwant:\n%s", posted, err, want)
	}
	if content, err := os.ReadFile(filepath.Join(dir, sentFolder, "m1.png")); string(content) != "PNG" || err != nil {
		t.Errorf("sent %q, %v", content, err)
	}
}
