package relay

import (
	"errors"
	"strings"
	"time"
)

// Programs hand over messages for agents through one bot of the connector's own (relay/agents). The network of that bot
// has a name that all versions of the gateway know.
const (
	// ProgramPlatform is the bot's network.
	ProgramPlatform PlatformID = "webhook"
	// ProgramBotID is that bot's id. No web hook can have this name.
	ProgramBotID BotID = "agents"

	// ProgramPrefix is the beginning of the user id of every program.
	ProgramPrefix = string(ProgramBotID) + ":"

	maxCaller  = 32 // bytes
	maxSession = 64 // bytes
)

// ProgramBot returns the bot through which programs reach agents.
func ProgramBot() Bot { return Bot{Platform: ProgramPlatform, ID: ProgramBotID} }

// IsProgram reports whether the bot is the one through which programs reach agents.
func (b Bot) IsProgram() bool { return b == ProgramBot() }

// Program is a program as one agent knows it. Each agent knows it as another person: what the program may send to one
// agent says nothing about the other.
type Program struct {
	Caller string // the name that the operator gave the program
	Agent  InstanceID
}

// User returns the program's user id towards the agent.
func (p Program) User() UserID {
	return UserID(ProgramPrefix + p.Caller + "@" + string(p.Agent))
}

// Chat returns the direct message between the program and the agent in the session.
func (p Program) Chat(session string) ChatID { return ChatID(string(p.User()) + "/" + session) }

// ProgramOf returns the program with the user id u; ok is false if u is not a program.
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

// ProgramIn returns the program and the session of a program's direct message; ok is false for every other chat.
func ProgramIn(c ChatID) (p Program, session string, ok bool) {
	at := strings.LastIndexByte(string(c), '/')
	if at < 0 || CheckSession(string(c[at+1:])) != nil {
		return p, "", false
	}
	p, ok = ProgramOf(UserID(c[:at]))
	return p, string(c[at+1:]), ok
}

// wakes is the beginning of the text with which a program wakes an agent.
const wakes = "[wake from "

// WakeText returns the text with which the program named caller wakes an agent, as the agent reads it. It is meant to
// interrupt the agent.
func WakeText(caller, text string) string { return wakes + caller + "]\n\n" + text }

// WakesAgent reports whether a program's event is a WakeText.
func WakesAgent(ev Event) bool { return strings.HasPrefix(ev.Text, wakes) }

// CheckCaller returns an error if s cannot be the name of a program.
func CheckCaller(s string) error {
	if s == "" || len(s) > maxCaller || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s[0] == '-' {
		return errors.New("want 1 to 32 small letters, digits and '-', and no '-' at the beginning")
	}
	return nil
}

// CheckSession returns an error if s cannot be the name of a session.
func CheckSession(s string) error {
	if s == "" || len(s) > maxSession || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) {
		return errors.New("want 1 to 64 letters, digits, '.', '_' and '-'")
	}
	return nil
}

// Receipt is the connector's record of a message that a program handed over. It is stored together with the event, or
// not at all.
type Receipt struct {
	Event       EventID    `json:"event"` // the id of the event and of the receipt
	Caller      string     `json:"caller"`
	Agent       InstanceID `json:"agent"`
	Session     string     `json:"session"`
	Dispatch    string     `json:"dispatch"` // the program's own name for the message
	Correlation string     `json:"correlation,omitempty"`
	// Sum is the checksum of the message. The same dispatch with another sum is not a repetition.
	Sum     []byte `json:"sum"`
	Request string `json:"request"` // random: tells the request that made the receipt from repetitions of it
	// Skipped and Warnings were told to the program together with the receipt. Skipped: the message was stored, but the
	// agent will not get it at once; Warnings say why.
	Skipped  bool     `json:"skipped,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// At is when the message was stored; of a scheduled message, when it was scheduled.
	At time.Time `json:"at"`
	// Buffer is the entry of the message; zero: it has none, because it is scheduled or was too large.
	Buffer BufferID `json:"buffer,omitzero"`
	// TakenAt is when the agent's gateway acknowledged the entry; zero: not yet.
	TakenAt time.Time `json:"taken,omitzero"`
	// Told is the outcome of writing to a person; empty: the outcome is unknown, or the message is for an agent.
	Told string `json:"told,omitempty"`
	// When is when a scheduled message is to be delivered; zero: it is not scheduled, or was delivered.
	When time.Time `json:"when,omitzero"`
	// Text is the text of a scheduled message; empty: the agent is only woken.
	Text string `json:"text,omitempty"`
}

// Program returns the program whose receipt it is.
func (r Receipt) Program() Program { return Program{Caller: r.Caller, Agent: r.Agent} }
