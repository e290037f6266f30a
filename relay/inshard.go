package relay

import "regexp"

// aboutOne finds, within a text, the commands of this program that are about one database.
var aboutOne = regexp.MustCompile(`\bhermes-connector (agents|audit|backup|buffer|chat|check|doctor|enroll|explain|gateway|link|notify|people|reload|restore|setup|status|unlink|vault|web)\b`)

// InShard adapts the commands in words to an installation with several shards, for the given one; empty: there is only
// one.
func InShard(words, shard string) string {
	if shard == "" {
		return words
	}
	return aboutOne.ReplaceAllString(words, "hermes-connector --shard "+shard+" $1")
}
