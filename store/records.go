package store

import (
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/entry"
)

// Tenant is an isolation domain.
type Tenant struct {
	ID        relay.TenantID `json:"id"`
	CreatedAt time.Time      `json:"created"`
}

// Instance is one agent and everything it declared or was given, except bindings and grants.
type Instance struct {
	ID      relay.InstanceID `json:"id"`
	Tenant  relay.TenantID   `json:"tenant"`
	WakeURL string           `json:"wake,omitempty"`
	// WakeFault says, in a sentence, why the wake URL that its gateway named last is not used; empty
	// when it is, or when the gateway named none.
	WakeFault string    `json:"wakeFault,omitempty"`
	Principal Principal `json:"principal,omitzero"`
	// Relevance is what was declared, per platform. No row: bots off, address required.
	Relevance map[relay.PlatformID]Relevance `json:"relevance,omitempty"`
	// Asleep: the instance said going_idle and has not said hello since.
	Asleep bool `json:"asleep,omitempty"`
	// Profiles: a gateway of its runs several profiles, so its conversations may have one each.
	Profiles   bool      `json:"profiles,omitempty"`
	CreatedAt  time.Time `json:"created"`
	LastSeenAt time.Time `json:"seen,omitzero"` // last hello or last disconnect
}

// Principal is a principal policy with its list.
type Principal struct {
	Policy relay.PrincipalPolicy `json:"policy,omitempty"`
	Allow  []Person              `json:"allow,omitempty"` // for relay.AllowList
}

// Person is a user on a platform.
type Person struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
}

// Relevance says when to bother the agent, on one platform.
type Relevance struct {
	RequireAddress     bool           `json:"requireAddress"`
	FreeResponseScopes []relay.ChatID `json:"freeResponseScopes,omitempty"`
	AllowOtherBots     bool           `json:"allowOtherBots"`
	// OwnerMustAddress is ours: the owner's messages in shared chats follow RequireAddress too.
	OwnerMustAddress bool `json:"ownerMustAddress,omitempty"`
	// Context is ours too: which events bring along what was said before them. Empty: relay.ContextGranted.
	Context relay.ContextPolicy `json:"context,omitempty"`
}

// Gateway is a credential that serves an instance.
type Gateway struct {
	ID          relay.GatewayID  `json:"id"`
	Instance    relay.InstanceID `json:"instance"`
	Tenant      relay.TenantID   `json:"tenant"`
	Secrets     []GatewaySecret  `json:"secrets"`
	DeliveryKey []byte           `json:"deliveryKey"` // sealed
	CreatedAt   time.Time        `json:"created"`
	LastSeenAt  time.Time        `json:"seen,omitzero"` // last hello or last disconnect
	// Newer: it has said what gateways of June 2026 never say.
	Newer bool `json:"newer,omitempty"`
	// Fetches: it has used an op, or the media route, that only gateways have which fetch files.
	Fetches bool `json:"fetches,omitempty"`
	// TooOld: it took an event whose files it could have fetched, fetched none, and has never done such a thing.
	TooOld bool `json:"tooOld,omitempty"`
	// Provisioned: it asks for its credentials at every start. Of those of one instance, only the
	// last few are kept: a container comes with a new name each time it is made.
	Provisioned bool `json:"provisioned,omitempty"`
	Revoked     bool `json:"revoked,omitempty"`
}

// GatewaySecret is one live secret of a gateway.
type GatewaySecret struct {
	ID        string    `json:"id"` // random; part of the seal's AAD
	Sealed    []byte    `json:"sealed"`
	CreatedAt time.Time `json:"created"`
	// ExpiresAt is when a rotated-out secret dies even if the new one was never used; zero: does not expire.
	ExpiresAt time.Time `json:"expires,omitzero"`
}

// Conversation says that an event of a chat was delivered to an instance, and why it was allowed.
// It lets the instance act on the chat as long as that reason stands.
type Conversation struct {
	Instance relay.InstanceID `json:"instance"`
	Bot      relay.Bot        `json:"bot"`
	Chat     relay.ChatID     `json:"chat"`
	Scope    relay.ScopeID    `json:"scope,omitempty"`
	Parent   relay.ChatID     `json:"parent,omitempty"`
	Type     relay.ChatType   `json:"type,omitempty"`
	// By is the bound user whose event justified it last; empty when only a grant ever did.
	By relay.UserID `json:"by,omitempty"`
	// ByGrant: the instance held the grant covering the chat.
	ByGrant bool `json:"byGrant,omitempty"`
	// Made: the chat is a thread that the instance opened, or stands for a topic of its Parent: "parent/topic".
	Made bool `json:"made,omitempty"`
	// Profile is the one of the gateway's that acted on the chat last, if it said so; its next events go to that.
	Profile string    `json:"profile,omitempty"`
	LastAt  time.Time `json:"last"`
}

type (
	// Entry is one delivery in an instance's buffer.
	Entry = entry.Entry
	// Forward is the frame of a relay.Forward.
	Forward = entry.Forward
	// About is what a delivery is about.
	About = entry.About
	// DeadReason says why an entry left the buffer without being acknowledged.
	DeadReason = entry.DeadReason
)

// AboutOf is what the store knows of a delivery.
func AboutOf(d relay.Delivery) About { return entry.Of(d) }

// The reasons of dead letters.
const (
	DeadAge      DeadReason = "age"      // past the lane's limit of age
	DeadDeaths   DeadReason = "deaths"   // its socket died too often while it was in flight
	DeadOverflow DeadReason = "overflow" // past the lane's limit of entries or bytes
	DeadOversize DeadReason = "oversize" // does not fit a frame
	DeadPoison   DeadReason = "poison"   // could not be encoded
	DeadRemoved  DeadReason = "removed"  // its instance was revoked or deprovisioned
	DeadUnbound  DeadReason = "unbound"  // its author was unbound from the instance
)

// deadReasons are all of them.
var deadReasons = [...]DeadReason{DeadAge, DeadDeaths, DeadOverflow, DeadOversize, DeadPoison, DeadRemoved, DeadUnbound}

// Lane is the state of an instance's buffer.
type Lane struct {
	Epoch    uint64
	NextSeq  uint64
	Entries  int
	Bytes    int64
	Dead     int
	OldestAt time.Time // zero when empty
}

// CodeKind says what a code is good for.
type CodeKind string

// The kinds of codes.
const (
	LinkCode   CodeKind = "link"   // it binds whoever sends it to the bot
	EnrollCode CodeKind = "enroll" // a gateway enrolls itself with it, once: an enrollment token
	// IdentityCode is behind an identity address: who fetches that gets identity tokens for the code's instance,
	// or, when it names none, for enrolling in the tenant.
	IdentityCode CodeKind = "identity"
	// WebCode logs whoever types it in at the pages of the web server, once; WebSession is what he is then known by.
	WebCode    CodeKind = "web"
	WebSession CodeKind = "session"
)

// Code is worth something to whoever knows it. The database knows its HMAC.
type Code struct {
	Kind     CodeKind         `json:"-"`
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instance,omitempty"`
	// Platform is the one a link code is for; empty: any.
	Platform relay.PlatformID `json:"platform,omitempty"`
	// Gateway is whom an enrollment token is made out to; empty: any.
	Gateway   relay.GatewayID `json:"gateway,omitempty"`
	WakeURL   string          `json:"wake,omitempty"` // of an enrollment token
	CreatedAt time.Time       `json:"created,omitzero"`
	ExpiresAt time.Time       `json:"expires,omitzero"` // zero: an identity code that does not expire
	// RedeemedBy makes a second try of a link code by the same person succeed again, so that a crash between the
	// binding and the answer does not read as a wrong code.
	RedeemedBy *Person `json:"redeemedBy,omitempty"`
	Used       bool    `json:"used,omitempty"` // an enrollment token
	// Web is the kind of a code that lies among the enrollment tokens and is none. Codes sets it.
	Web CodeKind `json:"web,omitempty"`
}

// Quarantined is a payload that could not be decoded.
type Quarantined struct {
	Bot relay.Bot `json:"bot"`
	At  time.Time `json:"at"`
	Err string    `json:"err"`
	Raw []byte    `json:"raw"`
}
