package store

import (
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/sent"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
)

// What is on disk: bucket, key, value. There are no nested buckets. "|" stands for a zero byte.
//
// What every message changes is in the buckets before the empty line: bbolt keeps a bucket of less than a quarter page
// inside the root page, so that the digest, lane states, cursors and new seen marks cost no page of
// their own. The others are kept out of it by a filler (table.Fill).
const (
	BucketMeta    = "meta"        // "schema" -> version, "digest" -> digest, "squeeze" -> true
	BucketCursors = "hot/cursors" // platform|bot -> bytes
	bucketLanes   = "hot/lanes"   // instance -> lane; beside entry.Bucket and seen.Newest

	bucketBlobs         = "blobs"         // name -> bytes, the vault's
	BucketTenants       = "tenants"       // tenant -> Tenant
	BucketInstances     = "instances"     // instance -> Instance
	bucketCommands      = "commands"      // instance|platform -> list of commands
	BucketGateways      = "gateways"      // gateway -> Gateway
	bucketIndex         = table.Index     // bucket|by what|its parts -> key in that bucket
	bucketConversations = "conversations" // instance|chat|platform|bot -> Conversation
	bucketCodes         = "codes"         // HMAC -> LinkCode
	bucketTokens        = "tokens"        // HMAC -> EnrollmentToken, and codes and sessions of the web pages
	bucketIdentity      = "identity"      // HMAC -> IdentityCode; at most one per instance
	bucketQuarantine    = "quarantine"    // running number -> Quarantined
)

// buckets are all of them.
func buckets() []string {
	return append(cold(), BucketMeta, BucketCursors, bucketLanes, entry.Bucket, seen.Newest)
}

// cold are the buckets with a filler.
func cold() []string {
	return []string{
		bucketBlobs, BucketTenants, BucketInstances, bucketCommands, BucketGateways, binding.Bucket, bucketIndex,
		grant.Bucket, bucketConversations, bucketCodes, bucketTokens, bucketIdentity, route.Bucket, undecided.Bucket,
		moved.Bucket, entry.DeadBucket, bucketQuarantine, audit.Rows, audit.Counts, seen.Runs, capability.Bucket, sent.Bucket, media.Bucket, prompt.Bucket,
	}
}

func botKey(b relay.Bot) []byte { return table.Key(b.Platform, string(b.ID)) }

func commandsKey(i relay.InstanceID, p relay.PlatformID) []byte { return table.Key(i, string(p)) }

func conversationKey(c Conversation) []byte {
	return table.Key(c.Instance, string(c.Chat), string(c.Bot.Platform), string(c.Bot.ID))
}
