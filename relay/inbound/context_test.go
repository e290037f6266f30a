package inbound

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestWhichEventsBringContext(t *testing.T) {
	base := relay.Event{Source: relay.Source{ChatType: relay.ChatGroup}, Traits: relay.Traits{Addressed: true}}
	direct := func(ev *relay.Event) { ev.Source.ChatType, ev.Traits.Addressed = relay.ChatDM, false }
	for name, tc := range map[string]struct {
		change       func(*relay.Event)
		policy       relay.ContextPolicy
		grant, bound bool
		want         bool
	}{
		"a granted chat":                    {policy: relay.ContextGranted, grant: true, want: true},
		"as nobody said otherwise":          {grant: true, bound: true, want: true},
		"where only the owner writes":       {policy: relay.ContextGranted, bound: true},
		"wherever they write":               {policy: relay.ContextAll, bound: true, want: true},
		"all are also those granted":        {policy: relay.ContextAll, grant: true, want: true},
		"a stranger's elsewhere":            {policy: relay.ContextAll},
		"off":                               {policy: relay.ContextOff, grant: true, bound: true},
		"a word that is no policy":          {policy: "some", grant: true, bound: true, want: true},
		"that word, where the owner writes": {policy: "some", bound: true},
		"not addressed":                     {change: func(ev *relay.Event) { ev.Traits.Addressed = false }, policy: relay.ContextAll, grant: true},
		"a direct message":                  {change: direct, bound: true, want: true},
		"a direct message, switched off":    {change: direct, policy: relay.ContextOff, bound: true},
		"a direct message of another's":     {change: direct, policy: relay.ContextAll},
		"a command in direct messages":      {change: func(ev *relay.Event) { direct(ev); ev.Type = relay.TypeCommand }, bound: true},
		"a command elsewhere":               {change: func(ev *relay.Event) { ev.Type = relay.TypeCommand }, grant: true, want: true},
		"a thread":                          {change: func(ev *relay.Event) { ev.Source.ChatType = relay.ChatThread }, grant: true, want: true},
		"a press":                           {change: func(ev *relay.Event) { ev.Traits.Press = true }, grant: true},
		"an answer to a prompt":             {change: func(ev *relay.Event) { ev.Prompt = &relay.PromptResponse{} }, grant: true},
	} {
		t.Run(name, func(t *testing.T) {
			ev := base
			if tc.change != nil {
				tc.change(&ev)
			}
			if got := bringsContext(ev, tc.policy, tc.grant, tc.bound); got != tc.want {
				t.Errorf("bringsContext = %v, want %v", got, tc.want)
			}
		})
	}
}

func lines(n, bytes int) (out []relay.ContextLine) {
	for i := range n {
		out = append(out, relay.ContextLine{UserID: "7", Text: strings.Repeat(string(rune('a'+i%26)), bytes)})
	}
	return out
}

func TestTheNewestLinesOfContextFit(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []relay.ContextLine
		want  int
	}{
		"none":                   {nil, 0},
		"a few":                  {lines(3, 10), 3},
		"as many as there may":   {lines(30, 10), 30},
		"one more":               {lines(31, 10), 30},
		"as much as there may":   {lines(2, 8191), 2},
		"one byte more":          {lines(2, 8192), 1},
		"one that is too long":   {lines(1, 16<<10), 0},
		"a long one among short": {slices.Concat(lines(2, 3), lines(1, 16<<10), lines(2, 3)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := newest(tc.lines)
			if diff := cmp.Diff(tc.lines[len(tc.lines)-tc.want:], got); tc.want > 0 && diff != "" || len(got) != tc.want {
				t.Errorf("%d lines, want the last %d", len(got), tc.want)
			}
		})
	}
}
