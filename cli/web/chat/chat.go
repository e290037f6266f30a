// Package chat is the part of the web pages where the operator talks to the gateways. A message from these pages takes
// the path of every message: platforms/local, the gate, the gateway's lane on the disk and the gateway's socket. So an
// answer proves that the whole path works.
//
// Invariants:
//
//  1. Every page works without scripts, except that it does not update itself then.
//  2. Text of a gateway or a person is a value for a template, never markup. An address that they wrote becomes a link
//     only if it begins with http, https or mailto.
//  3. The person of a room is linked to its gateway when they write in the room, not when they open it.
package chat

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

//go:embed chat.js
var scriptText []byte

//go:embed list.js
var listScriptText []byte

//go:embed chat.css
var styleText []byte

//go:embed chat.html
var templateText string

var (
	script     = page.NewAsset("chat.js", scriptText)
	listScript = page.NewAsset("list.js", listScriptText)
	styles     = page.NewAsset("chat.css", styleText)
	templates  = page.Parse(templateText, template.FuncMap{
		"path": path, "called": called, "how": howIs, "style": style, "label": label, "bytes": bytesOf, "join": strings.Join,
		"maxMessages": func() int { return local.MaxWebMessages }, "maxFiles": func() int { return relay.MaxAttachments }, "maxBytes": func() int { return local.MaxWebFile },
		"shown": func(f relay.Format) string { return shown[f] },
	})
)

// Gateways lists the gateways that one can talk to. *manage.Service implements it.
type Gateways interface {
	Status(context.Context, struct{}) (manage.Status, error)
	Bind(context.Context, audit.Actor, manage.Bind) (manage.Binding, error)
}

// Options are what the pages need beside the rooms.
type Options struct {
	// Bound reports whether messages in the instance's room go to the instance.
	Bound func(context.Context, relay.InstanceID) (bool, error)
	// Facts returns the type of a file, and what else its bytes say.
	Facts func(content []byte) relay.FileFacts
}

// Section is the pages. It satisfies web.Section.
type Section struct {
	rooms    *local.Rooms
	gateways Gateways
	o        Options
	streams  page.Streams

	rendering sync.Mutex // held while messages are rendered, which takes many times their size in memory
}

// maxStreams is how many pages are kept fresh at a time.
const maxStreams = 16

// New makes the pages of rooms.
func New(rooms *local.Rooms, g Gateways, o Options) *Section {
	return &Section{rooms: rooms, gateways: g, o: o, streams: page.NewStreams(maxStreams)}
}

// unreadable answers a request for which the database could not be read.
func unreadable(w http.ResponseWriter) {
	page.Answer(w, http.StatusServiceUnavailable, page.Words(page.Chat, "The database cannot be read", "hermes-connector doctor says why."))
}

// fromScript reports whether a request was made by our script, which shows the answer's words itself.
func fromScript(r *http.Request) bool { return r.Header.Get("Accept") == "text/plain" }

// fail answers with why something cannot be done.
func fail(w http.ResponseWriter, r *http.Request, status int, title, sentence string) {
	if !fromScript(r) {
		page.Answer(w, status, page.Words(page.Chat, title, sentence))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(title + ". " + sentence)) // fails only if the browser is gone
}
