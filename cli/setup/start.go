package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/service"
)

const (
	lookEvery  = 400 * time.Millisecond // the pause between two looks, in all waits of setup
	startsSoon = 30 * time.Second       // how long a server that was started may take to answer
)

// running reports whether the configuration's server answers.
func (s *setup) running(ctx context.Context) bool {
	_, err := admin.Dial(ctx, s.cfg.Socket())
	return err == nil
}

// askStart asks how the server is to run, unless it runs already.
func (s *interview) askStart(ctx context.Context, p *plan) (err error) {
	if !s.running(ctx) {
		p.start, err = s.ask(ctx, s.howToStart())
		return err
	}
	if _, there, _ := s.unit(); s.Flags.Start == "service" && !there {
		return errors.New("the server already runs, but not as a service: stop it, then run setup again")
	}
	return nil
}

// start makes the server run in the way that the person wants, or waits until the person has started it. A server that
// runs already reloads its configuration.
func (s *installation) start(ctx context.Context, p *plan) error {
	if s.running(ctx) {
		return s.reload(ctx)
	}
	switch p.start {
	case "here":
		s.served = make(chan error, 1)
		go func() { s.served <- s.Serve(ctx, s.file) }() // ends with ctx, and Run waits
	case "service":
		if err := s.service(ctx); err != nil {
			return err
		}
	default:
		if s.lines == nil {
			s.say("Start the server with: hermes-connector serve%s", s.flagConfig())
			return nil
		}
		s.say("Now start the server in another terminal: hermes-connector serve%s\nWaiting for it. You may press Ctrl-C: setup continues from here next time.", s.flagConfig())
		s.show()
		return s.stopped(until(ctx, lookEvery, func() (bool, error) { return s.running(ctx), nil }))
	}
	return s.started(ctx)
}

// howToStart returns the question how the server should run. Where nobody can be asked, nothing is started without a
// flag.
func (s *interview) howToStart() question {
	q := question{
		flag: "start", given: s.Flags.Start, text: "How should the server run?", def: "here",
		options: []option{{"here", "in this window, until Ctrl-C"}},
	}
	if service.Runs() {
		q.def = "service"
		q.options = append(q.options, option{"service", "as a systemd service, which also starts when this machine starts"})
	}
	q.options = append(q.options, option{"no", "I will start it myself"})
	if s.lines == nil && q.given == "" {
		q.given = "no"
	}
	return q
}

// flagConfig returns the flag with which other commands find the configuration; empty if they find it without.
func (s *setup) flagConfig() string {
	if s.named {
		return " --config " + s.file
	}
	return ""
}

// started waits until the server that setup has started answers.
func (s *installation) started(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, startsSoon)
	defer cancel()
	err := until(soon, lookEvery, func() (bool, error) {
		select {
		case err := <-s.served:
			s.served = nil
			if err == nil {
				err = errors.New("it stopped at once")
			}
			return false, fmt.Errorf("the server did not start: %w", err)
		default:
			return s.running(soon), nil
		}
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("the server does not answer yet: hermes-connector doctor says why")
	}
	if err == nil {
		s.say("✓ the server runs")
		s.changed = false
	}
	return s.stopped(err)
}

// reload makes a server that runs already take over the configuration, whoever wrote it.
func (s *installation) reload(ctx context.Context) error {
	s.say("✓ the server runs")
	left, err := s.Reload(ctx, s.file)
	if err != nil {
		return fmt.Errorf("the server runs with the former configuration: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("only a restart of the server changes %s: restart it, then run setup again, which continues where it left off", strings.Join(left, ", "))
	}
	if s.changed {
		s.say("✓ it has taken the new configuration")
	}
	return nil
}
