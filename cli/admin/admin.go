// Package admin carries the operator's commands to the process that holds the database: over a
// Unix socket to a running server, or straight to a Service in the same process. Both ways run
// through one handler, so a command does the same whether or not a server runs.
//
// It is no management API for others: who can open the socket is the operator, and that is its
// owner alone (mode 0600).
//
// Invariants:
//
//  1. The socket is never connectable by anyone but its owner, from its first moment on.
//  2. Only who holds the database may listen, so a socket file found then is stale.
//  3. A refusal (*manage.Error) arrives as it was made.
//  4. Every change is made in the name of the user who ran the command.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// The operations. Each is POST /v1/<name> with its arguments as JSON.
const (
	opEnroll       = "enroll"
	opEnrollToken  = "enroll-token"
	opGateways     = "gateways"
	opGateway      = "gateway"
	opRotate       = "rotate"
	opRevoke       = "revoke"
	opLink         = "link"
	opBind         = "bind"
	opUnbind       = "unbind"
	opClaim        = "claim"
	opRelease      = "release"
	opScopes       = "scopes"
	opSetPrincipal = "principal"
	opSetRelevance = "relevance"
	opStatus       = "status"
	opExplain      = "explain"
	opEntries      = "entries"
	opDead         = "dead"
	opReplay       = "replay"
	opDrop         = "drop"
	opDMDefault    = "dm-default"
	opIdentity     = "identity"
	opDropIdentity = "drop-identity"
	opRoutes       = "routes"
	opDropRoute    = "drop-route"
	opAudit        = "audit"
	opQuarantine   = "quarantine"
)

// maxArgs bounds a request, in bytes.
const maxArgs = 1 << 20

// actorHeader carries the name of the user who ran the command. It is believed: only the socket's
// owner can send it.
const actorHeader = "Hermes-Connector-User"

// Handler serves the operations of svc.
func Handler(svc *manage.Service) http.Handler {
	mux := http.NewServeMux()
	handle(mux, opEnroll, svc.Enroll)
	handle(mux, opEnrollToken, svc.EnrollToken)
	handle(mux, opGateways, svc.Gateways)
	handle(mux, opGateway, svc.Gateway)
	handle(mux, opRotate, svc.Rotate)
	handle(mux, opRevoke, svc.Revoke)
	handle(mux, opLink, svc.Link)
	handle(mux, opBind, svc.Bind)
	handle(mux, opUnbind, svc.Unbind)
	handle(mux, opClaim, svc.Claim)
	handle(mux, opRelease, svc.Release)
	handle(mux, opScopes, svc.Scopes)
	handle(mux, opSetPrincipal, svc.SetPrincipal)
	handle(mux, opSetRelevance, svc.SetRelevance)
	handle(mux, opStatus, svc.Status)
	handle(mux, opExplain, svc.Explain)
	handle(mux, opEntries, svc.Entries)
	handle(mux, opDead, svc.Dead)
	handle(mux, opReplay, svc.Replay)
	handle(mux, opDrop, svc.Drop)
	handle(mux, opDMDefault, svc.SetDMDefault)
	handle(mux, opIdentity, svc.Identity)
	handle(mux, opDropIdentity, svc.DropIdentity)
	handle(mux, opRoutes, svc.Routes)
	handle(mux, opDropRoute, svc.DropRoute)
	handle(mux, opAudit, svc.Audit)
	handle(mux, opQuarantine, svc.Quarantine)
	return mux
}

// failure is the body of every answer but 200.
type failure struct {
	Error string      `json:"error"`
	Kind  manage.Kind `json:"kind,omitempty"` // empty: no refusal but trouble
	Field string      `json:"field,omitempty"`
}

func handle[A, R any](mux *http.ServeMux, op string, do func(context.Context, A) (R, error)) {
	mux.HandleFunc("POST /v1/"+op, func(w http.ResponseWriter, r *http.Request) {
		var args A
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArgs))
		if err == nil {
			err = json.Unmarshal(raw, &args)
		}
		if err != nil {
			answer(w, http.StatusBadRequest, failure{Error: "malformed request", Kind: manage.Usage})
			return
		}
		actor := store.Actor{Kind: store.ActorCLI, Name: r.Header.Get(actorHeader)}
		result, err := do(store.WithActor(r.Context(), actor), args)
		if err == nil {
			answer(w, http.StatusOK, result)
			return
		}
		if refused, ok := errors.AsType[*manage.Error](err); ok {
			answer(w, http.StatusConflict, failure{Error: refused.Message, Kind: refused.Kind, Field: refused.Field})
			return
		}
		answer(w, http.StatusInternalServerError, failure{Error: err.Error()})
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // no type here can fail
		code, raw = http.StatusInternalServerError, []byte(`{"error":"the answer has no JSON form"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(raw) // the asker hung up: nobody is left to tell
}
