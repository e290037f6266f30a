package relay

import (
	"fmt"
	"runtime"
)

// PanicWords describes the recovered value v without what people wrote: a panic's value may quote a message or a
// credential; a runtime error never does.
func PanicWords(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a %T", v)
}
