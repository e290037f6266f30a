package doctor

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// spools returns the findings about spools of MCP servers that are full, in use by a process, or damaged.
func spools(dirs []string) (out finding.List) {
	for _, dir := range dirs {
		st, err := spool.Look(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the folder has no spool yet
		case err != nil:
			out.Add(finding.SpoolDamaged, dir, "the spool cannot be read: "+reason(err), "look at it, then remove it; what waits in it is lost then")
		default:
			if st.Full {
				out.Add(finding.SpoolFull, dir, fmt.Sprintf("the spool is full: %d messages, %d MiB, %d MiB of files", st.Waiting, st.Bytes>>20, st.Files>>20),
					"have the client confirm what it has read (events_poll with after_cursor)")
			}
			if st.PID != 0 {
				out.Add(finding.SpoolHeld, dir, fmt.Sprintf("the spool is held by process %d", st.PID), "that is so while an MCP client runs; end that process if none does")
			}
		}
	}
	return out
}
