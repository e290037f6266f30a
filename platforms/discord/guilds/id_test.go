package guilds

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestSnowflake(t *testing.T) {
	for name, tc := range map[string]struct {
		json string
		want ID
		bad  bool
	}{
		"text":           {json: `"1200000000000000001"`, want: 1200000000000000001},
		"number":         {json: `1200000000000000001`, want: 1200000000000000001},
		"the largest":    {json: `"18446744073709551615"`, want: 1<<64 - 1},
		"escaped":        {json: `"\u0031\u0032"`, want: 12},
		"null":           {json: `null`},
		"empty":          {json: `""`},
		"too large":      {json: `"18446744073709551616"`, bad: true},
		"zero":           {json: `"0"`, bad: true},
		"zero in front":  {json: `"012"`, bad: true},
		"sign":           {json: `"+12"`, bad: true},
		"negative":       {json: `-12`, bad: true},
		"fraction":       {json: `1.5`, bad: true},
		"words":          {json: `"ann"`, bad: true},
		"blank in front": {json: `" 12"`, bad: true},
		"true":           {json: `true`, bad: true},
		"object":         {json: `{}`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			var id ID
			err := json.Unmarshal([]byte(tc.json), &id)
			if (err != nil) != tc.bad || id != tc.want {
				t.Fatalf("= %d, %v; want %d, error %t", id, err, tc.want, tc.bad)
			}
			if tc.bad && !errors.Is(err, errNoID) {
				t.Errorf("error = %v, which may repeat what stood there", err)
			}
		})
	}
	if got := ID(175928847299117063).Time().UnixMilli(); got != 1462015105796 {
		t.Errorf("time = %d ms, want that of the example in Discord's reference", got)
	}
	if got := ID(0).String(); got != "" {
		t.Errorf("no id is written %q", got)
	}
}

func TestBits(t *testing.T) {
	for name, tc := range map[string]struct {
		json string
		want permissions
		bad  bool
	}{
		"text":                  {json: `"2248473465835073"`, want: 2248473465835073},
		"number":                {json: `1024`, want: 1024},
		"beyond 32 permissions": {json: `"17179869184"`, want: 1 << 34},
		"the sign's bit":        {json: `"9223372036854775808"`, want: -1 << 63},
		"beyond 64 permissions": {json: `"18446744073709552640"`, want: 1024}, // 1<<64 + 1<<10
		"far beyond":            {json: `"340282366920938463463374607431768212480"`, want: 1024},
		"null":                  {json: `null`},
		"words":                 {json: `"all"`, bad: true},
		"negative":              {json: `"-1"`, bad: true},
		"a number's power":      {json: `1e3`, bad: true},
		"a list of numbers":     {json: `[1]`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b permissions
			if err := json.Unmarshal([]byte(tc.json), &b); (err != nil) != tc.bad || b != tc.want {
				t.Errorf("= %d, %v; want %d, error %t", b, err, tc.want, tc.bad)
			}
		})
	}
}
