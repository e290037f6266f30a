package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// askGateway asks for which gateway credentials are made, and where they go.
func (s *interview) askGateway(ctx context.Context, p *plan) error {
	if s.lines == nil && s.Gateway == "" {
		return nil
	}
	name, err := s.ask(ctx, question{
		flag: "gateway", given: s.Gateway, def: "home", text: "A gateway is one agent of yours. What should it be called? (type no to skip this)",
		check: gatewayName,
	})
	if err != nil || name == "no" {
		return err
	}
	p.gate = name
	if s.running(ctx) || files.Exists(s.file) && files.Exists(s.cfg.Database()) { // else nobody is enrolled yet
		st, there, err := s.state(ctx, name)
		if err != nil {
			return err
		}
		if there {
			p.keep = st.State == manage.Connected && p.added == ""
			if !p.keep {
				anew, err := s.anew(ctx, p, st)
				if err != nil {
					return err
				}
				p.keep = !anew
			}
		}
	}
	if p.keep {
		return nil
	}
	p.env, err = s.envFile(ctx, p)
	if err == nil && p.env != "" {
		err = writableEnv(p.env) // before there are credentials that could get lost
	}
	return err
}

// gateway makes the credentials that are wanted, waits until the gateway dials, and links a person to it.
func (s *installation) gateway(ctx context.Context, p *plan) error {
	if p.gate == "" {
		return nil
	}
	if !p.keep {
		if err := s.credentials(ctx, p); err != nil {
			return err
		}
	}
	if !s.running(ctx) {
		s.say("Next: hermes-connector serve%s, then hermes-connector link %s%[1]s", s.flagConfig(), p.gate)
		return nil
	}
	ctx, cancel := s.patience(ctx)
	defer cancel()
	dialled, err := s.dialled(ctx, p.gate)
	if err != nil || !dialled {
		return err
	}
	return s.link(ctx, p)
}

// gatewayName accepts the name of a gateway, or "no".
func gatewayName(a string) (string, error) {
	err := relay.CheckName(a)
	if err != nil {
		err = fmt.Errorf("%w; choose a word such as home", err)
	}
	return a, err
}

// patience returns a context for the waits. It ends after the time of --wait if nobody can be asked: then nobody may be
// there to interrupt them.
func (s *installation) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.lines == nil {
		return context.WithTimeout(ctx, s.Wait)
	}
	return context.WithCancel(ctx)
}

// with calls do with a client for the running server or, if none runs, for the database.
func (s *setup) with(ctx context.Context, do func(*admin.Client) error) error {
	c, done, err := s.Client(ctx, s.file)
	if err != nil {
		return err
	}
	return errors.Join(do(c), done())
}

// state returns the state of a gateway's instance. there: it is enrolled, and not revoked.
func (s *setup) state(ctx context.Context, name string) (st manage.InstanceStatus, there bool, err error) {
	err = s.with(ctx, func(c *admin.Client) error {
		all, err := admin.Ask(ctx, c, ops.Gateways, struct{}{})
		if err != nil {
			return err
		}
		there = slices.ContainsFunc(all, func(g manage.Gateway) bool { return string(g.ID) == name && g.State != manage.Revoked })
		status, err := admin.Ask(ctx, c, ops.Status, struct{}{})
		for _, i := range status.Instances {
			if string(i.ID) == name {
				st = i
			}
		}
		return err
	})
	return st, there, err
}

// credentials makes a gateway, or new credentials for one that exists, and writes their lines into the .env file or
// prints them.
func (s *installation) credentials(ctx context.Context, p *plan) error {
	_, there, err := s.state(ctx, p.gate)
	if err != nil {
		return err
	}
	var made manage.Enrolled
	if err := s.with(ctx, func(c *admin.Client) (err error) {
		if there {
			made, err = admin.Ask(ctx, c, ops.Rotate, manage.Named{Name: p.gate})
		} else {
			made, err = admin.Ask(ctx, c, ops.Enroll, manage.Enroll{Name: p.gate})
		}
		return err
	}); err != nil {
		return err
	}
	again := fmt.Sprintf("the credentials are made, but could not be handed out (hermes-connector gateway rotate %s makes new ones)", p.gate)
	if p.env != "" {
		if err := s.keepClosed(p.env, made); err != nil {
			return fmt.Errorf("%s: %w", again, err)
		}
		if err := writeEnv(p.env, made.EnvLines()); err != nil {
			return fmt.Errorf("%s: %w", again, err)
		}
		s.say("✓ the credentials of %s are in %s. Restart the gateway.", p.gate, p.env)
		return nil
	}
	s.say("\nPut these lines into ~/.hermes/.env on the gateway's machine and restart the gateway. They are not shown again.\n")
	s.show()
	if _, err := fmt.Fprintln(s.Out, strings.Join(made.EnvLines(), "\n")); err != nil {
		return fmt.Errorf("%s: %w", again, err)
	}
	return nil
}

// keepClosed removes lines of made that would open the gateway's own bots to everybody, if the .env file has such bots,
// and says what the other lines do to those bots.
func (s *installation) keepClosed(file string, made manage.Enrolled) error {
	own, err := envBots(file)
	if err != nil || len(own) == 0 {
		return err
	}
	delete(made.Env, manage.EnvAllowAll)
	s.say("! %s runs bots of its own: %s is in its .env file. With the connector, newer gateways switch these off and older ones keep them on.\n"+
		"  %s was left out: it would open them to everybody. What to do: hermes-connector help moving", made.Gateway, strings.Join(own, ", "), manage.EnvAllowAll)
	return nil
}

// anew reports whether a gateway that is enrolled already is to get new credentials. It asks that; if nobody can be
// asked, the .env file decides.
func (s *interview) anew(ctx context.Context, p *plan, st manage.InstanceStatus) (bool, error) {
	name, anew := p.gate, p.added != "" // a gateway's lines name the bots, so a new bot needs new lines
	if s.lines != nil {
		q := question{
			flag: "gateway", text: name + " is enrolled already, and is not connected.", def: "keep",
			options: []option{{"keep", "its credentials are in place: wait for it"}, {"new", "make new credentials (the old ones are lost, or the address has changed)"}},
		}
		if anew {
			q.text, q.def = name+" is enrolled already. To serve the new bot it needs new lines.", "new"
			q.options[0].label = "continue without them"
		}
		what, err := s.ask(ctx, q)
		return what == "new", err
	}
	if s.EnvFile != "" && !anew {
		holds, dials, err := envHolds(s.EnvFile, name, p.cfg.URL(p.cfg.Listen))
		if err != nil {
			return false, err
		}
		switch {
		case holds:
			anew = !dials // there was another --reach
		case st.LastSeenAt.IsZero(): // an interrupted setup may have lost them
			anew = true
		default:
			return false, fmt.Errorf("%s is enrolled already, and its credentials are not in %s: hermes-connector gateway rotate %[1]s%[3]s makes new ones", name, s.EnvFile, s.flagConfig())
		}
	}
	if anew && s.EnvFile == "" {
		s.say("! %s does not know the new bot: hermes-connector gateway rotate %[1]s%s prints new lines", name, s.flagConfig())
		return false, nil
	}
	if !anew {
		s.say("✓ %s is enrolled already; hermes-connector gateway rotate %s%s makes new credentials", name, name, s.flagConfig())
		return false, nil
	}
	return true, nil
}

// envFile returns the file for a gateway's lines; empty: they are printed, as for a gateway on another machine.
func (s *interview) envFile(ctx context.Context, p *plan) (string, error) {
	if s.EnvFile == "" && (s.lines == nil || p.reach == "lan" || p.reach == "internet") {
		return "", nil
	}
	def := "print"
	home, err := os.UserHomeDir()
	if st, e := os.Stat(filepath.Join(home, ".hermes")); err == nil && e == nil && st.IsDir() {
		def = filepath.Join(home, ".hermes", ".env") // the gateway runs here
	}
	file, err := s.ask(ctx, question{
		flag: "env", given: s.EnvFile, def: def, text: "Write its credentials into which .env file? (type print to show them instead)",
		check: func(a string) (string, error) {
			if rest, ok := strings.CutPrefix(a, "~/"); ok {
				a = filepath.Join(home, rest)
			}
			return a, nil
		},
	})
	if file == "print" {
		file = ""
	}
	return file, err
}

// dialled waits until the gateway is connected. It returns false at once if nobody can be asked and --wait is not
// given.
func (s *installation) dialled(ctx context.Context, name string) (bool, error) {
	if s.lines == nil && s.Wait == 0 {
		s.say("Next: hermes-connector link %s%s", name, s.flagConfig())
		return false, nil
	}
	waiting := false
	err := until(ctx, lookEvery, func() (bool, error) {
		st, _, err := s.state(ctx, name)
		if err == nil && st.State != manage.Connected && !waiting {
			s.say("\nWaiting for %s to connect. You may press Ctrl-C: setup continues from here next time.", name)
			s.show()
			waiting = true
		}
		return st.State == manage.Connected, err
	})
	if err != nil {
		return false, s.late(err, name+" did not connect")
	}
	s.say("✓ %s is connected", name)
	return true, nil
}

// late returns the error of a wait that ended with err. If the time was over, that error begins with what: the thing
// that did not happen.
func (s *setup) late(err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(what + " in time; hermes-connector status shows what works")
	}
	return s.stopped(err)
}
