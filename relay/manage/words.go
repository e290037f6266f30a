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

// Words is the front end's wording of what a Service saw, with the commands that help. Both methods may be called from
// any goroutine, and do not block.
type Words interface {
	// Verdict puts the decision into words: what it means, what would change it, and what it waits for.
	Verdict(*gate.Decision, Verdict)
	// Status adds the faults to a status, as findings and as warnings.
	Status(*Status, Seen)
}

// Verdict holds the facts for the words about a decision.
type Verdict struct {
	// Only is the one instance that a gateway can serve; empty: there is none, or there are several.
	Only     relay.InstanceID
	Instance store.Instance   // the decision's instance, if there are words about it; zero: it no longer exists
	State    State            // of that instance, while the event waits for it
	Dead     store.DeadReason // why the event was given up for it; empty: it was not
	Left     bool             // the event was given up, and is not among the dead letters any more
	Revoked  bool             // no gateway can serve the instance
	Unserved Unserved         // the bots because of which the event waits
	Now      time.Time
	// Undelivered is why the network did not deliver an answer that it had accepted; empty: the decision is about
	// something else.
	Undelivered string
	// Answer is the answer that the decision is about; nil: it is about an event. Ended says why that answer was not sent;
	// nil: it was not dropped.
	Answer *Answer
	Ended  *outbound.Ended
}

// Unserved are bots that the gateway of an instance does not serve; nil: none.
type Unserved struct {
	Bots   []relay.Bot
	Hosted bool     // one of them is configured here
	Env    []string // the lines of the gateway's .env that name all bots
}

// Seen holds the facts beside a status from which findings are made.
type Seen struct {
	Now       time.Time
	URL       string // the address that gateways dial
	Limits    store.Limits
	Instances []SeenInstance // of the instances in the status, in its order
	Gateways  []SeenGateway
	Served    int                // how many instances a gateway can serve
	Unreached []relay.InstanceID // of these instances, those without linked people and granted chats
	// Bound has for each network the first instance to which a person is linked there, and Granted the first one to which
	// a chat is granted.
	Bound, Granted map[relay.PlatformID]relay.InstanceID
	Networks       []relay.PlatformID // the networks of this program without a bot here, in the program's order
	Programs       []CallerFor        // programs that were given agents that no gateway can serve, with these agents
	Late           []Answer           // answers that could not be sent in time, and about which nobody has been told yet
}

// SeenInstance holds the facts about an instance.
type SeenInstance struct {
	Instance   store.Instance
	Lane       store.Lane
	Dead       map[store.DeadReason]int // its dead letters
	Waiting    Unserved                 // bots whose messages wait
	People     Unserved                 // further bots that its gateway does not serve, where people are linked
	NotFetched bool                     // its gateways got messages with files, and fetch no file
}

// SeenGateway holds the facts about a credential, and about the dials in its name.
type SeenGateway struct {
	store.Gateway
	token.Dials
	Connected bool
}

// Counted returns a number of things as people say it: "1 chat", "2 chats".
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
