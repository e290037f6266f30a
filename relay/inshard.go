package relay

import "regexp"

// aboutOne matches the commands of this program that are about the database of one shard.
var aboutOne = regexp.MustCompile(`\bhermes-connector (agents|audit|backup|buffer|chat|check|doctor|enroll|explain|gateway|link|notify|people|reload|restore|setup|status|unlink|vault|web)\b`)

// InShard returns the text words, in which each command that is about one database gets the option that names the
// shard. An empty shard means an installation with only one: then the text is returned unchanged.
func InShard(words, shard string) string {
	if shard == "" {
		return words
	}
	return aboutOne.ReplaceAllString(words, "hermes-connector --shard "+shard+" $1")
}
