package relay

// Result is the result of a successful action. A failed action returns an error, usually an *ActionError.
type Result struct {
	// MessageID is the message made or changed: of a split send, the last part.
	MessageID MessageID
	// MessageIDs are the ids of all parts of a split send, in order; empty for a single one.
	MessageIDs []MessageID
	ThreadID   ThreadID
	// AutoThreadName is set with ThreadID when the platform folder made a thread for a send.
	AutoThreadName string
	ChatInfo       *ChatInfo
	// MovedTo is the chat's present id, if the action named another one. The action was carried out there. From a
	// platform it is news: the records under the old id must follow.
	MovedTo ChatID
	// Queued: the message is on disk, and will be sent; MessageID names it until then, and for a day after that.
	Queued bool
}

// ChatInfo is the answer to GetChatInfo.
type ChatInfo struct {
	Name string
	Type ChatType
}
