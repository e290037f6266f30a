package routes

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Loud logs the panics of h as errors: net/http would log them among strangers' mistakes. The log omits the request's
// path, which may be a credential.
func Loud(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler { // with it, a handler asks for the connection to be closed without an answer
				log.Error("a request ended in a panic", "panic", relay.PanicWords(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}
