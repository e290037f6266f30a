package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestCanManage(t *testing.T) {
	net := NewNetwork()
	net.Appoint("garden", "ann")
	net.Appoint("park/pond", "bob")
	net.Appoint("park/", "cat")
	net.Appoint("@dan", "dan")
	inMemory := NewLoopback(net, nil)

	dir := t.TempDir()
	inFile := open(t, dir)
	lines := "ann@garden\n\nnonsense\ndan@\n bob@park/pond \ncat@park/\ndan@@dan" // the last line without its end
	if err := os.WriteFile(filepath.Join(dir, managersFile), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for how, p := range map[string]*Loopback{"in memory": inMemory, "in a file": inFile} {
		for name, tc := range map[string]struct {
			place relay.Place
			user  relay.UserID
			want  bool
		}{
			"a chat":                            {relay.Place{Chat: "garden"}, "ann", true},
			"a chat, by somebody else":          {relay.Place{Chat: "garden"}, "bob", false},
			"another chat":                      {relay.Place{Chat: "yard"}, "ann", false},
			"a chat in a scope":                 {relay.Place{Scope: "park", Chat: "park/pond"}, "bob", true},
			"its neighbour":                     {relay.Place{Scope: "park", Chat: "park/bench"}, "bob", false},
			"its scope":                         {relay.Place{Scope: "park"}, "bob", false},
			"the chat, said to stand elsewhere": {relay.Place{Scope: "yard", Chat: "park/pond"}, "bob", false},
			"a scope":                           {relay.Place{Scope: "park"}, "cat", true},
			"a chat of one's scope":             {relay.Place{Scope: "park", Chat: "park/bench"}, "cat", true},
			"a chat outside of it":              {relay.Place{Chat: "garden"}, "cat", false},
			"another scope":                     {relay.Place{Scope: "yard"}, "cat", false},
			"one's direct messages":             {relay.Place{Chat: "@dan"}, "dan", false},
			"nothing":                           {relay.Place{}, "cat", false},
		} {
			t.Run(how+", "+name, func(t *testing.T) {
				if got, err := p.CanManage(t.Context(), tc.place, tc.user); got != tc.want || err != nil {
					t.Errorf("CanManage = %t, %v; want %t", got, err, tc.want)
				}
			})
		}
	}
}

func TestManagersFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	place := relay.Place{Chat: "garden"}
	if got, err := p.CanManage(t.Context(), place, "ann"); got || err != nil {
		t.Errorf("without the file: %t, %v; want no", got, err)
	}
	if err := os.Mkdir(filepath.Join(dir, managersFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := p.CanManage(t.Context(), place, "ann"); got || err == nil {
		t.Errorf("with a folder in its place: %t, %v; want an error", got, err)
	}
}

func TestLocate(t *testing.T) {
	p := NewLoopback(NewNetwork(), nil)
	for chat, want := range map[relay.ChatID]relay.Place{
		"garden":      {Platform: LoopbackID, Chat: "garden"},
		"park/garden": {Platform: LoopbackID, Scope: "park", Chat: "park/garden"},
		"@ann":        {Platform: LoopbackID, Chat: "@ann"},
	} {
		if got, err := p.Locate(t.Context(), chat); got != want || err != nil {
			t.Errorf("Locate(%q) = %+v, %v; want %+v", chat, got, err, want)
		}
	}
	if _, err := p.Locate(t.Context(), ""); err == nil {
		t.Error("no chat is located somewhere")
	}
}
