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
	kind, err := s.chooseKind(ctx)
	if err != nil {
		return err
	}
	for {
		again, err := s.addBot(ctx, kind)
		if err != nil || !again {
			return err
		}
	}
}

func (s *setup) chooseKind(ctx context.Context) (kind platforms.Kind, err error) {
	q := question{flag: "platform", given: s.Platform, text: "Which chat network is the bot on? (SMS, WeCom, web hooks: hermes-connector help webhooks)"}
	for _, k := range slices.Backward(s.Kinds) { // the simplest first
		if k.Guide != "" {
			q.options = append(q.options, option{string(k.Name), k.Label})
		}
		if string(k.Name) == s.Platform && k.Guide == "" {
			return kind, UsageError{fmt.Errorf("--platform: %s needs more than a token: write its [[bots]] table into connector.toml by hand; hermes-connector help webhooks shows it, and hermes-connector check judges it", k.Name)}
		}
	}
	if s.lines != nil && len(q.options) > 0 {
		q.def = q.options[0].key
	}
	name, err := s.ask(ctx, q)
	for _, k := range s.Kinds {
		if string(k.Name) == name {
			kind = k
		}
	}
	return kind, err
}

// addBot asks for a token, looks at the bot and writes it down. again: the person wants to give another token.
func (s *setup) addBot(ctx context.Context, kind platforms.Kind) (again bool, err error) {
	token, file, err := s.token(ctx, kind, relay.Secret{})
	if err != nil {
		return false, err
	}
	o := platforms.Options{Token: token, APIBase: s.APIBase, PublicURL: s.cfg.PublicURL}
	p, err := s.open(kind, o)
	if err != nil {
		return false, UsageError{err}
	}
	for _, b := range s.cfg.Bots {
		there, err := s.open(b.Kind, b.Options)
		if err != nil || there.Bot() != p.Bot() {
			continue
		}
		s.say("This bot is configured already.")
		if s.APIBase != "" && s.APIBase != b.Options.APIBase {
			s.say("! Its api_base in %s is another than --api-base, and stays as it is.", s.file)
		}
		return false, s.standing(ctx, b, token)
	}
	for {
		verdict, err := s.look(ctx, kind, o)
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
	return false, s.keepBot(ctx, kind, token, file, p.Bot())
}

// standing looks at a bot that is configured, as it is with that token. A token that is not the configured one takes its
// place.
func (s *setup) standing(ctx context.Context, b config.Bot, token relay.Secret) error {
	o := b.Options
	o.Token = token
	for {
		verdict, err := s.look(ctx, b.Kind, o)
		switch {
		case err != nil || verdict == asItIs:
			return err
		case verdict == another:
			if o.Token, _, err = s.token(ctx, b.Kind, o.Token); err != nil {
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
	p, err := s.open(b.Kind, o)
	if err != nil {
		return err
	}
	for _, other := range s.cfg.Bots {
		there, err := s.open(other.Kind, other.Options)
		switch {
		case err != nil:
			return err
		case other.TokenFile != b.TokenFile && there.Bot() == p.Bot():
			return fmt.Errorf("the token is that of %s, which is in %s already", p.Bot(), s.file)
		case other.TokenFile == b.TokenFile && there.Bot() != p.Bot():
			s.added = string(b.Kind.Name) // gateways need the new bot's id
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

// open makes a bot of the kind, which does nothing yet.
func (s *setup) open(kind platforms.Kind, o platforms.Options) (platforms.Platform, error) {
	o.Log = slog.New(slog.DiscardHandler)
	return kind.Open(o)
}

// token asks for the kind's token; that which is refused is not offered. file is where it is kept already; empty: nowhere.
func (s *setup) token(ctx context.Context, kind platforms.Kind, refused relay.Secret) (token relay.Secret, file string, err error) {
	switch {
	case s.TokenStdin:
		raw, err := io.ReadAll(io.LimitReader(s.In, maxEnvFile))
		if err == nil {
			token, err = findToken(kind, s.Kinds, string(raw))
		}
		return token, "", asUsage("token-stdin", err)
	case s.TokenFile != "":
		kept, err := config.SecretFile(s.TokenFile)
		if err == nil {
			token, err = findToken(kind, s.Kinds, kept.RevealString())
		}
		if err == nil && token.Same(kept) {
			file, err = filepath.Abs(s.TokenFile)
		}
		return token, file, asUsage("token-file", err)
	}
	q := question{flag: "token-file", text: kind.Guide + "\nThe token (it is not shown while you paste it):", secret: true}
	path := s.tokenFile(kind, "")
	left, err := config.SecretFile(path)
	usable := err == nil && kind.CheckToken(left) == nil && !left.Same(refused)
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
		found, err = findToken(kind, s.Kinds, pasted)
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
func (s *setup) tokenFile(kind platforms.Kind, of string) string {
	return filepath.Join(s.tokenFolder(), string(kind.Name)+of+".token")
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
func (s *setup) look(ctx context.Context, kind platforms.Kind, o platforms.Options) (verdict, error) {
	p, err := s.open(kind, o)
	if err != nil {
		return goOn, err
	}
	e, ok := p.(platforms.Examiner)
	if !ok {
		s.say("✓ %s bot", kind.Name)
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
		s.say("✓ %s knows the bot as @%s", kind.Label, s.name)
	}
	if d := time.Until(x.Clock); !x.Clock.IsZero() && (d > 30*time.Second || d < -30*time.Second) {
		s.say("! This machine's clock differs from %s's by %s: set it, or certificates and codes will not be taken.", kind.Label, d.Abs().Round(time.Second))
	}
	finding.Sort(x.Findings)
	for _, f := range x.Findings {
		s.say("✗ %s\n  %s\n  → %s", f.What, f.Why, f.Fix)
	}
	s.invite = ""
	if !kind.Unscoped && x.Invite != "" {
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
func (s *setup) keepBot(ctx context.Context, kind platforms.Kind, token relay.Secret, file string, bot relay.Bot) error {
	if folder := s.tokenFolder(); folder != filepath.Dir(s.file) && filepath.Dir(file) != folder {
		file = "" // the system's service could not read it
	}
	made := ""
	for _, path := range []string{s.tokenFile(kind, ""), s.tokenFile(kind, "-"+string(bot.ID))} {
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
		return fmt.Errorf("%s holds another token, and no file is written over: move it away", s.tokenFile(kind, "-"+string(bot.ID)))
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
		keys := []setting{{key: "platform", value: text(string(kind.Name))}, {key: "token_file", value: text(named)}}
		if s.APIBase != "" {
			keys = append(keys, setting{key: "api_base", value: text(s.APIBase)})
		}
		return d.addBot(keys...)
	})
	s.added = string(kind.Name)
	return err
}
