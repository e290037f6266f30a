package relay

// PrincipalPolicy says who may speak inside the chats that an instance was granted. Anything but the
// three, the empty value included, counts as OwnerOnly.
type PrincipalPolicy string

// The principal policies.
const (
	OwnerOnly PrincipalPolicy = "owner-only"
	AllowList PrincipalPolicy = "allow-list"
	AnyOne    PrincipalPolicy = "any"
)
