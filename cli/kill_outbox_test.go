package cli_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// repeated is what a message ends with that may stand there already.
const repeated = "\n\n(may be a repetition)"

// penalisedLocked refuses a message now and then: the chat is to be left alone for longer than an action waits. Nobody
// looks whether it is: a server that is killed meanwhile does not remember. a.mu must be held.
func (a *botAPI) penalisedLocked(w http.ResponseWriter) bool {
	if a.penalises == 0 || a.next%int64(a.penalises) != 0 {
		return false
	}
	a.next++
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 60", "parameters": map[string]any{"retry_after": 60},
	})
	return true
}

// forgives ends the penalties.
func (a *botAPI) forgives() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.penalises = 0
}

// arrivals are the texts that were sent, in their order.
func (a *botAPI) arrivals() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.arrived)
}

// queued notes that a result said that an answer waits on disk.
func (v *visit) queued(id relay.RequestID, m relay.MessageID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[v.texts[id]] = true
	v.waiting[v.texts[id]] = m
}

// waits reports whether a result said that an answer waits on disk.
func (a *agent) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) > 0
}

// allArrived reports whether all answers that waited were sent.
func (a *agent) allArrived() bool {
	a.mu.Lock()
	waiting := a.waiting
	texts := make([]string, 0, len(waiting))
	for text := range waiting {
		texts = append(texts, text)
	}
	a.mu.Unlock()
	return !slices.ContainsFunc(texts, func(text string) bool { return a.bot.timesSent(text)+a.bot.timesSent(text+repeated) == 0 })
}

// judgeOrder looks whether the answers that waited arrived in the order they came. a.mu must be held.
func (a *agent) judgeOrder(arrived []string) {
	number := func(text string) int { // in the answer's id
		n, _, _ := strings.Cut(strings.TrimPrefix(string(a.waiting[text]), "q:"), ".")
		out, _ := strconv.Atoi(n)
		return out
	}
	var texts []string
	for text := range a.waiting {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(x, y string) int { return cmp.Compare(number(x), number(y)) })
	last := -1
	for _, text := range texts {
		at := slices.IndexFunc(arrived, func(x string) bool { return x == text || x == text+repeated })
		if at < last && at >= 0 {
			a.faults = append(a.faults, fmt.Sprintf("%q arrived before one that waited longer", text))
		}
		last = max(last, at)
	}
}
