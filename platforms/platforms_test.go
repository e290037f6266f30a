package platforms_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// plain has no ability but Send.
type plain struct{ platforms.Bot }

func (plain) Descriptor() relay.Descriptor {
	return relay.Descriptor{Platform: "plain", SupportsEdit: true, SupportsDraftStreaming: true, SupportedOps: []relay.Op{"lie"}}
}

func (plain) Send(_ context.Context, a relay.Send) (relay.Result, error) {
	return relay.Result{MessageID: relay.MessageID(a.Content)}, nil
}

// able has every ability; each answers with its own name.
type able struct{ plain }

func did(op relay.Op) (relay.Result, error) { return relay.Result{MessageID: relay.MessageID(op)}, nil }

func (able) Edit(context.Context, relay.Edit) (relay.Result, error)     { return did(relay.OpEdit) }
func (able) Typing(context.Context, relay.Typing) (relay.Result, error) { return did(relay.OpTyping) }
func (able) React(context.Context, relay.React) (relay.Result, error)   { return did(relay.OpReact) }
func (able) Reaction(relay.React) relay.Reaction                        { return relay.Reaction{} }
func (able) Delete(context.Context, relay.Delete) (relay.Result, error) { return did(relay.OpDelete) }
func (able) ChatInfo(context.Context, relay.GetChatInfo) (relay.Result, error) {
	return did(relay.OpGetChatInfo)
}
func (able) CreateThread(context.Context, relay.ThreadCreate) (relay.Result, error) {
	return did(relay.OpThreadCreate)
}
func (able) RenameThread(context.Context, relay.ThreadRename) (relay.Result, error) {
	return did(relay.OpThreadRename)
}

// responding can do nothing but answer through capabilities.
type responding struct {
	plain
	platforms.Responder
}

// actions are one of each, in the order of Ops.
var actions = []relay.Action{
	relay.Send{Content: "send"}, relay.Edit{}, relay.Typing{}, relay.React{}, relay.Delete{}, relay.GetChatInfo{},
	relay.ThreadCreate{}, relay.ThreadRename{},
}

// unknown are actions for which there is no ability.
var unknown = []relay.Action{
	relay.SendMedia{}, relay.Prompt{}, relay.Draft{},
	relay.UnknownAction{Name: "dance"},
}

func TestAnAbilityIsAdvertisedExactlyWhenItWorks(t *testing.T) {
	var all []relay.Op
	for _, a := range actions {
		all = append(all, a.Op())
		res, err := platforms.Do(t.Context(), able{}, a)
		if err != nil || res.MessageID != relay.MessageID(a.Op()) {
			t.Errorf("%s went to %q, %v", a.Op(), res.MessageID, err)
		}
	}
	if diff := cmp.Diff(all, platforms.Ops(able{})); diff != "" {
		t.Errorf("ops of a platform with every ability (-want +got):\n%s", diff)
	}
	for _, a := range unknown {
		if _, err := platforms.Do(t.Context(), able{}, a); relay.Explain(err).Public != "unsupported op "+string(a.Op()) {
			t.Errorf("%s of a platform with every ability = %v, want unsupported", a.Op(), err)
		}
	}
	if diff := cmp.Diff([]relay.Op{relay.OpSend}, platforms.Ops(plain{})); diff != "" {
		t.Errorf("ops of a platform with none (-want +got):\n%s", diff)
	}
	for _, a := range slices.Concat(actions[1:], unknown, []relay.Action{relay.FollowUp{}}) {
		_, err := platforms.Do(t.Context(), plain{}, a)
		ae, ok := errors.AsType[*relay.ActionError](err)
		if !ok || ae.Outcome != relay.NotSent || ae.Public != "unsupported op "+string(a.Op()) {
			t.Errorf("%s without the ability = %v, want unsupported, not sent", a.Op(), err)
		}
	}
}

func TestDescribeBelievesAbilitiesAndNothingElse(t *testing.T) {
	d := platforms.Describe(plain{})
	if d.SupportsEdit || d.SupportsDraftStreaming || len(d.SupportedOps) != 1 {
		t.Errorf("Describe(plain) = %+v: it claims what it lacks", d)
	}
	if got, want := platforms.Ops(responding{}), []relay.Op{relay.OpSend, relay.OpFollowUp}; !slices.Equal(got, want) {
		t.Errorf("ops of a platform that answers through capabilities are %q, want %q", got, want)
	}
	if _, err := platforms.Do(t.Context(), responding{}, relay.FollowUp{}); relay.Explain(err).Outcome != relay.NotSent {
		t.Errorf("a follow-up that went past the hub: %v, want it not sent", err)
	}
	d = platforms.Describe(able{})
	if !d.SupportsEdit || d.SupportsDraftStreaming || len(d.SupportedOps) != len(actions) {
		t.Errorf("Describe(able) = %+v: it hides what it has, or claims what it lacks", d)
	}
}
