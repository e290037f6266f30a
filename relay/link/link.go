// Package link connects a person with an agent: the operator gets a short code, the person sends the code to the bot in
// a direct message, and from then on the person's messages go to that agent. In direct messages people can also ask who
// they are here, choose which of their agents answers, and unlink themselves.
//
// The package sends nothing: it returns the answers. It does not decide who may see what; relay/gate does.
//
// Invariants:
//
//  1. A code is stored only as its MAC, is good for ten minutes and for one person.
//  2. A code that others could read is worthless from then on.
//  3. After five messages in ten minutes that link nobody, a person gets no answer and no further try. Where answers
//     cost money, all people together get no more than five answers that link nobody; a valid code is always answered.
//  4. No answer and no error contains a code, or tells why a code is invalid.
//  5. Making a code and using it leave a row in the audit list, without the code.
package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// lifetime is how long a code can be redeemed.
const lifetime = 10 * time.Minute

// Purpose names the key of the codes' MACs.
const Purpose = "link"

// Desk makes link codes, and links the people who send them. Its methods may be called from any goroutine.
type Desk struct {
	Shard string // for commands in answers, if there are several shards; set before the desk is used

	// Set once, by NewDesk.
	db  *store.DB
	mac relay.MACer
	now func() time.Time

	tries tries
}

// NewDesk makes a desk over db. now is the clock, of the codes and of the tries.
func NewDesk(db *store.DB, mac relay.MACer, now func() time.Time) *Desk {
	return &Desk{db: db, mac: mac, now: now}
}

// how returns answerHow, with the command as it is typed.
func (d *Desk) how() string { return relay.InShard(answerHow, d.Shard) }

// Mint makes a code ("KQ2-9F4-M7X") that binds its sender to instance inst, for those commands or, if there are none,
// for everything, and returns when it expires. An empty p means any platform. It returns store.ErrNotFound if the
// instance does not exist.
func (d *Desk) Mint(ctx context.Context, by audit.Actor, inst relay.InstanceID, p relay.PlatformID, commands ...string) (code string, expires time.Time, err error) {
	i, err := store.Only(d.db.Instances(ctx, inst))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("link code for %s: %w", inst, err)
	}
	code, expires = newCode(), d.now().Add(lifetime)
	row := &audit.Entry{Actor: by, Action: "link-code", Tenant: i.Tenant, Instance: i.ID, Detail: strings.Join(commands, " ")}
	err = d.db.Codes.Put(ctx, row, d.key(code), store.Code{
		Kind:     store.LinkCode,
		Instance: i.ID, Tenant: i.Tenant, Platform: p, Commands: commands, ExpiresAt: expires,
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("link code for %s: %w", inst, err)
	}
	return display(code), expires, nil
}

// The answers, in CommonMark.
const (
	answerHow = "To be linked to a gateway, send `/link` followed by the code you were given. " +
		"Whoever runs the connector gets a code with `hermes-connector link NAME`."
	answerWrong = "That code does not work: it is mistyped, used up, or older than ten minutes. " +
		"Please ask for a new one."
	answerBurnt = "Others can read that code here, so it is no longer valid. " +
		"Please ask for a new one, and send it to me in a direct message."
	answerLinked = "Done: you are linked to `%s`. Just write to me here."
	answerFor    = "Done: you are linked to `%s` for commands only: %s there."
	answerTaken  = "That did not link you: your `%s` goes to `%s` already. Send `/unlink %[2]s` first, and then the code again."
	answerBeside = "Done: you are linked to `%s`. What you write to me here still goes to `%s`; send `/agent` to change that."
)

// redeem carries out the control message ev with verbLink, where typed is from the Control that Command returned, and
// returns the answer for ev's chat; "" means silence. In a direct message it binds the author, and remembers the chat as
// the one in which to reach the author; anywhere else it makes the code worthless. An error means trouble with the
// store: the caller hands the same event in again, which is harmless after a success too.
func (d *Desk) redeem(ctx context.Context, ev relay.Event, typed string) (answer string, err error) {
	secret, shaped := parseCode(typed)
	if ev.Source.ChatType != relay.ChatDM {
		if !shaped {
			return "", nil
		}
		return d.burn(ctx, ev, secret)
	}
	// A bot would answer the answer, and without an author there is nobody to bind.
	if ev.Traits.AuthorIsBot || ev.Source.UserID == "" {
		return "", nil
	}
	who := trierOf(ev.Source)
	if !d.tries.take(who, d.now()) {
		return "", nil
	}
	if !shaped {
		if typed == "" {
			return d.Ration(ev, d.how()), nil
		}
		return d.Ration(ev, answerWrong), nil
	}
	by := store.Person{Platform: ev.Source.Platform, User: ev.Source.UserID}
	row := &audit.Entry{Actor: actor(by), Action: "link"}          // the store finds out whose code it is
	d.db.People.Heard(by, store.Names{}, store.NamesIn(ev.Source)) // so that the link has them from its first moment
	code, err := d.db.Codes.Redeem(ctx, row, d.key(secret), by, ev.Source.ChatID)
	var taken *store.CommandTaken
	switch {
	case err == nil || errors.As(err, &taken):
		if taken == nil {
			d.tries.refund(who)
		}
		p, err := d.linked(ctx, by)
		if err != nil {
			return "", fmt.Errorf("redeem link code: %w", err)
		}
		// to returns an instance to which the person is linked; another one of theirs if that link ended meanwhile.
		to := func(inst relay.InstanceID) store.Instance {
			return p.to[max(0, slices.IndexFunc(p.to, func(i linked) bool { return i.ID == inst }))].Instance
		}
		i := to(code.Instance)
		switch now, ok := p.answers(); {
		case taken != nil:
			return d.Ration(ev, fmt.Sprintf(answerTaken, taken.Command, quotable(to(taken.Instance)))), nil
		case len(code.Commands) > 0:
			return fmt.Sprintf(answerFor, quotable(i), goes(code.Commands)), nil
		case ok && now.ID != i.ID:
			return fmt.Sprintf(answerBeside, quotable(i), quotable(now)), nil
		}
		return fmt.Sprintf(answerLinked, quotable(i)), nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExpired), errors.Is(err, store.ErrUsed):
		return d.Ration(ev, answerWrong), nil
	default:
		d.tries.refund(who)
		return "", fmt.Errorf("redeem link code: %w", err)
	}
}

// DirectTo returns the instance that gets a person's direct messages; empty: none, except for their commands.
func DirectTo(ctx context.Context, db *store.DB, by store.Person) (relay.InstanceID, error) {
	bound, err := db.Bindings(ctx, store.BindingFilter{Platform: by.Platform, User: by.User})
	return direct(bound), err
}

// quotable returns an instance's name between the backticks of an answer.
func quotable(i store.Instance) string { return quoted(i.Shown()) }

// quoted returns s for a place between backticks: it replaces the backticks in s.
func quoted(s string) string { return strings.ReplaceAll(s, "`", "'") }

// Ration returns answer, an answer to ev that links nobody, or "" if no more such answers may be sent. Where answers cost
// money, all people of the network together get as many as one person does elsewhere: strangers have numbers enough, and
// may write from forged ones.
func (d *Desk) Ration(ev relay.Event, answer string) string {
	if ev.Traits.Costly && !d.tries.take(trier{platform: ev.Source.Platform}, d.now()) {
		return ""
	}
	return answer
}

// burn makes a code worthless that was typed where others read it. Only the answer is rationed.
func (d *Desk) burn(ctx context.Context, ev relay.Event, code string) (answer string, err error) {
	if _, err := d.db.Codes.Drop(ctx, nil, store.CodeFilter{Kind: store.LinkCode, MAC: d.key(code)}); err != nil {
		return "", fmt.Errorf("burn link code: %w", err)
	}
	if ev.Traits.AuthorIsBot || !d.tries.take(trierOf(ev.Source), d.now()) {
		return "", nil
	}
	return answerBurnt, nil
}

// key returns the key under which a code is stored.
func (d *Desk) key(code string) []byte {
	return d.mac.MAC(Purpose, relay.NewSecret([]byte(code)))
}
