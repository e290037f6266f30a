package chat

import (
	"bytes"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// file sends a file of a room. Only files that browsers show in a page get their own type; all others are offered for
// saving. The policy keeps scripts in a file from running if the file is opened outside of a page.
func (s *Section) file(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	f, content, ok := s.rooms.File(r.PathValue("id"))
	if !ok {
		fail(w, r, http.StatusNotFound, "That file is not kept any more", "Files are kept in memory, the newest ones only.")
		return
	}
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	head.Set("Cache-Control", "private, max-age=3600") // an id never means another file
	if shown[f.Format] == "" {
		head.Set("Content-Type", "application/octet-stream")
		head.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(f.Name))
	} else {
		head.Set("Content-Type", f.Mime)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content)) // browsers request sound and film in pieces
}
