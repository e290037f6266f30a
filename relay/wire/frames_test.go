package wire_test

import (
	"encoding/json"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func gatewayFrames() map[string][]wire.Frame {
	return map[string][]wire.Frame{
		"gateway.hello.jsonl": {
			wire.Hello{Platform: "discord", BotID: "112233445566778899", Manifest: []json.RawMessage{
				json.RawMessage(`{"name":"new","description":"Start <over> & again"}`),
				json.RawMessage(`{"name":"model","description":"Choose a model","options":[{"type":3,"name":"name","description":"Which","required":false}]}`),
			}},
			wire.Hello{Platform: "telegram", BotID: "4242"},
			wire.Hello{Platform: relay.RelayPlatform},
			wire.Hello{Platform: "discord", Manifest: []json.RawMessage{}}, // which is not none
			wire.Hello{Platform: "telegram", BotID: "4242", OneByOne: true},
		},
		"gateway.interrupt.jsonl": {
			wire.Interrupt{Session: "agent:main:telegram:dm:4242", Reason: new("the person asked")},
			wire.Interrupt{Session: "agent:main:discord:group:C1:u1"},
		},
		"gateway.going_idle.jsonl":  {wire.GoingIdle{}},
		"gateway.inbound_ack.jsonl": {wire.InboundAck{Buffer: "9f3c0000000000aa-17"}},
		"gateway.outbound.jsonl":    outboundFrames(),
	}
}

// metadata has every hint set.
func metadata() relay.Metadata {
	return relay.Metadata{
		Scope: "900100", UserID: "77", ThreadID: "12", Notify: true,
		NonConversational: true, ReplyToMessageID: "501", DMTopicReplyFallback: true,
		DMTopicID: "33", TelegramReplyTo: "502",
	}
}

func outboundFrames() []wire.Frame {
	meta := metadata()
	var frames []wire.Frame
	for _, a := range []relay.Action{
		relay.Send{Chat: "-100500", Content: "**Hi** <b> & \"you\"\nsecond line \U0001F600", ReplyTo: "501", Meta: meta},
		relay.Send{Chat: "4242", Content: "hi"},
		relay.Edit{Chat: "4242", Message: "601", Content: "hi ▉", Meta: relay.Metadata{Notify: true}},
		relay.Edit{Chat: "4242", Message: "601"},
		relay.Typing{Chat: "C0", Phrase: new("is thinking"), Meta: relay.Metadata{ThreadID: "T0"}},
		relay.Typing{Chat: "C0", Phrase: new("")},
		relay.Typing{Chat: "4242"},
		relay.React{Chat: "4242", Message: "501", Emoji: "👀", Remove: true, Meta: relay.Metadata{UserID: "77"}},
		relay.React{Chat: "4242", Message: "501", Emoji: "✅"},
		relay.Delete{Chat: "4242", Message: "601", Meta: relay.Metadata{Scope: "900100"}},
		relay.Delete{Chat: "4242", Message: "601"},
		relay.GetChatInfo{Chat: "-100500", Meta: relay.Metadata{Scope: "T0"}},
		relay.GetChatInfo{Chat: "-100500"},
		relay.FollowUp{
			Session: "agent:main:discord:group:C1:u1", Kind: "discord.interaction_token", Content: "done",
			Meta: relay.Metadata{Scope: "T0"},
		},
		relay.FollowUp{Session: "agent:main:discord:dm:D1", Kind: "discord.interaction_token"},
		relay.SendMedia{
			Chat: "4242", Kind: "document", SourceURL: "https://relay.example.net/relay/media/0123?x=1&y=2",
			Caption: "the report", Filename: "report.pdf", ReplyTo: "501", Meta: relay.Metadata{Notify: true},
		},
		relay.SendMedia{Chat: "4242", Kind: "image", SourceURL: "https://example.org/cat.png"},
		relay.Prompt{
			Chat: "4242", Content: "Run `rm -r build`?", Kind: "approval", PromptID: "a1b2c3.00112233",
			Options: []relay.PromptOption{
				{ID: "once", Label: "Approve once", Style: "primary"}, {ID: "deny", Label: "Deny", Style: "danger"},
			},
			ReplyTo: "501", TimeoutS: 3600.5, Meta: relay.Metadata{UserID: "77"},
		},
		relay.Prompt{
			Chat: "4242", Kind: "clarify", PromptID: "a1b2c3.00112234",
			Options: []relay.PromptOption{{ID: "c0", Label: "Yes"}},
		},
		relay.ThreadCreate{Chat: "C1", Name: "Plans", Anchor: "501", SeedText: "as we said", Meta: relay.Metadata{Scope: "900100"}},
		relay.ThreadCreate{Chat: "C1", Name: "Plans"},
		relay.ThreadRename{Chat: "C1", Thread: "T9", Name: "Better plans", OnlyIfConnectorCreated: true},
		relay.ThreadRename{Chat: "C1", Thread: "T9", Name: "Better plans", OnlyIfCurrentName: new("Plans")},
		relay.ThreadRename{Chat: "T9", Thread: "T9", Name: "Better plans"},
		relay.Draft{Chat: "4242", DraftID: 9007199254740993, Content: "so far", Final: true, Meta: relay.Metadata{ReplyToMessageID: "501"}},
		relay.Draft{Chat: "4242", DraftID: 1},
		relay.UnknownAction{Name: "pin", Chat: "4242"},
	} {
		frames = append(frames, wire.Outbound{Request: relay.Request{ID: "00112233445566778899aabbccddeeff", Action: a}})
	}
	first := frames[0].(wire.Outbound)
	first.Platform, first.Bot = "telegram", "4242"
	frames[0] = first
	return frames
}

func connectorFrames() map[string][]wire.Frame {
	return map[string][]wire.Frame{
		"connector.descriptor.jsonl": {
			wire.Descriptor{Descriptor: relay.Descriptor{
				Platform: "telegram", Label: "Telegram", MaxMessageLength: 4096, LenUnit: relay.LenUTF16,
				MarkdownDialect: "markdown_v2", SupportsDraftStreaming: true, SupportsEdit: true,
				SupportsThreads: true, Emoji: "✈️", PlatformHint: "a hint", PIISafe: true, SupportsContext: true,
				SupportedOps:                 []relay.Op{relay.OpSend, relay.OpEdit, relay.OpTyping},
				SupportsInchannelContinuable: true, SupportsBlockFormatting: true,
			}},
			wire.Descriptor{Descriptor: relay.Bare("matrix")},
		},
		"connector.inbound.jsonl":           {wire.Inbound{Event: richEvent(), Buffer: "9f3c0000000000aa-17"}, wire.Inbound{Event: plainEvent()}},
		"connector.outbound_result.jsonl":   resultFrames(),
		"connector.interrupt_inbound.jsonl": {wire.InterruptInbound{Session: "agent:main:telegram:dm:4242", Chat: "4242"}},
		"connector.going_idle_ack.jsonl":    {wire.GoingIdleAck{}},
		"connector.passthrough_forward.jsonl": {
			wire.PassthroughForward{Forward: richForward(), Buffer: "9f3c0000000000aa-18"},
			wire.PassthroughForward{Forward: relay.Forward{
				Event: relay.Event{Bot: relay.Bot{Platform: "discord"}}, Method: "POST", Path: "/",
			}},
		},
	}
}

// richEvent has every field set, those that must not travel too.
func richEvent() relay.Event {
	return relay.Event{
		ID: "update:991", Bot: relay.Bot{Platform: "telegram", ID: "4242"}, At: time.Unix(1767225600, 0),
		Source: relay.Source{
			Platform: "telegram", ChatID: "-100500", ChatType: relay.ChatGroup, ChatName: "Pond <club>",
			ChatTopic: "Ducks & geese", UserID: "77", UserName: "Ann Other", UserDisplayName: "Ann Other",
			UserHandle: "ann", ThreadID: "12", UserIDAlt: "uuid-77", ChatIDAlt: "alt-500", Scope: "900100",
			ParentChatID: "-100400", MessageID: "501", Profile: "coder", AutoThreadCreated: true,
			AutoThreadInitialName: "Ducks",
		},
		Type: relay.TypePhoto, Text: "look \U0001F986\u2028at <this> & that", MessageID: "501", ReplyToMessageID: "499",
		ReplyTo: &relay.Quote{Text: "show me", Author: "Bot", IsOwn: true},
		Context: []relay.ContextLine{
			{UserID: "78", UserName: "Ben", Text: "a duck!"}, {UserName: "Cy", Text: "where?"}, {UserID: "79", Text: ""},
		},
		ContextError: true,
		Prompt:       &relay.PromptResponse{PromptID: "a1b2c3.00112233", OptionID: "once", Label: "Approve once", PromptMessageID: "600"},
		Options:      []relay.Option{{Name: "a", Value: "7"}, {Name: "b", Value: "35"}},
		Media: []relay.Media{
			{URL: "https://relay.example.net/relay/media/0123", Mime: "image/jpeg", Kind: "photo", Size: 123456, Filename: "duck.jpg", Caption: "a duck"},
			{URL: "https://example.org/a?b=1&c=2"},
		},
		Traits: relay.Traits{AuthorIsBot: true, Own: true, Addressed: true, OtherCommand: true},
	}
}

// plainEvent is a direct message with nothing special about it.
func plainEvent() relay.Event {
	return relay.Event{
		ID: "update:992", Bot: relay.Bot{Platform: "telegram", ID: "4242"}, At: time.Unix(1767225601, 0),
		Source: relay.Source{Platform: "telegram", ChatID: "4243", ChatType: relay.ChatDM},
		Type:   relay.TypeText, Text: "hi", MessageID: "502",
	}
}

func resultFrames() []wire.Frame {
	const id = "00112233445566778899aabbccddeeff"
	return []wire.Frame{
		wire.OutboundResult{ID: id, Result: relay.Result{
			MessageID: "603", MessageIDs: []relay.MessageID{"601", "602", "603"}, ThreadID: "T9", AutoThreadName: "Ducks",
			MovedTo: "-100501",
		}},
		wire.OutboundResult{ID: id},
		wire.OutboundResult{ID: id, Result: relay.Result{MessageID: "q:7.a1b2c3", Queued: true}},
		wire.OutboundResult{ID: id, Op: relay.OpGetChatInfo, Result: relay.Result{
			ChatInfo: &relay.ChatInfo{Name: "Pond <club>", Type: relay.ChatGroup},
		}},
		wire.OutboundResult{ID: id, Err: &relay.ActionError{
			Public: "timed out: the outcome is unknown", MessageIDs: []relay.MessageID{"601", "602"},
			RetryAfter: 1500 * time.Millisecond,
		}},
		wire.OutboundResult{ID: id, Err: &relay.ActionError{
			Outcome: relay.NotSent, Public: "network: Flood control exceeded. Retry in 30 seconds", RetryAfter: 30 * time.Second,
		}},
		wire.OutboundResult{ID: id, Err: relay.Declined("telegram")},
		wire.OutboundResult{ID: id, Err: relay.Unsupported(relay.OpDraft)},
		wire.OutboundResult{ID: id, Err: relay.Invalid(relay.OpSend, "content is missing or not text")},
	}
}

func richForward() relay.Forward {
	return relay.Forward{
		Event:  relay.Event{Bot: relay.Bot{Platform: "discord", ID: "112233445566778899"}},
		Method: "POST", Path: "/webhooks/discord/112233445566778899",
		Headers: [][2]string{{"Content-Type", "application/json"}, {"X-Twice", "1"}, {"X-Twice", "2"}},
		Body:    []byte("{\"type\":2}\n\x00\xff"), Profile: "coder",
	}
}
