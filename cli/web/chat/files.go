package chat

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// file sends a file of a room. Only what browsers show in a page is called what it is; anything else is to be saved. The
// policy keeps all of them from doing anything, should one be opened by itself.
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
	head.Set("Accept-Ranges", "bytes")
	from, to, some := part(r.Header.Get("Range"), len(content))
	head.Set("Content-Length", strconv.Itoa(to-from))
	if some {
		head.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(content[from:to]) // whoever asked may be gone
}

// part is the piece of a file that a Range header asks for, as players of sound and film do: one piece, told by where it
// begins. Of anything else the whole is sent, as HTTP allows. http.ServeContent does more, and costs 25 KB.
func part(header string, size int) (from, to int, some bool) {
	begin, end, _ := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	from, err := strconv.Atoi(begin)
	if err != nil || from < 0 || from >= size || !strings.HasPrefix(header, "bytes=") {
		return 0, size, false
	}
	last, err := strconv.Atoi(end)
	if end == "" || last >= size {
		return from, size, true
	}
	if err != nil || last < from {
		return 0, size, false
	}
	return from, last + 1, true
}
