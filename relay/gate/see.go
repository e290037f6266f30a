package gate

import "github.com/hermes-connector/hermes-connector/relay"

// Facts are the facts that decide whether one candidate instance receives one event.
type Facts struct {
	// Direct: the event's chat is a direct message, and not a claimed room that all but one person have left.
	Direct bool
	// AuthorBound: the author is bound to the instance, and of all instances that they are bound to
	// this is the one OwnInstance chose.
	AuthorBound bool
	// HoldsGrant: the instance holds the grant on the chat, its parent, or the whole scope.
	HoldsGrant bool
	// Visible: a bound owner of the instance is known to see the chat now, by the platform's
	// word. It is ignored for a direct message, and with AuthorBound, because an author sees the chat.
	Visible bool

	// Principal is the instance's principal policy.
	Principal relay.PrincipalPolicy
	// AuthorListed: the author is on the instance's allow list. It counts under relay.AllowList only.
	AuthorListed bool

	// Approval: the event is a typed /approve or /deny, which a gateway accepts from anybody whose event it is given.
	Approval bool

	// AuthorIsBot and Addressed are the event's Traits of that name.
	AuthorIsBot bool
	Addressed   bool

	// The instance's relevance policy for the platform. If none is declared, RequireAddress is true and the others are
	// false.
	RequireAddress bool
	// FreeResponse: the chat or its parent is among the policy's free-response scopes.
	FreeResponse   bool
	AllowOtherBots bool
	// OwnerMustAddress: RequireAddress holds for the owner's own messages in shared chats too.
	OwnerMustAddress bool
}

// Decide says whether the instance receives the event: Delivered, or the first reason why not, in
// the order authorised, visible, relevant.
func Decide(f Facts) Reason {
	switch {
	case !f.authorised() && f.HoldsGrant:
		return NotPrincipal
	case !f.authorised():
		return NoBinding
	case !f.Direct && !f.AuthorBound && !f.Visible:
		return NotVisible
	}
	return f.relevant()
}

// authorised reports whether the author may address the instance with this event.
func (f Facts) authorised() bool {
	if f.AuthorBound { // an owner's own message is authorised, whatever the policies say
		return true
	}
	return !f.Approval && f.admitted()
}

// admitted reports whether the author may speak in a chat that the instance holds.
func (f Facts) admitted() bool {
	return f.HoldsGrant && (f.Principal == relay.AnyOne || f.Principal == relay.AllowList && f.AuthorListed)
}

// relevant returns Delivered, or the reason why the event does not concern the agent.
func (f Facts) relevant() Reason {
	switch {
	case f.Direct:
		return Delivered
	case f.AuthorBound && !f.OwnerMustAddress:
		return Delivered
	case !f.AuthorBound && f.AuthorIsBot && !f.AllowOtherBots:
		return OtherBot
	case f.RequireAddress && !f.Addressed && !f.FreeResponse:
		return NotAddressed
	}
	return Delivered
}
