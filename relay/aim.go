package relay

import "reflect"

// Aimed is a with another chat as its target. A FollowUp, which has none, stays as it is.
func Aimed(a Action, chat ChatID) Action {
	out := reflect.New(reflect.TypeOf(a)).Elem()
	out.Set(reflect.ValueOf(a))
	if c := out.FieldByName("Chat"); c.IsValid() {
		c.Set(reflect.ValueOf(chat))
	}
	return out.Interface().(Action)
}

// MetaOf is what a says beside the action. An UnknownAction says nothing.
func MetaOf(a Action) Metadata {
	if m := reflect.ValueOf(a).FieldByName("Meta"); m.IsValid() {
		return m.Interface().(Metadata)
	}
	return Metadata{}
}

// ThreadOf is the thread that a's metadata names; empty for actions on a chat as such, which name the
// thread themselves, and for a FollowUp, which is about a session.
func ThreadOf(a Action) ThreadID {
	switch a.(type) {
	case GetChatInfo, ThreadCreate, ThreadRename, FollowUp:
		return ""
	}
	return MetaOf(a).ThreadID
}
