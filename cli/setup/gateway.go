package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// nameWithin is how long a server that has just started may take to learn its bots' names, for the deep links.
const nameWithin = 10 * time.Second

// gateway offers credentials for a gateway, waits until it dials, and links a person to it.
func (s *setup) gateway(ctx context.Context) error {
	if s.lines == nil && s.Gateway == "" {
		return nil
	}
	name, err := s.ask(ctx, question{
		flag: "gateway", given: s.Gateway, def: "home", text: "A gateway is one agent of yours. How is it to be called? (no: none now)",
		check: func(a string) (string, error) { return a, relay.CheckName(a) },
	})
	if err != nil || name == "no" {
		return err
	}
	st, there, err := s.state(ctx, name)
	if err != nil {
		return err
	}
	if !there || st.State != manage.Connected {
		if err := s.credentials(ctx, name, there); err != nil {
			return err
		}
	}
	if !s.running(ctx) {
		s.say("Next: hermes-connector serve, then hermes-connector link %s", name)
		return nil
	}
	ctx, cancel := s.patience(ctx)
	defer cancel()
	dialled, err := s.dialled(ctx, name)
	if err != nil || !dialled {
		return err
	}
	return s.link(ctx, name)
}

// patience bounds the waits where nobody can interrupt them.
func (s *setup) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.lines == nil {
		return context.WithTimeout(ctx, s.Wait)
	}
	return context.WithCancel(ctx)
}

// with does something over the way to the server, or to the database.
func (s *setup) with(ctx context.Context, do func(*admin.Client) error) error {
	c, done, err := s.Client(ctx, s.file)
	if err != nil {
		return err
	}
	return errors.Join(do(c), done())
}

// state is how a gateway's instance is; there: it is enrolled, and not revoked.
func (s *setup) state(ctx context.Context, name string) (st manage.InstanceStatus, there bool, err error) {
	err = s.with(ctx, func(c *admin.Client) error {
		all, err := admin.Gateways.Ask(ctx, c, struct{}{})
		if err != nil {
			return err
		}
		there = slices.ContainsFunc(all, func(g manage.Gateway) bool { return string(g.ID) == name && g.State != manage.Revoked })
		status, err := admin.Status.Ask(ctx, c, struct{}{})
		for _, i := range status.Instances {
			if string(i.ID) == name {
				st = i
			}
		}
		return err
	})
	return st, there, err
}

// credentials makes a gateway, or new credentials of one, and hands its lines out.
func (s *setup) credentials(ctx context.Context, name string, there bool) error {
	if there {
		what := "keep"
		if s.lines != nil {
			var err error
			if what, err = s.ask(ctx, question{
				flag: "gateway", text: name + " is enrolled already, and is not connected.", def: "keep",
				options: []option{{"keep", "its credentials are where they belong: wait for it"}, {"new", "make new credentials"}},
			}); err != nil {
				return err
			}
		}
		if what == "keep" {
			s.say("✓ %s is enrolled already; hermes-connector gateway rotate %s makes new credentials", name, name)
			return nil
		}
	}
	file, err := s.envFile(ctx)
	if err != nil {
		return err
	}
	var made manage.Enrolled
	if err := s.with(ctx, func(c *admin.Client) (err error) {
		if there {
			made, err = admin.Rotate.Ask(ctx, c, manage.Named{Name: name})
		} else {
			made, err = admin.Enroll.Ask(ctx, c, manage.Enroll{Name: name})
		}
		return err
	}); err != nil {
		return err
	}
	again := fmt.Sprintf("the credentials are made, but could not be handed out (hermes-connector gateway rotate %s makes new ones)", name)
	if file != "" {
		if err := writeEnv(file, made.EnvLines()); err != nil {
			return fmt.Errorf("%s: %w", again, err)
		}
		s.say("✓ the credentials of %s are in %s. Restart the gateway.", name, file)
		return nil
	}
	s.say("\nPut these lines into ~/.hermes/.env on the gateway's machine and restart the gateway. They are not shown again.\n")
	s.show()
	if _, err := fmt.Fprintln(s.Out, strings.Join(made.EnvLines(), "\n")); err != nil {
		return fmt.Errorf("%s: %w", again, err)
	}
	return nil
}

// envFile is where a gateway's lines go; empty: they are printed.
func (s *setup) envFile(ctx context.Context) (string, error) {
	if s.EnvFile == "" && s.lines == nil {
		return "", nil
	}
	def := "print"
	home, err := os.UserHomeDir()
	if st, e := os.Stat(filepath.Join(home, ".hermes")); err == nil && e == nil && st.IsDir() {
		def = filepath.Join(home, ".hermes", ".env") // the gateway runs here
	}
	file, err := s.ask(ctx, question{
		flag: "env", given: s.EnvFile, def: def,
		text: "Into which .env file shall its credentials be written? (print: show them, for a gateway on another machine)",
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

// dialled waits until the gateway is connected. dialled is false where nobody waits.
func (s *setup) dialled(ctx context.Context, name string) (bool, error) {
	if s.lines == nil && s.Wait == 0 {
		s.say("Next: hermes-connector link %s", name)
		return false, nil
	}
	waiting := false
	err := until(ctx, lookEvery, func() (bool, error) {
		st, _, err := s.state(ctx, name)
		if err == nil && st.State != manage.Connected && !waiting {
			s.say("\nWaiting until %s dials. Ctrl-C, and setup goes on from here another time.", name)
			s.show()
			waiting = true
		}
		return st.State == manage.Connected, err
	})
	if err != nil {
		return false, s.late(err, name+" has not dialled")
	}
	s.say("✓ %s is connected", name)
	return true, nil
}

// late is err, in the words of what did not come.
func (s *setup) late(err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(what + " in time; hermes-connector status shows when it has")
	}
	return s.stopped(err)
}

// link makes a code and waits until somebody has used it, unless somebody is linked.
func (s *setup) link(ctx context.Context, name string) error {
	since := time.Now().Add(-time.Second) // the audit list's times are cut
	if who, err := s.linked(ctx, name, time.Time{}); err != nil || who != "" {
		if who != "" {
			s.say("✓ %s is linked to %s", who, name)
		}
		return err
	}
	for {
		l, err := s.code(ctx, name)
		if err != nil {
			return err
		}
		who := ""
		inTime, cancel := context.WithDeadline(ctx, l.ExpiresAt)
		err = until(inTime, lookEvery, func() (bool, error) {
			who, err = s.linked(inTime, name, since)
			return who != "", err
		})
		cancel()
		switch {
		case who != "":
			s.say("✓ %s is linked to %s", who, name)
			return nil
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			s.say("That code was not used in time. Another one:")
		default:
			return s.late(err, "nobody has used the code")
		}
	}
}

// linked is who was linked to a gateway since then; empty: nobody.
func (s *setup) linked(ctx context.Context, name string, since time.Time) (who string, err error) {
	err = s.with(ctx, func(c *admin.Client) error {
		rows, err := admin.Audit.Ask(ctx, c, manage.AuditQuery{Name: name})
		for _, r := range rows {
			switch {
			case r.At.Before(since):
			case r.Action == "link":
				who = r.Actor
			case r.Action == "bind":
				who = r.Detail
			case r.Action == "unbind", r.Action == "revoke":
				who = ""
			}
		}
		return err
	})
	return who, err
}

// code makes a link code and shows it.
func (s *setup) code(ctx context.Context, name string) (l manage.Link, err error) {
	named, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	err = until(named, lookEvery, func() (known bool, err error) {
		err = s.with(named, func(c *admin.Client) error {
			st, err := admin.Status.Ask(named, c, struct{}{})
			known = slices.ContainsFunc(st.Bots, func(b manage.BotStatus) bool { return b.Name != "" })
			return err
		})
		return known, err
	})
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return l, s.late(err, "the bot was not reached")
	}
	err = s.with(ctx, func(c *admin.Client) (err error) {
		l, err = admin.Link.Ask(ctx, c, manage.LinkFor{Name: name})
		return err
	})
	if err != nil {
		return l, err
	}
	s.say("\nNow link yourself. Send this to the bot in a direct message, before %s:\n", l.ExpiresAt.Local().Format("15:04:05"))
	s.show()
	_, err = fmt.Fprintf(s.Out, "  /link %s\n", l.Code)
	for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
		s.say("\nor open, or scan with a phone (%s):\n\n  %s\n\n%s", p, l.DeepLinks[p], qr.Blocks(l.DeepLinks[p]))
	}
	s.say("Waiting until it is used. Ctrl-C, and setup goes on from here another time.")
	s.show()
	return l, err
}
