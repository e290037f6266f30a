package handler

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFragments(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
	for name, tc := range map[string]struct {
		output string
		want   string // root:text, with a space behind each; empty: misuse
	}{
		"a result":                         {"<result>42</result>", "result:42 "},
		"with space around":                {"\n <result>42</result>\n\n<halt/> ", "result:42 halt: "},
		"text is kept as it is":            {"<reply> a\n*b* </reply>", "reply: a\n*b*  "},
		"entities":                         {"<reply>&lt;&amp;&gt;&quot;&apos;&#65;</reply>", "reply:<&>\"'A "},
		"a character section":              {"<reply><![CDATA[<b>&]]></reply>", "reply:<b>& "},
		"elements in a reply are left out": {"<reply>a <b>bold</b> word</reply>", "reply:a bold word "},
		"a comment":                        {"<!-- x --><reply>a</reply>", "reply:a "},
		"as deep as it may be":             {nested(maxElements), "a: "},
		"as many tokens as may be":         {strings.Repeat("<a/>", maxTokens/2), strings.Repeat("a: ", maxTokens/2)},
		"nothing":                          {"", ""},
		"only space":                       {" \n", ""},
		"only a comment":                   {"<!-- x -->", ""},
		"text":                             {"42", ""},
		"text between":                     {"<a/>x<b/>", ""},
		"text before":                      {"x<a/>", ""},
		"an attribute":                     {`<result a="b">42</result>`, ""},
		"an attribute deeper":              {`<result><b c="d"/></result>`, ""},
		"a namespace":                      {`<result xmlns="urn:x">42</result>`, ""},
		"a prefix":                         {`<x:result>42</x:result>`, ""},
		"a declaration":                    {`<?xml version="1.0"?><result>42</result>`, ""},
		"an instruction":                   {`<result><?php ?></result>`, ""},
		"a directive":                      {`<!DOCTYPE result><result/>`, ""},
		"an entity of its own":             {`<!DOCTYPE r [<!ENTITY x "y">]><result>&x;</result>`, ""},
		"an unknown entity":                {`<result>&nbsp;</result>`, ""},
		"not closed":                       {"<result>42", ""},
		"closed wrongly":                   {"<result>42</reply>", ""},
		"closed twice":                     {"<result>42</result></result>", ""},
		"too deep":                         {nested(maxElements + 1), ""},
		"too many tokens":                  {strings.Repeat("<a/>", maxTokens/2) + "<a/>", ""},
		"no UTF-8":                         {"<result>\xff</result>", ""},
		"a zero":                           {"<result>\x00</result>", ""},
		"a zero by its number":             {"<result>&#0;</result>", ""},
		"another encoding":                 {`<?xml version="1.0" encoding="utf-7"?><result/>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := fragments([]byte(tc.output))
			var got strings.Builder
			for _, f := range all {
				got.WriteString(f.root + ":" + f.text + " ")
			}
			if got.String() != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v; want %q", got.String(), err, tc.want)
			}
		})
	}
}

// TestFieldsOfACall: only a flat list of different fields is a payload.
func TestFieldsOfACall(t *testing.T) {
	for output, want := range map[string]string{
		"<p><a>7</a><b>35</b></p>":       "map[a:7 b:35]",
		"<p>\n <a>7</a>\n <b/>\n</p>":    "map[a:7 b:]",
		"<p/>":                           "map[]",
		"<p>7</p>":                       "",
		"<p><a>7</a>x</p>":               "",
		"<p><a>7</a><a>8</a></p>":        "",
		"<p><a><b>7</b></a></p>":         "",
		"<p><a>7<b/></a></p>":            "",
		"<p><a>7</a><b><a>8</a></b></p>": "",
	} {
		all, err := fragments([]byte(output))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(all[0].said)
		if all[0].said == nil {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q", output, got, want)
		}
	}
}

// FuzzFragments: what is read is what was written, and written anew it reads the same.
func FuzzFragments(f *testing.F) {
	for _, seed := range []string{
		"<result>42</result>", "<thought>a</thought><calculator.add.addpayload><a>7</a><b>35</b></calculator.add.addpayload>", "<halt/>", "<p>x<a><b/></a></p>",
		"<![CDATA[x]]>", "<!-- -->", "<?xml?>", "<!DOCTYPE x>", `<a b="c"/>`, "<a:b/>", "&lt;", "<a>&#x41;</a>", "<result>\r\n</result>", "<a", "</a>", "\xef\xbb\xbf<a/>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		all, err := fragments(output)
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d fragments and %v", len(all), err)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, one := range all {
			if one.root == "" || strings.ContainsAny(one.root, "<>&\"' \n") || !utf8.ValidString(one.root+one.text) {
				t.Fatalf("root %q, text %q", one.root, one.text)
			}
			if len(one.text) > len(output) { // entities shrink
				t.Fatalf("%d bytes of text from %d", len(one.text), len(output))
			}
			again.WriteString("<" + one.root + ">")
			if err := xml.EscapeText(&again, []byte(one.text)); err != nil {
				t.Fatal(err)
			}
			again.WriteString("</" + one.root + ">")
		}
		twice, err := fragments(again.Bytes())
		if len(all)*3 > maxTokens {
			return // each has become three tokens
		}
		if err != nil || !slices.EqualFunc(all, twice, func(a, b fragment) bool { return a.root == b.root && a.text == b.text }) {
			t.Fatalf("%q, %v; want %q", twice, err, all)
		}
	})
}

// TestHuh: it is the contract's, and says the same of all that is wrong.
func TestHuh(t *testing.T) {
	const want = `<huh xmlns="https://xml-pipeline.org/ns/core/v1"><error>Invalid payload structure</error><original-attempt>NDI=</original-attempt></huh>`
	if got := string(huh([]byte("42"))); got != want {
		t.Errorf("got %s", got)
	}
	if n := len(huh(make([]byte, maxOutput))); n > 11200 {
		t.Errorf("%d bytes of a large output", n)
	}
}
