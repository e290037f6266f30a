package signal

// received is the part of a stream event that matters.
type received struct {
	Account   string    `json:"account"`
	Envelope  *envelope `json:"envelope"`
	Exception *struct {
		Type string `json:"type"`
	} `json:"exception"`
}

// envelope is a message from somebody's device.
type envelope struct {
	Number string       `json:"sourceNumber"` // empty: not shown
	UUID   string       `json:"sourceUuid"`
	Name   string       `json:"sourceName"`
	Data   *dataMessage `json:"dataMessage"`
	Sync   *struct {
		Sent *sentMessage `json:"sentMessage"`
	} `json:"syncMessage"`
}

// sentMessage is a message that the account's owner wrote with another device.
type sentMessage struct {
	Number string `json:"destinationNumber"`
	UUID   string `json:"destinationUuid"`
	dataMessage
}

// dataMessage is a message. It has no field for edits, because edits do not become events.
type dataMessage struct {
	Timestamp   int64        `json:"timestamp"` // in milliseconds, by its author's clock
	Text        string       `json:"message"`
	Mentions    []mention    `json:"mentions"`
	Quote       *quote       `json:"quote"`
	Attachments []attachment `json:"attachments"`
	Sticker     *struct {
		Pack string `json:"packId"`
		ID   int    `json:"stickerId"`
	} `json:"sticker"`
	Contacts []struct {
		Name struct {
			Given  string `json:"given"`
			Family string `json:"family"`
		} `json:"name"`
		Phones []struct {
			Value string `json:"value"`
		} `json:"phone"`
	} `json:"contacts"`
	Group *struct {
		ID   string `json:"groupId"`
		Name string `json:"groupName"`
		Type string `json:"type"` // UPDATE: of the group itself
	} `json:"groupInfo"`
}

// mention stands in a text for Length UTF-16 units from Start on.
type mention struct {
	Number string `json:"number"`
	UUID   string `json:"uuid"`
	Start  int    `json:"start"`
	Length int    `json:"length"`
}

// quote is the message to which another one replies.
type quote struct {
	ID       int64     `json:"id"` // when it was written
	Number   string    `json:"authorNumber"`
	UUID     string    `json:"authorUuid"`
	Text     string    `json:"text"`
	Mentions []mention `json:"mentions"`
}

// attachment is a file that the daemon holds.
type attachment struct {
	Type string `json:"contentType"`
	Name string `json:"filename"`
	ID   string `json:"id"`
	Size int64  `json:"size"`
}
