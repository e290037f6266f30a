package manage

import (
	"context"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// warnNotFronted is an instance's warning while messages wait that its gateway could not answer.
const warnNotFronted = "not_fronted"

// stuck are the events that wait because the instance's gateway does not front their bots, and those bots.
func (s *Service) stuck(ctx context.Context, i relay.InstanceID) (map[relay.EventID]relay.Bot, []relay.Bot, error) {
	unfronted := s.live.Unfronted(i)
	if len(unfronted) == 0 {
		return nil, nil, nil
	}
	entries, err := s.db.Lanes.Entries(ctx, i, store.EntryFilter{})
	if err != nil {
		return nil, nil, err
	}
	events := make(map[relay.EventID]relay.Bot)
	var bots []relay.Bot
	for _, e := range entries {
		if !slices.Contains(unfronted, e.About.Bot) {
			continue
		}
		events[e.About.ID] = e.About.Bot
		if !slices.Contains(bots, e.About.Bot) {
			bots = append(bots, e.About.Bot)
		}
	}
	return events, bots, nil
}

// frontLine says what is missing in the .env of a gateway that does not front bots: what `enroll` prints.
func (s *Service) frontLine(bots ...relay.Bot) string {
	var names []string
	for _, b := range bots {
		names = append(names, b.String())
	}
	waits := "messages of " + strings.Join(names, ", ") + " wait: "
	if !slices.ContainsFunc(s.bots(), func(p platforms.Platform) bool { return slices.Contains(bots, p.Bot()) }) {
		return waits + "that bot is not configured here any more"
	}
	env := s.env("")
	lines := []string{envPlatforms + "=" + env[envPlatforms]}
	if ids, ok := env[envBotIDs]; ok {
		lines = append(lines, envBotIDs+"="+ids)
	}
	return waits + "the gateway does not front it. Its .env needs " + strings.Join(lines, " and ") +
		" (one of June 2026: " + envPlatform + "=" + string(relay.RelayPlatform) + " and no " + envBotID + ")"
}
