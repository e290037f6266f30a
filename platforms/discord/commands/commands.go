// Package commands registers a bot's slash commands with Discord: those of the gateways and the connector's own, in a
// form that Discord accepts. It does not touch commands of other types, which are not the connector's.
package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// Keeper remembers across restarts what was registered.
type Keeper interface {
	// Application is the id of the application the bot belongs to.
	Application() string
	// Commands returns what KeepCommands stored last.
	Commands() (fingerprint string, notBefore time.Time)
	// KeepCommands stores the fingerprint of the registered commands, and when Discord's penalty ends.
	KeepCommands(fingerprint string, notBefore time.Time)
}

// Registrar registers the slash commands of one bot.
type Registrar struct {
	// Set once, by New.
	rest    *rest.Client
	keeper  Keeper
	log     *slog.Logger
	wait    time.Duration // how long to wait for more commands
	changed chan struct{} // capacity 1: one wake-up stands for any number of changes

	mu       sync.Mutex // guards the field below
	manifest []json.RawMessage
}

// New makes a registrar. The registrar waits for more commands until none has arrived for the time while, and at most
// for twice that time.
func New(r *rest.Client, k Keeper, log *slog.Logger, while time.Duration) *Registrar {
	return &Registrar{rest: r, keeper: k, log: log, wait: while, changed: make(chan struct{}, 1)}
}

// Set makes manifest the commands to register. Run does the work.
func (c *Registrar) Set(manifest []json.RawMessage) {
	c.mu.Lock()
	c.manifest = slices.Clone(manifest)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // a wake-up waits already
	}
}

// Run registers the commands after each change, until ctx ends. Discord allows few writes a day. So Run waits until no
// gateway has changed its commands for a while, reads the registered commands, and writes all commands in one request
// if they differ.
func (c *Registrar) Run(ctx context.Context) {
	again := backoff.Backoff{First: 5 * time.Second, Max: 10 * time.Minute}
	var retry <-chan time.Time // nil: nothing is to be tried again
	for {
		select {
		case <-c.changed:
			c.gather(ctx)
		case <-retry:
		case <-ctx.Done():
			return
		}
		retry = nil
		err := c.register(ctx)
		f := httpcall.FaultOf(err)
		switch {
		case err == nil:
			again.Reset()
		case ctx.Err() != nil:
			return
		case f.Sent == httpcall.Refused && !f.Limited():
			again.Reset()
			c.log.Warn("discord refused the slash commands; waiting until a gateway changes them", "err", err)
		default:
			d := max(again.Next(), f.RetryAfter)
			if f.Limited() {
				fingerprint, _ := c.keeper.Commands()
				c.keeper.KeepCommands(fingerprint, time.Now().Add(d))
			}
			c.log.Warn("discord slash commands not registered; trying again", "in", d, "err", err)
			retry = time.After(d)
		}
	}
}

// gather waits until no command has changed for a while, or for twice that while, or until ctx ends.
func (c *Registrar) gather(ctx context.Context) {
	last := time.Now().Add(2 * c.wait)
	for {
		select {
		case <-c.changed:
		case <-time.After(min(c.wait, time.Until(last))):
			return
		case <-ctx.Done():
			return
		}
	}
}

// register makes Discord's list of the bot's global commands equal to the wanted one. During a penalty, even one from
// before a restart, it sends no request.
func (c *Registrar) register(ctx context.Context) error {
	c.mu.Lock()
	manifest := c.manifest
	c.mu.Unlock()
	wanted, dropped := commandsOf(manifest)
	if dropped > 0 {
		c.log.Warn("slash commands left out: more than Discord takes, or with names it does not", "count", dropped)
	}
	app := c.keeper.Application()
	fingerprint := fingerprintOf(app, wanted)
	kept, notBefore := c.keeper.Commands()
	if fingerprint == kept {
		return nil
	}
	// A time beyond a day, which no penalty is believed to last, comes from a clock that was set back since.
	if d := time.Until(notBefore); d > 0 && d <= 24*time.Hour {
		return &httpcall.Fault{What: "slash commands", Sent: httpcall.Never, RetryAfter: d, Message: "rate limited"}
	}
	endpoint := discordgo.EndpointApplicationGlobalCommands(app)
	var raw []json.RawMessage
	if err := c.rest.Do(ctx, http.MethodGet, endpoint+"?with_localizations=true", nil, &raw); err != nil {
		return fmt.Errorf("registered commands: %w", err)
	}
	current, others := registered(raw)
	if fingerprintOf(app, current) != fingerprint {
		if err := c.overwrite(ctx, endpoint, others, wanted); err != nil {
			return fmt.Errorf("register commands: %w", err)
		}
	}
	c.keeper.KeepCommands(fingerprint, time.Time{})
	return nil
}

// overwrite makes wanted the bot's slash commands, beside others. It leaves out the commands that Discord finds
// fault with: one gateway's command must not keep away those of the others.
func (c *Registrar) overwrite(ctx context.Context, endpoint string, others []json.RawMessage, wanted []slashCommand) error {
	for {
		body := slices.Clone(others)
		for _, one := range wanted {
			body = append(body, one.encode())
		}
		err := c.rest.Do(ctx, http.MethodPut, endpoint, body, nil)
		if err == nil {
			c.log.Info("discord slash commands registered", "count", len(wanted))
			return nil
		}
		sound := withoutFaults(wanted, err, len(others))
		if len(sound) == len(wanted) || len(sound) == 0 {
			return err
		}
		c.log.Warn("discord refused some of the slash commands; registering the others", "count", len(wanted)-len(sound), "err", err)
		wanted = sound
	}
}

// withoutFaults returns the commands of list without those in which Discord found a fault. err is Discord's refusal of
// a request whose body had begin other commands, and then those of list.
func withoutFaults(list []slashCommand, err error, begin int) (sound []slashCommand) {
	f := httpcall.FaultOf(err)
	places, told := f.Detail.(rest.Places)
	if !told || f.Sent != httpcall.Refused || f.Code != discordgo.ErrCodeInvalidFormBody {
		return list
	}
	for i, c := range list {
		if _, bad := places[strconv.Itoa(begin+i)]; !bad {
			sound = append(sound, c)
		}
	}
	return sound
}

// registered sorts Discord's list into slash commands, and commands of other types in raw form.
func registered(raw []json.RawMessage) (current []slashCommand, others []json.RawMessage) {
	for _, one := range raw {
		var c slashCommand
		if json.Unmarshal(one, &c) == nil && c.Type <= discordgo.ChatApplicationCommand {
			current = append(current, c.normal())
		} else {
			others = append(others, one)
		}
	}
	byName(current)
	return current, others
}

func fingerprintOf(application string, list []slashCommand) string {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, application) // a hash takes everything
	for _, c := range list {
		_, _ = h.Write(append(c.encode(), '\n'))
	}
	return hex.EncodeToString(h.Sum(nil))
}
