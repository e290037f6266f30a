package routes

import (
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Loud is h, whose panics are logged as errors: net/http would log them among what strangers do wrong. The request's
// path stays out: it may be a credential.
func Loud(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler { // by which a handler says that the connection is to be closed without an answer
				log.Error("a request ended in a panic", "panic", relay.PanicWords(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}
