package platforms

import (
	"strings"
	"sync"
	"unicode"
)

// builtIn are the commands that gateways have without saying so, and those that people give the connector itself.
var builtIn = names([]string{
	"new", "reset", "clear", "model", "reasoning", "personality", "retry", "undo", "status", "sethome", "stop", "steer", "compress",
	"title", "resume", "usage", "help", "insights", "reload-mcp", "reload-skills", "voice", "update", "restart", "approve", "deny",
	"thread", "queue", "background", "disk-cleanup",
	"link", "unlink", "whoami", "agent", "mute", "unmute",
})

func names(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, name := range list {
		out[strings.ToLower(name)] = true
	}
	return out
}

// CommandNames knows the commands of gateways by name, for networks where "/" does not reach a bot everywhere: people
// write "!" in its place. It implements CommandKnower. Its methods may be called from any goroutine.
type CommandNames struct {
	mu   sync.Mutex      // guards the field below
	more map[string]bool // the names that KnowCommands was given last, in lower case
}

// KnowCommands implements CommandKnower.
func (c *CommandNames) KnowCommands(list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more = names(list)
}

// Slashed returns text with "/" in place of the "!" at its beginning, and true, if the word right behind the "!" is a
// command's name, in upper or lower case. Blanks before the "!" are left out. Any other text stays as it is.
func (c *CommandNames) Slashed(text string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), "!")
	if !ok {
		return text, false
	}
	name := rest
	if n := strings.IndexFunc(rest, unicode.IsSpace); n >= 0 {
		name = rest[:n]
	}
	name = strings.ToLower(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !builtIn[name] && !c.more[name] {
		return text, false
	}
	return "/" + rest, true
}
