package manage

import (
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
)

// Words are the front end's for what a Service saw: what it means, and what to type about it. Both methods are called
// from any goroutine, and do not block.
type Words interface {
	// Verdict sets what the decision says, what would change it, and what it waits for.
	Verdict(*gate.Decision, Verdict)
	// Status adds to a status what is wrong, as findings and as warnings.
	Status(*Status, Seen)
}

// Verdict is what there is to say of a decision.
type Verdict struct {
	// Only is the one instance that a gateway can serve; empty: there is none, or there are several.
	Only     relay.InstanceID
	Instance store.Instance   // of the decision, where something of it is said; the zero one where it is not there any more
	State    State            // of that instance, while the event waits for it
	Dead     store.DeadReason // why the event was given up for it; empty: it was not
	Left     bool             // it is not among the dead letters any more
	Revoked  bool             // no gateway can serve the instance
	Unserved Unserved         // the event waits because of it
	Now      time.Time
	// Undelivered is why the network did not deliver an answer that it had taken; empty: it is about something else.
	Undelivered string
	// Answer is what the decision is about, in place of an event, and Ended why it was not sent; nil: it is about an event, or the
	// answer was not dropped.
	Answer *Answer
	Ended  *outbound.Ended
}

// Unserved are bots that the gateway of an instance does not serve: nil where there is none.
type Unserved struct {
	Bots   []relay.Bot
	Hosted bool     // one of them is configured here
	Env    []string // the lines of the gateway's .env that name all bots
}

// Seen is what there is to say of a status beside what stands in it.
type Seen struct {
	Now       time.Time
	URL       string // that gateways dial
	Limits    store.Limits
	Instances []SeenInstance // of those in the status, in its order
	Gateways  []SeenGateway
	Served    int                // how many instances a gateway can serve
	Unreached []relay.InstanceID // of these: those without people and chats
	// Bound and Granted are networks without a bot here, where somebody is linked to an instance, or a chat granted to one: the first.
	Bound, Granted map[relay.PlatformID]relay.InstanceID
	Networks       []relay.PlatformID // those two may be on, in the order of the program
	Programs       []CallerFor        // programs with the agents they were given that no gateway can serve
	Late           []Answer           // that could not be sent in time, and of which nobody has been told yet
}

// SeenInstance is what there is to say of an instance.
type SeenInstance struct {
	Instance   store.Instance
	Lane       store.Lane
	Dead       map[store.DeadReason]int // its dead letters
	Waiting    Unserved                 // of whose bots messages wait
	People     Unserved                 // on whose networks people are linked to it
	NotFetched bool                     // it took messages with files, and fetches none
}

// SeenGateway is what there is to say of a credential, and of the dials in its name.
type SeenGateway struct {
	store.Gateway
	token.Dials
	Connected bool
}

// Counted is a number of things as people say it: "1 chat", "2 chats".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
