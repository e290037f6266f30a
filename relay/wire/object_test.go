package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestObjectsAreReadLikeJSON: cutting an object where it stands finds what encoding/json finds.
func TestObjectsAreReadLikeJSON(t *testing.T) {
	text := rapid.SampledFrom([]string{`""`, `"a"`, `"b"`, `"\u0061"`, `"\\"`, `"\""`, `"{"`, `"],"`, `"a:b"`, `"\\\""`})
	blank := rapid.SampledFrom([]string{"", "", " ", "\t\r\n"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			if depth == 0 && kind > 1 {
				kind = 0
			}
			pad := func(s string) string { return blank.Draw(t, "before") + s + blank.Draw(t, "after") }
			switch kind {
			case 0:
				return text.Draw(t, "text")
			case 1:
				return rapid.SampledFrom([]string{"null", "true", "0", "-1.5e3", "[]", "{}", "[ ]", "{\n}", "nul", "01", "[1,]", "{,}"}).Draw(t, "word")
			}
			s, end := "[", "]"
			if kind == 3 {
				s, end = "{", "}"
			}
			for i := range rapid.IntRange(0, 3).Draw(t, "size") {
				if i > 0 {
					s += ","
				}
				if kind == 3 {
					s += pad(text.Draw(t, "key")) + ":"
				}
				s += pad(value(depth-1).Draw(t, "value"))
			}
			return s + end
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(value(3).Draw(t, "raw"))
		var want map[string]json.RawMessage
		wantOK := json.Unmarshal(raw, &want) == nil && want != nil
		got, ok := parseObject(raw)
		if !wantOK {
			want = nil
		}
		if diff := cmp.Diff(want, map[string]json.RawMessage(got)); diff != "" || ok != wantOK {
			t.Fatalf("parseObject(%s) = %v (-want +got):\n%s", raw, ok, diff)
		}
		var list, gotList []json.RawMessage
		if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
			return
		}
		for one := range parts(raw) {
			gotList = append(gotList, one)
		}
		if len(list) != len(gotList) || len(list) > 0 && !cmp.Equal(list, gotList) {
			t.Fatalf("parts(%s) = %s, want %s", raw, gotList, list)
		}
	})
}
