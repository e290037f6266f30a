// Package admin carries the operator's commands to the process that has the database open: over a
// Unix socket to a running server, or straight to a Service in the same process. Both ways carry out one
// row of relay/ops, so a command does the same whether or not a server runs.
//
// The socket is not a management API for other programs: everybody who can open it is the operator. Only its owner and
// root can (mode 0600), or also the group of the service's folder, if there is such a folder (mode 0660).
//
// Invariants:
//
//  1. The socket is never connectable by anyone else, from its first moment on.
//  2. A process listens only if it has the database open, or if it found that no server listens. So the process that
//     made an older socket file has died.
//  3. A refusal (*manage.Error) reaches the command with all its fields.
//  4. Every change is made in the name of the user who ran the command.
//  5. The operations are those of relay/ops for the operator, each at POST /v1/<name> with its arguments as JSON.
package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

// maxArgs bounds a request, in bytes.
const maxArgs = 1 << 20

// actorHeader carries the name of the user who ran the command. The server believes it if the system says that root or
// the server's own user sent the request.
const actorHeader = "Hermes-Connector-User"

// Server describes the server that listens on a socket. Paths are absolute.
type Server struct {
	DataDir string `json:"dataDir"`
	Config  string `json:"config,omitempty"` // its configuration file; empty: there is none
}

// opServer is the name of the operation that returns the Server.
const opServer = "server"

// Handler serves the operations of svc and copies of src. self describes this server to clients that ask. An operation
// that fails is answered with a *manage.Error, whose Why is empty if it failed for another reason than a refusal.
func Handler(svc *manage.Service, src backup.Source, self Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/"+opServer, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, self) })
	mux.HandleFunc("POST /v1/"+opBackup, copies(src))
	mux.HandleFunc("POST /v1/{op}", func(w http.ResponseWriter, r *http.Request) {
		op, ok := ops.Operators(r.PathValue("op"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArgs))
		if err != nil {
			raw = nil // which is no JSON: the operation refuses it
		}
		result, err := op.Carry(r.Context(), svc, operator(caller(r)), raw)
		if err == nil {
			answer(w, http.StatusOK, result)
			return
		}
		code := http.StatusConflict
		refused, ok := errors.AsType[*manage.Error](err)
		switch {
		case !ok:
			code, refused = http.StatusInternalServerError, &manage.Error{Message: err.Error()}
		case refused.Why == manage.Usage:
			code = http.StatusBadRequest
		}
		answer(w, code, refused)
	})
	return mux
}

// Elsewhere serves the socket of a process that has no database open. hand makes a handler that has another process
// carry out an operation in a user's name. Operations that read this machine's configuration are refused, because the
// other process would read its own.
func Elsewhere(self Server, hand func(user string) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/"+opServer, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, self) })
	mux.HandleFunc("POST /v1/"+ops.Reload.Name, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusConflict, &manage.Error{Why: manage.Offline, Message: "this node does not lead: reload at the node that does; restart this one, and it reads its own configuration"})
	})
	mux.HandleFunc("POST /v1/{op}", func(w http.ResponseWriter, r *http.Request) { hand(caller(r)).ServeHTTP(w, r) })
	return mux
}

// operator returns a user of this machine as the one who makes a change, for the audit list.
func operator(user string) audit.Actor { return audit.Actor{Kind: audit.ActorCLI, Name: user} }

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // every type here has a JSON form; if the command hung up, nobody reads an error
}
