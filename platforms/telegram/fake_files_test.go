package telegram

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
)

// anyFile stands in the scripts for the next method that posts a file, whichever it is.
const anyFile = "any file"

// fakeFile is a file that was uploaded.
type fakeFile struct {
	field, name, kind string
	content           string
}

// readCall reads the parameters of a call, and its file if it has one.
func readCall(r *http.Request) (url.Values, *fakeFile, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	kind, about, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		params, err := url.ParseQuery(string(body))
		return params, nil, err
	}
	params := url.Values{}
	var file *fakeFile
	for parts := multipart.NewReader(bytes.NewReader(body), about["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return params, file, nil
		}
		if err != nil {
			return nil, nil, err
		}
		content, err := io.ReadAll(p)
		switch {
		case err != nil:
			return nil, nil, err
		case p.FileName() != "":
			file = &fakeFile{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(content)}
		default:
			params.Set(p.FormName(), string(content))
		}
	}
}

// uploads lists the files of all calls so far, failed ones included, with the methods.
func (f *fakeAPI) uploads() (methods []string, files []fakeFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.file != nil {
			methods, files = append(methods, c.method), append(files, *c.file)
		}
	}
	return methods, files
}

// hold makes the fake serve a file.
func (f *fakeAPI) hold(path string, serve http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = serve
}

// serveFile answers for /file/bot<token>/<path>.
func (f *fakeAPI) serveFile(w http.ResponseWriter, r *http.Request) {
	_, rest, _ := strings.Cut(r.URL.Path, "/file/bot")
	token, path, _ := strings.Cut(rest, "/")
	f.mu.Lock()
	serve := f.files[path]
	f.mu.Unlock()
	if token != testToken || serve == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	serve(w, r)
}

// getFile knows the files that are held by their paths.
func (f *fakeAPI) getFile(params url.Values) any {
	path := params.Get("file_id")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files[path] == nil {
		return fault{code: 400, description: "Bad Request: invalid file_id"}
	}
	return obj{"file_id": path, "file_unique_id": "U" + path, "file_path": path}
}

// uploaded answers a method that posts a file.
func (f *fakeAPI) uploaded(method string, params url.Values, file *fakeFile) any {
	switch {
	case file == nil:
		return fault{code: 400, description: "Bad Request: there is no " + fileParam[method] + " in the request"}
	case file.field != fileParam[method]:
		return fault{code: 400, description: "Bad Request: " + file.field + " where a file belongs"}
	case len(params.Get("caption")) > 0 && dialect.Units(params.Get("caption")) > 1024:
		return fault{code: 400, description: "Bad Request: message caption is too long"}
	}
	return f.written(url.Values{"chat_id": {params.Get("chat_id")}, "text": {"a file"}}, 0)
}
