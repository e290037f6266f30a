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

// UsageError is the error of an answer that makes no sense, or that is missing while nobody can be asked.
type UsageError struct{ error }

var (
	// errStopped: the person ended the conversation.
	errStopped = errors.New("stopped; hermes-connector setup continues where it left off")
	// errBack: the person wants the previous question. All questions are then asked again from the first one.
	errBack = errors.New("back")
)

// back is the answer that leads to the question before.
const back = "back"

// talk is a conversation: questions and answers with a person at a terminal, or answers from flags.
type talk struct {
	out   io.Writer
	lines <-chan string                    // typed lines; nil: nobody can be asked
	shows func(may func(line string) bool) // as Options.Show: typed text is shown while may accepts the line
	clear bool                             // each question begins a screen
	yes   bool                             // the default answers each question that has one

	notes   strings.Builder // lines for the person that are not shown yet
	answers []string        // what the person typed, to the questions so far
	taken   int             // how many of the answers were used since the first question was asked again
}

// say notes a line for the person. It is shown with the next question, or by show.
func (t *talk) say(format string, args ...any) {
	t.notes.WriteString(terminal.Sprintf(format+"\n", args...)) // names come from networks
}

// show prints the notes that the person has not seen yet.
func (t *talk) show() {
	_, _ = io.WriteString(t.out, t.notes.String()) // a terminal that went away ends the conversation by its input
	t.notes.Reset()
}

// again asks all questions again. It skips those that are answered, except the last one.
func (t *talk) again() {
	t.answers, t.taken = t.answers[:len(t.answers)-1], 0
	t.notes.Reset()
}

// question is one question to the person.
type question struct {
	flag    string // its flag, without "--"
	given   string // the flag's value; empty: there was no flag
	text    string
	def     string                       // the answer for Enter; empty: there is none
	secret  bool                         // the answer is not shown while it is typed, and may have several lines
	options []option                     // the answer is one of them, or one that check takes; nil: any text
	words   []string                     // words that check accepts; nil: any text
	check   func(string) (string, error) // returns the meaning of the answer; nil: the answer itself
}

type option struct{ key, label string }

// ask returns the answer to q: the flag's value; without one, if nobody can be asked, the default; otherwise what the
// person typed before the questions were asked again, or types now. errBack: the person wants the question before.
func (t *talk) ask(ctx context.Context, q question) (string, error) {
	if q.given != "" {
		a, err := q.accept(q.given)
		if err == errNoOption {
			err = errors.New("want one of: " + strings.Join(q.keys(), ", "))
		}
		return a, asUsage(q.flag, err)
	}
	if t.lines == nil {
		if t.yes && q.def != "" {
			return q.accept(q.def)
		}
		return "", UsageError{fmt.Errorf("nobody can be asked here: give --%s (such as hermes-connector setup --platform telegram --token-file FILE --reach here --yes)", q.flag)}
	}
	if t.taken < len(t.answers) {
		if a, err := q.accept(t.answers[t.taken]); err == nil {
			t.taken++
			t.notes.Reset() // these notes were shown when the question was asked first
			return a, nil
		}
		t.answers = t.answers[:t.taken] // an earlier answer has changed, so this is another question than before
	}
	t.put(q)
	for {
		typed, err := t.answer(ctx, q)
		if err != nil {
			return "", err
		}
		if typed = strings.TrimSpace(typed); typed == "" {
			typed = q.def
		}
		a := ""
		switch isBack := strings.EqualFold(typed, back); {
		case isBack && len(t.answers) > 0:
			return "", errBack
		case isBack:
			err = errors.New("this is the first question; Ctrl-C stops")
		default:
			a, err = q.accept(typed)
		}
		if err == nil {
			t.answers = append(t.answers, typed)
			t.taken++
			return a, nil
		}
		if err == errNoOption {
			err = errors.New("type " + q.numbers())
		}
		t.say("  %v", terminal.Text(err.Error()))
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
}

// prompt prints the prompt, with the answer that Enter gives.
func (t *talk) prompt(q question) {
	def := q.def
	if i := slices.Index(q.keys(), q.def); i >= 0 {
		def = strconv.Itoa(i + 1)
	}
	text := "> "
	if def != "" {
		text = "[" + def + "] > "
	}
	if len(t.answers) > 0 {
		text = "(or type back) " + text
	}
	_, _ = io.WriteString(t.out, terminal.Plain(text))
}

// keys returns the options' words.
func (q question) keys() (all []string) {
	for _, o := range q.options {
		all = append(all, o.key)
	}
	return all
}

// numbers returns the options' numbers for a sentence: "1, 2 or 3".
func (q question) numbers() string {
	text := "1"
	for n := 2; n <= len(q.options); n++ {
		if n == len(q.options) {
			text += " or "
		} else {
			text += ", "
		}
		text += strconv.Itoa(n)
	}
	return text
}

// free reports whether any text can be an answer.
func (q question) free() bool { return q.options == nil && q.words == nil }

// may reports whether the typed answer to q may be shown. If the answer must be an option, only an option is shown,
// because somebody could paste a token there.
func (q question) may() func(line string) bool {
	if q.secret {
		return terminal.Prefix(back)
	}
	if q.free() {
		return func(string) bool { return true }
	}
	words := slices.Concat(q.keys(), q.words, []string{back})
	for n := range q.options {
		words = append(words, strconv.Itoa(n+1))
	}
	return terminal.Prefix(words...)
}

// errNoOption: the answer is not one of the options.
var errNoOption = errors.New("no such option")

// accept returns the meaning of an answer.
func (q question) accept(a string) (string, error) {
	if a == "" {
		return "", errors.New("an answer is needed here")
	}
	for n, o := range q.options {
		if a == strconv.Itoa(n+1) || strings.EqualFold(a, o.key) {
			return o.key, nil
		}
	}
	switch {
	case q.check != nil:
		return q.check(a)
	case q.options != nil:
		return "", errNoOption
	}
	return a, nil
}

// pasteGap is how long to wait for the next line of pasted text.
const pasteGap = 300 * time.Millisecond

// answer prompts for an answer and reads it. Where text can be pasted, it may have several lines.
func (t *talk) answer(ctx context.Context, q question) (string, error) {
	t.shows(q.may()) // before the prompt, which somebody who is quick answers at once
	defer t.shows(func(string) bool { return false })
	t.prompt(q)
	var all []string
	var gap <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return "", errStopped
		case <-gap:
			return strings.Join(all, "\n"), nil
		case line, ok := <-t.lines:
			if !ok && len(all) > 0 {
				return strings.Join(all, "\n"), nil
			}
			if !ok {
				return "", errStopped
			}
			if len(all) == 0 {
				_, _ = io.WriteString(t.out, "\n")
			}
			all = append(all, line)
			if !q.secret && (q.free() || len(all) == 1 && len(line) < 2*len(back)) {
				return line, nil // too short for a token: nothing more is pasted
			}
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
	words := []string{"yes", "no"}
	a, err := t.ask(ctx, question{flag: flag, given: given, text: text, def: def, words: words, check: func(a string) (string, error) {
		for _, w := range words {
			if terminal.Prefix(w)(a) {
				return w, nil
			}
		}
		return "", errors.New("type yes or no")
	}})
	return a == "yes", err
}
