package store

import (
	"encoding/binary"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/capability"
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
	BucketMeta    = "meta"        // "schema" -> version, "digest" -> digest
	BucketCursors = "hot/cursors" // platform|bot -> bytes
	bucketLanes   = "hot/lanes"   // instance -> lane
	bucketEntries = "hot/entries" // instance|seq -> entryHead, frame, the forward's frame

	bucketBlobs         = "blobs"         // name -> bytes, the vault's
	BucketTenants       = "tenants"       // tenant -> Tenant
	BucketInstances     = "instances"     // instance -> Instance
	bucketCommands      = "commands"      // instance|platform -> list of commands
	BucketGateways      = "gateways"      // gateway -> Gateway
	bucketIndex         = table.Index     // bucket|by what|its parts -> key in that bucket
	bucketConversations = "conversations" // instance|chat|platform|bot -> Conversation
	bucketCodes         = "codes"         // HMAC -> LinkCode
	bucketTokens        = "tokens"        // HMAC -> EnrollmentToken
	bucketIdentity      = "identity"      // HMAC -> IdentityCode; at most one per instance
	bucketDead          = "dead"          // instance|number of the death, epoch, seq -> deadHead, entryHead, frame, the forward's frame
	bucketQuarantine    = "quarantine"    // running number -> Quarantined
)

// buckets are all of them.
func buckets() []string {
	return append(cold(), BucketMeta, BucketCursors, bucketLanes, bucketEntries, seen.Newest)
}

// cold are the buckets with a filler.
func cold() []string {
	return []string{
		bucketBlobs, BucketTenants, BucketInstances, bucketCommands, BucketGateways, binding.Bucket, bucketIndex,
		grant.Bucket, bucketConversations, bucketCodes, bucketTokens, bucketIdentity, route.Bucket, undecided.Bucket,
		moved.Bucket, bucketDead, bucketQuarantine, audit.Rows, audit.Counts, seen.Runs, capability.Bucket, sent.Bucket, media.Bucket, prompt.Bucket,
	}
}

func botKey(b relay.Bot) []byte { return table.Key(b.Platform, string(b.ID)) }

func commandsKey(i relay.InstanceID, p relay.PlatformID) []byte { return table.Key(i, string(p)) }

func conversationKey(c Conversation) []byte {
	return table.Key(c.Instance, string(c.Chat), string(c.Bot.Platform), string(c.Bot.ID))
}

func entryKey(i relay.InstanceID, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(i), seq)
}

// deadKey orders dead letters by when they died and ends with the buffer id, so that looking
// for one reads keys only.
func deadKey(i relay.InstanceID, death uint64, b relay.BufferID) []byte {
	k := binary.BigEndian.AppendUint64(table.Prefix(i), death)
	k = binary.BigEndian.AppendUint64(k, b.Epoch)
	return binary.BigEndian.AppendUint64(k, b.Seq)
}

// tailID is the buffer id a dead letter's key ends with; ok is false for a key that is none.
func tailID(k []byte) (b relay.BufferID, ok bool) {
	if len(k) < 24 {
		return b, false
	}
	return relay.BufferID{
		Epoch: binary.BigEndian.Uint64(k[len(k)-16:]), Seq: binary.BigEndian.Uint64(k[len(k)-8:]),
	}, true
}
