package httpcall

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// Asked describes a network that was asked about a bot, for the findings.
type Asked struct {
	About   string // the bot
	Network string // its name for people
	Host    string // of the API, with its port if it has one
	Own     bool   // the API is at a configured api_base
}

// HostOf returns the host of an address, to be shown to people: the rest of an address often contains a bot's token.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that is not shown"
	}
	return u.Host
}

// Unanswered returns the finding that follows from f, the fault of a call that failed for another reason than the bot's
// token.
func (n Asked) Unanswered(f *Fault) finding.Finding {
	base := ""
	if n.Own {
		base = "check api_base in connector.toml, and "
	}
	switch {
	case f.Block == NoName:
		return finding.NoDNS.Of(n.About, "the name "+n.Host+" does not resolve ("+f.words()+")",
			base+"check this machine's DNS (/etc/resolv.conf); `getent hosts "+n.Host+"` shows whether it works")
	case f.Block == Between, f.Status != 0 && f.Message == NoAnswer && f.Status < http.StatusInternalServerError:
		what := "a proxy or something similar is between here and " + n.Network + " at " + n.Host
		if f.Status != 0 {
			what = "something other than " + n.Network + " answered at " + n.Host
		}
		return finding.Between.Of(n.About, what+" ("+f.words()+")",
			base+"check HTTPS_PROXY in the server's environment, whether this network wants a login first, and any proxy or virus scanner that opens TLS")
	case f.Status == 0:
		return finding.Unreachable.Of(n.About, n.Network+" cannot be reached at "+n.Host+" ("+f.words()+")",
			base+"check this machine's network and firewall; `curl -sI "+n.Host+"` shows whether it works")
	}
	return finding.Troubled.Of(n.About, n.Network+" answers with a fault ("+f.Error()+")",
		"wait: the server tries again by itself; if it lasts, check the network's status page")
}

// words returns for people why there was no result. Of a chain of errors, "a: b: c", it returns the innermost one,
// which says what happened.
func (f *Fault) words() string {
	switch {
	case f.Status != 0:
		return "status " + strconv.Itoa(f.Status)
	case errors.Is(f.Cause, context.DeadlineExceeded):
		return "no answer in time"
	}
	return f.Message[strings.LastIndex(": "+f.Message, ": "):]
}

// atOnce is how many chats are examined at the same time, and maxChats is how many are examined in all: the bot must
// still be able to act meanwhile.
const (
	atOnce   = 8
	maxChats = 40
)

// EachChat returns the findings of look in chats, in their order. If ctx or the limit left out chats, one more finding
// says so.
func (n Asked) EachChat(ctx context.Context, chats []relay.Place, look func(relay.Place) ([]finding.Finding, error)) (out []finding.Finding) {
	skipped := max(0, len(chats)-maxChats)
	chats = chats[:len(chats)-skipped]
	found, failed := make([][]finding.Finding, len(chats)), make([]error, len(chats))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, chat := range chats {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if failed[i] = ctx.Err(); failed[i] == nil {
				found[i], failed[i] = look(chat)
			}
		})
	}
	wg.Wait()
	for i := range chats {
		out = append(out, found[i]...)
		if failed[i] != nil {
			skipped++
		}
	}
	if skipped > 0 {
		out = append(out, finding.NotAsked.Of(n.About, "claimed chats that could not be checked: "+strconv.Itoa(skipped), "run `hermes-connector doctor` again"))
	}
	return out
}
