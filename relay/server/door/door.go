// Package door is where a server's requests come from: a listener of its own, or a share of a listener that several
// servers use, which come and go while it listens.
package door

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

const (
	// headerTime is how long a caller may take to send the header of a request.
	headerTime = 10 * time.Second
	// stopWithin bounds how long Run waits for requests under way.
	stopWithin = 2 * time.Second
)

// Door lets requests in to one handler at a time.
type Door interface {
	// Serve lets h answer until Shutdown or Close, and then returns http.ErrServerClosed. refused is called for each
	// connection that was refused.
	Serve(h http.Handler, refused func()) error
	// Shutdown lets nothing further in, and waits for the requests under way until ctx ends.
	Shutdown(ctx context.Context) error
	// Close ends the requests under way.
	Close() error
}

// Run lets h answer at d until ctx ends, and then returns nil. If the door fails, Run returns its error. The contexts
// of all requests end with ctx.
func Run(ctx context.Context, d Door, h http.Handler, refused func()) error {
	ended := make(chan error, 1) // holds Serve's result, so that its goroutine never waits
	go func() {
		ended <- d.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			h.ServeHTTP(w, r.WithContext(requests))
		}), refused)
	}()
	select {
	case <-ctx.Done():
	case err := <-ended:
		return errors.Join(err, d.Close())
	}
	stop, giveUp := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer giveUp()
	_ = d.Shutdown(stop)
	_ = d.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// own is the door of a listener that no other server serves.
type own struct {
	*http.Server
	over func(refused func()) net.Listener // returns the listener, which calls refused for each refused connection
}

// Own returns the door at l with srv's settings. It closes l at its end.
func Own(l net.Listener, srv *http.Server) Door {
	return own{srv, func(func()) net.Listener { return l }}
}

// Strangers returns the door at l for any caller: it bounds connections and headers. It closes l at its end.
// certificates is nil for plain http.
func Strangers(l net.Listener, proxies routes.Proxies, certificates *tls.Config, log *slog.Logger) Door {
	return own{
		&http.Server{
			ReadHeaderTimeout: headerTime,
			IdleTimeout:       headerTime,
			WriteTimeout:      routes.AnswerTime, // unless the handler sets another
			MaxHeaderBytes:    32 << 10,
			ConnContext:       limits.ConnContext,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		func(refused func()) net.Listener {
			l := net.Listener(limits.NewListener(l, proxies.Trust, refused))
			if certificates != nil {
				l = tls.NewListener(l, certificates)
			}
			return l
		},
	}
}

func (o own) Serve(h http.Handler, refused func()) error {
	o.Handler = h
	return o.Server.Serve(o.over(refused))
}
