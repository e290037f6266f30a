// Package words says in an operator's words what the connector saw: why a message went where it went, what is wrong and
// what to type about it, and what helps after a refusal.
//
// Package manage gathers the facts and calls Words, so that the command line, the pages, the log and the admin socket
// say the same. It knows operations but no command lines: those are made here, from the table in package ops.
package words

import (
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// Words is the wording of the command line.
type Words struct{}

var _ manage.Words = Words{}

// Line returns the command of an operation, for a shell: "hermes-connector gateway rotate home". args replace the words
// that the table writes in capitals, in that order; PLATFORM:PERSON takes two of them. Remaining args come last. Ids
// come from networks, so each argument is quoted if a shell could read it as more than a word; empty ones are left out.
func Line(op *ops.Row, args ...string) string {
	line, places := op.Words()
	line = append([]string{"hermes-connector"}, line...)
	var flag []string // that waits for its value
	for _, place := range places {
		if strings.HasPrefix(place, "--") {
			line, flag = append(line, flag...), []string{place}
			continue
		}
		n := min(1+strings.Count(place, ":"), len(args))
		if value := args[:n]; n > 0 && !slices.Contains(value, "") {
			line = append(append(line, flag...), shellWord(strings.Join(value, ":")))
		}
		args, flag = args[n:], nil
	}
	line = append(line, flag...)
	for _, a := range args {
		if a != "" {
			line = append(line, shellWord(a))
		}
	}
	return strings.Join(line, " ")
}

// quoted returns Line in backticks, for a command within a sentence.
func quoted(op *ops.Row, args ...string) string { return "`" + Line(op, args...) + "`" }

// shellWord returns w, quoted if a shell would not read it as one word.
func shellWord(w string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:/+@,=", r)
	}
	if strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
