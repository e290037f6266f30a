// Package admin carries the operator's commands to the process that holds the database: over a
// Unix socket to a running server, or straight to a Service in the same process. Both ways call one
// method of the Service, so a command does the same whether or not a server runs.
//
// It is no management API for others: whoever can open the socket is the operator, and only the
// owner of the socket can (mode 0600).
//
// Invariants:
//
//  1. The socket is never connectable by anyone but its owner, from its first moment on.
//  2. Only the process that holds the database listens, so a socket file that it finds is stale.
//  3. A refusal (*manage.Error) arrives as it was made.
//  4. Every change is made in the name of the user who ran the command.
//  5. An operation is one row below: what the server carries out is what a command asks for.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/backup"
)

// The operations: each is POST /v1/<name> with its arguments as JSON.
var (
	Enroll       = change("enroll", (*manage.Service).Enroll)
	EnrollToken  = change("enroll-token", (*manage.Service).EnrollToken)
	Gateways     = look("gateways", (*manage.Service).Gateways)
	Gateway      = look("gateway", (*manage.Service).Gateway)
	Rotate       = change("rotate", (*manage.Service).Rotate)
	Revoke       = change("revoke", (*manage.Service).Revoke)
	Link         = change("link", (*manage.Service).Link)
	Bind         = change("bind", (*manage.Service).Bind)
	Unbind       = change("unbind", (*manage.Service).Unbind)
	Claim        = change("claim", (*manage.Service).Claim)
	Release      = change("release", (*manage.Service).Release)
	Scopes       = look("scopes", (*manage.Service).Scopes)
	SetPrincipal = change("principal", (*manage.Service).SetPrincipal)
	SetRelevance = change("relevance", (*manage.Service).SetRelevance)
	Status       = look("status", (*manage.Service).Status)
	Explain      = look("explain", (*manage.Service).Explain)
	Entries      = look("entries", (*manage.Service).Entries)
	Dead         = look("dead", (*manage.Service).Dead)
	Replay       = change("replay", (*manage.Service).Replay)
	Drop         = change("drop", (*manage.Service).Drop)
	SetDMDefault = change("dm-default", (*manage.Service).SetDMDefault)
	Identity     = change("identity", (*manage.Service).Identity)
	DropIdentity = change("drop-identity", (*manage.Service).DropIdentity)
	Routes       = look("routes", (*manage.Service).Routes)
	DropRoute    = change("drop-route", (*manage.Service).DropRoute)
	Audit        = look("audit", (*manage.Service).Audit)
	Diagnose     = look("diagnose", (*manage.Service).Diagnose)
	Quarantine   = look("quarantine", (*manage.Service).Quarantine)
	Health       = look("health", (*manage.Service).Health)
	Reload       = change("reload", (*manage.Service).Reload)
	WebLink      = change("web", (*manage.Service).WebLink)
	WebLogout    = change("web-logout", (*manage.Service).WebLogout)
)

// Op is an operation with arguments A and the result R.
type Op[A, R any] struct {
	name    string
	do      func(*manage.Service, context.Context, audit.Actor, A) (R, error)
	changes bool
}

// Changes reports whether the operation changes the database: it leaves a row in the audit list.
func (o Op[A, R]) Changes() bool { return o.changes }

// byName carry out the operations, by their names, with arguments in JSON. Every op adds its own while the package is
// set up, and nothing changes them after that.
var byName = make(map[string]func(ctx context.Context, svc *manage.Service, by audit.Actor, args []byte) (any, error))

// change is an operation that leaves a row in the audit list, in the name of who asked for it.
func change[A, R any](name string, do func(*manage.Service, context.Context, audit.Actor, A) (R, error)) Op[A, R] {
	return register(Op[A, R]{name, do, true})
}

// look is an operation that changes nothing.
func look[A, R any](name string, do func(*manage.Service, context.Context, A) (R, error)) Op[A, R] {
	return register(Op[A, R]{name, func(svc *manage.Service, ctx context.Context, _ audit.Actor, args A) (R, error) {
		return do(svc, ctx, args)
	}, false})
}

func register[A, R any](o Op[A, R]) Op[A, R] {
	byName[o.name] = func(ctx context.Context, svc *manage.Service, by audit.Actor, raw []byte) (any, error) {
		var args A
		if json.Unmarshal(raw, &args) != nil {
			return nil, errMalformed
		}
		return o.do(svc, ctx, by, args)
	}
	return o
}

// maxArgs bounds a request, in bytes.
const maxArgs = 1 << 20

// actorHeader carries the name of the user who ran the command. It is believed: only the socket's owner can send it.
const actorHeader = "Hermes-Connector-User"

var errMalformed = &manage.Error{Why: manage.Usage, Message: "malformed request"}

// Handler serves the operations of svc, and copies of src. What is not carried out is answered with a *manage.Error,
// which says no Why when it is no refusal but trouble.
func Handler(svc *manage.Service, src backup.Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/"+opBackup, copies(src))
	mux.HandleFunc("POST /v1/{op}", func(w http.ResponseWriter, r *http.Request) {
		carryOut, ok := byName[r.PathValue("op")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArgs))
		if err != nil {
			raw = nil // malformed
		}
		result, err := carryOut(r.Context(), svc, operator(r.Header.Get(actorHeader)), raw)
		if err == nil {
			answer(w, http.StatusOK, result)
			return
		}
		code, refused := http.StatusConflict, new(manage.Error)
		switch {
		case !errors.As(err, &refused):
			code, refused.Message = http.StatusInternalServerError, err.Error()
		case refused == errMalformed:
			code = http.StatusBadRequest
		}
		answer(w, code, refused)
	})
	return mux
}

// operator is a user of this machine as the audit list names him.
func operator(user string) audit.Actor { return audit.Actor{Kind: audit.ActorCLI, Name: user} }

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // every type here has a JSON form; if the asker hung up, nobody is left to tell
}
