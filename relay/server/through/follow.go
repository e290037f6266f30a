package through

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

const (
	// lookEvery is the pause between two looks for the leader.
	lookEvery = 500 * time.Millisecond
	// longSince is how long passing on must be impossible before the log says why: during a change of leader it is so
	// for a moment.
	longSince = 5 * time.Second
	// lookTime bounds each question to the leader.
	lookTime = 2 * time.Second
	// dialTime bounds the making of a connection to the leader.
	dialTime = 3 * time.Second
	// continueTime is how long the leader may take to say whether it wants a body.
	continueTime = 10 * time.Second
	// adminBuffer holds the longest trailer of an answer to a command.
	adminBuffer = 64 << 10
)

// Leader is the destination of requests.
type Leader struct {
	Name string // the node's
	Run  string // the id of its run that leads; empty: nobody leads
	URL  string // SCHEME://HOST:PORT
	Key  Key    // nil: not known yet
}

// Options of a follower.
type Options struct {
	Node string // its name
	// Prefix is the path of this shard at the leader's listener: /s/NAME; empty: the whole listener.
	Prefix string
	// Find returns the leader. If a leader cannot be reached, it also returns an error that says why.
	Find  func(context.Context) (Leader, error)
	TLS   func(host string) *tls.Config // by which a leader's certificate is judged
	Bound []string                      // further headers that say who calls
	Here  func() bool                   // this node leads itself, and passes nothing on; nil: it never does
	Log   *slog.Logger
}

// Follower passes requests on to the leader. Make one with Follow, and run it once.
type Follower struct {
	o      Options
	leader atomic.Pointer[target] // nil: there is none
	why    atomic.Value           // string: why nothing can be passed on; empty: requests can be passed on
	unable unable

	mu       sync.Mutex // guards stopping, and requests.Add against it
	stopping bool
	requests sync.WaitGroup
}

// Follow makes a follower. It looks for no leader before Run.
func Follow(o Options) *Follower {
	f := &Follower{o: o}
	f.why.Store("this node has just started")
	return f
}

// target is a leader, for as long as it leads.
type target struct {
	Leader
	url    *url.URL
	proved bool   // its answer proved that it has the key; only look uses this
	run    string // the run's id in its /healthz; not changed once the target is in Follower.leader
	proxy  *httputil.ReverseProxy
	admin  *httputil.ReverseProxy
	ctx    context.Context // ends when it no longer leads
	end    context.CancelFunc
}

// Run looks for the leader until ctx ends. When it returns, nothing is passed on any more, and all requests have ended.
func (f *Follower) Run(ctx context.Context) error {
	var t *target
	for {
		t = f.look(ctx, t)
		select {
		case <-ctx.Done():
			f.leave(t)
			f.mu.Lock()
			f.stopping = true
			f.mu.Unlock()
			f.requests.Wait()
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// leave forgets a leader.
func (f *Follower) leave(t *target) {
	f.leader.Store(nil)
	if t != nil {
		t.end()
	}
}

// look finds the leader, or checks that the present one is still there. If that cannot be checked, the leader stays:
// one that no longer leads refuses requests itself.
func (f *Follower) look(ctx context.Context, t *target) *target {
	if f.o.Here != nil && f.o.Here() {
		f.leave(t)
		f.able()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*lookTime)
	defer cancel()
	l, err := f.o.Find(ctx)
	switch {
	case err != nil && l.Run == "" && t != nil: // the present leader stays: it may still lead
	case err != nil || l.Run == "":
		f.leave(t)
		t = nil
		f.say(cmp.Or(err, errors.New("no node leads")))
	case t == nil || l.Run != t.Run || l.URL != t.URL:
		f.leave(t)
		if t, err = f.aim(ctx, l); err != nil {
			f.say(err)
		}
	}
	if t == nil {
		return nil
	}
	if !t.proved {
		if err := f.prove(ctx, t); err != nil {
			f.say(fmt.Errorf("node %s leads, and cannot be reached at %s: %w", l.Name, l.URL, err))
			return t
		}
		f.leader.Store(t)
		f.able()
		f.o.Log.Info("requests go through to the leader", "node", t.Name, "url", t.URL)
	}
	return t
}

// unable measures how long nothing could be passed on.
type unable struct {
	sync.Mutex
	since time.Time // zero: requests can be passed on
	said  bool      // the log has the reason
}

// say notes why no request can be passed on. After longSince the reason is logged, once.
func (f *Follower) say(err error) {
	f.why.Store(err.Error())
	f.unable.Lock()
	defer f.unable.Unlock()
	if f.unable.since.IsZero() {
		f.unable.since = time.Now()
	}
	if !f.unable.said && time.Since(f.unable.since) >= longSince {
		f.unable.said = true
		f.o.Log.Warn("requests cannot be handed through", "err", err)
	}
}

// able notes that requests can be passed on again.
func (f *Follower) able() {
	f.why.Store("")
	f.unable.Lock()
	defer f.unable.Unlock()
	f.unable.since, f.unable.said = time.Time{}, false
}

// aim returns a new target for l. Its requests end when its end is called.
func (f *Follower) aim(ctx context.Context, l Leader) (*target, error) {
	u, err := url.Parse(l.URL)
	if err != nil {
		return nil, err
	}
	t := &target{Leader: l, url: u}
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	t.proxy, t.admin = f.proxy(t, 0), f.proxy(t, adminBuffer)
	return t, nil
}

// private reports whether nobody on the way to t can read along.
func (t *target) private() bool {
	ip, err := netip.ParseAddr(t.url.Hostname())
	return t.url.Scheme == "https" || t.url.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// proxy returns the reverse proxy that passes requests on to t, each with its signed claim and on a connection of its
// own, which counts as the caller's at the leader. readBuffer is in bytes; 0 means the default of http.Transport.
func (f *Follower) proxy(t *target, readBuffer int) *httputil.ReverseProxy {
	var own *tls.Config
	if f.o.TLS != nil {
		own = f.o.TLS(t.url.Hostname())
	}
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = t.url.Scheme, t.url.Host
			p.Out.URL.RawQuery = p.In.URL.RawQuery    // the reverse proxy drops the parts that it cannot read
			for _, name := range binding(f.o.Bound) { // the reverse proxy strips some of them
				delete(p.Out.Header, name)
				if said := p.In.Header.Values(name); len(said) > 0 {
					p.Out.Header[http.CanonicalHeaderKey(name)] = said
				}
			}
			c, _ := p.In.Context().Value(claimKey{}).(Claim)
			f.sign(t, p.Out, c)
		},
		ModifyResponse: func(res *http.Response) error {
			if res.Header.Get(verifiedHeader) != "" {
				limits.Verified(res.Request.Context())
			}
			res.Header.Del(verifiedHeader)
			res.Header.Del(leadsHeader)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				f.say(fmt.Errorf("node %s leads, and does not answer at %s: %w", t.Name, t.URL, err))
			}
			unavailable(w, "the leader does not answer")
		},
		Transport: &http.Transport{
			DialContext:           dialer.DialContext,
			TLSClientConfig:       own,
			TLSHandshakeTimeout:   dialTime,
			TLSNextProto:          map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1: sockets need it
			MaxIdleConnsPerHost:   -1,                                                     // no connection twice; "Connection: close" would do that, too, but the leader would leave bodies unread
			DisableCompression:    true,
			ExpectContinueTimeout: continueTime,
			ReadBufferSize:        readBuffer,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(f.o.Log.Handler(), slog.LevelDebug),
	}
}

// sign adds the signed claim c to r, and points r at the shard's path on the leader's listener. The signature covers
// the path without Options.Prefix, which the leader cuts off before it verifies.
func (f *Follower) sign(t *target, r *http.Request, c Claim) (said string) {
	c.Node, c.At = f.o.Node, time.Now()
	said = t.Key.sign(c, r.Method, r.URL.RequestURI(), cmp.Or(r.Host, r.URL.Host), r.Header, binding(f.o.Bound))
	r.Header.Set(claimHeader, said)
	r.URL.Path = f.o.Prefix + r.URL.Path
	if r.URL.RawPath != "" {
		r.URL.RawPath = f.o.Prefix + r.URL.RawPath
	}
	return said
}

// prove asks t whether it is the leader: the answer proves that it has the key.
func (f *Follower) prove(ctx context.Context, t *target) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+"/healthz", nil)
	if err != nil {
		return err
	}
	said := f.sign(t, r, Claim{Door: Listener, Caller: "127.0.0.1:1"})
	res, err := t.proxy.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return err
	}
	if res.Header.Get(leadsHeader) != t.Key.leads(said) {
		var refused struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(body, &refused)
		return fmt.Errorf("who answers there does not lead this cluster (status %d %.300q)", res.StatusCode, refused.Error)
	}
	var health struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(body, &health); err != nil {
		return err
	}
	t.run, t.proved = health.Run, true
	return nil
}

type claimKey struct{}

// Led reports whether there is a leader to whom requests go.
func (f *Follower) Led() bool { return f.leader.Load() != nil }

// Handler serves the requests at a door of a node that does not lead.
func (f *Follower) Handler(d Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := f.leader.Load()
		w.Header().Set("Connection", "close") // one request each, so that the bound on connections bounds requests, too
		switch {
		case r.Header.Get(claimHeader) != "":
			unavailable(w, "this node does not lead")
			return
		case d == Listener && r.URL.Path == "/healthz":
			health := map[string]any{"ok": true}
			if t != nil && t.run != "" {
				health["run"] = t.run // the run that this address reaches
			}
			routes.Answer(w, http.StatusOK, health)
			return
		case t == nil:
			unavailable(w, "this node does not lead, and reaches no leader")
			return
		}
		c := Claim{Door: d, Caller: r.RemoteAddr, Secure: r.TLS != nil}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			c.Local = local.String()
		}
		f.hand(w, r, t, t.proxy, c)
	})
}

// Command serves the requests of user at the admin socket of a node that does not lead.
func (f *Follower) Command(user string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := f.leader.Load()
		why, _ := f.why.Load().(string)
		switch {
		case t == nil:
			routes.Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("node %s does not lead, and reaches no leader: %s", f.o.Node, why))
		case !t.private():
			routes.Refuse(w, http.StatusForbidden, fmt.Sprintf("node %s leads, and its advertise is %s: commands go there over https only, since answers hold secrets; "+
				"set an https address as advertise under [cluster], or run this at node %[1]s", t.Name, t.URL))
		default:
			f.hand(w, r, t, t.admin, Claim{Door: Admin, Caller: user})
		}
	})
}

// hand passes r with the claim c on to t through p, and returns when t's answer was sent. If t refused a body before it
// was sent, the rest of the body is read and dropped for a while, so that the caller gets the answer.
func (f *Follower) hand(w http.ResponseWriter, r *http.Request, t *target, p *httputil.ReverseProxy, c Claim) {
	if !f.enter() {
		unavailable(w, "stopping")
		return
	}
	defer f.requests.Done()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), claimKey{}, c))
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	conn := http.NewResponseController(w)
	sent := &body{ReadCloser: r.Body, conn: conn}
	out := r.WithContext(ctx)
	out.Body = sent
	p.ServeHTTP(answer{w, conn}, out)
	if r.ContentLength != 0 && !sent.whole.Load() && ctx.Err() == nil { // t answered before it had read the body
		routes.Linger(w, r.Body)
	}
}

// enter counts a request that Run waits for at its end. It reports false if Run has stopped.
func (f *Follower) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return false
	}
	f.requests.Add(1)
	return true
}
