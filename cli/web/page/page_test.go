package page

import (
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestTheFrame(t *testing.T) {
	for name, tc := range map[string]struct {
		here string
		has  []string
		not  []string
	}{
		"status": {Status, []string{`<a href="/" aria-current="page">Status</a>`, `<a href="/chat">Chat</a>`, `action="/logout"`}, nil},
		"chat":   {Chat, []string{`<a href="/">Status</a>`, `<a href="/chat" aria-current="page">Chat</a>`}, nil},
		"nobody": {"", []string{"<header>"}, []string{"<nav", "/logout"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(frame.HTML("page", Page{Title: "<T>", Here: tc.here, Main: "x", Scripts: []string{"/static/a.js"}}))
			for _, want := range append(tc.has, `<html lang="en">`, "<title>&lt;T&gt;", `href="#main"`, `<main id="main"`, `<script src="/static/a.js" defer>`) {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
			for _, no := range tc.not {
				if strings.Contains(got, no) {
					t.Errorf("%s in %s", no, got)
				}
			}
			// Invariant 1: no script, no style and no address of anybody else.
			if bad := regexp.MustCompile(`<style|style=|<script>|\son[a-z]+=|(src|href)="[^/#]|(src|href)="//`).FindString(got); bad != "" {
				t.Errorf("%q in %s", bad, got)
			}
		})
	}
}

func TestAssets(t *testing.T) {
	mux := http.NewServeMux()
	MountFrame(mux)
	for _, a := range []*Asset{style, icon, small, large, app} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", a.Path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Type") != a.kind || w.Body.Len() != len(a.body) {
			t.Errorf("%s: %d, %v", a.Path, w.Code, w.Header())
		}
	}
	var m struct {
		ID    string
		Start string `json:"start_url"`
		Scope string
		Icons []struct{ Src, Sizes, Type string }
	}
	if err := json.Unmarshal(app.body, &m); err != nil || m.ID != "/" || m.Scope != "/" || !strings.HasPrefix(m.Start, m.Scope) || len(m.Icons) < 2 {
		t.Errorf("the app's manifest is %s, %v", app.body, err)
	}
	for _, i := range m.Icons {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", i.Src, nil))
		picture, err := png.DecodeConfig(w.Body)
		if got := fmt.Sprintf("%dx%d", picture.Width, picture.Height); err != nil || got != i.Sizes || w.Header().Get("Content-Type") != i.Type {
			t.Errorf("%s is %s, %s, %v; the manifest says %s, %s", i.Src, got, w.Header().Get("Content-Type"), err, i.Sizes, i.Type)
		}
	}
	if one, other := NewAsset("x.js", []byte("a")), NewAsset("x.js", []byte("b")); one.Path == other.Path {
		t.Errorf("two contents at one path: %s", one.Path)
	}
	if strings.Contains(string(styleSheet), "url(") || strings.Contains(string(styleSheet), "@import") {
		t.Error("the style sheet loads something")
	}
}
