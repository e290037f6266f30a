package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

const (
	maxPost = local.MaxWebFile + 256<<10 // bytes of all that is posted at once
	maxText = 4*local.MaxWebLength + 1   // bytes of a text, and one more, which shows that the text is longer
	maxName = 200                        // bytes of a file's name
	// comeWithin is how long a post may take to arrive.
	comeWithin = 5 * time.Minute
	// storedWithin is how long a response waits until the message is stored. If that takes longer, the response comes
	// without it, and the page shows later that the message is stored.
	storedWithin = 3 * time.Second
)

// say stores a message of the person, and answers with the room.
func (s *Section) say(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(comeWithin)) // fails only in tests, whose connections have no deadlines
	_ = conn.SetWriteDeadline(time.Now().Add(comeWithin + storedWithin + page.WriteWithin))
	said, err := s.read(w, r)
	if err == nil {
		err = s.bind(r.Context(), i.ID)
	}
	s.answer(w, r, i.ID, err, func(ctx context.Context) error { return s.rooms.Say(ctx, relay.ChatID(i.ID), said) })
}

// press stores a press of a button, and answers with the room.
func (s *Section) press(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	r.Body = http.MaxBytesReader(w, r.Body, maxName<<4)
	err := r.ParseForm()
	message, option := relay.MessageID(r.PostForm.Get("message")), r.PostForm.Get("option")
	if err != nil {
		err = errForm
	}
	s.answer(w, r, i.ID, err, func(ctx context.Context) error {
		return s.rooms.Press(ctx, relay.ChatID(i.ID), message, option)
	})
}

var (
	errForm = errors.New("the form cannot be read")
	errBind = errors.New("you could not be linked to this gateway")
)

// answer calls do, unless err is set, and answers with the room or with why nothing was done. If do takes longer than
// storedWithin, that is no failure: the page shows what waits.
func (s *Section) answer(w http.ResponseWriter, r *http.Request, id relay.InstanceID, err error, do func(context.Context) error) {
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), storedWithin)
		defer cancel()
		err = do(ctx)
	}
	refused, isRefused := errors.AsType[*manage.Error](err)
	switch status := http.StatusBadRequest; {
	case err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		if fromScript(r) {
			w.WriteHeader(http.StatusNoContent)
		} else {
			http.Redirect(w, r, path(id, "#text"), http.StatusSeeOther)
		}
	case isRefused:
		fail(w, r, http.StatusConflict, "Not sent", sentence(refused.Message+words.Help(refused)))
	default:
		switch {
		case errors.Is(err, local.ErrBusy), errors.Is(err, errBind):
			status = http.StatusServiceUnavailable
		case errors.Is(err, local.ErrFiles), errors.Is(err, local.ErrTooLong):
			status = http.StatusRequestEntityTooLarge
		case errors.Is(err, local.ErrGone):
			status = http.StatusConflict
		}
		fail(w, r, status, "Not sent", sentence(err.Error()))
	}
}

// sentence returns s with a capital letter and a full stop.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// bind binds the room's person to its gateway, unless they are bound already.
func (s *Section) bind(ctx context.Context, id relay.InstanceID) error {
	bound, err := s.o.Bound(ctx, id)
	if err == nil && !bound {
		_, err = s.gateways.Bind(ctx, page.Actor(ctx),
			manage.Bind{Name: string(id), Platform: local.WebID, User: relay.UserID(id)})
	}
	if _, refused := errors.AsType[*manage.Error](err); err != nil && !refused {
		return errBind // the log has the reason why the link could not be stored
	}
	return err
}

// read returns the message in a post, whose parts are the text and the files.
func (s *Section) read(w http.ResponseWriter, r *http.Request) (said local.Said, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxPost)
	if r.ContentLength > maxPost { // read up to the limit: a browser shows no answer before it has sent that much
		_, err := io.Copy(io.Discard, r.Body)
		return said, tooLarge(err)
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return said, errForm
	}
	// The files are read one behind the other into one buffer, so that they need only as much memory as their size.
	files := bytes.NewBuffer(make([]byte, 0, max(0, r.ContentLength)+bytes.MinRead))
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return said, nil
		case err != nil:
			return said, tooLarge(err)
		case part.FormName() == "text":
			text, err := io.ReadAll(io.LimitReader(part, maxText))
			if err != nil {
				return said, tooLarge(err)
			}
			said.Text = string(text)
		case part.FormName() == "files" && part.FileName() != "":
			if len(said.Files) == relay.MaxAttachments {
				return said, local.ErrFiles
			}
			from := files.Len()
			if _, err := files.ReadFrom(part); err != nil {
				return said, tooLarge(err)
			}
			content := files.Bytes()[from:files.Len():files.Len()]
			said.Files = append(said.Files, local.Upload{Name: fileName(part.FileName()), Facts: s.o.Facts(content), Content: content})
		}
	}
}

// tooLarge returns local.ErrFiles if err is that of a post that is too large, and otherwise errForm.
func tooLarge(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return local.ErrFiles
	}
	return errForm
}

// fileName returns a name without a path and invisible characters, of at most maxName bytes.
func fileName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r != ' ' && relay.Unshown(r) {
			return '_'
		}
		return r
	}, filepath.Base(strings.ReplaceAll(name, `\`, "/")))
	if len(name) > maxName {
		name = name[len(name)-maxName:] // the end has the extension
	}
	return strings.ToValidUTF8(name, "")
}
