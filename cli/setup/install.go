package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/platforms"
)

// installation carries a plan out.
type installation struct {
	*setup
	changed bool       // something is written that a running server does not know yet
	linked  bool       // somebody is linked to the gateway
	served  chan error // gets the result of the server that was started here; nil: none was
}

// write writes the plan's files. If the person is to change connector.toml, it waits for that change.
func (s *installation) write(ctx context.Context, p *plan) error {
	s.shows(nil) // nothing more is asked
	for _, f := range p.tokens {
		put, which := create, "the token"
		if f.replaces {
			put, which = replace, "the new token"
		}
		if err := put(f.path, []byte(f.token.RevealString()+"\n"), f.mode); err != nil {
			return fmt.Errorf("token file: %w", err)
		}
		s.say("✓ %s is in %s", which, f.path)
		s.changed = true
	}
	if p.draft != nil {
		mode := os.FileMode(0o644)
		if st, err := os.Stat(s.file); err == nil {
			mode = st.Mode().Perm()
		}
		path := s.file
		if at, err := filepath.EvalSymlinks(path); err == nil {
			path = at // the file that the link leads to is replaced, and not the link
		}
		if err := replace(path, p.draft, mode); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		s.say("✓ %s is written", s.file)
		s.changed = true
	}
	if p.byHand {
		if err := s.changedByHand(ctx, p); err != nil {
			return err
		}
	}
	if !s.changed {
		return nil
	}
	var err error
	s.text, s.cfg, err = s.read()
	p.cfg = s.cfg
	if err == nil && p.enter != "" {
		s.say("The network is to call this server. When that runs, enter\n\n  %s%s\n\nat %s.", s.cfg.PublicURL, platforms.HookPath(p.botID), p.enter)
	}
	return err
}

// changedByHand says what to change in connector.toml, and waits for the change if somebody can make it.
func (s *installation) changedByHand(ctx context.Context, p *plan) error {
	s.say("\n%s exists already, and setup does not edit it. %s", s.file, terminal.Text(byHand(s.text, p.lines, p.gone, p.bot)))
	if s.lines == nil {
		return fmt.Errorf("make that change in %s, then run setup again, which continues where it left off; a running server takes the change with hermes-connector reload%s", s.file, s.flagConfig())
	}
	s.say("Waiting until that is done. You may press Ctrl-C: setup continues from here next time.")
	s.show()
	said := ""
	return s.stopped(until(ctx, lookEvery, func() (bool, error) {
		text, cfg, err := s.read()
		if err != nil && err.Error() != said {
			said = err.Error()
			s.say("! %s", terminal.Text(said))
			s.show()
		}
		if err != nil {
			return false, nil
		}
		lines, gone := lacking(text, p.lines, p.gone)
		if len(lines)+len(gone) > 0 || p.bot != nil && !s.hosts(cfg, p.botID) {
			return false, nil
		}
		s.changed = true
		s.say("✓ %s has that change", s.file)
		return true, nil
	}))
}
