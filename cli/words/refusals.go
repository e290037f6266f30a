package words

import (
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// helps says, for a person who was refused, what an operation does: the words that follow its command.
var helps = map[*ops.Row]string{
	ops.Gateways.Row: "lists them",
	ops.Enroll.Row:   "makes new ones",
	ops.Rotate.Row:   "gives it new credentials",
	ops.Bind.Row:     "does that",
	ops.Unbind.Row:   "undoes that",
	ops.Scopes.Row:   "shows which gateway holds what",
	ops.Routes.Row:   "lists them",
	ops.Dead.Row:     "lists the dead letters",
	ops.Explain.Row:  "lists the events that it remembers",
}

// Help returns the command to type after a refusal, in words that follow the message; empty: no command helps.
func Help(e *manage.Error) string {
	if len(e.Help) == 0 {
		return ""
	}
	op, ok := ops.Operators(e.Help[0])
	if !ok { // no operation, but a command that runs a server, such as serve
		return ": hermes-connector " + e.Help[0] + " starts one"
	}
	return ": " + Line(op, e.Help[1:]...) + " " + helps[op]
}
