package hub

import (
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
)

// say notes an identity and reports whether it is the first.
func (s *attachment) say(b relay.Bot) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = len(s.identities) == 0
	if len(s.identities) < maxIdentities && !slices.Contains(s.identities, b) {
		s.identities = append(s.identities, b)
	}
	return first
}

// Identities implements outbound.Attachment.
func (s *attachment) Identities() []relay.Bot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.identities)
}

// standsFor reports whether an identity of a hello stands for the bot: one without a bot id for every bot of
// its platform, "relay" for every bot.
func standsFor(id, b relay.Bot) bool {
	return id.Platform == relay.RelayPlatform || id.Platform == b.Platform && (id.ID == "" || id.ID == b.ID)
}

// fronts reports whether the gateway serves the bot: it could not answer the events of other bots. The operator is told
// of the bots that the pump asked about and the gateway does not serve.
func (s *attachment) fronts(b relay.Bot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.IsProgram() && s.told > 0 {
		return true // hellos need not name it; with a rule in standsFor, its descriptor would answer hellos
	}
	if slices.ContainsFunc(s.identities[:s.told], func(id relay.Bot) bool { return standsFor(id, b) }) {
		return true
	}
	if !slices.Contains(s.unfronted, b) {
		s.unfronted = append(s.unfronted, b)
	}
	return false
}

// tell notes that the descriptors of all identities are queued: their bots' entries may follow. It reports whether
// there are new ones.
func (s *attachment) tell() (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more = s.told < len(s.identities)
	s.told = len(s.identities)
	if more {
		s.unfronted = nil // the pump asks again
	}
	return more
}
