package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"github.com/bwmarrin/discordgo"
)

// RouteOf returns the route of a request: its method, and its path without ids, except the one by which Discord
// distinguishes limits. A web hook's token counts as such an id; a hash stands for it.
func RouteOf(method, endpoint string) string {
	path, _, _ := strings.Cut(pathOf(endpoint), "?")
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i := range segments {
		switch {
		case i == 2 && segments[0] == "webhooks":
			sum := sha256.Sum256([]byte(segments[i]))
			segments[i] = hex.EncodeToString(sum[:8])
		case i == 2 && segments[0] == "interactions":
			segments[i] = ":token"
		case i > 1 && segments[i-1] == "reactions":
			segments[i] = ":emoji"
		case i > 1 && IsID(segments[i]), i == 1 && segments[0] == "interactions":
			segments[i] = ":id"
		}
	}
	return method + " /" + strings.Join(segments, "/")
}

// exempt reports whether a route does not count against the bot: answers to interactions carry
// their own token.
func exempt(route string) bool {
	_, path, _ := strings.Cut(route, " ")
	return strings.HasPrefix(path, "/webhooks/")
}

// topLevel returns the part of a route by which Discord distinguishes limits: a channel, a guild, or a web hook with
// its token.
func topLevel(route string) string {
	_, path, _ := strings.Cut(route, " ")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	n := 0
	switch segments[0] {
	case "channels", "guilds":
		n = 2
	case "webhooks":
		n = 3
	}
	return strings.Join(segments[:min(n, len(segments))], "/")
}

// pathOf returns the path of a discordgo endpoint, from behind the API's version.
func pathOf(endpoint string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(endpoint, discordgo.EndpointAPI), "/")
}

// secretsIn returns the spellings of the interaction's token in a path, if it has one.
func secretsIn(path string) []string {
	segments := strings.Split(path, "/")
	if len(segments) < 4 || segments[1] != "webhooks" && segments[1] != "interactions" {
		return nil
	}
	token, _ := url.PathUnescape(segments[3])
	return []string{segments[3], token}
}

// IsID reports whether s is spelled like one of Discord's ids. Nothing else may stand in a path.
func IsID(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && n != 0 && s[0] != '0'
}
