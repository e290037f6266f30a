package relay

import (
	"errors"
	"strings"
	"time"
)

// Programs hand over what they have for agents through one bot of the connector's own (relay/agents). Gateways know its
// network by name, at every age.
const (
	// ProgramPlatform is the bot's network.
	ProgramPlatform PlatformID = "webhook"
	// ProgramBotID is the bot's own id there. No web hook can be called so.
	ProgramBotID BotID = "agents"

	// ProgramPrefix begins the id of every program as a person.
	ProgramPrefix = string(ProgramBotID) + ":"

	maxCaller  = 32 // bytes
	maxSession = 64 // bytes
)

// ProgramBot is the bot through which programs reach agents.
func ProgramBot() Bot { return Bot{Platform: ProgramPlatform, ID: ProgramBotID} }

// IsProgram reports whether the bot is the one through which programs reach agents.
func (b Bot) IsProgram() bool { return b == ProgramBot() }

// Program is a program as one agent knows it. For two agents it is two people: what it may send to one of
// them says nothing about the other.
type Program struct {
	Caller string // the name that the operator gave the program
	Agent  InstanceID
}

// User is whom the agent knows the program as.
func (p Program) User() UserID {
	return UserID(ProgramPrefix + p.Caller + "@" + string(p.Agent))
}

// Chat is the direct message between the program and the agent in that session.
func (p Program) Chat(session string) ChatID { return ChatID(string(p.User()) + "/" + session) }

// ProgramOf is the program that a user is; ok is false for everybody else.
func ProgramOf(u UserID) (p Program, ok bool) {
	rest, ok := strings.CutPrefix(string(u), ProgramPrefix)
	if !ok {
		return p, false
	}
	caller, agent, ok := strings.Cut(rest, "@")
	if !ok || CheckCaller(caller) != nil || agent == "" {
		return p, false
	}
	return Program{Caller: caller, Agent: InstanceID(agent)}, true
}

// ProgramIn is the program whose direct message the chat is, and the session; ok is false for every other chat.
func ProgramIn(c ChatID) (p Program, session string, ok bool) {
	at := strings.LastIndexByte(string(c), '/')
	if at < 0 || CheckSession(string(c[at+1:])) != nil {
		return p, "", false
	}
	p, ok = ProgramOf(UserID(c[:at]))
	return p, string(c[at+1:]), ok
}

// wakes begins the first line of what a program wakes an agent with.
const wakes = "[wake from "

// WakeText is what a program of that name wakes an agent with, as the agent reads it. It is to interrupt the agent.
func WakeText(caller, text string) string { return wakes + caller + "]\n\n" + text }

// WakesAgent reports whether an event of a program has a WakeText.
func WakesAgent(ev Event) bool { return strings.HasPrefix(ev.Text, wakes) }

// CheckCaller reports why s cannot name a program.
func CheckCaller(s string) error {
	if s == "" || len(s) > maxCaller || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s[0] == '-' {
		return errors.New("want 1 to 32 small letters, digits and '-', and no '-' at the beginning")
	}
	return nil
}

// CheckSession reports why s cannot name a session.
func CheckSession(s string) error {
	if s == "" || len(s) > maxSession || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) {
		return errors.New("want 1 to 64 letters, digits, '.', '_' and '-'")
	}
	return nil
}

// Receipt is what the connector holds of something that a program handed over. It is stored with its event, or not at all.
type Receipt struct {
	Event       EventID    `json:"event"` // the event's, and the receipt's own
	Caller      string     `json:"caller"`
	Agent       InstanceID `json:"agent"`
	Session     string     `json:"session"`
	Dispatch    string     `json:"dispatch"` // what the program calls it
	Correlation string     `json:"correlation,omitempty"`
	// Sum is of what was handed over. The same dispatch with another sum is no repetition.
	Sum     []byte `json:"sum"`
	Request string `json:"request"` // random: tells the request that made it from its repetitions
	// Skipped and Warnings are what the program was told with it.
	Skipped  bool     `json:"skipped,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// At is when it was stored; of a scheduled one, when that was.
	At time.Time `json:"at"`
	// Buffer is its entry; zero: it has none, because it is scheduled or was too large.
	Buffer BufferID `json:"buffer,omitzero"`
	// TakenAt is when the agent's gateway acknowledged the entry; zero: it did not.
	TakenAt time.Time `json:"taken,omitzero"`
	// Told is what became of what a person was to be told; empty: nobody knows, or it is for an agent.
	Told string `json:"told,omitempty"`
	// When is when it is to be delivered; zero: it was.
	When time.Time `json:"when,omitzero"`
	// Text is what is to be delivered then; empty: nothing, the agent is only woken.
	Text string `json:"text,omitempty"`
}

// Program is whose receipt it is.
func (r Receipt) Program() Program { return Program{Caller: r.Caller, Agent: r.Agent} }
