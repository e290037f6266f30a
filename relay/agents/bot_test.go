package agents

import (
	"context"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

type unasked = Replies

// counted is a database that knows every receipt, and notes what is kept at once.
type counted struct {
	unasked
	kept [][]callers.Reply
}

func (k *counted) Receipt(_ context.Context, caller string, ev relay.EventID) (relay.Receipt, bool, error) {
	return relay.Receipt{Event: ev, Caller: caller, Agent: "home", Session: mainSession}, true, nil
}

func (k *counted) Keep(_ context.Context, all []callers.Reply) (int, error) {
	for i := range all {
		all[i].Number = uint64(i + 1)
	}
	k.kept = append(k.kept, all)
	return 0, nil
}

// TestAnAnswerIsKeptAtOnce: all parts of it, for all that it answers; only the last part is final.
func TestAnAnswerIsKeptAtOnce(t *testing.T) {
	k := new(counted)
	b := NewBot(k, func(count.Counter) {}, nil)
	chat := relay.Program{Caller: "cron", Agent: "home"}.Chat(mainSession)
	for _, ev := range []relay.EventID{"e1", "e2"} {
		b.Pushed("home", store.About{ID: ev, Bot: relay.ProgramBot(), Chat: chat})
	}
	res, err := b.Send(t.Context(), relay.Send{Chat: chat, Content: strings.Repeat("x", maxReply+1), Meta: relay.Metadata{Notify: true}})
	if err != nil || len(k.kept) != 1 || len(k.kept[0]) != 4 {
		t.Fatalf("%v; kept %d times, want once, four replies", err, len(k.kept))
	}
	for i, r := range k.kept[0] {
		if want := relay.EventID([]string{"e1", "e2"}[i%2]); r.Event != want || r.Final != (i > 1) || len(r.Content) != []int{maxReply, 1}[i/2] {
			t.Errorf("reply %d is to %s, %d characters, final: %t", i, r.Event, len(r.Content), r.Final)
		}
	}
	if len(res.MessageIDs) != 2 || res.MessageIDs[0] != "reply-2" || res.MessageID != "reply-4" {
		t.Errorf("the messages are %v, the last %s", res.MessageIDs, res.MessageID)
	}
}
