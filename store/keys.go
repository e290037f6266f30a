package store

import (
	"encoding/binary"

	"github.com/hermes-connector/hermes-connector/relay"
)

// bucket names a top-level bucket. There are no nested ones.
type bucket string

// What is on disk: bucket, key, value. "|" stands for a zero byte.
//
// The buckets written with every message share the prefix "hot/", so that they lie side by
// side in the root page: bbolt keeps a bucket of less than a quarter page inside it, and lane
// states, cursors and new seen marks then cost no page of their own. The entries are appended in key order.
const (
	bucketMeta          bucket = "meta"          // "schema" -> version, "digest" -> digest
	bucketBlobs         bucket = "blobs"         // name -> bytes, the vault's
	bucketTenants       bucket = "tenants"       // tenant -> Tenant
	bucketInstances     bucket = "instances"     // instance -> Instance
	bucketCommands      bucket = "commands"      // instance|platform -> list of commands
	bucketGateways      bucket = "gateways"      // gateway -> Gateway
	bucketBindings      bucket = "bindings"      // platform|user|instance -> Binding
	bucketBindingsTo    bucket = "bindings.to"   // instance|platform|user -> key in bindings
	bucketGrants        bucket = "grants"        // platform|scope|chat -> Grant
	bucketConversations bucket = "conversations" // instance|chat|platform|bot -> Conversation
	bucketCodes         bucket = "codes"         // HMAC -> LinkCode
	bucketTokens        bucket = "tokens"        // HMAC -> EnrollmentToken
	bucketIdentity      bucket = "identity"      // HMAC -> IdentityCode; at most one per instance
	bucketRoutes        bucket = "routes"        // platform|key|instance -> Route
	bucketAudit         bucket = "audit"         // tenant|running number -> AuditEntry
	bucketAuditCounts   bucket = "audit.counts"  // tenant| and tenant|kind of actor|actor -> auditCount
	bucketUndecided     bucket = "undecided"     // platform|bot|chat|instance|number -> undecidedRecord
	bucketSent          bucket = "sent"          // platform|bot|chat|message -> sentRecord
	bucketMoved         bucket = "moved"         // platform|old chat -> movedRecord
	bucketDead          bucket = "dead"          // instance|number of the death, epoch, seq -> deadHead, entryHead, frame
	bucketQuarantine    bucket = "quarantine"    // running number -> Quarantined
	bucketCursors       bucket = "hot/cursors"   // platform|bot -> bytes
	bucketLanes         bucket = "hot/lanes"     // instance -> lane
	bucketEntries       bucket = "hot/entries"   // instance|seq -> entryHead, frame
	bucketRecent        bucket = "hot/seen"      // day -> the newest seen marks
	bucketSeen          bucket = "seen"          // day, level, number of a run, last mark -> seen marks
)

// buckets are all of them.
func buckets() []bucket {
	return []bucket{
		bucketMeta, bucketBlobs, bucketTenants, bucketInstances, bucketCommands, bucketGateways, bucketBindings,
		bucketBindingsTo, bucketGrants, bucketConversations, bucketCodes, bucketTokens, bucketIdentity,
		bucketRoutes, bucketAudit, bucketAuditCounts, bucketUndecided, bucketSent, bucketMoved, bucketDead, bucketQuarantine, bucketCursors, bucketLanes, bucketEntries,
		bucketRecent, bucketSeen,
	}
}

// key joins parts with a zero byte between them. A zero byte inside a part is escaped, so that
// no two lists of parts give the same key; ids met in practice contain none and stand as they are.
func key[S ~string](first S, rest ...string) []byte {
	k := appendPart(make([]byte, 0, 64), string(first))
	for _, p := range rest {
		k = appendPart(append(k, 0), p)
	}
	return k
}

// prefix is key with a final separator: every key that begins with these parts and goes on.
func prefix[S ~string](first S, rest ...string) []byte {
	return append(key(first, rest...), 0)
}

func appendPart(k []byte, part string) []byte {
	for i := range len(part) {
		switch c := part[i]; c {
		case 0:
			k = append(k, 1, 1)
		case 1:
			k = append(k, 1, 2)
		default:
			k = append(k, c)
		}
	}
	return k
}

func botKey(b relay.Bot) []byte { return key(b.Platform, string(b.ID)) }

func bindingKey(p relay.PlatformID, u relay.UserID, i relay.InstanceID) []byte {
	return key(p, string(u), string(i))
}

func bindingToKey(p relay.PlatformID, u relay.UserID, i relay.InstanceID) []byte {
	return key(i, string(p), string(u))
}

func grantKey(p relay.PlatformID, s relay.ScopeID, c relay.ChatID) []byte {
	return key(p, string(s), string(c))
}

func routeKey(r Route) []byte { return key(r.Platform, r.Key, string(r.Instance)) }

func commandsKey(i relay.InstanceID, p relay.PlatformID) []byte { return key(i, string(p)) }

func conversationKey(c Conversation) []byte {
	return key(c.Instance, string(c.Chat), string(c.Bot.Platform), string(c.Bot.ID))
}

func entryKey(i relay.InstanceID, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(prefix(i), seq)
}

// deadKey orders dead letters by when they died and ends with the buffer id, so that looking
// for one reads keys only.
func deadKey(i relay.InstanceID, death uint64, b relay.BufferID) []byte {
	k := binary.BigEndian.AppendUint64(prefix(i), death)
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

// tailSeq is the sequence number an entry's key ends with.
func tailSeq(k []byte) uint64 {
	if len(k) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(k)-8:])
}
