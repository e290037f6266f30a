package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/service"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/store/files"
)

// askWithin bounds the time that one examination of a bot at its network takes.
const askWithin = 15 * time.Second

// newBot is a bot for which somebody gives a token.
type newBot struct {
	network platforms.Network
	token   relay.Secret
	file    string            // the file that has the token already; empty: none
	secrets map[string]kept   // further credentials, by their names
	values  map[string]string // settings without which there is no bot
}

// kept is a further credential of a bot.
type kept struct {
	secret relay.Secret
	file   string // the file that has the credential already; empty: none
}

// askBot asks for a bot and plans it, or continues with the configured ones.
func (s *interview) askBot(ctx context.Context, p *plan) error {
	add := s.Platform != "" || s.TokenFile != "" || s.TokenStdin || s.PasswordFile != ""
	if len(s.cfg.Bots) > 0 && !add {
		s.say("%s exists already.", s.file)
		for _, b := range s.cfg.Bots {
			if err := s.standing(ctx, p, b, b.Options.Token); err != nil {
				return err
			}
		}
		if s.lines == nil {
			return nil
		}
		what, err := s.ask(ctx, question{flag: "platform", text: "Continue with it?", def: "continue", options: []option{
			{"continue", "continue with that configuration"}, {"add", "add another bot"},
		}})
		if err != nil || what == "continue" {
			return err
		}
	}
	bot, err := s.askNetwork(ctx)
	for again := true; err == nil && again; {
		again, err = s.addBot(ctx, p, bot)
		bot.token, bot.file, bot.secrets = relay.Secret{}, "", nil
	}
	return err
}

// askNetwork asks for the network of a new bot. The bot's token, pasted in place of an answer, names the network, too.
func (s *interview) askNetwork(ctx context.Context) (bot newBot, err error) {
	q := question{
		flag: "platform", given: s.Platform,
		text: "Which chat network is the bot on? If you have its token, paste that here: it is not shown.\n(SMS, WeCom, web hooks: hermes-connector help webhooks)",
	}
	for _, n := range simplestFirst(s.Networks) {
		if n.Guide != "" {
			q.options = append(q.options, option{string(n.Name), n.Label})
		}
		if string(n.Name) == s.Platform && n.Guide == "" {
			return bot, UsageError{fmt.Errorf("--platform: %s needs more than a token: write its [[bots]] table into connector.toml by hand; hermes-connector help webhooks shows it, and hermes-connector check checks it", n.Name)}
		}
	}
	if s.lines != nil && len(q.options) > 0 {
		q.def = q.options[0].key
	}
	if s.Platform == "" {
		q.check = func(pasted string) (string, error) {
			for _, n := range s.Networks {
				if n.Guide == "" || n.Formless {
					continue
				}
				if token, ok := candidate(n, pasted); ok {
					bot.token = token
					return string(n.Name), nil
				}
			}
			return "", errNoOption
		}
	}
	name, err := s.ask(ctx, q)
	for _, n := range s.Networks {
		if string(n.Name) == name {
			bot.network = n
		}
	}
	return bot, err
}

// simplestFirst returns the networks in the order in which they are offered: those that ask for a token alone come
// first.
func simplestFirst(all []platforms.Network) []platforms.Network {
	all = slices.Clone(all)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b platforms.Network) int { return cmp.Compare(questions(a), questions(b)) })
	return all
}

// questions returns how many settings a network's bots need beside a token.
func questions(n platforms.Network) int {
	count := len(n.Secrets)
	for _, key := range n.Keys {
		if required(key) {
			count++
		}
	}
	return count
}

// required reports whether there is no bot without a value for key.
func required(key platforms.Key) bool { return key.Check(key.Default) != nil }

// asked is a placeholder for this server's address until the person was asked for it. It is never shown.
const asked = "https://asked-for-later.invalid"

// addBot asks for a token, unless it was given, looks at the bot and plans its table. again is true if the person wants
// to give another token.
func (s *interview) addBot(ctx context.Context, p *plan, bot newBot) (again bool, err error) {
	if bot.values, err = s.settings(ctx, bot.network); err != nil {
		return false, err
	}
	o := platforms.Options{APIBase: s.APIBase, PublicURL: cmp.Or(s.cfg.PublicURL, s.PublicURL, asked), Values: bot.values, Secrets: make(map[string]relay.Secret)}
	if bot.token.IsZero() && bot.network.CheckToken != nil {
		if bot.token, bot.file, err = s.token(ctx, bot.network, o); err != nil {
			return false, err
		}
	}
	o.Token = bot.token
	bot.secrets = make(map[string]kept)
	for _, key := range bot.network.Secrets {
		k, err := s.secret(ctx, bot.network, key)
		if err != nil {
			return false, err
		}
		bot.secrets[key.Name], o.Secrets[key.Name] = k, k.secret
	}
	one, err := open(bot.network, o)
	if err != nil {
		return false, UsageError{err}
	}
	for _, b := range s.cfg.Bots {
		there, err := open(b.Network, b.Options)
		if err != nil || there.ID() != one.ID() {
			continue
		}
		s.say("This bot is configured already.")
		if s.APIBase != "" && s.APIBase != b.Options.APIBase {
			s.say("! api_base in %s differs from --api-base and was not changed.", s.file)
		}
		return false, s.standing(ctx, p, b, bot.token)
	}
	for verdict := once; verdict == once; {
		if verdict, err = s.look(ctx, p, bot.network, o); err != nil || verdict == another {
			return verdict == another, err
		}
	}
	if _, rules, ok := platforms.Called(one); ok {
		p.enter = rules.Enter
	}
	return false, s.planBot(ctx, p, bot, one.ID())
}

// standing examines a configured bot with a token. If that token works, and is not the configured one, standing plans
// to write it in place of the configured one.
func (s *interview) standing(ctx context.Context, p *plan, b config.Bot, token relay.Secret) error {
	o := b.Options
	o.Token = token
	for {
		verdict, err := s.look(ctx, p, b.Network, o)
		switch {
		case err != nil || verdict == asItIs:
			return err
		case verdict == another:
			if o.Token, _, err = s.token(ctx, b.Network, o); err != nil {
				return err
			}
		case verdict == good && o.Token.Same(b.Options.Token):
			return nil
		case verdict == good:
			return s.replaceToken(p, b, o)
		}
	}
}

// replaceToken plans to write the token of o into the file that has the token of b. It plans nothing else.
func (s *interview) replaceToken(p *plan, b config.Bot, o platforms.Options) error {
	if b.TokenFile == "" {
		return errors.New("the bot's token comes from an environment variable: put the new one there, then run setup again")
	}
	path, err := filepath.EvalSymlinks(b.TokenFile)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	one, err := open(b.Network, o)
	if err != nil {
		return err
	}
	for _, other := range s.cfg.Bots {
		there, err := open(other.Network, other.Options)
		switch {
		case err != nil:
			return err
		case other.TokenFile != b.TokenFile && there.ID() == one.ID():
			return fmt.Errorf("this is the token of %s, which is in %s already", one.ID(), s.file)
		case other.TokenFile == b.TokenFile && there.ID() != one.ID():
			p.added = string(b.Network.Name) // gateways need the new bot's id
		}
	}
	p.tokens = append(p.tokens, tokenFile{path: path, token: o.Token, mode: st.Mode().Perm(), replaces: true})
	return nil
}

// open makes a bot of the network, which does nothing yet.
func open(network platforms.Network, o platforms.Options) (platforms.Bot, error) {
	o.Log = slog.New(slog.DiscardHandler)
	return network.Open(o)
}

// login gets a token by a password. Questions that are asked anew cause no second login.
func (s *interview) login(ctx context.Context, network platforms.Network, o platforms.Options, password relay.Secret) (relay.Secret, error) {
	for _, l := range s.logins {
		if l.password.Same(password) && l.base == o.APIBase && maps.Equal(l.values, o.Values) {
			return l.token, nil
		}
	}
	o.Log = slog.New(slog.DiscardHandler)
	token, err := network.Login(ctx, o, password)
	if err == nil {
		s.logins = append(s.logins, login{password, o.APIBase, o.Values, token})
	}
	return token, err
}

// login is a token that a password gave.
type login struct {
	password relay.Secret
	base     string
	values   map[string]string
	token    relay.Secret
}

// token asks for the token of the bot that o is to open. If o has a token already, the network has refused that one, so
// it is not proposed. file is the file that has the returned token already; empty: none.
func (s *interview) token(ctx context.Context, network platforms.Network, o platforms.Options) (token relay.Secret, file string, err error) {
	switch {
	case s.PasswordFile != "" && network.Login != nil:
		password, err := config.SecretFile(s.PasswordFile)
		if err == nil {
			token, err = s.login(ctx, network, o, password)
		}
		return token, "", asUsage("password-file", err)
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
	if network.Login != nil {
		q.flag, q.text = "password-file", network.Guide+"\nThe password (it is not shown, is used once to log in, and is not kept):"
	}
	path := s.tokenFile(network, "")
	left, err := config.SecretFile(path)
	usable := err == nil && network.CheckToken(left) == nil && !left.Same(o.Token)
	if usable {
		q.text += "\n" + path + " holds one already: press Enter to use that one."
		q.def = "-"
	}
	var found relay.Secret
	q.check = func(pasted string) (string, error) {
		if usable && pasted == "-" {
			found, file = left, path
			return pasted, nil
		}
		if network.Login != nil {
			found, err = s.login(ctx, network, o, relay.NewSecret([]byte(strings.TrimSpace(pasted))))
		} else {
			found, err = findToken(network, s.Networks, pasted)
		}
		return "", err
	}
	_, err = s.ask(ctx, q)
	return found, file, err
}

// secret asks for a further credential of the network's bots.
func (s *interview) secret(ctx context.Context, network platforms.Network, key platforms.SecretKey) (k kept, err error) {
	read := func(raw string) error {
		k.secret = relay.NewSecret([]byte(strings.TrimSpace(raw)))
		return key.Check(k.secret)
	}
	for _, given := range s.SecretFiles {
		name, file, _ := strings.Cut(given, "=")
		if name != key.Name {
			continue
		}
		there, err := config.SecretFile(file)
		if err == nil {
			err = read(there.RevealString())
		}
		if err == nil {
			k.file, err = filepath.Abs(file)
		}
		return k, asUsage("secret-file", err)
	}
	q := question{
		flag: "secret-file", secret: true,
		text:  "Its " + key.Name + ": " + key.Help + " (it is not shown while you paste it):",
		check: func(pasted string) (string, error) { return "", read(pasted) },
	}
	_, err = s.ask(ctx, q)
	return k, err
}

// unknown returns an error if the name in an answer NAME=… is not in names: the network's bots have nothing of that
// name.
func unknown(flag string, network platforms.Network, given, names []string) error {
	for _, answer := range given {
		if name, _, _ := strings.Cut(answer, "="); !slices.Contains(names, name) {
			return UsageError{fmt.Errorf("--%s: %s has no %q; there is: %s", flag, network.Label, name, cmp.Or(strings.Join(names, ", "), "none"))}
		}
	}
	return nil
}

// settings returns the settings that the network's bots need beside credentials, and those that flags give. It asks for
// the needed ones that no flag gives.
func (s *interview) settings(ctx context.Context, network platforms.Network) (values map[string]string, err error) {
	var names, secrets []string
	for _, key := range network.Keys {
		names = append(names, key.Name)
	}
	for _, key := range network.Secrets {
		secrets = append(secrets, key.Name)
	}
	if err := cmp.Or(unknown("setting", network, s.Settings, names), unknown("secret-file", network, s.SecretFiles, secrets)); err != nil {
		return nil, err
	}
	values = make(map[string]string)
	intro := ""
	if network.CheckToken == nil { // otherwise the question for the token shows the guide
		intro = network.Guide + "\n"
	}
	for _, key := range network.Keys {
		q := question{
			flag: "setting", text: intro + "Its " + key.Name + ": " + key.Help + ":",
			check: func(typed string) (string, error) { return typed, key.Check(typed) },
		}
		for _, given := range s.Settings {
			if name, value, _ := strings.Cut(given, "="); name == key.Name {
				q.given = value
			}
		}
		if !required(key) && q.given == "" {
			continue
		}
		intro = ""
		if values[key.Name], err = s.ask(ctx, q); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// asUsage returns err, about the value of a flag, as a UsageError; nil stays nil.
func asUsage(flag string, err error) error {
	if err == nil {
		return nil
	}
	return UsageError{fmt.Errorf("--%s: %w", flag, err)}
}

// tokenFolder returns the folder of tokens: beside the configuration or, for a configuration in the system's folder, a
// folder of its own there, which the service reads, too.
func (s *setup) tokenFolder() string {
	if dir := filepath.Dir(s.file); s.Root && dir == service.Config {
		return filepath.Join(dir, "tokens")
	}
	return filepath.Dir(s.file)
}

// tokenFile returns the path of the file for a credential of the network. of is the part of its name by which the files
// of one network differ; empty: it is the token's first choice.
func (s *setup) tokenFile(network platforms.Network, of string) string {
	return filepath.Join(s.tokenFolder(), string(network.Name)+of+".token")
}

// verdict is the result of a look at a bot.
type verdict int

const (
	good    verdict = iota
	asItIs          // the person continues in spite of the faults
	once            // the person fixed something: the bot is examined once more
	another         // the person is asked for another token
)

// looked is a bot with what its network said about it. It is kept, so that the network is not asked a second time when
// the questions are asked again.
type looked struct {
	bot config.Bot
	x   platforms.Examination
}

// examine asks the network about the bot. ok is false if the network cannot be asked.
func (s *interview) examine(ctx context.Context, p *plan, network platforms.Network, o platforms.Options) (x platforms.Examination, ok bool, err error) {
	one, err := open(network, o)
	if err != nil {
		return x, false, err
	}
	e, ok := one.(platforms.Examiner)
	if !ok {
		return x, false, nil
	}
	n, bot := p.looked, config.Bot{Network: network, Options: o}
	p.looked++
	if n < len(s.looks) && s.looks[n].bot.Same(&bot) {
		return s.looks[n].x, true, nil
	}
	s.show()
	looking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	x = e.Examine(looking, nil)
	if ctx.Err() != nil {
		return x, true, errStopped
	}
	s.looks = append(s.looks[:n], looked{bot, x})
	return x, true, nil
}

// look asks the network about the bot, shows the findings, and asks what to do about faults.
func (s *interview) look(ctx context.Context, p *plan, network platforms.Network, o platforms.Options) (verdict, error) {
	x, ok, err := s.examine(ctx, p, network, o)
	switch {
	case err != nil:
		return good, err
	case !ok:
		s.say("✓ %s bot", network.Name)
		return good, nil
	}
	if x.Name != "" {
		p.name = relay.Shown(x.Name)
		s.say("✓ %s knows the bot as @%s", network.Label, p.name)
	}
	if d := time.Until(x.Clock); !x.Clock.IsZero() && (d > 30*time.Second || d < -30*time.Second) {
		s.say("! This machine's clock differs from %s's by %s: set it, or certificates and codes will be refused.", network.Label, d.Abs().Round(time.Second))
	}
	finding.Sort(x.Findings)
	for _, f := range x.Findings {
		s.say("✗ %s\n  %s\n  → %s", f.What, f.Why, f.Fix)
	}
	p.invite = ""
	if !network.Unscoped {
		p.invite = x.Invite
	}
	return s.decide(ctx, network, x)
}

// decide asks what to do after a look.
func (s *interview) decide(ctx context.Context, network platforms.Network, x platforms.Examination) (verdict, error) {
	if len(x.Findings) == 0 || x.Findings[0].Severity != finding.Fault { // the worst is first
		return good, nil
	}
	worst := x.Findings[0]
	refused := worst.Code == finding.DeadToken.Code || worst.Code == finding.OtherKind.Code
	if s.lines == nil {
		if x.Name == "" {
			return good, errors.New(worst.What + "; nothing was written")
		}
		return good, nil
	}
	q := question{flag: "platform", text: "What now?", def: "again", options: []option{{"again", "I have fixed it, check again"}}}
	if refused && s.TokenFile == "" && network.CheckToken != nil {
		q.def, q.options = "token", []option{{"token", "give another token"}, {"again", "I have fixed it, check again"}}
	}
	q.options = append(q.options, option{"continue", "continue as it is"})
	switch what, err := s.ask(ctx, q); {
	case err != nil:
		return good, err
	case what == "token":
		return another, nil
	case what == "again":
		return once, nil
	}
	return asItIs, nil
}

// askInvited shows where a bot is invited into a server, and waits until it has joined one.
func (s *interview) askInvited(ctx context.Context, p *plan) error {
	if p.invite == "" {
		return nil
	}
	text := qr.Blocks(p.invite) + "\nInvite the bot into your server: scan this, or open\n\n  " + p.invite
	if s.lines == nil {
		s.say("%s", terminal.Text(text))
		return nil
	}
	_, err := s.ask(ctx, question{flag: "platform", def: "done", words: []string{"done"}, text: text + "\n\nPress Enter when the bot has joined."})
	return err
}

// planBot plans the bot's table, and a file for each of its credentials that no file has yet.
func (s *interview) planBot(ctx context.Context, p *plan, bot newBot, id relay.Bot) error {
	p.bot = []setting{{key: "platform", value: text(string(bot.network.Name))}}
	for _, key := range bot.network.Keys {
		if v, ok := bot.values[key.Name]; ok {
			p.bot = append(p.bot, setting{key: key.Name, value: text(v)})
		}
	}
	if bot.network.CheckToken != nil {
		named, err := s.planFile(p, bot.network, "", id, kept{bot.token, bot.file})
		if err != nil {
			return err
		}
		p.bot = append(p.bot, setting{key: "token_file", value: text(named)})
	}
	for _, key := range bot.network.Secrets {
		named, err := s.planFile(p, bot.network, "-"+key.Name, id, bot.secrets[key.Name])
		if err != nil {
			return err
		}
		p.bot = append(p.bot, setting{key: key.Name + "_file", value: text(named)})
	}
	if s.APIBase != "" {
		p.bot = append(p.bot, setting{key: "api_base", value: text(s.APIBase)})
	}
	p.botID, p.added = id, string(bot.network.Name)
	return s.askInvited(ctx, p)
}

// planFile plans the file of one credential, unless a file has the credential already. It returns the file's path as
// the configuration names it: relative if the file is below the configuration's folder. what is part of the file's
// name, and distinguishes the credential from the bot's token.
func (s *interview) planFile(p *plan, network platforms.Network, what string, id relay.Bot, k kept) (string, error) {
	file := k.file
	if folder := s.tokenFolder(); folder != filepath.Dir(s.file) && filepath.Dir(file) != folder {
		file = "" // the system's service could not read a file outside the folder of tokens
	}
	paths := []string{s.tokenFile(network, what), s.tokenFile(network, what+"-"+string(id.ID))}
	for _, path := range paths {
		if file != "" {
			break
		}
		if there, err := config.SecretFile(path); err == nil && there.Same(k.secret) {
			file = path
		} else if !files.Exists(path) {
			file = path
			p.tokens = append(p.tokens, tokenFile{path: path, token: k.secret, mode: 0o600})
		}
	}
	if file == "" {
		return "", fmt.Errorf("%s holds another token, and setup overwrites no file: move it away", paths[1])
	}
	if rel, err := filepath.Rel(filepath.Dir(s.file), file); err == nil && filepath.IsLocal(rel) {
		return rel, nil
	}
	return file, nil
}
