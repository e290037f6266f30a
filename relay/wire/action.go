package wire

import "github.com/hermes-connector/hermes-connector/relay"

// decodeAction reads the action of an outbound frame; o is nil if there is none. An unusable action comes back as a
// relay.UnknownAction that says why.
func decodeAction(o object) relay.Action {
	unknown := relay.UnknownAction{Name: relay.Op(o.id("op")), Chat: relay.ChatID(o.id("chat_id"))}
	switch {
	case o == nil:
		unknown.Reason = "action is missing or not an object"
		return unknown
	case unknown.Name == "":
		unknown.Reason = "op is missing or not text"
		return unknown
	}
	f := &form{object: o}
	a := f.action(unknown.Name)
	if a == nil || f.fault != "" {
		unknown.Reason = f.fault
		return unknown
	}
	return a
}

// action reads the action of that op; nil: this connector does not know the op. The form's fault says what does not
// fit.
func (f *form) action(op relay.Op) relay.Action {
	meta := decodeMetadata(f.sub("metadata"))
	chat := func() relay.ChatID { return relay.ChatID(f.need("chat_id")) }
	message := func() relay.MessageID { return relay.MessageID(f.need("message_id")) }
	replyTo := relay.MessageID(f.id("reply_to"))
	switch op {
	case relay.OpSend:
		return relay.Send{Chat: chat(), Content: f.prose("content"), ReplyTo: replyTo, Meta: meta}
	case relay.OpEdit:
		return relay.Edit{Chat: chat(), Message: message(), Content: f.prose("content"), Meta: meta}
	case relay.OpTyping:
		a := relay.Typing{Chat: chat(), Meta: meta}
		if s, ok := f.text("content"); ok {
			a.Phrase = &s
		}
		return a
	case relay.OpReact:
		return relay.React{
			Chat: chat(), Message: message(), Emoji: f.title("emoji"), Remove: f.choice("remove"), Meta: meta,
		}
	case relay.OpDelete:
		return relay.Delete{Chat: chat(), Message: message(), Meta: meta}
	case relay.OpGetChatInfo:
		return relay.GetChatInfo{Chat: chat(), Meta: meta}
	case relay.OpFollowUp:
		return relay.FollowUp{
			Session: relay.SessionKey(f.id("session_key")), Kind: f.id("kind"), // if empty, declined like unknown ones
			Content: f.prose("content"), Meta: meta,
		}
	case relay.OpSendMedia:
		return relay.SendMedia{
			Chat: chat(), Kind: f.words("media_kind"), SourceURL: f.title("source_url"),
			Caption: f.words("content"), Filename: f.words("filename"), ReplyTo: replyTo, Meta: meta,
		}
	case relay.OpPrompt:
		return relay.Prompt{
			Chat: chat(), Content: f.prose("content"), Kind: f.words("prompt_kind"),
			PromptID: f.id("prompt_id"), Options: f.options(), ReplyTo: replyTo,
			TimeoutS: f.seconds("timeout_s"), Meta: meta,
		}
	case relay.OpThreadCreate:
		return relay.ThreadCreate{
			Chat: chat(), Name: f.title("thread_name"), Anchor: relay.MessageID(f.id("message_id")),
			SeedText: f.words("seed_text"), Meta: meta,
		}
	case relay.OpThreadRename:
		created := f.choice("only_if_connector_created")
		return relay.ThreadRename{
			Chat: chat(), Thread: relay.ThreadID(message()), Name: f.title("thread_name"),
			OnlyIfConnectorCreated: created, OnlyIfCurrentName: f.currentName(created), Meta: meta,
		}
	case relay.OpDraft:
		return relay.Draft{
			Chat: chat(), DraftID: f.count("draft_id"), Content: f.prose("content"),
			Final: f.choice("final"), Meta: meta,
		}
	default:
		return nil
	}
}

// encodeAction writes an action as the newest gateways do. A nil action has no members.
func encodeAction(a relay.Action) members {
	if a == nil {
		return members{}
	}
	m := members{"op": a.Op()}
	set(m, "chat_id", a.Target())
	var meta relay.Metadata
	switch a := a.(type) {
	case relay.UnknownAction:
		return m
	case relay.Send:
		m["content"], m["reply_to"], meta = a.Content, orNull(a.ReplyTo), a.Meta
	case relay.Edit:
		m["message_id"], m["content"], meta = a.Message, a.Content, a.Meta
	case relay.Typing:
		set(m, "content", a.Phrase)
		meta = a.Meta
	case relay.React:
		m["message_id"], m["emoji"], m["remove"], meta = a.Message, a.Emoji, a.Remove, a.Meta
	case relay.Delete:
		m["message_id"], meta = a.Message, a.Meta
	case relay.GetChatInfo:
		meta = a.Meta
	case relay.FollowUp:
		m["session_key"], m["kind"], m["content"], meta = a.Session, a.Kind, a.Content, a.Meta
	case relay.SendMedia:
		m["media_kind"], m["source_url"], m["content"] = a.Kind, a.SourceURL, a.Caption
		m["reply_to"], meta = orNull(a.ReplyTo), a.Meta
		set(m, "filename", a.Filename)
	case relay.Prompt:
		m["content"], m["prompt_kind"], m["prompt_id"] = a.Content, a.Kind, a.PromptID
		m["options"], m["reply_to"], meta = encodeOptions(a.Options), orNull(a.ReplyTo), a.Meta
		set(m, "timeout_s", a.TimeoutS)
	case relay.ThreadCreate:
		m["thread_name"], meta = a.Name, a.Meta
		set(m, "message_id", a.Anchor)
		set(m, "seed_text", a.SeedText)
	case relay.ThreadRename:
		m["message_id"], m["thread_name"], meta = a.Thread, a.Name, a.Meta
		set(m, "only_if_connector_created", a.OnlyIfConnectorCreated)
		set(m, "only_if_current_name", a.OnlyIfCurrentName)
	case relay.Draft:
		m["draft_id"], m["content"], m["final"], meta = a.DraftID, a.Content, a.Final, a.Meta
	}
	m["metadata"] = encodeMetadata(meta)
	return m
}

func encodeOptions(options []relay.PromptOption) []members {
	out := []members{}
	for _, o := range options {
		m := members{"id": o.ID, "label": o.Label}
		set(m, "style", o.Style)
		out = append(out, m)
	}
	return out
}
