// Package through hands requests from a node of a cluster that does not lead to the one that does. The follower proves
// with a key of the cluster's vault that it is a node, and says who called it; the leader then judges the request as if
// that caller had called the leader itself.
//
// Invariants:
//
//  1. Only a node can say on whose behalf a request comes: it signs that, with a time, and the signature covers the
//     method, the path, the host, the node, the caller and the headers by which proxies name callers.
//  2. A request goes over one hop at most: a node that gets a signed request and does not lead answers 503.
//  3. Without a reachable leader a follower answers 503, soon, and nothing else: only the leader may declare a
//     credential dead.
//  4. The operator's requests go to a leader over https, or on this machine, and nowhere else: answers contain secrets.
//  5. A request ends when its leader stops leading.
package through

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Key authenticates a message among the nodes of a cluster.
type Key func(message []byte) []byte

// Door is the leader's door for a request.
type Door string

// The doors.
const (
	Listener Door = "listen" // for gateways, networks and programs
	Pages    Door = "web"    // for browsers
	Admin    Door = "admin"  // for the operator's commands
)

// Claim is a node's statement about a request that it passes on.
type Claim struct {
	Node   string    `json:"node"`            // its name
	At     time.Time `json:"at"`              // by its clock
	Door   Door      `json:"door"`            // at which it came
	Caller string    `json:"caller"`          // IP:PORT; at the admin door the name of the user
	Local  string    `json:"local,omitempty"` // the IP:PORT that was called
	Secure bool      `json:"secure,omitempty"`
}

// maxSkew is how far the clocks of two nodes may differ.
const maxSkew = time.Minute

// What nodes tell each other in headers. No caller sees them.
const (
	claimHeader = "Hermes-Connector-Through"
	// leadsHeader proves to the asker that the leader has the same key.
	leadsHeader = "Hermes-Connector-Leads"
	// verifiedHeader says that the leader has verified a credential of the caller.
	verifiedHeader = "Hermes-Connector-Verified"
)

// forwarded are the headers by which proxies name callers.
var forwarded = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// errForeign: no node of this cluster signed this request.
var errForeign = errors.New("not signed by a node of this cluster")

// clockError: the request is signed, but its time is more than maxSkew before or after ours.
type clockError struct {
	node         string
	theirs, ours time.Time
}

func (e *clockError) Error() string {
	return fmt.Sprintf("the clocks of the nodes are more than %v apart: at node %s it is %s, and here %s", maxSkew, e.node,
		e.theirs.UTC().Format(time.RFC3339), e.ours.UTC().Format(time.RFC3339))
}

// message returns the text that is signed for a request with that claim.
func message(claim string, method, uri, host string, h http.Header, bound []string) []byte {
	lines := []string{"request", claim, method, uri, host}
	for _, name := range bound {
		lines = append(lines, name+": "+strings.Join(h.Values(name), "\x00"))
	}
	return []byte(strings.Join(lines, "\n")) // no line contains a line end
}

var encoding = base64.RawURLEncoding

// sign returns the header with the claim c about a request, and its signature.
func (k Key) sign(c Claim, method, uri, host string, h http.Header, bound []string) string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic("through: " + err.Error()) // a claim has a JSON form
	}
	claim := encoding.EncodeToString(raw)
	return claim + "." + encoding.EncodeToString(k(message(claim, method, uri, host, h, bound)))
}

// verify returns the claim in the header of r, which must be there. The error is errForeign or a *clockError.
func (k Key) verify(r *http.Request, bound []string, now time.Time) (c Claim, err error) {
	said := r.Header.Values(claimHeader)
	claim, mac, _ := strings.Cut(said[0], ".")
	sum, err := encoding.DecodeString(mac)
	if err != nil || len(said) != 1 || !hmac.Equal(sum, k(message(claim, r.Method, r.RequestURI, r.Host, r.Header, bound))) {
		return c, errForeign
	}
	raw, err := encoding.DecodeString(claim)
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return c, errForeign
	}
	if d := now.Sub(c.At); d > maxSkew || d < -maxSkew {
		return c, &clockError{c.Node, c.At, now}
	}
	return c, nil
}

// leads returns the value of leadsHeader for a request whose claimHeader is said: it proves to the sender that whoever
// read the request has the key, too.
func (k Key) leads(said string) string {
	return encoding.EncodeToString(k([]byte("leads\n" + said)))
}

// binding returns the names of the headers that a signature covers: those of proxies, and more.
func binding(more []string) []string {
	return slices.Concat(forwarded, more)
}
