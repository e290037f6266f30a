package discord

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
)

// uploaded is the file of a request, as the standard library's reader of forms finds it.
type uploaded struct {
	Field, Name, Type string
	Content           []byte
}

// readBody reads a request's body: what is said in JSON, and the file, if it is a form. Discord wants a length.
func readBody(h http.Header, length int64, body io.Reader) (said []byte, file *uploaded, err error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, nil, err
	}
	kind, params, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if kind != "multipart/form-data" {
		return raw, nil, nil
	}
	if int64(len(raw)) != length {
		return nil, nil, fmt.Errorf("a body of %d bytes, announced as %d", len(raw), length)
	}
	parts := multipart.NewReader(bytes.NewReader(raw), params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return said, file, nil
		}
		if err != nil {
			return nil, nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case part.FileName() != "" && file == nil:
			file = &uploaded{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), content}
		case part.FormName() == "payload_json" && said == nil:
			said = content
		default:
			return nil, nil, fmt.Errorf("a part %q too many", part.FormName())
		}
	}
}
