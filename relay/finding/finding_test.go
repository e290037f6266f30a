package finding

import (
	"regexp"
	"slices"
	"testing"
)

func TestKinds(t *testing.T) { // invariant 1
	form, seen := regexp.MustCompile(`^HC[1-5][0-9]{2}$`), make(map[string]bool)
	for _, k := range All() {
		if !form.MatchString(k.Code) || seen[k.Code] || k.Why == "" || !slices.Contains(worst, k.Severity) {
			t.Errorf("%+v: want an unused code of the form HCnnn, a severity and a reason", *k)
		}
		seen[k.Code] = true
	}
}

func TestSort(t *testing.T) {
	all := []Finding{
		{Code: "HC201", Severity: Warning}, {Code: "HC100", Severity: Notice}, {Code: "HC102", Severity: Unchecked}, NoBot.Of("", "no bot", "get one"),
		{Code: "HC301", Severity: Fault}, {Code: "HC101", Severity: Warning},
	}
	Sort(all)
	for i, want := range []string{NoBot.Code, "HC301", "HC101", "HC201", "HC102", "HC100"} {
		if all[i].Code != want {
			t.Errorf("place %d: %s, want %s", i, all[i].Code, want)
		}
	}
}

func TestMerge(t *testing.T) {
	bot := func(k *Kind, what string) Finding { return k.Of("telegram:1", what, "fix") }
	for name, tc := range map[string]struct {
		more, less []Finding
		want       string
	}{
		"both":                            {[]Finding{bot(DeadToken, "a")}, []Finding{NobodyBound.Of("", "b", "fix")}, "HC101a HC407b "},
		"the same":                        {[]Finding{bot(DeadToken, "a")}, []Finding{bot(DeadToken, "b")}, "HC101a "},
		"the same of others":              {[]Finding{bot(DeadToken, "a")}, []Finding{DeadToken.Of("telegram:2", "b", "fix")}, "HC101a HC101b "},
		"several of one":                  {[]Finding{bot(NobodyBound, "a"), bot(NobodyBound, "b")}, nil, "HC407a HC407b "},
		"a fault explains the state":      {[]Finding{bot(DeadToken, "a")}, []Finding{bot(BotDegraded, "b")}, "HC101a "},
		"whoever says it first":           {[]Finding{bot(BotDegraded, "b")}, []Finding{bot(DeadToken, "a")}, "HC101a "},
		"or both":                         {[]Finding{bot(DeadToken, "a"), bot(BotUnreached, "b")}, nil, "HC101a "},
		"a chat explains no state":        {[]Finding{bot(NotInChat, "a")}, []Finding{bot(BotDegraded, "b")}, "HC107a HC130b "},
		"a warning does not":              {[]Finding{bot(NobodyBound, "a")}, []Finding{bot(BotDegraded, "b")}, "HC130b HC407a "},
		"a fault explains no other thing": {[]Finding{bot(DeadToken, "a")}, []Finding{bot(CallsDoubted, "b")}, "HC101a HC132b "},
		"nor the state of another bot":    {[]Finding{DeadToken.Of("telegram:2", "a", "fix")}, []Finding{bot(BotDegraded, "b")}, "HC101a HC130b "},
	} {
		got := ""
		for _, f := range Merge(tc.more, tc.less) {
			got += f.Code + f.What + " "
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
