package discord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
)

// keyCommandWait is the setting that says how long commands wait for more of them.
const keyCommandWait = "command_wait"

func commandsKey() platforms.Key {
	return platforms.Key{
		Name: keyCommandWait, Default: "15s", Check: checkDuration,
		Help: "how long to wait for the commands of further gateways before slash commands are registered; at most twice that",
	}
}

// registrar holds the slash commands that are to be registered.
type registrar struct {
	changed chan struct{} // capacity 1: one wake-up stands for any number of changes

	mu       sync.Mutex // guards the field below
	manifest []json.RawMessage
}

func newRegistrar() *registrar { return &registrar{changed: make(chan struct{}, 1)} }

// SetCommands implements platforms.CommandRegistrar. runCommands does the work.
func (p *Platform) SetCommands(manifest []json.RawMessage) {
	c := p.commands
	c.mu.Lock()
	c.manifest = slices.Clone(manifest)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // a wake-up waits already
	}
}

func (c *registrar) read() []json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.manifest
}

// runCommands registers the commands whenever they changed, until ctx ends. Discord allows few
// writes a day: it waits for the gateways' hellos to end, asks what is registered, and writes all
// commands in one request, if at all. What it registered last is remembered over restarts.
func (p *Platform) runCommands(ctx context.Context) {
	for {
		select {
		case <-p.commands.changed:
		case <-ctx.Done():
			return
		}
		if !p.gatherCommands(ctx) || !p.keepRegistering(ctx) {
			return
		}
	}
}

// gatherCommands waits until no command has changed for a while, or for twice that while. It
// returns false when ctx ended.
func (p *Platform) gatherCommands(ctx context.Context) bool {
	last := time.Now().Add(2 * p.opts.commandWait)
	for {
		timer := time.NewTimer(min(p.opts.commandWait, time.Until(last)))
		select {
		case <-timer.C:
			return true
		case <-p.commands.changed:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// keepRegistering registers the commands until that succeeds, makes no sense, or they change again.
// It returns false when ctx ended.
func (p *Platform) keepRegistering(ctx context.Context) bool {
	again := backoff.Backoff{First: 5 * time.Second, Max: 10 * time.Minute}
	for {
		err := p.register(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		var ae *apiError
		isAPI := errors.As(err, &ae)
		refused := isAPI && ae.Sent == sentRefused
		if refused && ae.Status != http.StatusTooManyRequests {
			p.log.Warn("discord refused the slash commands; waiting until a gateway changes them", "err", err)
			return true
		}
		d := again.Next()
		if isAPI {
			d = max(d, ae.RetryAfter)
		}
		if refused {
			p.leaveCommands(time.Now().Add(d))
		}
		p.log.Warn("discord slash commands not registered; trying again", "in", d, "err", err)
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-p.commands.changed:
			timer.Stop()
			if !p.gatherCommands(ctx) {
				return false
			}
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// register makes Discord's list of the bot's global commands what it should be. During a penalty,
// also one from before a restart, it asks nothing.
func (p *Platform) register(ctx context.Context) error {
	wanted, dropped := commandsOf(p.commands.read())
	if dropped > 0 {
		p.log.Warn("slash commands left out: more than Discord takes, or with names it does not", "count", dropped)
	}
	app := p.application()
	fingerprint := fingerprintOf(app, wanted)
	if fingerprint == p.commandFingerprint() {
		return nil
	}
	path := "/applications/" + app + "/commands"
	route := routeOf(http.MethodGet, path)
	if d := p.commandsIn(time.Now()); d > 0 {
		return limited(route, d)
	}
	var raw []json.RawMessage
	query := path + "?with_localizations=true"
	if err := p.rest.do(ctx, http.MethodGet, route, query, nil, &raw); err != nil {
		return fmt.Errorf("registered commands: %w", err)
	}
	current, others := registered(raw)
	if !sameCommands(current, wanted) {
		if err := p.overwrite(ctx, path, others, wanted); err != nil {
			return fmt.Errorf("register commands: %w", err)
		}
	}
	p.rememberCommands(fingerprint)
	return nil
}

// overwrite makes wanted the bot's slash commands, beside others, which are not ours to remove. What
// Discord finds fault with is left out: one gateway's command must not keep away everybody's.
func (p *Platform) overwrite(ctx context.Context, path string, others []json.RawMessage, wanted []slashCommand) error {
	for {
		body := slices.Clone(others)
		for _, c := range wanted {
			body = append(body, c.encode())
		}
		err := p.rest.do(ctx, http.MethodPut, routeOf(http.MethodPut, path), path, body, nil)
		if err == nil {
			p.log.Info("discord slash commands registered", "count", len(wanted))
			return nil
		}
		sound := withoutFaults(wanted, err, len(others))
		if len(sound) == len(wanted) || len(sound) == 0 {
			return err
		}
		p.log.Warn("discord refused some of the slash commands; registering the others", "count", len(wanted)-len(sound), "err", err)
		wanted = sound
	}
}

// withoutFaults are the commands of list in which Discord found no fault, when it refused a request with
// err whose body had them behind the first begin.
func withoutFaults(list []slashCommand, err error, begin int) (sound []slashCommand) {
	var ae *apiError
	if !errors.As(err, &ae) || !refusedWith(err, codeInvalidForm) {
		return list
	}
	for i, c := range list {
		if _, bad := ae.faults[strconv.Itoa(begin+i)]; !bad {
			sound = append(sound, c)
		}
	}
	return sound
}

// registered sorts what Discord has: slash commands, and commands of other types as they are.
func registered(raw []json.RawMessage) (current []slashCommand, others []json.RawMessage) {
	for _, one := range raw {
		var c slashCommand
		if json.Unmarshal(one, &c) == nil && c.Type <= commandSlash {
			c.Type = commandSlash
			current = append(current, c.normal())
		} else {
			others = append(others, one)
		}
	}
	slices.SortFunc(current, func(a, b slashCommand) int { return cmp.Compare(a.Name, b.Name) })
	return current, others
}

func sameCommands(a, b []slashCommand) bool {
	return slices.EqualFunc(a, b, func(x, y slashCommand) bool { return string(x.encode()) == string(y.encode()) })
}

func fingerprintOf(application string, list []slashCommand) string {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, application) // a hash takes everything
	for _, c := range list {
		_, _ = h.Write(append(c.encode(), '\n'))
	}
	return hex.EncodeToString(h.Sum(nil))
}
