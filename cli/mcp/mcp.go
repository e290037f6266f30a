// Package mcp gives an instance's chats to a client of the Model Context Protocol: a process that the client starts,
// and that dials the connector as a gateway does. What people write is put into a spool first, and then acknowledged to
// the connector; it waits in the spool until the client confirms it.
//
// Invariants:
//
//  1. An event is acknowledged when it is in the spool, and leaves the spool when a client has confirmed it. An event
//     that cannot be written is not acknowledged.
//  2. Pushing and reading confirm nothing.
//  3. A message counts as sent only when the connector says so. A message whose fate is unknown is never sent again
//     automatically.
//  4. People's text appears only in members called text and content, and in previews.
//  5. Only a person consents to what a client asks for.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const (
	// farewell is how long the process may take to end once the client is gone.
	farewell = time.Second
	// lockEvery is how often the process checks whether another process still has the spool.
	lockEvery = time.Second
	// tidyEvery is how often history is searched for messages that are too old.
	tidyEvery = 24 * time.Hour
)

// Options are the settings of a Server.
type Options struct {
	Credential client.Credential
	Dir        string // the spool's folder
	History    int    // how many confirmed or sent messages of a chat are kept; 0: none
	// Claude: each event is also pushed, in the form that Claude Code reads.
	Claude bool
	// ApproveIn is the key of the direct messages in which a person is asked for consent to Claude Code's actions;
	// empty: nobody is asked.
	ApproveIn string
	// Mend is what people are told to do if the connector refuses the credential.
	Mend    string
	Version string
	In      io.Reader
	Out     io.Writer
	Log     *slog.Logger
	Pause   time.Duration // before it dials again, as in client.Client; 0: a second
}

// Server is one process of `mcp`. Run it once.
type Server struct {
	o         Options
	client    *client.Client
	http      *http.Client
	stdio     *stdio
	approvals approvals
	life      context.Context // the context of work that a call began; it ends when Run does
	ending    context.Context // it ends when the client is gone

	acting   sync.RWMutex  // held for reading while a message is being sent, and for writing to end the connection
	greeted  atomic.Int64  // how often the connector has greeted
	greeting chan struct{} // gets a value when the connector has greeted

	mu      sync.Mutex    // guards the fields below
	looked  chan struct{} // closed when the first attempt to open the spool is over
	spool   *spool.Spool  // nil: there is none yet
	trouble error         // the error of the newest attempt to open the spool; nil: it is open
}

// New returns a server that is not running yet.
func New(o Options) *Server {
	s := &Server{o: o, stdio: newStdio(o.In, o.Out), greeting: make(chan struct{}, 1), looked: make(chan struct{})}
	s.http = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.client = &client.Client{Credential: o.Credential, OneByOne: true, LinkWait: linkWait, Log: o.Log, Pause: o.Pause, Observe: s.observe}
	s.approvals.init(s)
	s.stdio.own = s.approvals.take
	return s
}

// observe counts the connector's greetings. Each begins a connection, on which deliveries then come.
func (s *Server) observe(outward bool, f wire.Frame) {
	if _, ok := f.(wire.Descriptor); ok && !outward {
		s.greeted.Add(1)
		select {
		case s.greeting <- struct{}{}:
		default:
		}
	}
}

// Run serves the client until it is gone, or ctx ends. Both are no error.
func (s *Server) Run(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE) // a client that is gone reads no answer; the connector must still learn of the end
	ending, end := context.WithCancel(ctx)
	defer end()
	life, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	s.ending, s.life = ending, life
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Experimental: make(map[string]any)}
	if s.o.Claude {
		capabilities.Experimental[claudeChannel] = map[string]any{}
	}
	if s.o.ApproveIn != "" {
		capabilities.Experimental[claudePermission] = map[string]any{}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "hermes-connector", Title: "Chats", Version: s.o.Version},
		&sdk.ServerOptions{Instructions: instructions, Capabilities: capabilities})
	for _, t := range s.tools() {
		server.AddTool(t.described(), s.handler(t))
	}
	session, err := server.Connect(life, s.stdio, nil)
	if err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.custody(ending, life) })
	select {
	case <-s.stdio.ended:
	case <-ending.Done():
	}
	end()
	over := make(chan struct{})
	go func() { // if the client has stopped reading, this may wait for ever, but Run does not
		defer close(over)
		wg.Wait()
		if ctx.Err() == nil { // requests that the client made before it ended are answered
			_ = session.Wait()
		}
	}()
	late := time.NewTimer(farewell)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
	}
	die()
	return errors.Join(s.closeSpool(), s.stdio.Close())
}

// custody opens the spool, and then runs the connection to the connector and all that works on the spool, until ctx
// ends. After that it tells the connector that nothing more is accepted, and waits for messages that are being sent.
func (s *Server) custody(ctx, life context.Context) {
	sp := s.takeSpool(ctx)
	if sp == nil {
		return
	}
	connected, disconnect := context.WithCancel(life)
	defer disconnect()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.client.Run(connected); errors.Is(err, client.ErrRefused) {
			s.o.Log.Error("the connector refuses the credential", "fix", s.o.Mend)
			s.settle(nil, fmt.Errorf("the connector refuses the credential: %s", s.o.Mend))
		}
	})
	wg.Go(func() { s.intake(ctx, sp) })
	if s.o.Claude {
		wg.Go(func() { s.push(ctx, sp) })
	}
	wg.Go(func() { s.approvals.run(ctx, sp) })
	wg.Go(func() { s.tidy(ctx, sp) })
	<-ctx.Done()
	bye, cancel := context.WithTimeout(life, farewell*3/4)
	defer cancel()
	_ = s.client.GoingIdle(bye) // without an answer nothing is lost: the connector keeps unacknowledged deliveries
	s.acted(bye)
	disconnect()
	wg.Wait()
}

// acted waits until nothing is being sent any more, or ctx ends.
func (s *Server) acted(ctx context.Context) {
	free := make(chan struct{})
	go func() { // ends with the connection, at the latest
		defer close(free)
		s.acting.Lock()
		defer s.acting.Unlock()
	}()
	select {
	case <-free:
	case <-ctx.Done():
	}
}

// takeSpool opens the spool, and waits while another process has it. It returns nil if ctx ends, or if the spool cannot
// be opened for another reason.
func (s *Server) takeSpool(ctx context.Context) *spool.Spool {
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		sp, err := spool.Open(s.o.Dir, spool.Options{Gateway: s.o.Credential.ID, History: s.o.History, Now: time.Now})
		held, isHeld := errors.AsType[spool.Held](err)
		if isHeld {
			err = fmt.Errorf("the spool in %s is %w; this takes over when that ends", s.o.Dir, held)
		}
		s.settle(sp, err)
		if err == nil || !isHeld {
			return sp
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// settle records the result of opening the spool, which later calls get: the spool, unless sp is nil, and the error.
func (s *Server) settle(sp *spool.Spool, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp != nil {
		s.spool = sp
	}
	s.trouble = trouble
	select {
	case <-s.looked:
	default:
		close(s.looked)
	}
}

// closeSpool closes the spool, if it is open, and so unlocks it for other processes.
func (s *Server) closeSpool() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spool == nil {
		return nil
	}
	return s.spool.Close()
}

// open returns the spool, or why there is none.
func (s *Server) open(ctx context.Context) (*spool.Spool, error) {
	select {
	case <-s.looked:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spool, s.trouble
}

// tidy removes old messages from the spool once a day, until ctx ends.
func (s *Server) tidy(ctx context.Context, sp *spool.Spool) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := sp.Tidy(); err != nil {
				s.o.Log.Warn("old history is still there", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
