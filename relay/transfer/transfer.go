// Package transfer moves files between gateways and the store of files: a gateway's download of an event's file (GET
// /relay/media/{id}), its upload of a file to send (POST /relay/media), and the file at the address that a send_media
// names.
//
// It stores nothing and knows no format: Files keeps the files, and package sniff finds out what they are.
//
// Invariants:
//
//  1. A request is checked in this order: path, method, origin, credential, rate, size, place; only then a body is read
//     or a file opened. Before the credential is verified, only the failures of its address are remembered.
//  2. Foreign, unknown, expired and malformed ids get one and the same answer. Nobody is redirected: gateways carry
//     their bearer along.
//  3. At most maxAll transfers run, and maxEach of an instance; package fair decides who gets a place, and who is asked
//     for it back. A transfer ends early only if it is asked back, makes no progress, or takes longer than maxTime.
//  4. The file of a send_media is one that the instance may read, or comes through package guard; each redirect is
//     checked like the first address, and the network never fetches it for us.
//  5. No address, name or content of a file is in an error or a log.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/fair"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

const (
	maxAll  = 16 // transfers at once
	maxEach = 4  // of one instance
	// placeTime is how long a transfer waits for its place: longer than it takes to find out that others are slow.
	placeTime = 12 * time.Second
	// maxTime is how long a transfer may take once it has its place.
	maxTime = 5 * time.Minute
	// sendSilence and readSilence end a transfer in which no byte moved for so long.
	readSilence = 30 * time.Second // of a gateway that downloads: its own bound for a read
	sendSilence = 10 * time.Second // of an upload
	// A gateway may upload uploadBurst files at once, and uploadRate a second after that: 60 a minute.
	uploadRate, uploadBurst = 1, 60
)

// Files keeps the files. *media.Keeper implements it. Its methods may be called from any goroutine.
type Files interface {
	// Open opens a file that the instance may read. If it may not, or nobody has such a file, the error is
	// media.ErrNoFile. The caller calls done when it no longer needs the content.
	Open(ctx context.Context, i relay.InstanceID, id relay.MediaID) (f relay.File, done func(), err error)
	// Put keeps the content of body as a new file of the instance. declared is its size; -1: not known.
	Put(ctx context.Context, i relay.InstanceID, name string, declared int64, body io.Reader) (id relay.MediaID, size int64, err error)
	// Served says that the instance got a whole file.
	Served(i relay.InstanceID)
}

// Options are the settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// Failures counts failed credentials per address. It is shared with the upgrade; nil means a count of its own.
	Failures *limits.Failures
	Now      func() time.Time    // the clock of the limits; nil means time.Now
	Count    func(count.Counter) // nil: nobody counts
	// Used is called for each gateway whose credential was verified here; nil: nobody wants to know.
	Used func(ctx context.Context, g relay.GatewayID)
}

// Verifier checks bearers; *token.Authority does.
type Verifier interface {
	Verify(ctx context.Context, bearer string) (token.Peer, token.Verdict, error)
}

// Transfers are the routes of files. Their methods may be called from any goroutine.
type Transfers struct {
	// Set once, by New.
	files   Files
	auth    Verifier
	o       Options
	places  *fair.Places
	uploads *limits.Rates // per gateway
}

// New makes the routes of files.
func New(files Files, auth Verifier, o Options) *Transfers {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Failures = cmp.Or(o.Failures, new(limits.Failures))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(count.Counter) {}
	}
	if o.Used == nil {
		o.Used = func(context.Context, relay.GatewayID) {}
	}
	return &Transfers{files: files, auth: auth, o: o, places: fair.NewPlaces(maxAll, maxEach), uploads: limits.NewRates(uploadRate, uploadBurst)}
}

// Routes returns the routes for files. The routes' time limits hold until the credential is verified; then begin sets
// those of the call.
func (t *Transfers) Routes() []routes.Route {
	return []routes.Route{
		{Path: route + "/", Methods: []string{http.MethodGet}, Serve: t.serve(t.download)},
		{Path: route, Methods: []string{http.MethodPost}, Policy: routes.Policy{Body: media.MaxFile}, Serve: t.serve(t.upload)},
	}
}

// call is one request of a gateway whose credential was verified.
type call struct {
	*http.Request
	w    http.ResponseWriter
	conn *http.ResponseController
	peer token.Peer
	// Set once it has its place, whose context it then uses.
	place *fair.Place
	end   time.Time     // when its time is up
	cut   chan struct{} // closed once the end of the place's context was handled: after that it changes no deadline any more
}

// serve returns a handler that verifies the gateway's credential and then calls do.
func (t *Transfers) serve(do func(*call)) routes.Handler {
	return func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
		peer, verdict, err := t.auth.Verify(r.Context(), routes.Bearer(r))
		switch {
		case err != nil:
			t.o.Log.Warn("credential not verified; the gateway may come again", "from", from, "err", err)
			routes.Refuse(w, http.StatusServiceUnavailable, "unavailable")
			return
		case verdict != token.Valid:
			t.stranger(w, from, verdict, peer)
			return
		}
		limits.Verified(r.Context())
		t.o.Used(r.Context(), peer.Gateway)
		do(&call{Request: r, w: w, conn: http.NewResponseController(w), peer: peer})
	}
}

// stranger refuses a request without a valid credential.
func (t *Transfers) stranger(w http.ResponseWriter, from netip.Addr, verdict token.Verdict, peer token.Peer) {
	if wait := t.o.Failures.Add(from, t.o.Now()); wait > 0 {
		routes.TooMany(w, wait, "too many failed attempts")
		return
	}
	if verdict == token.Expired {
		t.o.Log.Info("expired token refused; check the clocks", "from", from, "route", route, "gateway", peer.Gateway)
	} else {
		t.o.Log.Info("unknown credential refused", "from", from, "route", route)
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	routes.Refuse(w, http.StatusUnauthorized, "unauthorized")
}

// begin waits for the call's place; from then on its own times hold instead of the route's. If there is no place, it
// sends the answer.
func (t *Transfers) begin(c *call) (leave func(), ok bool) {
	now := time.Now()
	_ = c.conn.SetReadDeadline(now.Add(placeTime + sendSilence)) // a connection without deadlines is a test's
	_ = c.conn.SetWriteDeadline(now.Add(placeTime + readSilence))
	hold, place, ok := t.places.Enter(c.Context(), fair.Owner{Tenant: c.peer.Tenant, Instance: c.peer.Instance}, placeTime)
	if !ok {
		t.busy(c, "too many transfers at once")
		return nil, false
	}
	c.Request, c.place, c.end = c.WithContext(hold), place, time.Now().Add(maxTime)
	_ = c.conn.SetReadDeadline(c.end) // or the request's context would end
	c.cut = make(chan struct{})
	stop := context.AfterFunc(hold, func() {
		defer close(c.cut)
		if isAskedBack(hold) {
			_ = c.conn.SetReadDeadline(time.Now())
			_ = c.conn.SetWriteDeadline(time.Now())
		}
	})
	return func() {
		if !stop() {
			<-c.cut // or its deadlines would hit the connection's next request
		}
		place.Leave()
	}, true
}

// busy refuses a call for which there is no place now.
func (t *Transfers) busy(c *call, why string) {
	t.o.Count(count.MediaBusy)
	c.w.Header().Set("Retry-After", "5")
	c.refuse(http.StatusServiceUnavailable, why)
}

// isAskedBack reports whether the place whose context is hold was asked back.
func isAskedBack(hold context.Context) bool { return errors.Is(context.Cause(hold), fair.ErrAskedBack) }

// soon returns when a call ends in which nothing moves any more.
func (c *call) soon(silence time.Duration) time.Time {
	if at := time.Now().Add(silence); at.Before(c.end) {
		return at
	}
	return c.end
}

// answer sends an answer by routes.Answer, and gives it the time that a small answer needs.
func (c *call) answer(status int, body any) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(readSilence))
	routes.Answer(c.w, status, body)
}

// refuse answers with an error.
func (c *call) refuse(status int, text string) { c.answer(status, map[string]string{"error": text}) }

// failed answers with an internal error.
func (t *Transfers) failed(c *call, err error) {
	level := slog.LevelWarn
	if c.Context().Err() != nil || errors.Is(err, context.Canceled) { // the gateway hung up
		level = slog.LevelDebug
	}
	t.o.Log.Log(c.Context(), level, "file not moved; the gateway may come again", "gateway", c.peer.Gateway, "err", err)
	c.refuse(http.StatusServiceUnavailable, "unavailable")
}
