package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAimed(t *testing.T) {
	const was, is = ChatID("-5"), ChatID("-1005")
	for _, a := range []Action{
		Send{Chat: was, Content: "x", ReplyTo: "1"}, Edit{Chat: was, Message: "1", Content: "x"}, Typing{Chat: was},
		React{Chat: was, Message: "1", Emoji: "x", Remove: true}, Delete{Chat: was, Message: "1"}, GetChatInfo{Chat: was},
		SendMedia{Chat: was, Kind: "image", SourceURL: "u"}, Prompt{Chat: was, PromptID: "p", Options: []PromptOption{{ID: "o"}}},
		ThreadCreate{Chat: was, Name: "n"}, ThreadRename{Chat: was, Thread: "t", Name: "n"}, Draft{Chat: was, DraftID: 1, Final: true},
		UnknownAction{Name: "pin", Chat: was, Reason: "r"},
	} {
		got := a.Aimed(is)
		if got.Target() != is || got.Op() != a.Op() {
			t.Errorf("%s is aimed at %s as %s", a.Op(), got.Target(), got.Op())
		}
		if diff := cmp.Diff(a, got.Aimed(was)); diff != "" {
			t.Errorf("%s and back (-want +got):\n%s", a.Op(), diff)
		}
	}
	follow := FollowUp{Session: "s", Kind: "k", Content: "x"}
	if got := follow.Aimed(is); !cmp.Equal(got, Action(follow)) {
		t.Errorf("a follow-up is %+v", got)
	}
}
