package platforms_test

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// previews is what a bot with that setting may show.
func previews(t *testing.T, setting string) platforms.Previews {
	t.Helper()
	s, err := platforms.Options{Values: map[string]string{"previews": setting}}.Settings([]platforms.Key{platforms.PreviewsKey()})
	if err != nil {
		t.Fatalf("previews = %q: %v", setting, err)
	}
	return s.Previews()
}

func TestPreviewsAreOffUnlessSomebodyAsks(t *testing.T) {
	s, err := platforms.Options{}.Settings([]platforms.Key{platforms.PreviewsKey()})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]platforms.Previews{"not set": s.Previews(), "false": previews(t, "false"), "zero": {}} {
		if p.Allow("https://example.org/") || p.Allow("") {
			t.Errorf("%s: there are previews", name)
		}
	}
	if p := previews(t, "true"); !p.Allow("https://evil.example/", "https://evil.example/") {
		t.Error("true: there are none")
	}
}

// TestPreviewsOfListedHosts: nothing that looks like a listed host, or stands beside one, has a preview.
func TestPreviewsOfListedHosts(t *testing.T) {
	p := previews(t, "example.org,Docs.Example.com")
	for _, text := range platformtest.Links() {
		if p.Allow(text) {
			t.Errorf("a preview of %q", text)
		}
	}
	for _, link := range []string{"https://evil.example/", "https://example.org@evil.example/", "https://example.org/ https://evil.example/", "tg://user?id=1", "example.org", ""} {
		if p.Allow("here", link) {
			t.Errorf("a preview of a text that links to %q", link)
		}
	}
	for _, text := range []string{
		"", "nothing to see", "https://example.org", "http://example.org/", "HTTPS://Example.ORG/a/b?c=d&e=%20#f",
		"See https://example.org/a.html, (https://docs.example.com/) and **https://example.org**.",
		"[here](https://example.org/a) and <https://example.org/b>: 3.14 of 1.2.3, @ann!",
		"- https://example.org/\n- https://docs.example.com/x\n",
	} {
		if !p.Allow(text, "https://example.org/x") {
			t.Errorf("no preview of %q", text)
		}
	}
}

func TestPreviewsSetting(t *testing.T) {
	check := platforms.PreviewsKey().Check
	for _, good := range []string{"true", "false", "example.org", "a.example.org, b.example.org", "xn--exmple-cua.org", "EXAMPLE.org"} {
		if err := check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "yes", "localhost", "https://example.org", "example.org/", "example.org:443", "*.example.org", ".example.org", "example.org.",
		"exämple.org", "127.0.0.1", "a b.org", "example.org,,b.org", "u@example.org", "example..org", "-a.org",
	} {
		if err := check(bad); err == nil || !strings.Contains(err.Error(), "want true, false, or") {
			t.Errorf("%q: %v; want a refusal that says what belongs there", bad, err)
		}
	}
}

// FuzzPreviews: whatever stands beside a link to a host that is not listed, there is no preview.
func FuzzPreviews(f *testing.F) {
	for _, text := range platformtest.Links() {
		f.Add(text, "")
	}
	f.Add("https://example.org/", " and ")
	f.Fuzz(func(t *testing.T, before, after string) {
		if p := previews(t, "example.org"); p.Allow(before+" https://evil.example/x "+after) || p.Allow(before, "https://evil.example/"+after) {
			t.Errorf("a preview of %q and %q", before, after)
		}
	})
}
