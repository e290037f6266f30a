package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretCannotBePrinted(t *testing.T) {
	const canary = "s3cr3t-canary"
	s := NewSecret([]byte(canary))
	type holder struct {
		Open   Secret
		hidden Secret
		ptr    *Secret
	}
	h := holder{s, s, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U", "%t", "%e", "%p", "%10.3s"} {
		for _, v := range []any{s, &s, h, &h, []Secret{s}, map[string]Secret{"k": s}, [1]holder{h}} {
			fmt.Fprintf(&out, verb, v)
		}
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "h", h, "p", &h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "h", h, "p", &h)
	j, err := json.Marshal(map[string]any{"s": s, "h": h.Open})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	fmt.Fprint(&out, fmt.Errorf("wrapped: %v %w", s, errors.New("x")))
	for form, text := range map[string]string{
		"text": canary, "hex": fmt.Sprintf("%x", canary), "HEX": fmt.Sprintf("%X", canary),
		"decimal": strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"),
	} {
		if strings.Contains(out.String(), text) {
			t.Errorf("a secret shows as %s", form)
		}
	}
	if !strings.Contains(out.String(), Redacted) {
		t.Error("nothing was printed at all: the test proves nothing")
	}
	if s.RevealString() != canary {
		t.Errorf("Reveal = %q, want the secret", s.RevealString())
	}
}

func TestSecretIsACopyBothWays(t *testing.T) {
	b := []byte("abc")
	s := NewSecret(b)
	b[0] = 'x'
	s.Reveal()[1] = 'x'
	if got := s.RevealString(); got != "abc" {
		t.Errorf("secret = %q after its source and a copy changed, want abc", got)
	}
	if !(Secret{}).IsZero() || !NewSecret(nil).IsZero() || s.IsZero() {
		t.Error("IsZero is true for something and only for nothing")
	}
}

func TestParseBufferID(t *testing.T) {
	for _, id := range []BufferID{{1, 1}, {0xfedcba9876543210, 1<<64 - 1}} {
		if got, err := ParseBufferID(id.String()); err != nil || got != id {
			t.Errorf("ParseBufferID(%q) = %v, %v", id.String(), got, err)
		}
	}
	for _, bad := range []string{"", "-", "1", "1-", "-1", "1-1-1", "01-1", "1-01", "A-1", "1-+1", "g-1", " 1-1", "1-18446744073709551616"} {
		if got, err := ParseBufferID(bad); err == nil {
			t.Errorf("ParseBufferID(%q) = %v, want an error", bad, got)
		}
	}
}

func FuzzParseBufferID(f *testing.F) {
	f.Add("1-1")
	f.Add("fedcba9876543210-18446744073709551615")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseBufferID(s)
		if err == nil && id.String() != s {
			t.Errorf("%q parses to %v, which prints as %q", s, id, id.String())
		}
		if err != nil && !id.IsZero() {
			t.Errorf("%q gives a value and an error", s)
		}
	})
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"home": true, "gw-box.example:2": true, "küche": true, strings.Repeat("a", MaxName): true,
		"": false, strings.Repeat("a", MaxName+1): false, "a b": false, "a/b": false, "a\x00b": false,
		"-v": false, "a\nb": false, "\xff": false, "a\u200bb": false,
		".": false, "..": false, "...": true, ".home": true, "a..b": true, "a\u202eb": false, "../a": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}

func TestExplain(t *testing.T) {
	declined := Declined("discord")
	for name, tc := range map[string]struct {
		err  error
		want ActionError
	}{
		"an action error, wrapped": {fmt.Errorf("x: %w", declined), *declined},
		"a deadline":               {fmt.Errorf("x: %w", context.DeadlineExceeded), ActionError{Public: "timed out"}},
		"anything else":            {errors.New("/secret/path"), ActionError{Public: "timed out: the outcome is unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := *Explain(tc.err)
			got.Err = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Explain (-want +got):\n%s", diff)
			}
		})
	}
	if Explain(nil) != nil {
		t.Error("Explain(nil) is an error")
	}
	if got := Declined("").Public; !strings.HasPrefix(got, "relay egress declined:") {
		t.Errorf("a decline without a platform says %q", got)
	}
}

func TestLeastCommon(t *testing.T) {
	a := Descriptor{Platform: "a", MaxMessageLength: 2000, LenUnit: LenChars, MarkdownDialect: "discord", SupportsEdit: true, SupportsThreads: true, SupportedOps: []Op{OpSend, OpEdit, OpReact}}
	b := Descriptor{Platform: "b", MaxMessageLength: 4096, LenUnit: LenUTF16, MarkdownDialect: "markdown_v2", SupportsEdit: true, SupportedOps: []Op{OpSend, OpReact, OpTyping}}
	want := Descriptor{
		Platform: RelayPlatform, Label: "Relay", MaxMessageLength: 2000, LenUnit: LenUTF16,
		MarkdownDialect: "markdown", SupportsEdit: true, SupportedOps: []Op{OpSend, OpReact},
	}
	if diff := cmp.Diff(want, LeastCommon([]Descriptor{a, b})); diff != "" {
		t.Errorf("LeastCommon (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Op{OpSend, OpEdit, OpReact}, a.SupportedOps); diff != "" {
		t.Errorf("LeastCommon changed its argument:\n%s", diff)
	}
	if none := LeastCommon(nil); none.Platform != RelayPlatform || none.MaxMessageLength <= 0 || len(none.SupportedOps) != 0 {
		t.Errorf("LeastCommon of nothing = %+v", none)
	}
}
