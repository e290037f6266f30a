package telegram

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
)

// TestTheListOfCommandsIsShownOnce: what others set for direct messages and what BotFather was told stays, and a list that
// is right is not set again.
func TestTheListOfCommandsIsShownOnce(t *testing.T) {
	f := newFake()
	p := openFake(t, f)
	news := botCommand{"new", "Begin anew"}
	lists := func(direct ...botCommand) func(url.Values) any {
		return func(v url.Values) any {
			if v.Get("scope") == "" {
				return []botCommand{news}
			}
			return append([]botCommand{}, direct...)
		}
	}
	f.answer("getMyCommands", lists(botCommand{"agent", "somebody else's"}))
	f.answer("setMyCommands", func(url.Values) any { return true })
	if err := (menu{p.client, p.log}).show(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := append([]botCommand{news}, ownCommands...)
	calls := f.callsTo("setMyCommands")
	if len(calls) != 1 || calls[0].Get("scope") != `{"type":"all_private_chats"}` {
		t.Fatalf("setMyCommands: %+v, want one for direct messages", calls)
	}
	var set []botCommand
	if err := json.Unmarshal([]byte(calls[0].Get("commands")), &set); err != nil || !slices.Equal(set, want) {
		t.Errorf("set %+v, %v; want %+v", set, err, want)
	}
	f.answer("getMyCommands", lists(want...))
	if err := (menu{p.client, p.log}).show(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(f.callsTo("setMyCommands")); n != 1 {
		t.Errorf("the list was set %d times, want once", n)
	}
}
