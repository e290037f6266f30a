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
	// MovedTo is the id the chat has now, when that is not the one the action named. The action was
	// carried out there. From a platform it is news: what is stored about the old id must follow.
	MovedTo ChatID
	// Queued: it is on disk, and will be sent; MessageID names it until then, and for a day after that.
	Queued bool
}

// ChatInfo is the answer to GetChatInfo.
type ChatInfo struct {
	Name string
	Type ChatType
}
