// Package help holds the help topics: one markdown file each, which is read here, on the project's page and in a terminal.
//
// A terminal shows a topic as it stands in its file. So its lines have 80 characters at most, but for code and tables; lists stand where a
// table would not fit; a link to another topic is [words](TOPIC.md), and a link to a file of the project is an address.
//
// Invariant: a topic is text of ours. What people or networks named never passes through this package.
package help

import (
	"embed"
	"strings"
)

//go:embed *.md
var files embed.FS

// Topic is one topic's name, as `hermes-connector help NAME` takes it, and its title.
type Topic struct{ Name, Title string }

// Topics are all topics, by name.
func Topics() []Topic {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // an embedded folder can always be read
	}
	all := make([]Topic, 0, len(entries))
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".md")
		text, _ := Text(name)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		all = append(all, Topic{name, title})
	}
	return all
}

// Text is the topic as markdown; false: there is none of that name.
func Text(name string) (string, bool) {
	if strings.ContainsAny(name, "/.") { // a name, not a path
		return "", false
	}
	b, err := files.ReadFile(name + ".md")
	return string(b), err == nil
}
