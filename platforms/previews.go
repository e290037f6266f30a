package platforms

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// keyPreviews is the setting that says which links a network may fetch.
const keyPreviews = "previews"

// Previews says for which links in a bot's messages its network may show a preview. For a preview the network fetches
// the link: if somebody makes an agent write a secret into an address on their server, the fetch brings them the secret
// without a click by anybody. The zero value allows none.
type Previews struct {
	all   bool
	hosts []string // in lower case; links to other hosts get no preview
}

// PreviewsKey returns the key of a network that makes previews unless it is told not to.
func PreviewsKey() Key {
	return Key{
		Name: keyPreviews, Default: "false", List: true,
		Check: func(v string) error { _, err := parsePreviews(v); return err },
		Help:  `whether links in an agent's messages show a preview, which the network fetches: false, true, or a list of hosts such as ["example.org"]`,
	}
}

// Previews returns the value of the key that PreviewsKey makes.
func (s Settings) Previews() Previews {
	p, _ := parsePreviews(s[keyPreviews]) // checked by Options.Settings
	return p
}

func parsePreviews(v string) (Previews, error) {
	switch v {
	case "true":
		return Previews{all: true}, nil
	case "false":
		return Previews{}, nil
	case "":
		return Previews{}, errors.New("want true, false, or a list of hosts")
	}
	var p Previews
	for host := range strings.SplitSeq(v, ",") {
		host = strings.ToLower(strings.TrimSpace(host))
		if !hostName.MatchString(host) {
			return Previews{}, fmt.Errorf("%q is not the name of a host: want true, false, or names such as example.org in ASCII, without https://, port, path and star", host)
		}
		p.hosts = append(p.hosts, host)
	}
	return p, nil
}

var (
	hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)
	// plainLink is a link that every reader understands the same way: it has no port, no user, and none of the
	// characters at which one network ends a link and another continues it.
	plainLink = regexp.MustCompile(`^(?i:https?)://([A-Za-z0-9.-]+)(/[A-Za-z0-9/._~%?=&#+-]*)?$`)
	// suspect matches in everything that some reader takes for a link: a dot, in any of its forms, or the beginning of an
	// address.
	suspect = regexp.MustCompile(`[.。．｡․﹒]|//|(?i:https?:)`)
	number  = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`) // or a version, such as 1.2.3: no reader takes it for a link
)

// Allow reports whether a message may have previews; text is its text, and links are the targets of its formats. With a
// list of hosts the message may have them if everything in it that anybody could take for a link is a plain link to one
// of the hosts; in doubt Allow returns false.
func (p Previews) Allow(text string, links ...string) bool {
	if p.all || len(p.hosts) == 0 {
		return p.all
	}
	for word := range strings.FieldsSeq(text) {
		if !suspect.MatchString(word) {
			continue
		}
		if strings.Contains(word, "@") { // the text before the "@" may be a user's name, even if it looks like a listed host
			return false
		}
		for piece := range strings.FieldsFuncSeq(word, between) {
			piece = strings.TrimRight(piece, ".:?")
			if suspect.MatchString(piece) && !number.MatchString(piece) && !p.lists(piece) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(links, func(link string) bool { return !p.lists(link) })
}

// Linkless reports whether text contains nothing that anybody could take for a link.
func Linkless(text string) bool { return Previews{hosts: []string{""}}.Allow(text) }

// between reports whether r cannot be part of a plain link, so that the text before r and the text behind it can be
// judged separately.
func between(r rune) bool { return strings.ContainsRune("()<>[]{}\"'`*|,;!", r) }

// lists reports whether link is one that every reader understands as a link to one of the hosts.
func (p Previews) lists(link string) bool {
	m := plainLink.FindStringSubmatch(link)
	return m != nil && !strings.Contains(m[2], "//") && slices.Contains(p.hosts, strings.ToLower(m[1]))
}
