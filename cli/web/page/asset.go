package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

//go:embed style.css
var styleSheet []byte

//go:embed page.js
var scriptText []byte

//go:embed icon.svg
var iconPicture []byte

//go:embed icon-192.png
var smallPicture []byte

//go:embed icon-512.png
var largePicture []byte

var (
	style  = NewAsset("style.css", styleSheet)
	script = NewAsset("page.js", scriptText)
	icon   = NewAsset("icon.svg", iconPicture)
	small  = NewAsset("icon-192.png", smallPicture)
	large  = NewAsset("icon-512.png", largePicture)
	app    = NewAsset("app.webmanifest", manifest())
)

// manifest returns the web app manifest, which lets a phone put the pages, all of them as one app, on its home screen.
func manifest() []byte {
	icon := func(a *Asset, sizes, purpose string) map[string]string {
		return map[string]string{"src": a.Path, "sizes": sizes, "type": a.kind, "purpose": purpose}
	}
	text, err := json.Marshal(map[string]any{
		"name": "Hermes Connector", "short_name": "Hermes", "id": "/", "start_url": Chat, "scope": "/", "display": "standalone",
		"background_color": "#12161c", "theme_color": "#1f5fbf",
		"icons": []any{icon(small, "192x192", "any"), icon(large, "512x512", "any"), icon(large, "512x512", "maskable")},
	})
	if err != nil {
		panic(err) // a mistake in the program: strings can be marshalled
	}
	return text
}

// Asset is a file that is part of the program. Its path holds its content's hash, so that a browser may keep it for
// ever, and asks for the new file after an upgrade.
type Asset struct {
	Path string // "/static/NAME-HASH.EXT"
	kind string // its Content-Type
	body []byte
}

// kinds are the types of assets, by the ends of their names.
var kinds = map[string]string{
	"css": "text/css; charset=utf-8",
	"js":  "text/javascript; charset=utf-8",
	"svg": "image/svg+xml",
	"png": "image/png",

	"webmanifest": "application/manifest+json",
}

// NewAsset makes an asset; name ends in one of kinds.
func NewAsset(name string, body []byte) *Asset {
	sum := sha256.Sum256(body)
	stem, ext, _ := strings.Cut(name, ".")
	return &Asset{Path: "/static/" + stem + "-" + hex.EncodeToString(sum[:6]) + "." + ext, kind: kinds[ext], body: body}
}

// ServeHTTP sends the file.
func (a *Asset) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body)
}

// Mount serves assets, to anybody: they are in every copy of the program.
func Mount(mux *http.ServeMux, assets ...*Asset) {
	for _, a := range assets {
		mux.Handle("GET "+a.Path, a)
	}
}

// MountFrame serves the frame's own assets.
func MountFrame(mux *http.ServeMux) { Mount(mux, style, script, icon, small, large, app) }
