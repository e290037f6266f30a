package relay

// PrincipalPolicy says who may speak inside the chats that an instance was granted. Any other value than the three,
// also the empty one, counts as OwnerOnly.
type PrincipalPolicy string

// The principal policies.
const (
	OwnerOnly PrincipalPolicy = "owner-only"
	AllowList PrincipalPolicy = "allow-list"
	AnyOne    PrincipalPolicy = "any"
)

// ContextPolicy says which addressed events of shared chats bring along the earlier messages. Any other value than the
// three, also the empty one, counts as ContextGranted.
type ContextPolicy string

// The context policies.
const (
	ContextOff     ContextPolicy = "off"
	ContextGranted ContextPolicy = "granted" // those of chats that the instance was granted
	ContextAll     ContextPolicy = "all"     // also those of every chat in which the owner writes
)
