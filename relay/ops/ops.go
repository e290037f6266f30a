// Package ops is the table of all operations of the connector. Each operation has one row: its name, its arguments and
// its result as types, who may ask for it and how, and the method of package manage that carries it out. The command
// line, the admin socket, the HTTP API and the man pages are made from this table.
//
// Two columns say who may ask. An operation with a command is for the operator: everybody who can open the admin
// socket, or the database. An operation with a route is for a gateway, or for a program that manages gateways, about
// its own instance only; relay/api proves which instance that is. The front end has the words: the table has none.
//
// Invariants:
//
//  1. A name and a route belong to one operation only.
//  2. An operation that changes something leaves a row in the audit list, in the name of who asked for it.
package ops

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// Row is an operation, without the types of its arguments and its result.
type Row struct {
	Name    string // on the admin socket
	Command string // the command behind the program's name, with its arguments; empty: not for the operator
	Former  string // the former command, which still works; empty: none
	Route   string // method and path of the route for gateways; empty: not for a gateway
	Changes bool   // it changes the database
	// Carry carries the operation out, with arguments in JSON. Refusals are *manage.Error.
	Carry func(ctx context.Context, svc *manage.Service, by audit.Actor, args []byte) (any, error)
}

// Op is an operation with arguments A and the result R.
type Op[A, R any] struct {
	*Row
	do func(*manage.Service, context.Context, audit.Actor, A) (R, error)
}

// Do carries the operation out, in the name of by. Refusals are *manage.Error.
func (o Op[A, R]) Do(ctx context.Context, svc *manage.Service, by audit.Actor, args A) (R, error) {
	return o.do(svc, ctx, by, args)
}

// formerly returns o with its former command, which the operator may still type.
func (o Op[A, R]) formerly(command string) Op[A, R] {
	o.Former = command
	return o
}

// errMalformed is the refusal of arguments that cannot be read at all.
var errMalformed = &manage.Error{Why: manage.Usage, Message: "malformed request"}

// malformed returns the refusal of arguments that err says cannot be read.
func malformed(err error) *manage.Error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return errMalformed
	}
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "a list"
	}
	return &manage.Error{Why: manage.Usage, Field: wrong.Field, Message: "want " + want}
}

// Words returns the words of the command, and the arguments and flags that stand behind them.
func (r *Row) Words() (words, args []string) { return Split(r.Command) }

// Split divides a command as the table writes it into its words, and the arguments and flags that stand behind them.
func Split(command string) (words, args []string) {
	all := strings.Fields(command)
	n := slices.IndexFunc(all, func(w string) bool {
		return strings.HasPrefix(w, "-") || strings.ToLower(w) != w || strings.HasPrefix(w, "[")
	})
	if n < 0 {
		n = len(all)
	}
	return all[:n], all[n:]
}

// rows are all operations. Each adds itself while the package is set up, and nothing changes them after that.
var rows []*Row

// All returns all operations, in the order of the table.
func All() []*Row { return rows }

// Operators returns the operation with that name, if it is for the operator.
func Operators(name string) (*Row, bool) {
	for _, r := range rows {
		if r.Name == name && r.Command != "" {
			return r, true
		}
	}
	return nil, false
}

// change returns an operation that leaves a row in the audit list, in the name of who asked for it.
func change[A, R any](name, command, route string, do func(*manage.Service, context.Context, audit.Actor, A) (R, error)) Op[A, R] {
	return enter(&Row{Name: name, Command: command, Route: route, Changes: true}, do)
}

// look returns an operation that changes nothing.
func look[A, R any](name, command, route string, do func(*manage.Service, context.Context, A) (R, error)) Op[A, R] {
	return enter(&Row{Name: name, Command: command, Route: route},
		func(svc *manage.Service, ctx context.Context, _ audit.Actor, args A) (R, error) {
			return do(svc, ctx, args)
		})
}

// enter adds an operation to the table.
func enter[A, R any](r *Row, do func(*manage.Service, context.Context, audit.Actor, A) (R, error)) Op[A, R] {
	r.Carry = func(ctx context.Context, svc *manage.Service, by audit.Actor, raw []byte) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, malformed(err)
		}
		return do(svc, ctx, by, args)
	}
	rows = append(rows, r)
	return Op[A, R]{r, do}
}
