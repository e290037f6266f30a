package commands

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type obj = map[string]any

func TestCommandsOf(t *testing.T) {
	long := strings.Repeat("ü", 150)
	option := func(o string) string { return `{"name":"x","description":"d","options":[` + o + `]}` }
	for name, tc := range map[string]struct {
		in      string
		want    string // of the command beside link; "" if it is left out
		dropped int
	}{
		"plain":          {`{"name":"x","description":"d"}`, `{"name":"x","type":1,"description":"d"}`, 0},
		"upper case":     {`{"name":" New ","description":" d "}`, `{"name":"new","type":1,"description":"d"}`, 0},
		"no description": {`{"name":"x"}`, `{"name":"x","type":1,"description":"x"}`, 0},
		"a long one":     {`{"name":"x","description":"` + long + `"}`, `{"name":"x","type":1,"description":"` + strings.Repeat("ü", 99) + `…"}`, 0},
		"localised": {
			`{"name":"x","description":"d","name_localizations":{"de":"ix","fr":"NOT!"},"description_localizations":{"de":"D","fr":""}}`,
			`{"name":"x","name_localizations":{"de":"ix"},"type":1,"description":"d","description_localizations":{"de":"D"}}`, 0,
		},
		"ours":       {`{"name":"link","description":"theirs"}`, "", 0},
		"a bad name": {`{"name":"two words","description":"d"}`, "", 1},
		"too long":   {`{"name":"` + strings.Repeat("x", 33) + `","description":"d"}`, "", 1},
		"no object":  {`"x"`, "", 1},
		"a menu":     {`{"name":"x","type":3}`, "", 1},
		"required options first": {
			option(`{"type":3,"name":"a","description":"A"},{"type":4,"name":"b","description":"B","required":true,"min_value":1}`),
			option(`{"type":4,"name":"b","description":"B","required":true,"min_value":1},{"type":3,"name":"a","description":"A"}`), 0,
		},
		"unknown and repeated options": {
			option(`{"type":99,"name":"a","description":"A"},{"type":3,"name":"B","description":"B"},{"type":3,"name":"b","description":"C"}`),
			option(`{"type":3,"name":"b","description":"B"}`), 0,
		},
		"sub-commands stand alone": {
			option(`{"type":3,"name":"a","description":"A"},{"type":1,"name":"b","description":"B","required":true,"options":[{"type":3,"name":"c"}]}`),
			option(`{"type":1,"name":"b","description":"B","options":[{"type":3,"name":"c","description":"c"}]}`), 0,
		},
		"choices": {
			option(`{"type":3,"name":"a","description":"A","autocomplete":true,"choices":[{"name":"one","value":"1"},{"name":"two","value":2.5},{"name":"","value":"3"},{"name":"x","value":{}}]}`),
			option(`{"type":3,"name":"a","description":"A","choices":[{"name":"one","value":"1"},{"name":"two","value":2.5}]}`), 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			list, dropped := commandsOf([]json.RawMessage{json.RawMessage(tc.in)})
			got := ""
			for _, c := range list {
				if !slices.ContainsFunc(ownCommands(), func(o slashCommand) bool { return o.Name == c.Name }) {
					got = string(c.encode())
				}
			}
			want := strings.Replace(tc.want, `"x","description":"d","options"`, `"x","type":1,"description":"d","options"`, 1)
			if got != want || dropped != tc.dropped {
				t.Errorf("command is %s, %d dropped; want %s, %d", got, dropped, want, tc.dropped)
			}
		})
	}
}

func TestAtMostAHundredCommands(t *testing.T) {
	var in []json.RawMessage
	for i := range 120 {
		in = append(in, json.RawMessage(`{"name":"c`+strconv.Itoa(i)+`","description":"x"}`))
	}
	list, dropped := commandsOf(in)
	if len(list) != maxCommands || dropped != 20+len(ownCommands()) {
		t.Errorf("%d commands, %d dropped", len(list), dropped)
	}
	if !json.Valid(list[99].encode()) || fingerprintOf("a", list) == fingerprintOf("b", list) {
		t.Error("the fingerprint does not know the application")
	}
}

// TestWhatIsRegisteredComesBackTheSame: else every restart would write.
func TestWhatIsRegisteredComesBackTheSame(t *testing.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("aB -_ü'日1\n")), 0, 120, -1)
	rapid.Check(t, func(t *rapid.T) {
		var options func(depth int) []any
		options = func(depth int) (out []any) {
			for range rapid.IntRange(0, 4).Draw(t, "options") {
				o := obj{
					"type": rapid.IntRange(0, 12).Draw(t, "type"), "name": text.Draw(t, "name"), "description": text.Draw(t, "description"),
					"required": rapid.Bool().Draw(t, "required"), "channel_types": []int{5, 0},
					"choices": []obj{{"name": text.Draw(t, "choice"), "value": rapid.SampledFrom([]any{"x", 1, 2.5, nil}).Draw(t, "value")}},
				}
				if depth < 4 {
					o["options"] = options(depth + 1)
				}
				out = append(out, o)
			}
			return out
		}
		raw, err := json.Marshal(obj{
			"name": text.Draw(t, "command"), "description": text.Draw(t, "text"), "options": options(1),
			"description_localizations": map[string]string{"de": text.Draw(t, "german")},
		})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := commandsOf([]json.RawMessage{raw})
		var answer []json.RawMessage
		for i := range list {
			answer = append(answer, list[len(list)-1-i].encode())
		}
		if current, others := registered(answer); fingerprintOf("", current) != fingerprintOf("", list) || len(others) > 0 {
			t.Fatalf("%s came back as %v", raw, current)
		}
	})
}

func FuzzCommandsOf(f *testing.F) {
	f.Add([]byte(`{"name":"model","description":"Choose a model","options":[{"type":3,"name":"name","description":"Which"}]}`))
	f.Add([]byte(`{"id":"1","application_id":"9","version":"3","type":1,"name":"link","name_localizations":null,"description":"Link","integration_types":[0],"options":[{"type":3,"name":"code","description":"The link code","required":true}]}`))
	f.Add([]byte(`{"name":"x","options":[{"type":2,"name":"a","options":[{"type":1,"name":"b","options":[{"type":1,"name":"c"}]}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, dropped := commandsOf([]json.RawMessage{raw})
		if len(list)+dropped > len(ownCommands())+1 {
			t.Fatalf("%d commands and %d dropped of one", len(list), dropped)
		}
		for _, c := range list {
			if !validName(c.Name) || c.Description == "" || len([]rune(c.Description)) > maxDescription || len(c.Options) > maxOptions {
				t.Fatalf("command is %s", c.encode())
			}
		}
	})
}
