package finding

import (
	"iter"
	"regexp"
	"time"
)

// Findings are worded where the server runs, and read where people are, perhaps in another time zone. So Stamp writes
// each moment, and the place that shows it converts it to the reader's clock: Local, or a page's script.

// Stamp returns a moment in the form in which the words of findings contain it.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

var stamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// Moments cuts words into texts, each with the moment that follows it; the last has the zero time.
func Moments(words string) iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		from := 0
		for _, at := range stamps.FindAllStringIndex(words, -1) {
			t, err := time.Parse(time.RFC3339, words[at[0]:at[1]])
			if err != nil {
				continue
			}
			if !yield(words[from:at[0]], t) {
				return
			}
			from = at[1]
		}
		yield(words[from:], time.Time{})
	}
}

// Local returns words with their moments as this machine's clock shows them.
func Local(words string) (out string) {
	for text, at := range Moments(words) {
		if out += text; !at.IsZero() {
			out += Clock(at)
		}
	}
	return out
}

// Clock returns a time as people say it: with the day, unless it is at most 20 hours ago and at most an hour ahead.
func Clock(t time.Time) string {
	form := "15:04"
	if age := time.Since(t); age > 20*time.Hour || age < -time.Hour {
		form = "2 Jan 15:04"
	}
	return t.Local().Format(form)
}
