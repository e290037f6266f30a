package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// askWithin bounds a look at a network.
const askWithin = 15 * time.Second

// bot has a bot configured, or goes on with those there are.
func (s *setup) bot(ctx context.Context) error {
	add := s.Platform != "" || s.TokenFile != "" || s.TokenStdin
	if len(s.cfg.Bots) > 0 && !add {
		s.say("%s is there already.", s.file)
		for _, b := range s.cfg.Bots {
			if err := s.standing(ctx, b, b.Options.Token); err != nil {
				return err
			}
		}
		if s.lines == nil {
			return nil
		}
		what, err := s.ask(ctx, question{flag: "platform", text: "Go on with it?", def: "go on", options: []option{
			{"go on", "go on with what is there"}, {"add", "add another bot"},
		}})
		if err != nil || what == "go on" {
			return err
		}
	}
	network, err := s.chooseNetwork(ctx)
	if err != nil {
		return err
	}
	for {
		again, err := s.addBot(ctx, network)
		if err != nil || !again {
			return err
		}
	}
}

func (s *setup) chooseNetwork(ctx context.Context) (network platforms.Network, err error) {
	q := question{flag: "platform", given: s.Platform, text: "Which chat network is the bot on? (SMS, WeCom, web hooks: hermes-connector help webhooks)"}
	for _, k := range slices.Backward(s.Networks) { // the simplest first
		if k.Guide != "" {
			q.options = append(q.options, option{string(k.Name), k.Label})
		}
		if string(k.Name) == s.Platform && k.Guide == "" {
			return network, UsageError{fmt.Errorf("--platform: %s needs more than a token: write its [[bots]] table into connector.toml by hand; hermes-connector help webhooks shows it, and hermes-connector check judges it", k.Name)}
		}
	}
	if s.lines != nil && len(q.options) > 0 {
		q.def = q.options[0].key
	}
	name, err := s.ask(ctx, q)
	for _, k := range s.Networks {
		if string(k.Name) == name {
			network = k
		}
	}
	return network, err
}

// addBot asks for a token, looks at the bot and writes it down. again: the person wants to give another token.
func (s *setup) addBot(ctx context.Context, network platforms.Network) (again bool, err error) {
	token, file, err := s.token(ctx, network, relay.Secret{})
	if err != nil {
		return false, err
	}
	o := platforms.Options{Token: token, APIBase: s.APIBase, PublicURL: s.cfg.PublicURL}
	p, err := s.open(network, o)
	if err != nil {
		return false, UsageError{err}
	}
	for _, b := range s.cfg.Bots {
		there, err := s.open(b.Network, b.Options)
		if err != nil || there.ID() != p.ID() {
			continue
		}
		s.say("This bot is configured already.")
		if s.APIBase != "" && s.APIBase != b.Options.APIBase {
			s.say("! Its api_base in %s is another than --api-base, and stays as it is.", s.file)
		}
		return false, s.standing(ctx, b, token)
	}
	for {
		verdict, err := s.look(ctx, network, o)
		if err != nil || verdict == another {
			return verdict == another, err
		}
		if verdict != once {
			break
		}
	}
	if s.lines != nil && s.invite != "" { // a question of its own: the next screen would take the link away
		if _, err := s.ask(ctx, question{flag: "platform", def: "done", text: qr.Blocks(s.invite) +
			"\nInvite the bot into your server: scan this, or open\n\n  " + s.invite + "\n\nEnter, when it is there."}); err != nil {
			return false, err
		}
	} else if s.invite != "" {
		s.say("%s", terminal.Text(qr.Blocks(s.invite)))
	}
	return false, s.keepBot(ctx, network, token, file, p.ID())
}

// standing looks at a bot that is configured, as it is with that token. A token that is not the configured one takes its
// place.
func (s *setup) standing(ctx context.Context, b config.Bot, token relay.Secret) error {
	o := b.Options
	o.Token = token
	for {
		verdict, err := s.look(ctx, b.Network, o)
		switch {
		case err != nil || verdict == asItIs:
			return err
		case verdict == another:
			if o.Token, _, err = s.token(ctx, b.Network, o.Token); err != nil {
				return err
			}
		case verdict == goOn && o.Token.Same(b.Options.Token):
			return nil
		case verdict == goOn:
			return s.replaceToken(ctx, b, o)
		}
	}
}

// replaceToken writes the token of o where that of b stands, and nothing else, when the person agrees.
func (s *setup) replaceToken(ctx context.Context, b config.Bot, o platforms.Options) error {
	if b.TokenFile == "" {
		return errors.New("the bot's token comes from a variable of the environment: put the new one there, then start setup again")
	}
	path, err := filepath.EvalSymlinks(b.TokenFile)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	p, err := s.open(b.Network, o)
	if err != nil {
		return err
	}
	for _, other := range s.cfg.Bots {
		there, err := s.open(other.Network, other.Options)
		switch {
		case err != nil:
			return err
		case other.TokenFile != b.TokenFile && there.ID() == p.ID():
			return fmt.Errorf("the token is that of %s, which is in %s already", p.ID(), s.file)
		case other.TokenFile == b.TokenFile && there.ID() != p.ID():
			s.added = string(b.Network.Name) // gateways need the new bot's id
		}
	}
	s.say("\nThe new token takes the place of the one in %s. %s stays as it is.", path, s.file)
	switch ok, err := s.yesNo(ctx, "yes", "Write this?", "yes"); {
	case err != nil:
		return err
	case !ok:
		return errStopped
	}
	if err := replace(path, []byte(o.Token.RevealString()+"\n"), st.Mode().Perm()); err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	s.say("✓ the new token is in %s", path)
	s.cfg, err = s.judge(s.text)
	s.changed = true
	return err
}

// open makes a bot of the network, which does nothing yet.
func (s *setup) open(network platforms.Network, o platforms.Options) (platforms.Bot, error) {
	o.Log = slog.New(slog.DiscardHandler)
	return network.Open(o)
}

// token asks for the network's token; that which is refused is not offered. file is where it is kept already; empty: nowhere.
func (s *setup) token(ctx context.Context, network platforms.Network, refused relay.Secret) (token relay.Secret, file string, err error) {
	switch {
	case s.TokenStdin:
		raw, err := io.ReadAll(io.LimitReader(s.In, maxEnvFile))
		if err == nil {
			token, err = findToken(network, s.Networks, string(raw))
		}
		return token, "", asUsage("token-stdin", err)
	case s.TokenFile != "":
		kept, err := config.SecretFile(s.TokenFile)
		if err == nil {
			token, err = findToken(network, s.Networks, kept.RevealString())
		}
		if err == nil && token.Same(kept) {
			file, err = filepath.Abs(s.TokenFile)
		}
		return token, file, asUsage("token-file", err)
	}
	q := question{flag: "token-file", text: network.Guide + "\nThe token (it is not shown while you paste it):", secret: true}
	path := s.tokenFile(network, "")
	left, err := config.SecretFile(path)
	usable := err == nil && network.CheckToken(left) == nil && !left.Same(refused)
	if usable {
		q.text += "\n" + path + " holds one already: Enter takes that one."
		q.def = "-"
	}
	var found relay.Secret
	q.check = func(pasted string) (string, error) {
		if usable && pasted == "-" {
			found, file = left, path
			return pasted, nil
		}
		found, err = findToken(network, s.Networks, pasted)
		return "", err
	}
	_, err = s.ask(ctx, q)
	return found, file, err
}

func asUsage(flag string, err error) error {
	if err == nil {
		return nil
	}
	return UsageError{fmt.Errorf("--%s: %w", flag, err)}
}

// tokenFolder is where tokens are kept: beside the configuration, and below that of the system in a folder of their own,
// which is the service's, too.
func (s *setup) tokenFolder() string {
	if dir := filepath.Dir(s.file); s.Root && dir == systemConfig {
		return filepath.Join(dir, "tokens")
	}
	return filepath.Dir(s.file)
}

// tokenFile is where a token is kept.
func (s *setup) tokenFile(network platforms.Network, of string) string {
	return filepath.Join(s.tokenFolder(), string(network.Name)+of+".token")
}

// What comes of a look at a bot.
type verdict int

const (
	goOn    verdict = iota
	asItIs          // the person goes on with what is wrong
	once            // the person fixed something: look once more
	another         // another token is to be given
)

// look asks the network how the bot stands, says so, and asks what to do about what is wrong.
func (s *setup) look(ctx context.Context, network platforms.Network, o platforms.Options) (verdict, error) {
	p, err := s.open(network, o)
	if err != nil {
		return goOn, err
	}
	e, ok := p.(platforms.Examiner)
	if !ok {
		s.say("✓ %s bot", network.Name)
		return goOn, nil
	}
	looking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	x := e.Examine(looking, nil)
	if ctx.Err() != nil {
		return goOn, errStopped
	}
	if x.Name != "" {
		s.name = relay.Shown(x.Name)
		s.say("✓ %s knows the bot as @%s", network.Label, s.name)
	}
	if d := time.Until(x.Clock); !x.Clock.IsZero() && (d > 30*time.Second || d < -30*time.Second) {
		s.say("! This machine's clock differs from %s's by %s: set it, or certificates and codes will not be taken.", network.Label, d.Abs().Round(time.Second))
	}
	finding.Sort(x.Findings)
	for _, f := range x.Findings {
		s.say("✗ %s\n  %s\n  → %s", f.What, f.Why, f.Fix)
	}
	s.invite = ""
	if !network.Unscoped && x.Invite != "" {
		s.invite = x.Invite
		s.say("\nInvite the bot into your server with this link:\n\n  %s\n", x.Invite)
	}
	return s.decide(ctx, x)
}

// decide is what to do after a look.
func (s *setup) decide(ctx context.Context, x platforms.Examination) (verdict, error) {
	if len(x.Findings) == 0 || x.Findings[0].Severity != finding.Fault { // the worst is first
		return goOn, nil
	}
	worst := x.Findings[0]
	refused := worst.Code == finding.DeadToken.Code || worst.Code == finding.OtherKind.Code
	if s.lines == nil {
		if x.Name == "" {
			return goOn, errors.New(worst.What + "; nothing is written")
		}
		return goOn, nil
	}
	q := question{flag: "platform", text: "What now?", def: "again", options: []option{{"again", "I have fixed it, check again"}}}
	if refused {
		q.def, q.options = "token", []option{{"token", "give another token"}, {"again", "I have fixed it, check again"}}
	}
	q.options = append(q.options, option{"go on", "go on as it is"})
	switch what, err := s.ask(ctx, q); {
	case err != nil:
		return goOn, err
	case what == "token":
		return another, nil
	case what == "again":
		return once, nil
	}
	return asItIs, nil
}

// keepBot writes the token's file, unless file holds it, and the bot's table.
func (s *setup) keepBot(ctx context.Context, network platforms.Network, token relay.Secret, file string, bot relay.Bot) error {
	if folder := s.tokenFolder(); folder != filepath.Dir(s.file) && filepath.Dir(file) != folder {
		file = "" // the system's service could not read it
	}
	made := ""
	for _, path := range []string{s.tokenFile(network, ""), s.tokenFile(network, "-"+string(bot.ID))} {
		if file != "" {
			break
		}
		if kept, err := config.SecretFile(path); err == nil && kept.Same(token) {
			file = path
		} else if !files.Exists(path) {
			file, made = path, path
		}
	}
	if file == "" {
		return fmt.Errorf("%s holds another token, and no file is written over: move it away", s.tokenFile(network, "-"+string(bot.ID)))
	}
	named := file
	if rel, err := filepath.Rel(filepath.Dir(s.file), file); err == nil && filepath.IsLocal(rel) {
		named = rel
	}
	keep := func() error {
		if made == "" {
			return nil
		}
		s.pending = nil
		if err := create(made, []byte(token.RevealString()+"\n"), 0o600); err != nil {
			return fmt.Errorf("token file: %w", err)
		}
		s.say("✓ the token is in %s, which only you can read", made)
		return nil
	}
	s.pending = map[string]relay.Secret{made: token}
	err := s.writeAfter(ctx, keep, func(d *document) error {
		keys := []setting{{key: "platform", value: text(string(network.Name))}, {key: "token_file", value: text(named)}}
		if s.APIBase != "" {
			keys = append(keys, setting{key: "api_base", value: text(s.APIBase)})
		}
		return d.addBot(keys...)
	})
	s.added = string(network.Name)
	return err
}
