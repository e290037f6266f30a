package config

import (
	"slices"
	"strings"
)

// belongs returns the end of a fault about an unknown key: " here: it belongs …" if the key belongs in another place,
// else " (did you mean X?)" for the most similar of the keys that are allowed here; empty if none is similar.
func (l *loader) belongs(key string, here []string) string {
	var places []string
	for _, s := range l.settings {
		switch {
		case s.key != key:
		case s.section == "":
			places = append(places, "above all sections")
		default:
			places = append(places, "under ["+s.section+"]")
		}
	}
	var networks []string
	for _, k := range l.networks {
		if slices.Contains(append(credentialKeys(k), keyNames(k.Keys)...), key) {
			networks = append(networks, string(k.Name))
		}
	}
	switch {
	case slices.Contains(keyNames(botKeys()), key):
		places = append(places, "into a [[bots]] table")
	case len(networks) > 0:
		places = append(places, "into a [[bots]] table of "+strings.Join(networks, ", "))
	}
	if len(places) == 0 {
		return hint(key, here)
	}
	return " here: it belongs " + strings.Join(places, ", or ")
}
