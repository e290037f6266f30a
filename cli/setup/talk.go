package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// UsageError is an answer that makes no sense, or one that is missing where nobody can be asked.
type UsageError struct{ error }

// errStopped: the person ended the conversation.
var errStopped = errors.New("stopped; hermes-connector setup goes on from here")

// talk is a conversation: questions and answers with a person at a terminal, or answers from flags.
type talk struct {
	out   io.Writer
	lines <-chan string // what is typed; nil: nobody can be asked
	echo  func(on bool) // of the terminal
	clear bool          // each question begins a screen
	yes   bool          // the default is the answer to whatever has one

	notes strings.Builder // said, and not shown yet
}

// say notes a line for the person. It is shown with the next question, or by show.
func (t *talk) say(format string, args ...any) {
	t.notes.WriteString(terminal.Sprintf(format+"\n", args...)) // names come from networks
}

// show shows what was said.
func (t *talk) show() {
	_, _ = io.WriteString(t.out, t.notes.String()) // a terminal that went away ends the conversation by its input
	t.notes.Reset()
}

// question is one thing to be known.
type question struct {
	flag    string // its flag, without "--"
	given   string // by the flag; empty: not
	text    string
	def     string                       // the answer behind Enter; empty: there is none
	secret  bool                         // not shown while it is typed; may have several lines
	options []option                     // the answer is one of them; nil: any text
	check   func(string) (string, error) // what the answer means; nil: itself
}

type option struct{ key, label string }

// ask is the answer to q.
func (t *talk) ask(ctx context.Context, q question) (string, error) {
	if q.given != "" {
		a, err := q.accept(q.given)
		if err != nil {
			err = UsageError{fmt.Errorf("--%s: %w", q.flag, err)}
		}
		return a, err
	}
	if t.lines == nil {
		if t.yes && q.def != "" {
			return q.accept(q.def)
		}
		return "", UsageError{fmt.Errorf("nobody can be asked here: give --%s (such as hermes-connector setup --platform telegram --token-file FILE --reach here --yes)", q.flag)}
	}
	if q.secret { // before the question is shown, for who types ahead
		t.echo(false)
		defer t.echo(true)
	}
	t.put(q)
	for {
		a, err := t.answer(ctx, q)
		if err != nil {
			return "", err
		}
		if a = strings.TrimSpace(a); a == "" {
			a = q.def
		}
		a, err = q.accept(a)
		if err == nil {
			return a, nil
		}
		t.say("  %v", terminal.Text(err.Error()))
		t.say("%s", strings.TrimRight(q.prompt(), " "))
		t.show()
	}
}

// put shows a question, at the top of the screen.
func (t *talk) put(q question) {
	if t.clear {
		_, _ = io.WriteString(t.out, "\x1b[H\x1b[2J")
	}
	t.say("\n%s", terminal.Text(q.text))
	for n, o := range q.options {
		t.say("  %d  %s", n+1, o.label)
	}
	t.show()
	_, _ = io.WriteString(t.out, q.prompt())
}

func (q question) prompt() string {
	switch i := slices.IndexFunc(q.options, func(o option) bool { return o.key == q.def }); {
	case i >= 0:
		return fmt.Sprintf("[%d] > ", i+1)
	case q.def != "":
		return "[" + q.def + "] > "
	}
	return "> "
}

// accept is what an answer means.
func (q question) accept(a string) (string, error) {
	if a == "" {
		return "", errors.New("an answer is needed here")
	}
	if q.options != nil {
		for n, o := range q.options {
			if a == strconv.Itoa(n+1) || strings.EqualFold(a, o.key) {
				return o.key, nil
			}
		}
		keys := make([]string, len(q.options))
		for n, o := range q.options {
			keys[n] = o.key
		}
		return "", errors.New("want one of: " + strings.Join(keys, ", "))
	}
	if q.check == nil {
		return a, nil
	}
	return q.check(a)
}

// pasteGap is how long the next line of something pasted may take.
const pasteGap = 300 * time.Millisecond

// answer reads what is typed.
func (t *talk) answer(ctx context.Context, q question) (string, error) {
	var all []string
	var gap <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return "", errStopped
		case <-gap:
			if q.secret {
				_, _ = io.WriteString(t.out, "\n")
			}
			return strings.Join(all, "\n"), nil
		case line, ok := <-t.lines:
			if !ok && len(all) > 0 {
				return strings.Join(all, "\n"), nil
			}
			if !ok {
				return "", errStopped
			}
			if !q.secret {
				return line, nil
			}
			all = append(all, line)
			gap = time.After(pasteGap)
		}
	}
}

// yesNo asks for a yes or a no.
func (t *talk) yesNo(ctx context.Context, flag, text, def string) (bool, error) {
	given := ""
	if t.yes && def == "yes" {
		given = def
	}
	a, err := t.ask(ctx, question{flag: flag, given: given, text: text, def: def, check: func(a string) (string, error) {
		switch strings.ToLower(a) {
		case "y", "yes":
			return "yes", nil
		case "n", "no":
			return "no", nil
		}
		return "", errors.New("want yes or no")
	}})
	return a == "yes", err
}
