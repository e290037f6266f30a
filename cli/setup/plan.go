package setup

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/relay"
)

// plan is the result of the answers.
type plan struct {
	looked int         // how many bots were examined so far
	name   string      // of the bot, for the farewell
	invite string      // the link that invites the bot into a server; empty: it needs none
	tokens []tokenFile // to be written
	bot    []setting   // the table of a bot to add; nil: none
	botID  relay.Bot   // the bot of that table
	added  string      // the network of a bot that gateways do not know yet
	enter  string      // where to enter the address that the bot's network calls; empty: it makes no calls

	reach  string         // where gateways run, if that was asked
	lines  []setting      // the settings that connector.toml lacks
	gone   []string       // the keys that connector.toml must not have any more
	draft  []byte         // connector.toml with those lines; nil: the file stays, or the person changes it
	cfg    *config.Config // the configuration afterwards, as far as setup writes it
	start  string         // how the server is to run; empty: it runs already
	gate   string         // the gateway's name; empty: no gateway is wanted now
	env    string         // the .env file for its credentials; empty: they are printed
	keep   bool           // the gateway has its credentials already
	byHand bool           // the person changes connector.toml
}

// tokenFile is a token that is to be kept in a file.
type tokenFile struct {
	path     string
	token    relay.Secret
	mode     os.FileMode
	replaces bool // another token of the same table
}

// interview asks the questions of the plan. It changes nothing.
type interview struct {
	*setup
	looks  []looked // the examinations of bots, in the order of the questions
	logins []login
}

// plan asks all questions. Nothing is written meanwhile, so each answer can be taken back: then all questions are asked
// again, and those before the last are answered as before.
func (s *interview) plan(ctx context.Context) (*plan, error) {
	for {
		p := &plan{cfg: s.cfg}
		err := s.questions(ctx, p)
		if err != errBack {
			return p, err
		}
		s.again()
	}
}

func (s *interview) questions(ctx context.Context, p *plan) error {
	for _, ask := range []func(context.Context, *plan) error{
		s.askBot, s.askReach, s.askWeb, s.askStart, s.compose, s.askGateway, s.agree,
	} {
		if err := ask(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// judge returns the configuration that text would be once the files of pending are written.
func (s *setup) judge(text []byte, pending []tokenFile) (*config.Config, error) {
	tokens := make(map[string]relay.Secret)
	for _, f := range pending {
		tokens[f.path] = f.token
	}
	return config.Load(config.Source{Path: s.file, Draft: append([]byte{}, text...), Pending: tokens, Env: s.Env, Networks: s.Networks, DataDir: s.DataDir})
}

// has reports whether the text of the configuration sets a key.
func (s *setup) has(path string) bool { return lineOf(s.text, path) > 0 }

// compose makes the new connector.toml, or the instructions for the person to change it.
func (s *interview) compose(_ context.Context, p *plan) error {
	if s.DataDir != "" {
		p.lines = slices.Insert(p.lines, 0, setting{key: "data_dir", value: text(s.cfg.DataDir)})
	} else if p.start == "service" && s.Root && !s.has("data_dir") {
		if err := leftBehind(s.cfg.DataDir, systemData); err != nil {
			return err
		}
		p.lines = slices.Insert(p.lines, 0, setting{key: "data_dir", value: text(systemData)})
	}
	p.lines, p.gone = lacking(s.text, p.lines, p.gone)
	if len(p.lines)+len(p.gone)+len(p.bot) == 0 {
		return nil
	}
	if p.byHand = !extendable(s.text, p.lines, p.gone); p.byHand {
		return nil
	}
	draft := extended(s.text, p.lines, p.bot)
	cfg, err := s.judge(draft, p.tokens)
	if err == nil {
		p.draft, p.cfg = draft, cfg
	}
	return err
}

// agree shows all that will be written, and asks whether it may be.
func (s *interview) agree(ctx context.Context, p *plan) error {
	if p.draft == nil && len(p.tokens) == 0 {
		return nil
	}
	s.say("\nThis will be written:")
	for _, f := range p.tokens {
		if f.replaces {
			s.say("\n  %s\n      the new token, in place of the one there", f.path)
		} else {
			s.say("\n  %s\n      the token, which only you can read", f.path)
		}
	}
	if p.draft != nil {
		added := strings.TrimPrefix(string(p.draft), string(s.text))
		title := ""
		if len(s.text) > 0 {
			title = ", at its end"
		}
		s.say("\n  %s%s", s.file, title)
		for line := range strings.Lines(strings.Trim(added, "\n")) {
			s.say("      %s", strings.TrimRight(line, "\n"))
		}
	}
	if p.env != "" && !p.keep {
		s.say("\n  %s\n      the credentials of %s", p.env, p.gate)
	}
	switch ok, err := s.yesNo(ctx, "yes", "Write this?", "yes"); {
	case err != nil:
		return err
	case !ok:
		return errStopped
	}
	return nil
}

// hosts reports whether a bot is among those of a configuration.
func (s *setup) hosts(cfg *config.Config, id relay.Bot) bool {
	for _, b := range cfg.Bots {
		if there, err := open(b.Network, b.Options); err == nil && there.ID() == id {
			return true
		}
	}
	return false
}

// stopped returns errStopped if err says that the person ended a wait, and otherwise err.
func (s *setup) stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		return errStopped
	}
	return err
}
