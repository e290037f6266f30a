package relay

// Result is what an action that succeeded brought. An action that did not returns an error,
// usually an *ActionError.
type Result struct {
	// MessageID is the message made or changed: of a split send, the last part.
	MessageID MessageID
	// MessageIDs are all parts of a split send, in order; empty for a single one.
	MessageIDs []MessageID
	ThreadID   ThreadID
	// AutoThreadName is set with ThreadID when the platform folder made a thread for a send.
	AutoThreadName string
	ChatInfo       *ChatInfo
	// MovedTo is set when the platform said that the chat now has another id. The action was
	// carried out there; what is stored about the old id must follow.
	MovedTo ChatID
}

// ChatInfo is the answer to GetChatInfo.
type ChatInfo struct {
	Name string
	Type ChatType
}
