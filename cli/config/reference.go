package config

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// Reference describes every key, with its default and its meaning, section by section.
func Reference(kinds []platforms.Kind) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(key, def, help string) {
		if def != "" {
			help += " (default " + def + ")"
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", key, help)
	}
	_, _ = fmt.Fprintf(w, "Every key can also be given as a variable: %sLISTEN, %sDELIVERY_WINDOW,\n%sTELEGRAM_TOKEN_FILE (for the one bot of that platform).\n\n", envPrefix, envPrefix, envPrefix)
	section := ""
	for _, s := range settings() {
		if s.section != section {
			section = s.section
			_, _ = fmt.Fprintf(w, "\n[%s]\n", section)
		}
		row(s.key, s.def, s.help)
	}
	_, _ = fmt.Fprintf(w, "\n[[%s]]\n", botsSection)
	for _, k := range botKeys() {
		row(k.Name, k.Default, k.Help)
	}
	for _, kind := range kinds {
		for _, k := range kind.Keys {
			row(k.Name, k.Default, string(kind.Name)+": "+k.Help)
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return strings.TrimRight(b.String(), "\n")
}
