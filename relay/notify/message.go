package notify

import (
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// maxLines is how many findings a message lists.
const maxLines = 10

// Message is a report to the operator.
type Message struct {
	Title string // one line of ASCII: it may stand in a header
	Text  string // lines
	Kind  Kind
	Items []Item // what Text says, for programs
}

// Kind is the subject of a message.
type Kind string

// The kinds, in the words that Apprise has for them.
const (
	Wrong Kind = "failure" // something is wrong
	Over  Kind = "success" // all its findings are over
	Trial Kind = "info"    // a test
)

// Item is one finding in a message.
type Item struct {
	Code  string `json:"code"`
	About string `json:"about,omitempty"`
	What  string `json:"what"`
	Why   string `json:"why,omitempty"`
	Fix   string `json:"fix,omitempty"`
	Over  bool   `json:"over"`
}

// testMessage is the message of `notify test`.
var testMessage = Message{
	Title: "hermes-connector: a test",
	Text:  "This is a test: when something breaks, you are told here.",
	Kind:  Trial, Items: []Item{},
}

// message puts news into words. last: no more messages may be sent for now.
func (n news) message(last bool) Message {
	m := Message{Kind: Wrong, Items: []Item{}}
	for _, f := range n.begun {
		m.Items = append(m.Items, Item{Code: f.Code, About: shown(f.About), What: shown(f.What), Why: f.Why, Fix: shown(f.Fix)})
	}
	for _, t := range n.over {
		m.Items = append(m.Items, Item{Code: t.Code, About: shown(t.About), What: shown(t.What), Over: true})
	}
	var paragraphs []string
	for _, i := range m.Items[:min(len(m.Items), maxLines)] {
		paragraphs = append(paragraphs, i.text())
	}
	if more := len(m.Items) - maxLines; more > 0 {
		paragraphs = append(paragraphs, strconv.Itoa(more)+" more: hermes-connector status")
	}
	if last {
		paragraphs = append(paragraphs, "That was the tenth message within 24 hours: more are held back. See hermes-connector status.")
	}
	m.Text = strings.Join(paragraphs, "\n\n")
	switch wrong, over := len(n.begun), len(n.over); {
	case wrong == 1:
		m.Title = "hermes-connector: something is wrong"
	case wrong > 1:
		m.Title = "hermes-connector: " + strconv.Itoa(wrong) + " things are wrong"
	case over == 1:
		m.Title, m.Kind = "hermes-connector: fixed", Over
	case over > 1:
		m.Title, m.Kind = "hermes-connector: "+strconv.Itoa(over)+" things are fixed", Over
	}
	return m
}

func (i Item) text() string {
	about := i.Code
	if i.About != "" {
		about += " " + i.About
	}
	if i.Over {
		return "Over: " + about + ": " + i.What
	}
	return about + ": " + i.What + "\n" + i.Why + "\nTo fix it: " + i.Fix
}

// shown returns the words of a finding, in one line, with this machine's clock.
func shown(words string) string { return relay.Shown(finding.Local(words)) }
