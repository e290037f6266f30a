package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestWhatCannotBeStoredWaitsAndShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, in := NewWeb(NewRooms(), nil), &inbox{refuse: 2}
		r := p.Rooms()
		said := make(chan error, 1)
		go func() { said <- r.Say(t.Context(), "home", Said{Text: "hello"}) }()
		synctest.Wait()
		if m := r.View("home", "").Messages; len(m) != 1 || !m[0].Waiting || !m[0].Mine {
			t.Fatalf("before it is stored: %+v", m)
		}
		start(t, p, in)
		synctest.Wait()
		if s := p.Status(); s.State != platforms.Degraded || s.Reason == "" {
			t.Errorf("while nothing can be stored: %+v", s)
		}
		if err := <-said; err != nil {
			t.Fatal(err)
		}
		if m := r.View("home", "").Messages; m[0].Waiting {
			t.Error("stored, and said to wait")
		}
		if s := p.Status(); s.State != platforms.Connected {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

func TestWhatCannotBeSaid(t *testing.T) {
	r := NewRooms()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		said Said
		want error
	}{
		"nothing":        {Said{Text: " \n"}, ErrEmpty},
		"too much":       {Said{Text: strings.Repeat("ä", MaxWebLength+1)}, ErrTooLong},
		"too many files": {Said{Files: make([]Upload, 11)}, ErrFiles},
		"a large file":   {Said{Files: []Upload{{Content: make([]byte, MaxWebFile+1)}}}, ErrFiles},
	} {
		if err := r.Say(now, "home", tc.said); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for range maxWaiting {
		if err := r.Say(now, "home", Said{Text: "x"}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := r.Say(now, "home", Said{Text: "x"}); !errors.Is(err, ErrBusy) {
		t.Errorf("with a full queue: %v", err)
	}
}

func TestOfARoom(t *testing.T) {
	p := NewWeb(NewRooms(), nil)
	r := p.Rooms()
	start(t, p, &inbox{})
	if err := r.Say(t.Context(), "home", Said{Text: "Grüße\nund mehr"}); err != nil {
		t.Fatal(err)
	}
	mine := r.View("home", "").Messages[0]
	res, err := p.Send(t.Context(), relay.Send{Chat: "home", Content: "**hello**", ReplyTo: mine.ID})
	if err != nil {
		t.Fatal(err)
	}
	all := r.View("home", "")
	if m := all.Messages[1]; m.Mine || m.Text != "**hello**" || m.Quote != "Grüße" || m.ID != res.MessageID {
		t.Errorf("the answer: %+v", m)
	}
	if other := r.View("kids", ""); len(other.Messages) != 0 {
		t.Errorf("another room: %+v", other)
	}

	for what, do := range map[string]func() error{
		"edit": func() error {
			_, err := p.Edit(t.Context(), relay.Edit{Chat: "home", Message: res.MessageID, Content: "bye"})
			return err
		},
		"reaction": func() error {
			_, err := p.React(t.Context(), relay.React{Chat: "home", Message: mine.ID, Emoji: "👀"})
			return err
		},
	} {
		before := r.View("home", "").Mark
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if v := r.View("home", before); v.Whole || len(v.Messages) != 1 {
			t.Errorf("%s: the view since then is %+v", what, v)
		}
	}
	whole := r.View("home", "").Messages
	if m := whole[0]; !slices.Equal(m.Reactions, []string{"👀"}) {
		t.Errorf("reactions: %q", m.Reactions)
	}
	if m := whole[1]; m.Text != "bye" || !m.Edited {
		t.Errorf("edited: %+v", m)
	}
	if _, err := p.React(t.Context(), relay.React{Chat: "home", Message: mine.ID, Remove: true}); err != nil || len(r.View("home", "").Messages[0].Reactions) > 0 {
		t.Errorf("a reaction that was taken away stands: %v", err)
	}
	if _, err := p.Edit(t.Context(), relay.Edit{Chat: "home", Message: mine.ID, Content: "forged"}); err == nil {
		t.Error("the bot edited what the person said")
	}

	before := r.View("home", "").Mark
	if _, err := p.Delete(t.Context(), relay.Delete{Chat: "home", Message: res.MessageID}); err != nil {
		t.Fatal(err)
	}
	if v := r.View("home", before); len(v.Messages) != 1 || !v.Messages[0].Gone || v.Messages[0].Text != "" {
		t.Errorf("a deleted message: %+v", v.Messages)
	}
	if n := len(r.View("home", "").Messages); n != 1 {
		t.Errorf("%d messages stand", n)
	}
	if v := NewRooms().View("home", before); !v.Whole {
		t.Error("a mark of another run was known")
	}
}

func TestTypingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewWeb(NewRooms(), nil)
		typing := func() bool { return p.Rooms().View("home", "").Typing }
		must := func(_ relay.Result, err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(p.Typing(t.Context(), relay.Typing{Chat: "home"}))
		if !typing() {
			t.Error("not shown")
		}
		time.Sleep(typingFor)
		if typing() {
			t.Error("shown for ever")
		}
		must(p.Typing(t.Context(), relay.Typing{Chat: "home"}))
		must(p.Send(t.Context(), relay.Send{Chat: "home", Content: "done"}))
		if typing() {
			t.Error("shown after the answer")
		}
	})
}

func TestPresses(t *testing.T) {
	ask := relay.Prompt{Chat: "home", Content: "go on?", PromptID: "p1", Options: []relay.PromptOption{{ID: "yes", Label: "Ja, bitte"}}}
	for _, words := range []string{"", "This question is closed."} {
		p := NewWeb(NewRooms(), nil)
		r := p.Rooms()
		start(t, p, &inbox{words: words})
		res, err := p.Prompt(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Press(t.Context(), "home", res.MessageID, "no"); !errors.Is(err, ErrGone) {
			t.Errorf("a button that is not there: %v", err)
		}
		if err := r.Press(t.Context(), "home", res.MessageID, "yes"); err != nil {
			t.Fatal(err)
		}
		m := r.View("home", "").Messages[0]
		if want := map[bool]string{true: "Ja, bitte"}[words == ""]; m.Chosen != want || m.Notice != words {
			t.Errorf("chosen %q, notice %q; want %q, %q", m.Chosen, m.Notice, want, words)
		}
		if err := p.Unprompt(t.Context(), "home", res.MessageID); err != nil {
			t.Fatal(err)
		}
		if err := r.Press(t.Context(), "home", res.MessageID, "yes"); !errors.Is(err, ErrGone) {
			t.Errorf("a button that was taken away: %v", err)
		}
	}
}

func TestBounds(t *testing.T) {
	p := NewWeb(NewRooms(), nil)
	r := p.Rooms()
	for range MaxWebMessages + 50 {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "home", Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.View("home", "").Messages); n != MaxWebMessages {
		t.Errorf("%d messages are kept", n)
	}
	big := strings.Repeat("😀", MaxWebLength)
	for range 20 {
		if _, err := p.Send(t.Context(), relay.Send{Chat: "home", Content: big}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range r.View("home", "").Messages { // an edit may not grow the room either
		_, _ = p.Edit(t.Context(), relay.Edit{Chat: "home", Message: m.ID, Content: big})
	}
	sum := 0
	for _, m := range r.View("home", "").Messages {
		sum += m.size()
	}
	if sum > maxBytes || sum != r.rooms["home"].bytes {
		t.Errorf("%d bytes are kept, of %d; the room counts %d", sum, maxBytes, r.rooms["home"].bytes)
	}

	now, cancel := context.WithCancel(t.Context())
	cancel()
	for range 4 { // of which only two fit
		_ = r.Say(now, "home", Said{Files: []Upload{{Name: "a.bin", Content: make([]byte, MaxWebFile)}}})
	}
	if in := r.rooms["home"]; in.fileBytes > maxFiles || len(in.files) != 2 || len(r.kept) != 2 {
		t.Errorf("%d files of %d bytes are kept", len(r.kept), in.fileBytes)
	}
	lost := 0
	for _, m := range r.View("home", "").Messages {
		for _, f := range m.Files {
			if f.Lost {
				lost++
			}
		}
	}
	if lost != 2 {
		t.Errorf("%d files are said to be lost, want 2", lost)
	}
}

// TestARoomsFilesTakeNothingFromAnother: however many files come into one room, another's stay. (invariant 3)
func TestARoomsFilesTakeNothingFromAnother(t *testing.T) {
	p := NewWeb(NewRooms(), nil)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Rooms().Say(now, "home", Said{Files: []Upload{{Name: "said.txt", Content: []byte("the person's")}}})
	post := func(chat relay.ChatID, content string) {
		t.Helper()
		f := relay.File{Name: "f.bin", Content: strings.NewReader(content)}
		f.Size = int64(len(content))
		if _, err := p.SendMedia(t.Context(), relay.SendMedia{Chat: chat, Kind: "document", File: f}); err != nil {
			t.Fatal(err)
		}
	}
	post("home", "the bot's")
	large := strings.Repeat("x", MaxWebFile)
	for range 5 {
		post("mallory", large)
	}
	for _, m := range p.Rooms().View("home", "").Messages {
		for _, f := range m.Files {
			if _, content, ok := p.Rooms().File(f.ID); f.Lost || !ok || int64(len(content)) != f.Size {
				t.Errorf("%s of home: lost %t, there %t; five files came into another room", f.Name, f.Lost, ok)
			}
		}
	}
}

func TestChatsAreNames(t *testing.T) {
	p := NewWeb(NewRooms(), nil)
	for _, chat := range []relay.ChatID{"", "a/b", "a b", relay.ChatID(strings.Repeat("x", relay.MaxName+1))} {
		if _, ok := p.DirectUser(chat); ok {
			t.Errorf("%q is a chat", chat)
		}
		_, err := p.Send(t.Context(), relay.Send{Chat: chat, Content: "x"})
		if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent {
			t.Errorf("%q: %v", chat, err)
		}
	}
	if u, ok := p.DirectUser("home"); !ok || u != "home" {
		t.Errorf("home: %q, %t", u, ok)
	}
}
