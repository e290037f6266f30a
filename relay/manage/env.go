package manage

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// The variables a gateway reads. Older gateways know PLATFORM and BOT_ID only, newer ones read
// PLATFORMS and BOT_IDS only (wire.md 1.9), so a gateway of unknown age gets both.
const (
	envURL         = "GATEWAY_RELAY_URL"
	envID          = "GATEWAY_RELAY_ID"
	envSecret      = "GATEWAY_RELAY_SECRET"
	envDeliveryKey = "GATEWAY_RELAY_DELIVERY_KEY"
	envPlatform    = "GATEWAY_RELAY_PLATFORM"
	envBotID       = "GATEWAY_RELAY_BOT_ID"
	envPlatforms   = "GATEWAY_RELAY_PLATFORMS"
	envBotIDs      = "GATEWAY_RELAY_BOT_IDS"
	envWakeURL     = "GATEWAY_RELAY_WAKE_URL"
	envTokenURL    = "GATEWAY_RELAY_IDP_TOKEN_URL"
	envBusyAck     = "HERMES_GATEWAY_BUSY_ACK_ENABLED"
	// EnvAllowAll lets a gateway answer everybody: the people whose messages the connector passes on to it, and, if the
	// gateway also has bots of its own, everybody who writes to those.
	EnvAllowAll = "GATEWAY_ALLOW_ALL_USERS"
)

// env returns the variables that every gateway's .env needs. Of several bots on one platform it names none, which makes
// a gateway serve all of them.
func (a *surroundings) env(wakeURL string) map[string]string {
	env := map[string]string{envURL: a.set.URL, envBusyAck: "false"}
	if wakeURL != "" {
		env[envWakeURL] = wakeURL
	}
	ids := make(map[relay.PlatformID]map[string]relay.BotID)
	var platforms []string
	for _, p := range a.named() {
		bot := p.ID()
		if slices.Contains(platforms, string(bot.Platform)) {
			delete(ids, bot.Platform)
			continue
		}
		ids[bot.Platform] = map[string]relay.BotID{"botId": bot.ID}
		platforms = append(platforms, string(bot.Platform))
	}
	if len(platforms) == 0 {
		return env
	}
	env[envPlatform], env[envPlatforms] = platforms[0], strings.Join(platforms, ",")
	if id := ids[relay.PlatformID(platforms[0])]["botId"]; id != "" {
		env[envBotID] = string(id)
	}
	if len(ids) > 0 {
		raw, _ := json.Marshal(ids) // strings only: cannot fail
		env[envBotIDs] = string(raw)
	}
	return env
}

// named returns the bots that a gateway's .env names. The bot of programs is named only if it is the only bot: every
// gateway serves it, whether or not it is named.
func (a *surroundings) named() []platforms.Bot {
	others := slices.DeleteFunc(slices.Clone(a.bots()), func(p platforms.Bot) bool { return p.ID().IsProgram() })
	if len(others) == 0 {
		return a.bots()
	}
	return others
}

// EnvLines renders e.Env as the lines of a .env file, in a fixed order and with comments.
func (e Enrolled) EnvLines() []string {
	lines := envLines(e.Env, envURL, envID, envSecret, envDeliveryKey, envWakeURL)
	if _, ok := e.Env[envPlatforms]; ok {
		lines = append(lines, "# read by gateways of June 2026")
		lines = append(lines, envLines(e.Env, envPlatform, envBotID)...)
		lines = append(lines, "# read by newer gateways")
		lines = append(lines, envLines(e.Env, envPlatforms, envBotIDs)...)
	}
	lines = append(lines, busyAckLines(e.Env)...)
	if _, ok := e.Env[EnvAllowAll]; !ok {
		return lines
	}
	lines = append(lines,
		"# Gateways of June 2026 check users themselves and would refuse everybody. It is safe here: the",
		"# connector passes on only people you linked or allowed. On a gateway that runs bots of its own it",
		"# opens those to everybody: leave it out there, and list your users instead.")
	return append(lines, envLines(e.Env, EnvAllowAll)...)
}

// busyAckLines returns the lines that switch off a gateway's notice that it is busy. A gateway sends this notice on the
// task that also reads: until the notice is sent, the gateway reads nothing.
func busyAckLines(env map[string]string) []string {
	return append([]string{
		"# Given a message while its agent works, a gateway would send \"⚡ Interrupting current task\" and read",
		"# nothing for 30 s. It handles the message either way. In config.yaml: display: busy_ack_enabled: false",
	}, envLines(env, envBusyAck)...)
}

// EnvLines renders t.Env as the lines of a .env file, in a fixed order.
func (t EnrollmentToken) EnvLines() []string {
	return append(envLines(t.Env, envURL, envTokenURL, envWakeURL, envPlatforms, envBotIDs), busyAckLines(t.Env)...)
}

func envLines(env map[string]string, names ...string) []string {
	var lines []string
	for _, name := range names {
		if v, ok := env[name]; ok {
			lines = append(lines, name+"="+quoteEnv(v))
		}
	}
	return lines
}

// quoteEnv returns a value for a .env file that a shell reads as a gateway does: in single quotes if a shell would
// change it. Only a URL can contain a quote itself. (docker run --env-file knows no quotes.)
func quoteEnv(v string) string {
	if bare.MatchString(v) {
		return v
	}
	return "'" + strings.ReplaceAll(v, "'", "%27") + "'"
}

// bare matches values that a shell and a gateway read alike without quotes.
var bare = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]*$`)
