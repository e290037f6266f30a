package identity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxAge is how old a set may be before a request looks for a newer one.
	maxAge = time.Hour
	// askEvery and askBurst bound the questions: a client that makes up key names must not turn us into a nuisance.
	askEvery = 10 * time.Second
	askBurst = 20
	// askAgain is the pause after a question without a good answer, for which the caller may have waited the time
	// askFor; askAgainEmpty is the pause while there is no set at all, and so nobody can be let in.
	askAgain      = time.Minute
	askAgainEmpty = 5 * time.Second
	// blobKeys is the key under which the last good set is stored.
	blobKeys = "jwks"
)

// keyServer holds the keys at an address. One request at a time asks the server, in its own goroutine; while a set is
// only old, other requests use it.
type keyServer struct {
	// Set once, by newKeyServer.
	url    string
	client *http.Client
	blobs  Blobs
	now    func() time.Time
	log    *slog.Logger

	asking chan struct{} // holds one value while a request asks the server
	often  *rate.Limiter // bounds the questions

	mu      sync.Mutex // guards the fields below
	set     *keySet    // nil: none is known
	fetched time.Time  // when set came from the server; zero: it is from before this process
	failed  time.Time  // when the last question failed; zero: it succeeded, or there was none
}

func newKeyServer(blobs Blobs, o Options) (*keyServer, error) {
	if err := checkURL("jwks_url", o.JWKSURL); err != nil {
		return nil, err
	}
	return &keyServer{
		url: o.JWKSURL, client: newClient(o.Client), blobs: blobs, now: o.Now, log: o.Log,
		asking: make(chan struct{}, 1), often: rate.NewLimiter(rate.Every(askEvery), askBurst),
	}, nil
}

func (k *keyServer) current(ctx context.Context) (*keySet, error) {
	set, fetched, _ := k.state()
	switch {
	case set == nil:
		set = k.newer(ctx, nil)
	case k.now().Sub(fetched) > maxAge:
		select {
		case k.asking <- struct{}{}:
			set = k.ask(ctx, set)
		default:
		}
	}
	if set == nil {
		return nil, ErrUnavailable
	}
	return set, nil
}

func (k *keyServer) newer(ctx context.Context, old *keySet) *keySet {
	select {
	case k.asking <- struct{}{}:
		return k.ask(ctx, old)
	case <-ctx.Done():
		return old
	}
}

func (k *keyServer) state() (set *keySet, fetched, failed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, k.fetched, k.failed
}

// ask asks the server, unless the set has changed since the caller saw old, or it is too soon for another question, and
// returns the set to use from now on. The caller has put a value into asking, and ask takes it out.
func (k *keyServer) ask(ctx context.Context, old *keySet) *keySet {
	defer func() { <-k.asking }()
	set, before, failed := k.state()
	pause := askAgain
	if set == nil {
		pause = askAgainEmpty
	}
	now := k.now()
	if set != old || !failed.IsZero() && now.Sub(failed) < pause || !k.often.AllowN(now, 1) {
		return set
	}
	// The answer serves other callers, too, so the question goes on even if this caller gives up. The store gets as
	// much time again after the question: the stored set is needed most when the server does not answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*askFor)
	defer cancel()
	fresh, err := k.fetch(ctx)
	fetched := k.now()
	if err == nil {
		k.keep(ctx, fresh)
		failed = time.Time{}
	} else {
		k.log.Warn("the key server gave no keys; the keys known so far stay in use", "err", err)
		if fresh, fetched = set, before; set == nil {
			fresh = k.stored(ctx)
		}
		// The pause begins at the end of the question: otherwise the callers that waited meanwhile would ask one after
		// the other.
		failed = k.now()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set, k.fetched, k.failed = fresh, fetched, failed
	return fresh
}

func (k *keyServer) fetch(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	status, body, err := get(ctx, k.client, k.url, "")
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d", status)
	}
	set, err := decodeKeys(body)
	if err != nil {
		return nil, err
	}
	if len(set.list) == 0 {
		k.log.Warn("the key server has no RSA signing key of 2048 bits or more: every token is refused")
	}
	return set, nil
}

// kept is a key set in its stored form, with the address of its server: an operator who changes the address does not
// want the old keys.
type kept struct {
	URL  string `json:"url"`
	Keys []jwk  `json:"keys"`
}

// keep stores set, unless it is stored already.
func (k *keyServer) keep(ctx context.Context, set *keySet) {
	text, err := json.Marshal(kept{URL: k.url, Keys: set.encode()})
	if err == nil {
		var before []byte
		if before, _, err = k.blobs.Blob(ctx, blobKeys); err == nil && !bytes.Equal(before, text) {
			err = k.blobs.PutBlob(ctx, blobKeys, text)
		}
	}
	if err != nil {
		k.log.Warn("the keys could not be stored; after a restart they must come from the key server", "err", err)
	}
}

// stored returns the set of an earlier run; nil if there is none.
func (k *keyServer) stored(ctx context.Context) *keySet {
	text, ok, err := k.blobs.Blob(ctx, blobKeys)
	if err != nil {
		k.log.Warn("the stored keys could not be read", "err", err)
		return nil
	}
	var doc kept
	if !ok || json.Unmarshal(text, &doc) != nil || doc.URL != k.url {
		return nil
	}
	set, _ := decodeKeys(text) // nil when it cannot be read
	return set
}
