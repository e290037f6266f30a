package agents

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

// caller is a program that has proved who it is.
type caller struct{ callers.Caller }

// program returns the caller as the agent knows it.
func (c caller) program(i relay.InstanceID) relay.Program {
	return relay.Program{Caller: c.Name, Agent: i}
}

// bearer finds the caller by its token, and reads the body, which the caller must have signed if it signs.
func (d *Desk) bearer(ctx context.Context, r *request) error {
	if err := d.prove(ctx, r, callers.TokenPurpose, routes.Bearer(r.Request)); err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		return nil
	}
	if err := r.read(); err != nil {
		return err
	}
	if r.caller.Signs == nil {
		return nil
	}
	bucket, key := callers.Place(r.caller.Name)
	secret, err := d.seal.Unseal(bucket, key, r.caller.Signs)
	if err != nil {
		return err
	}
	if !signed(secret, r.raw, r.Header.Get("X-Signature")) {
		return d.failed(r)
	}
	return nil
}

// signed reports whether signature belongs to body.
func signed(secret relay.Secret, body []byte, signature string) bool {
	given, ok := strings.CutPrefix(signature, "sha256=")
	sum, err := hex.DecodeString(given)
	if !ok || err != nil {
		return false
	}
	m := hmac.New(sha256.New, secret.Reveal())
	m.Write(body)
	return hmac.Equal(sum, m.Sum(nil))
}

// wakeKey finds the caller by the key in the path, which allows it to wake one agent.
func (d *Desk) wakeKey(ctx context.Context, r *request) error {
	return d.prove(ctx, r, callers.WakePurpose, r.rest)
}

// pushKey finds the caller by the key in the path, which allows it to write to one person, and reads the body.
func (d *Desk) pushKey(ctx context.Context, r *request) error {
	if err := d.prove(ctx, r, callers.PushPurpose, r.rest); err != nil {
		return err
	}
	return r.read()
}

// prove finds the caller to whom a credential of that purpose belongs, and counts the request against the caller's
// rate.
func (d *Desk) prove(ctx context.Context, r *request, purpose, credential string) error {
	if credential == "" || len(credential) > relay.MaxName {
		return d.failed(r)
	}
	c, ok, err := d.db.Callers.ByMAC(ctx, d.mac.MAC(purpose, relay.NewSecret([]byte(credential))))
	if err != nil {
		return err
	}
	if !ok {
		return d.failed(r)
	}
	r.caller = caller{c}
	limits.Verified(ctx)
	if wait := d.rates.Take(c.Name, d.now()); wait > 0 {
		return routes.Busy(wait, "too many requests")
	}
	return nil
}

// failed counts a failed credential, and returns the answer to it.
func (d *Desk) failed(r *request) error {
	if wait := d.failures.Add(r.from, d.now()); wait > 0 {
		return routes.Busy(wait, "too many failed attempts")
	}
	d.log.Info("unknown credential of a program refused", "from", r.from, "route", r.route)
	return routes.Unauthorized()
}

// read reads the body, which has to arrive within bodyTime.
func (r *request) read() (err error) {
	r.raw, err = routes.Body(r.w, r.Request, bodyTime)
	return err
}

// target is an agent that a caller may reach, and the session that it means.
type target struct {
	relay.Program
	session string
	named   bool // the caller named the session
}

func (t target) chat() relay.ChatID { return t.Program.Chat(t.session) }

// mainSession is the session of a message that names none.
const mainSession = "main"

// find returns the agent that id names, among those that c may reach. If no agent has the whole id, the part before the
// last "@" is the agent's id, and the part behind that "@" is the session; a session in the argument session replaces
// it. It refuses with NotFound after the same reads, whether or not there is such an agent.
func (d *Desk) find(ctx context.Context, c caller, id, session string) (t target, err error) {
	whole, err := d.reaches(ctx, c, id)
	if err != nil {
		return t, err
	}
	t = target{c.program(relay.InstanceID(id)), mainSession, false}
	if at := strings.LastIndexByte(id, '@'); at >= 0 {
		part, err := d.reaches(ctx, c, id[:at])
		if err != nil {
			return t, err
		}
		if !whole && part {
			whole, t = relay.CheckSession(id[at+1:]) == nil, target{c.program(relay.InstanceID(id[:at])), id[at+1:], true}
		}
	}
	if !whole {
		return t, routes.NotFound()
	}
	if session != "" {
		if err := relay.CheckSession(session); err != nil {
			return t, routes.Refused(http.StatusBadRequest, "session_id: "+err.Error())
		}
		t.session, t.named = session, true
	}
	return t, nil
}

// reaches reports whether the caller may reach the agent with that id.
func (d *Desk) reaches(ctx context.Context, c caller, id string) (bool, error) {
	if id == "" || len(id) > relay.MaxName {
		id = "/" // no agent has this id
	}
	bound, err := d.db.Bindings(ctx, store.BindingFilter{
		Platform: relay.ProgramPlatform, User: c.program(relay.InstanceID(id)).User(), Instance: relay.InstanceID(id),
	})
	return len(bound) > 0, err
}
