package hub

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestOldIdInMidTurn: a group becomes a supergroup while an agent works on its
// answer, and all it knows is the old id.
func TestOldIdInMidTurn(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.enroll("eve", "eve")
	for _, c := range []relay.ChatID{"old", "middle", "new"} { // one chat, with the same people
		r.net.Join(c, "ann")
	}
	home, eve := r.dial("home"), r.dial("eve")
	r.say(local.Message{User: "ann", Chat: "old", Text: "hello"})
	if in := home.inbound(); in.Event.Source.ChatID != "old" {
		t.Fatalf("inbound = %+v", in)
	}
	in := r.hub.in.Inbox(r.bot)
	for _, m := range []platforms.Move{{From: "old", To: "middle"}, {From: "middle", To: "new"}} {
		must.Succeed(t, in.Accept(t.Context(), platforms.Batch{Moves: []platforms.Move{m}}))
	}

	sent := home.do(relay.Request{Action: relay.Send{Chat: "old", Content: "an answer", ReplyTo: "m1"}})
	act, err := r.net.Act(t.Context(), 0)
	if err != nil || act.Chat != "new" || act.ReplyTo != "" || sent.Err != nil || sent.Result.MovedTo != "new" || sent.Result.MessageID != act.Message {
		t.Fatalf("act = %+v, %v, result = %+v; want it in the new chat, and the gateway told", act, err, sent)
	}
	edited := home.do(relay.Request{Action: relay.Edit{Chat: "middle", Message: act.Message, Content: "a better one"}})
	if act, err = r.net.Act(t.Context(), 1); err != nil || act.Chat != "new" || edited.Err != nil || edited.Result.MovedTo != "new" {
		t.Errorf("act = %+v, %v, result = %+v; want the edit in the new chat", act, err, edited)
	}
	info := home.do(relay.Request{Action: relay.GetChatInfo{Chat: "old"}})
	if info.Err != nil || info.Result.MovedTo != "new" || info.Result.ChatInfo == nil {
		t.Errorf("chat info = %+v; want it, with the new id", info)
	}
	if res := home.do(send("new", "by its own name")); res.Err != nil || res.Result.MovedTo != "" {
		t.Errorf("result = %+v; want no id but for news", res)
	}

	if res := home.do(relay.Request{Action: relay.React{Chat: "old", Message: "m1", Emoji: "👍"}}); res.Err == nil || res.Err.Public != "Bad Request: message to react not found" {
		t.Errorf("a reaction to what was said under the old id = %+v; want it refused", res)
	}

	must.Succeed(t, r.db.MoveChat(t.Context(), store.Move{Platform: local.LoopbackID, From: "new", To: "newest"}))
	r.net.Join("newest", "ann")
	for _, a := range []relay.Action{
		relay.Edit{Chat: "new", Message: act.Message, Content: "too late"}, relay.Delete{Chat: "new", Message: act.Message},
	} { // what it said there stayed behind, which is no decline
		if res := home.do(relay.Request{Action: a}); res.Err == nil || res.Err.Public != "Bad Request: message to "+string(a.Op())+" not found" {
			t.Errorf("%s of what was said under the old id = %+v; want it refused", a.Op(), res)
		}
	}
	if res := home.do(relay.Request{Action: relay.Delete{Chat: "new", Message: "another's"}}); res.Err == nil || res.Err.Code != relay.CodeEgressDeclined {
		t.Errorf("deleting another's message = %+v; want a decline", res)
	}

	foreign, none := eve.do(send("old", "x")), eve.do(send("elsewhere", "x"))
	if foreign.Err == nil || none.Err == nil || foreign.Err.Error() != none.Err.Error() || foreign.Err.Code != relay.CodeEgressDeclined {
		t.Errorf("a stranger's results are %+v and %+v; want the same decline", foreign.Err, none.Err)
	}
}

// TestBotOfAMovedChat: a frame that names no platform goes to the bot that the instance knows the chat on.
func TestBotOfAMovedChat(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	r.claim("home", "old")
	must.Succeed(t, r.db.MoveChat(t.Context(), store.Move{Platform: local.LoopbackID, From: "old", To: "new"}))
	g := r.dial("home")
	if res := g.do(send("old", "x")); res.Err != nil || res.Result.MovedTo != "new" {
		t.Errorf("result = %+v", res)
	}
	must.Succeed(t, r.db.Release(t.Context(), nil, "home", local.LoopbackID, "", "new"))
	if res := g.do(send("old", "x")); res.Err == nil || res.Err.Code != relay.CodeEgressDeclined {
		t.Errorf("after the grant is gone: %+v, want a decline", res)
	}
}
