package handler

import (
	"encoding/json"
	"encoding/xml"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func bound(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// fieldsOf reads "a:integer b:string".
func fieldsOf(s string) (out []Field) {
	for word := range strings.FieldsSeq(s) {
		name, kind, _ := strings.Cut(word, ":")
		out = append(out, Field{Name: name, Kind: Kind(kind)})
	}
	return out
}

func TestParse(t *testing.T) {
	sizes := []Field{{Name: "size", Kind: Enum, Values: []string{"small", "very large"}}}
	percent := []Field{{Name: "n", Kind: Decimal, Min: bound(0), Max: bound(100)}}
	short := []Field{{Name: "s", Kind: String, Min: bound(2), Max: bound(3)}}
	for name, tc := range map[string]struct {
		fields []Field
		said   string
		want   []string // nil: it does not fit
	}{
		"two numbers":                      {fieldsOf("a:integer b:integer"), "7 35", []string{"7", "35"}},
		"any space between":                {fieldsOf("a:integer b:integer"), "  7 \n 35 ", []string{"7", "35"}},
		"one too few":                      {fieldsOf("a:integer b:integer"), "7", nil},
		"one too many":                     {fieldsOf("a:integer b:integer"), "7 35 1", nil},
		"no number":                        {fieldsOf("a:integer"), "seven", nil},
		"leading zeros":                    {fieldsOf("a:integer"), "007", []string{"7"}},
		"negative":                         {fieldsOf("a:integer"), "-7", []string{"-7"}},
		"a fraction is no integer":         {fieldsOf("a:integer"), "7.0", nil},
		"a decimal":                        {fieldsOf("a:decimal"), "7.50", []string{"7.50"}},
		"an exponent":                      {fieldsOf("a:decimal"), "1e999999999", nil},
		"a ratio":                          {fieldsOf("a:decimal"), "1/3", nil},
		"other digits":                     {fieldsOf("a:integer"), "٧", nil},
		"too many digits":                  {fieldsOf("a:integer"), strings.Repeat("9", 19), nil},
		"yes":                              {fieldsOf("a:boolean"), "true", []string{"true"}},
		"neither":                          {fieldsOf("a:boolean"), "maybe", nil},
		"quotes group":                     {fieldsOf("a:string b:integer"), `"two words" 3`, []string{"two words", "3"}},
		"a phone's quotes group":           {fieldsOf("a:string b:integer"), "“two words” 3", []string{"two words", "3"}},
		"quotes that do not end":           {fieldsOf("a:string b:integer"), `"two 3`, nil},
		"quotes inside of a word":          {fieldsOf("a:string b:integer"), `it"s 3`, []string{`it"s`, "3"}},
		"nothing in quotes":                {fieldsOf("a:string b:integer"), `"" 3`, []string{"", "3"}},
		"the last string takes the rest":   {fieldsOf("a:integer b:string"), `3 all  that "is" left`, []string{"3", `all  that "is" left`}},
		"the last string in quotes":        {fieldsOf("a:integer b:string"), `3 "two words"`, []string{"3", "two words"}},
		"the last string with one quote":   {fieldsOf("b:string"), `"two words`, []string{`"two words`}},
		"the last string is missing":       {fieldsOf("a:integer b:string"), "3", nil},
		"a choice":                         {sizes, "small", []string{"small"}},
		"a choice of two words":            {sizes, `"very large"`, []string{"very large"}},
		"no choice":                        {sizes, "SMALL", nil},
		"at the bounds":                    {percent, "100", []string{"100"}},
		"above":                            {percent, "100.001", nil},
		"below":                            {percent, "-0.001", nil},
		"characters, not bytes":            {short, "äöü", []string{"äöü"}},
		"too long":                         {short, "äöüx", nil},
		"too short":                        {short, "x", nil},
		"bytes that are no text":           {fieldsOf("a:string"), "\xff", nil},
		"without a payload all is taken":   {nil, `any "thing" at all`, []string{`any "thing" at all`}},
		"without a payload, also nothing":  {nil, "", []string{""}},
		"an empty payload takes nothing":   {[]Field{}, "", []string{}},
		"an empty payload takes no word":   {[]Field{}, "x", nil},
		"the text of a shell is text":      {fieldsOf("a:string"), "; rm -rf / $(id) `id`", []string{"; rm -rf / $(id) `id`"}},
		"the text of an argument is text":  {fieldsOf("a:string"), "--help", []string{"--help"}},
		"an element is text":               {fieldsOf("a:string"), "</a><b>", []string{"</a><b>"}},
		"an entity's declaration is text":  {fieldsOf("a:string"), "<!ENTITY x 'y'>&x;", []string{"<!ENTITY x 'y'>&x;"}},
		"what closes other quotes is none": {fieldsOf("a:string b:integer"), "«a” 3", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Handler{Name: "x", Payload: tc.fields}
			got, err := h.parse(tc.said)
			if (err == nil) != (tc.want != nil) || err == nil && !slices.Equal(got, tc.want) {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
			if err != nil {
				return
			}
			// What the program reads is what was said.
			var doc struct {
				XMLName xml.Name
				Fields  []struct {
					Value string `xml:",chardata"`
				} `xml:",any"`
			}
			if err := xml.Unmarshal(h.document(got), &doc); err != nil || doc.XMLName.Local != "x" || len(doc.Fields) != len(got) {
				t.Fatalf("%s: %v", h.document(got), err)
			}
			for i, f := range doc.Fields {
				if f.Value != got[i] {
					t.Errorf("the field %d is %q, want %q", i, f.Value, got[i])
				}
			}
		})
	}
}

// TestNamed: of Discord, values come with names, in any order, and each must be there and fit.
func TestNamed(t *testing.T) {
	h := &Handler{Name: "x", Payload: fieldsOf("who:string n:integer")}
	for name, tc := range map[string]struct {
		said map[string]string
		want []string
	}{
		"both":      {map[string]string{"n": "3", "who": "Ann Lee"}, []string{"Ann Lee", "3"}},
		"one":       {map[string]string{"n": "3"}, nil},
		"another":   {map[string]string{"n": "3", "whom": "Ann"}, nil},
		"one more":  {map[string]string{"n": "3", "who": "Ann", "x": "y"}, nil},
		"an unfit":  {map[string]string{"n": "three", "who": "Ann"}, nil},
		"no values": {nil, nil},
	} {
		got, err := h.named(tc.said)
		if (err == nil) != (tc.want != nil) || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

func TestUsage(t *testing.T) {
	h := &Handler{Command: "/order", Payload: []Field{
		{Name: "n", Kind: Integer, Min: bound(1)}, {Name: "size", Kind: Enum, Values: []string{"s", "m"}}, {Name: "for", Kind: String, Max: bound(9)},
	}}
	const want = "Write `/order n size for`: n is a whole number of at least 1, size is s or m, for is text of at most 9 characters."
	if got := h.usage(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestManifest: Discord shows the command with its options by type.
func TestManifest(t *testing.T) {
	h := &Handler{Name: "shop", Command: "/order", Payload: []Field{
		{Name: "n", Kind: Integer, Min: bound(1), Max: bound(5)}, {Name: "size", Kind: Enum, Values: []string{"s", "m"}}, {Name: "for", Kind: String, Max: bound(9)},
		{Name: "fast", Kind: Boolean}, {Name: "price", Kind: Decimal, Min: big.NewRat(1, 2)},
	}}
	const want = `{"name":"order","description":"Runs shop","options":[` +
		`{"type":4,"name":"n","description":"a whole number from 1 to 5","required":true,"min_value":1,"max_value":5},` +
		`{"type":3,"name":"size","description":"s or m","required":true,"choices":[{"name":"s","value":"s"},{"name":"m","value":"m"}]},` +
		`{"type":3,"name":"for","description":"text of at most 9 characters","required":true,"max_length":9},` +
		`{"type":5,"name":"fast","description":"true or false","required":true},` +
		`{"type":10,"name":"price","description":"a number of at least 0.5","required":true,"min_value":0.5}]}`
	if got := string(h.manifest()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	free := &Handler{Name: "backup", Command: "/backup"}
	if got := string(free.manifest()); !json.Valid([]byte(got)) || !strings.Contains(got, `"name":"text","description":"text","required":false`) {
		t.Errorf("without a payload: %s", got)
	}
}

func TestFind(t *testing.T) {
	c := &Config{Handlers: []*Handler{
		{Name: "backup", Command: "/backup"}, {Name: "peer", XML: true}, {Name: "agent", Command: "/agent", Peers: []string{"peer"}}, {Name: "rest"},
	}}
	for text, want := range map[string]string{
		"/backup":                   "backup:",
		" /backup  now\n":           "backup:now",
		"/backup@tools_bot now":     "backup:now",
		"/backup\nnow":              "backup:now",
		"/Backup now":               "rest:/Backup now",
		"/backups":                  "rest:/backups",
		"backup":                    "rest:backup",
		"/agent /backup":            "agent:/backup",
		"hello":                     "rest:hello",
		"peer":                      "rest:peer",
		"<peer><text>x</text></pe>": "rest:<peer><text>x</text></pe>",
	} {
		h, words := c.find(text)
		if got := h.Name + ":" + words; got != want {
			t.Errorf("%q goes to %q, want %q", text, got, want)
		}
	}
	c.Handlers = c.Handlers[:3]
	if h, _ := c.find("hello"); h != nil {
		t.Errorf("with nobody for the rest it goes to %s", h.Name)
	}
}
