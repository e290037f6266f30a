package manage

import (
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Why sorts refusals, for exit codes and HTTP status codes.
type Why string

// Why something is refused.
const (
	NotFound  Why = "not_found" // the named thing does not exist, or belongs to another tenant
	Exists    Why = "exists"    // the name is taken
	Held      Why = "held"      // another instance has it
	Forbidden Why = "forbidden" // the caller may not have it, whether or not it exists
	Usage     Why = "usage"     // an argument makes no sense
	Offline   Why = "offline"   // only a running server knows
)

// Error is a refusal.
type Error struct {
	Why Why `json:"kind,omitempty"`
	// Message says what was refused and why. It contains no credential.
	Message string `json:"error"`
	// Field is the argument that a Usage refusal is about, under its name on the wire.
	Field string `json:"field,omitempty"`
	// Help names what helps: an operation in relay/ops, or another command, and its arguments. Each front end puts it in its
	// own words.
	Help []string `json:"help,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func refuse(why Why, format string, args ...any) *Error {
	return &Error{Why: why, Message: fmt.Sprintf(format, args...)}
}

// try sets Help, and returns e.
func (e *Error) try(help ...string) *Error {
	e.Help = help
	return e
}

// unfit returns a Usage refusal of the argument field.
func unfit(field, format string, args ...any) *Error {
	e := refuse(Usage, format, args...)
	e.Field = field
	return e
}

// checkID refuses an id that no platform can have. what is the kind of id, in words.
func checkID(field, what, id string) error {
	if !fit(id, relay.MaxName) {
		return unfit(field, "%q is no %s id", id, what)
	}
	return nil
}

// fit reports whether id could be an id: 1 to most bytes, all of them visible, because ids are printed on terminals.
func fit(id string, most int) bool {
	return id != "" && len(id) <= most && !strings.ContainsFunc(id, relay.Unshown)
}
