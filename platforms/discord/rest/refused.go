package rest

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxRefused is how many requests Discord may refuse in ten minutes before we refuse them ourselves. At 10,000 it
	// bans the address, which other programs may share.
	maxRefused = 5000
	// maxRefusedEach is how many of them one payer may cause, and maxRefusedInstances how many all instances together
	// may cause; the rest is for the connector's own requests.
	maxRefusedEach      = maxRefused / 10
	maxRefusedInstances = maxRefused * 3 / 4
	// refusedMinutes is how many minutes are counted together: ten, and the current one.
	refusedMinutes = 11
	// maxNoes bounds the refusals remembered; at that number all are forgotten.
	maxNoes = 2000
	// noFor is how long a refusal is remembered.
	noFor = 30 * time.Second
	// TokenFor is how long an interaction's token is valid
	// (https://docs.discord.com/developers/interactions/receiving-and-responding).
	TokenFor = 15 * time.Minute
)

// ErrOverspent: Discord refused too many requests of this payer.
var ErrOverspent = errors.New("too many of these requests were refused")

// payer is charged for a refused request: the instance that asked for it, or else the channel or guild about which the
// connector asked. The zero payer has no limit of its own.
type payer struct {
	instance relay.InstanceID
	place    string
}

func payerOf(caller relay.InstanceID, route string) payer {
	if caller != "" {
		return payer{instance: caller}
	}
	return payer{place: topLevel(route)}
}

// refusals counts the requests that Discord refused lately. The limiter's lock guards it.
type refusals struct {
	minutes [refusedMinutes]tally
}

// tally counts the refusals of one minute.
type tally struct {
	minute    int64 // since 1970
	all       int
	instances int // of all
	by        map[payer]int
}

// count counts what Discord counts as an invalid request, and also a 404: a loop may ask for ever for something that
// does not exist.
func (r *refusals) count(p payer, status int, now time.Time) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
	default:
		return
	}
	minute := now.Unix() / 60
	t := &r.minutes[minute%refusedMinutes]
	if t.minute != minute {
		*t = tally{minute: minute, by: make(map[payer]int)}
	}
	t.all++
	t.by[p]++
	if p.instance != "" {
		t.instances++
	}
}

// closed returns until when no request of p may leave (zero: it may), and whether that holds for everybody.
func (r *refusals) closed(p payer, now time.Time) (until time.Time, everybody bool) {
	if until = r.until(maxRefused, now, func(t *tally) int { return t.all }); !until.IsZero() {
		return until, true
	}
	if p != (payer{}) {
		until = r.until(maxRefusedEach, now, func(t *tally) int { return t.by[p] })
	}
	if p.instance != "" {
		until = ratelimit.Later(until, r.until(maxRefusedInstances, now, func(t *tally) int { return t.instances }))
	}
	return until, false
}

// until returns when the sum of the last minutes falls below most; the zero time if it is below most now.
func (r *refusals) until(most int, now time.Time, of func(*tally) int) time.Time {
	minute, sum := now.Unix()/60, 0
	for m := minute; m > minute-refusedMinutes; m-- {
		t := &r.minutes[m%refusedMinutes]
		if t.minute != m {
			continue
		}
		if sum += of(t); sum >= most {
			return time.Unix((m+refusedMinutes)*60, 0)
		}
	}
	return time.Time{}
}

// noes are refusals that are remembered, by method and path, or by web hook. Methods may be called from any
// goroutine.
type noes struct {
	mu sync.Mutex // guards the field below
	by map[string]no
}

// no is a refusal that will be the same for a while.
type no struct {
	err   *httpcall.Fault
	until time.Time
}

// known returns a refusal remembered under one of keys; nil if there is none. To ask again would only count against the
// bot.
func (n *noes) known(keys ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		if was, ok := n.by[key]; ok && was.until.After(time.Now()) {
			return was.err
		}
	}
	return nil
}

// remember makes known return Discord's refusal of key for a while.
func (n *noes) remember(key string, f *httpcall.Fault, while time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(n.by, func(_ string, was no) bool { return !was.until.After(now) })
	if n.by == nil || len(n.by) >= maxNoes {
		n.by = make(map[string]no)
	}
	n.by[key] = no{f, now.Add(while)}
}

// staysNo reports whether f is a refusal that would be repeated: the message, channel or guild does not exist or, if
// the request was a GET, the bot may not know. A refusal through a web hook may be premature, so it does not count.
func staysNo(method, path string, f *httpcall.Fault) bool {
	if f.Sent != httpcall.Refused || strings.HasPrefix(path, "/webhooks/") {
		return false
	}
	switch f.Code {
	case 0: // not the API's word
		return false
	case discordgo.ErrCodeUnknownChannel, discordgo.ErrCodeUnknownGuild, discordgo.ErrCodeUnknownMessage:
		return true
	}
	return method == http.MethodGet && (f.Status == http.StatusNotFound || f.Status == http.StatusForbidden)
}
