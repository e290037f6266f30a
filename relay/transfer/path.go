package transfer

import (
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
)

const route = relay.MediaPath

// notFound is the text for every file that the reader cannot have.
const notFound = "not found"

// parseID reads the id of a file: 32 hexadecimal digits, lower case, without escapes.
func parseID(s string) (relay.MediaID, bool) {
	if len(s) != 32 {
		return "", false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	return relay.MediaID(s), true
}

// pathID returns the id in the path of a file's address as a gateway makes it. A proxy may have served the gateway
// below a prefix, which is then in front.
func pathID(path string) (relay.MediaID, bool) {
	i := strings.LastIndex(path, route+"/")
	if i < 0 {
		return "", false
	}
	return parseID(path[i+len(route)+1:])
}
