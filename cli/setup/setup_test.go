package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// aBot is one that its network knows by its token, and nothing else.
type aBot struct {
	platforms.Bot
	id    relay.Bot
	token relay.Secret
	asked *int // how often the network was
}

func (b aBot) ID() relay.Bot { return b.id }

func (b aBot) Examine(context.Context, []relay.Place) platforms.Examination {
	*b.asked++
	if strings.Contains(b.token.RevealString(), "dead") {
		return platforms.Examination{Findings: finding.List{finding.DeadToken.Of("bot", "the token is dead", "get another")}}
	}
	return platforms.Examination{Name: "pi", Invite: "https://example.net/invite"}
}

const (
	colons = "7:abcdefgh" // a token of the first network
	dots   = "8.abc.defg" // and one of the second
)

// person is somebody at a terminal: what they see and what they type, in turns. They see the end of what is shown.
type person struct {
	Options
	t     *testing.T
	typed chan string
	said  strings.Builder
	out   strings.Builder
	may   func(string) bool
	asked int // how often a network was
	err   error
	stop  context.CancelFunc // as Ctrl-C does
	ended chan struct{}
}

// sitting is a person who sees the first question. It must be called in a bubble.
func sitting(t *testing.T, dir string, change func(*Options)) *person {
	p := &person{t: t, typed: make(chan string), ended: make(chan struct{})}
	network := func(name relay.PlatformID, label, separator string, parts int, unscoped bool) platforms.Network {
		n := networkOf(name, separator, parts)
		n.Label, n.Unscoped = label, unscoped
		n.Open = func(o platforms.Options) (platforms.Bot, error) {
			id, _, _ := strings.Cut(o.Token.RevealString(), separator)
			return aBot{id: relay.Bot{Platform: name, ID: relay.BotID(id)}, token: o.Token, asked: &p.asked}, nil
		}
		return n
	}
	p.Options = Options{
		Typed: p.typed, Show: func(may func(string) bool) { p.may = may }, Talk: &p.said, Out: &p.out,
		Config: filepath.Join(dir, "connector.toml"), DataDir: "", Env: []string{"HOME=" + dir, "HERMES_CONNECTOR_DATA_DIR=" + filepath.Join(dir, "data")},
		Networks: []platforms.Network{network("discord", "Discord", ".", 3, false), network("telegram", "Telegram", ":", 2, true), bell(), {Name: "drum", Label: "Drum"}},
		Client: func(context.Context, string) (*admin.Client, func() error, error) {
			return nil, nil, errors.New("no server in this test")
		},
	}
	if change != nil {
		change(&p.Options)
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.err = Run(ctx, p.Options)
	}()
	synctest.Wait()
	return p
}

// sees checks what is on the screen below all that was seen.
func (p *person) sees(want string) {
	p.t.Helper()
	if shown := p.said.String(); !strings.Contains(shown, want) {
		p.t.Fatalf("the screen does not show %q:\n%s", want, shown)
	}
	p.said.Reset()
}

func (p *person) types(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		select {
		case p.typed <- line:
		case <-p.ended:
			p.t.Fatalf("nobody reads %q: %v\n%s", line, p.err, p.said.String())
		}
	}
	time.Sleep(2 * pasteGap) // of the bubble's time
	synctest.Wait()
}

// leaves is how setup ends with Ctrl-C.
func (p *person) leaves() error {
	p.stop()
	<-p.ended
	return p.err
}

// freeText are the questions to which anything can be the answer.
var freeText = regexp.MustCompile(`called|a word such as|\.env|address that`)

// TestConversations are questions and answers: each pair is what the person sees, and then types; lines that come
// together are joined by "|". At the end they press Ctrl-C. Nothing is written before the last question, and the token is never seen.
func TestConversations(t *testing.T) {
	const writes = "(or type back) [yes] > "
	for name, tc := range map[string]struct {
		before map[string]string // files
		script []string
		files  map[string]string // afterwards; an empty one is not there
	}{
		"the network, then its token": {
			script: []string{
				"  1  Telegram\n  2  Discord\n  3  Bell\n[1] > ", "",
				"ask for one\nThe token", colons,
				"Where do your gateways run?", "",
				"What may open them?", "no",
				"How should the server run?", "no",
				"What should it be called?", "no",
				"listen = \"127.0.0.1:8787\"\n      \n      [[bots]]\n      platform = \"telegram\"\n      token_file = \"telegram.token\"\n\nWrite this?\n" + writes, "y",
				"connector.toml is written", "",
			},
			files: map[string]string{
				"telegram.token": colons + "\n",
				"connector.toml": "listen = \"127.0.0.1:8787\"\n\n[[bots]]\nplatform = \"telegram\"\ntoken_file = \"telegram.token\"\n",
			},
		},
		"the token at the first menu, in a whole message": {
			script: []string{
				"paste that here", "Done! Here is it.|Use this token:|" + dots + "|Keep it secure.",
				"https://example.net/invite\n\nPress Enter when the bot has joined.\n", "",
				"Where do your gateways run?", "here",
				"What may open them?", "",
				"How should the server run?", "3",
				"type 1 or 2\n", "no",
				"What should it be called?", "a b",
				"choose a word such as home", "no",
				"[web]\n      listen = \"127.0.0.1:8788\"\n", "no",
			},
			files: map[string]string{"connector.toml": "", "discord.token": ""},
		},
		"back at every question": {
			script: []string{
				"[1] > ", "back",
				"this is the first question", "discord",
				"The token", "back",
				"[1] > ", "telegram",
				"The token", "BACK",
				"[1] > ", "discord",
				"The token", dots,
				"when the bot has joined", "back",
				"The token", dots,
				"when the bot has joined", "",
				"Where do your gateways run?", "internet",
				"The address that gateways connect to", "back",
				"Where do your gateways run?", "lan",
				"How should they be protected?", "back",
				"Where do your gateways run?", "",
				"What may open them?", "back",
				"Where do your gateways run?", "",
				"What may open them?", "no",
				"How should the server run?", "back",
				"What may open them?", "no",
				"How should the server run?", "no",
				"What should it be called?", "back",
				"How should the server run?", "no",
				"What should it be called?", "home",
				"into which .env file", "back",
				"What should it be called?", "home",
				"into which .env file", "gateway.env",
				"gateway.env\n      the credentials of home\n\nWrite this?", "back",
				"into which .env file", "print",
				"Write this?", "back",
			},
			files: map[string]string{"connector.toml": "", "discord.token": "", "gateway.env": ""},
		},
		"a dead token, and another": {
			script: []string{
				"[1] > ", "7:dead",
				"✗ the token is dead\n", "2",
				"✗ the token is dead\n", "1",
				"The token", colons,
				"✓ Telegram knows the bot as @pi\n", "back",
				"The token", "back",
				"What now?", "3",
				"Where do your gateways run?", "no way",
				"type 1, 2 or 3\n", "here",
			},
		},
		"a token of the other network, and nothing": {
			script: []string{
				"[1] > ", "telegram",
				"The token", dots,
				"this is a token of Discord", "back",
			},
		},
		"a token at another menu": {
			script: []string{
				"[1] > ", colons,
				"Where do your gateways run?", colons,
				"type 1, 2 or 3\n", colons + "|" + colons,
				"type 1, 2 or 3\n", "here",
				"What may open them?", "here",
			},
		},
		"a file without a section gets more lines": {
			before: map[string]string{"connector.toml": "# the package's\ndata_dir = \"here\"\n# [[bots]]"},
			script: []string{
				"[1] > ", colons, "gateways run", "", "open them", "no", "server run", "no", "called", "no",
				"connector.toml, at its end\n", "",
				"written", "",
			},
			files: map[string]string{"connector.toml": "# the package's\ndata_dir = \"here\"\n# [[bots]]\n\nlisten = \"127.0.0.1:8787\"\n\n[[bots]]\nplatform = \"telegram\"\ntoken_file = \"telegram.token\"\n"},
		},
		"another bot for a file with sections": {
			before: map[string]string{"connector.toml": "[[bots]]\nplatform = \"telegram\"\ntoken_file = \"t\"\n", "t": colons},
			script: []string{
				"exists already.\n✓ Telegram knows the bot as @pi\n\nContinue with it?", "2",
				"Which chat network", dots,
				"has joined", "",
				"server run", "no",
				"called", "no",
				"discord.token\n      the token, which only you can read\n\nWrite this?", "",
				"setup does not edit it. At its end:\n\n  [[bots]]\n  platform = \"discord\"\n  token_file = \"discord.token\"\n", "",
			},
			files: map[string]string{"discord.token": dots + "\n", "connector.toml": "[[bots]]\nplatform = \"telegram\"\ntoken_file = \"t\"\n"},
		},
		"a dead token of a bot that is there": {
			before: map[string]string{"connector.toml": "[[bots]]\nplatform = \"telegram\"\ntoken_file = \"t\"\n", "t": "7:dead"},
			script: []string{
				"✗ the token is dead\n", "token",
				"The token", colons,
				"Continue with it?", "",
				"server run", "no", "called", "no",
				"\n      the new token, in place of the one there\n\nWrite this?", "no",
			},
			files: map[string]string{"t": "7:dead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tc.before {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				p := sitting(t, dir, nil)
				for step := range slices.Chunk(tc.script, 2) {
					for _, token := range []string{colons, dots, "7:dead"} {
						if strings.Contains(p.said.String(), token) {
							t.Errorf("the token is shown:\n%s", p.said.String())
						}
						if p.may != nil && p.may(token) && !freeText.MatchString(step[0]) {
							t.Errorf("a token that is typed at %q would be seen", step[0])
						}
					}
					p.sees(step[0])
					if step[1] == "" && strings.Contains(step[0], "written") || strings.Contains(step[0], "does not edit it") {
						break // nothing more is asked
					}
					p.types(strings.Split(step[1], "|")...)
				}
				if err := p.leaves(); err != errStopped {
					t.Errorf("setup ends with %v", err)
				}
			})
			for file, want := range tc.files {
				if got, err := os.ReadFile(filepath.Join(dir, file)); string(got) != want || (err != nil) != (want == "") {
					t.Errorf("%s holds %q, %v; want %q", file, got, err, want)
				}
			}
		})
	}
}

// TestTheNetworkIsAskedOnce, however often the questions are.
func TestTheNetworkIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sitting(t, t.TempDir(), nil)
		for _, answer := range []string{dots, "", "here", "back", "back", "done", "here"} {
			p.types(answer)
		}
		p.sees("What may open them?")
		if p.asked != 1 {
			t.Errorf("the network was asked %d times", p.asked)
		}
		if err := p.leaves(); err != errStopped {
			t.Error(err)
		}
	})
}

// calledBot is one whose network calls the server.
type calledBot struct {
	aBot
	platforms.Hook
}

func (calledBot) HookRules() platforms.HookRules {
	return platforms.HookRules{Methods: []string{"POST"}, Enter: "the horn's page"}
}

// TestABotThatIsCalled: its network needs an address on the internet, and the person reads where to enter it.
func TestABotThatIsCalled(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"token", "secret", "verify"} {
		if err := os.WriteFile(at(name), []byte("a/"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(f Flags) (p *person) {
		f.Yes, f.Platform, f.TokenFile = true, "horn", at("token")
		f.SecretFiles = []string{"secret=" + at("secret"), "verify=" + at("verify")}
		synctest.Test(t, func(t *testing.T) {
			p = sitting(t, dir, func(o *Options) {
				n := networkOf("horn", "/", 2)
				n.Formless, n.Unscoped = true, true
				for _, name := range []string{"secret", "verify"} {
					n.Secrets = append(n.Secrets, platforms.SecretKey{Name: name, Check: n.CheckToken})
				}
				n.Open = func(o platforms.Options) (platforms.Bot, error) {
					if !strings.HasPrefix(o.PublicURL, "https://") || o.Secrets["verify"].RevealString() != "a/verify" {
						return nil, errors.New("something is missing")
					}
					return calledBot{aBot: aBot{id: relay.Bot{Platform: "horn", ID: "1"}, token: o.Token, asked: new(int)}}, nil
				}
				o.Networks, o.Typed, o.Show, o.Flags = append(o.Networks, n), nil, nil, f
			})
			<-p.ended
		})
		return p
	}
	if p := run(Flags{Reach: "here", PublicURL: "https://pi.example.net"}); p.err == nil || !strings.Contains(p.err.Error(), "calls this server from the internet") {
		t.Errorf("on this machine alone: %v", p.err)
	}
	if p := run(Flags{}); p.err == nil || !strings.Contains(p.err.Error(), "--public-url") {
		t.Errorf("without an address: %v", p.err)
	}
	p := run(Flags{PublicURL: "https://pi.example.net"})
	if said := p.said.String() + p.out.String(); p.err != nil || !strings.Contains(said, "https://pi.example.net/webhooks/horn/1\n\nat the horn's page.") {
		t.Errorf("%v; it said %s", p.err, said)
	}
	if raw, err := os.ReadFile(at("connector.toml")); err != nil || !strings.Contains(string(raw), "secret_file = \"secret\"\nverify_file = \"verify\"\n") {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestAPasswordIsUsedOnce: a network whose bots have passwords comes last, its settings are asked for, and what is asked anew
// logs nobody in again; neither the password nor the token is shown.
func TestAPasswordIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, dir := 0, t.TempDir()
		p := sitting(t, dir, func(o *Options) {
			n := networkOf("matrix", "/", 2)
			n.Label, n.Unscoped, n.Formless = "Matrix", true, true
			n.Keys = []platforms.Key{{Name: "user_id", Help: "the account", Check: func(v string) error {
				if !strings.HasPrefix(v, "@") {
					return errors.New("want @name")
				}
				return nil
			}}}
			n.Open = func(o platforms.Options) (platforms.Bot, error) {
				return aBot{id: relay.Bot{Platform: "matrix", ID: relay.BotID(o.Values["user_id"])}, token: o.Token, asked: new(int)}, nil
			}
			n.Login = func(_ context.Context, o platforms.Options, password relay.Secret) (relay.Secret, error) {
				if password.RevealString() != "open sesame" || o.Values["user_id"] != "@pi" {
					return relay.Secret{}, errors.New("no such account")
				}
				logins++
				return relay.NewSecret([]byte("one/twotwotwo")), nil
			}
			o.Networks = append(o.Networks, n)
		})
		var shown strings.Builder
		for _, turn := range [][2]string{
			{"  1  Telegram\n  2  Discord\n  3  Matrix\n  4  Bell\n[1] > ", "other/tokenlike"},
			{"type 1, 2, 3 or 4", "matrix"},
			{"Its user_id: the account", "pi"}, {"want @name", "@pi"},
			{"The password (it is not shown, is used once to log in, and is not kept):", "open barley"}, {"no such account", "open sesame"},
			{"Where do your gateways run?", "back"}, {"The password", "open sesame"},
			{"Where do your gateways run?", ""}, {"What may open them?", "no"}, {"How should the server run?", "no"}, {"What should it be called?", "no"},
			{"platform = \"matrix\"\n      user_id = \"@pi\"\n      token_file = \"matrix.token\"\n", "y"},
		} {
			shown.WriteString(p.said.String())
			p.sees(turn[0])
			p.types(turn[1])
		}
		_ = p.leaves()
		raw, err := os.ReadFile(filepath.Join(dir, "matrix.token"))
		if err != nil || string(raw) != "one/twotwotwo\n" || logins != 1 {
			t.Errorf("the token is %q, %v, after %d logins", raw, err, logins)
		}
		for _, secret := range []string{"open sesame", "twotwotwo"} {
			if strings.Contains(shown.String()+p.said.String(), secret) {
				t.Errorf("%q was shown", secret)
			}
		}
	})
}

// TestTwoCredentials: a network whose bots have two is asked for both, the second is kept in a file of its own, and neither is
// shown.
func TestTwoCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := sitting(t, dir, func(o *Options) {
			n := networkOf("slack", "/", 2)
			n.Label, n.Unscoped = "Slack", true
			n.Secrets = []platforms.SecretKey{{Name: "app_token", Help: "the app's own", Check: func(s relay.Secret) error {
				if !strings.HasPrefix(s.RevealString(), "xapp-") {
					return errors.New("want xapp-")
				}
				return nil
			}}}
			n.Open = func(o platforms.Options) (platforms.Bot, error) {
				if o.Secrets["app_token"].RevealString() != "xapp-hunter2" {
					return nil, errors.New("opened without the app's token")
				}
				return aBot{id: relay.Bot{Platform: "slack", ID: "A1"}, token: o.Token, asked: new(int)}, nil
			}
			o.Networks = append(o.Networks, n)
		})
		var shown strings.Builder
		for _, turn := range [][2]string{
			{"[1] > ", "one/twotwotwo"},
			{"Its app_token: the app's own (it is not shown while you paste it):", "one/twotwotwo"},
			{"want xapp-", " xapp-hunter2 "},
			{"Where do your gateways run?", ""}, {"What may open them?", "no"}, {"How should the server run?", "no"}, {"What should it be called?", "no"},
			{"platform = \"slack\"\n      token_file = \"slack.token\"\n      app_token_file = \"slack-app_token.token\"\n", "y"},
		} {
			shown.WriteString(p.said.String())
			p.sees(turn[0])
			p.types(turn[1])
		}
		_ = p.leaves()
		for file, want := range map[string]string{"slack.token": "one/twotwotwo\n", "slack-app_token.token": "xapp-hunter2\n"} {
			if raw, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(raw) != want {
				t.Errorf("%s holds %q, %v", file, raw, err)
			}
		}
		for _, secret := range []string{"hunter2", "twotwotwo"} {
			if strings.Contains(shown.String()+p.said.String(), secret) {
				t.Errorf("%q was shown", secret)
			}
		}
	})
}

// TestTheLinesComeByHand: setup waits until a file that it does not edit has the lines, says what is wrong with it once,
// and continues.
func TestTheLinesComeByHand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "connector.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * lookEvery) // of the bubble's time
		synctest.Wait()
	}
	synctest.Test(t, func(t *testing.T) {
		write("[delivery]\nwindow = 2\n")
		p := sitting(t, dir, nil)
		for _, answer := range []string{colons, "no", "no", "yes"} {
			p.types(answer)
		}
		p.sees("At its end:\n\n  [[bots]]\n  platform = \"telegram\"\n  token_file = \"telegram.token\"\n\nWaiting until that is done.")
		write("[delivery]\nwindow = 2\n[[bots]]\nplatform = telegram\n")
		if n := strings.Count(p.said.String(), "a text stands in quotes"); n != 1 {
			t.Errorf("the fault is said %d times:\n%s", n, p.said.String())
		}
		p.said.Reset()
		write("[delivery]\nwindow = 2\n[[bots]]\nplatform = \"telegram\"\ntoken_file = \"telegram.token\"\n")
		p.sees("connector.toml has that change\n")
		if err := p.leaves(); err != errStopped {
			t.Error(err)
		}
	})
}

// TestTheInputEnds: a terminal that went away ends setup, and nothing is written.
func TestTheInputEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := sitting(t, dir, nil)
		p.types(colons)
		p.types("here")
		close(p.typed)
		if <-p.ended; p.err != errStopped {
			t.Error(p.err)
		}
	})
	if made, _ := os.ReadDir(dir); len(made) > 0 {
		t.Errorf("there is %v", made)
	}
}

// TestScripts: where nobody can be asked, what is missing is named, and nothing that was not asked for is written.
func TestScripts(t *testing.T) {
	for name, tc := range map[string]struct {
		flags Flags
		in    string
		fails string // a UsageError; empty: it works
		shows string // exactly once
		file  string
	}{
		"nothing at all":        {fails: "there is no terminal to ask questions at"},
		"no network":            {flags: Flags{Yes: true, TokenStdin: true}, in: dots, fails: "--platform"},
		"no token":              {flags: Flags{Yes: true, Platform: "discord"}, fails: "--token-file"},
		"another one's token":   {flags: Flags{Yes: true, Platform: "discord", TokenStdin: true}, in: colons, fails: "this is a token of Telegram"},
		"no agreement":          {flags: Flags{Platform: "discord", TokenStdin: true, Reach: "here"}, in: dots, fails: "--yes"},
		"nowhere":               {flags: Flags{Reach: "moon"}, fails: "--reach: want one of: here, lan, internet"},
		"the invitation, once":  {flags: Flags{Yes: true, Platform: "discord", TokenStdin: true}, in: dots, shows: "https://example.net/invite\n", file: "listen = \"127.0.0.1:8787\"\n\n[[bots]]\nplatform = \"discord\"\ntoken_file = \"discord.token\"\n"},
		"the code of that link": {flags: Flags{Yes: true, Platform: "discord", TokenStdin: true}, in: dots, shows: "\n▀▀▀▀▀"},
		"pages for phones":      {flags: Flags{Yes: true, Platform: "telegram", TokenStdin: true, Web: "lan"}, in: colons, file: "listen = \"127.0.0.1:8787\"\n\n[web]\nlisten = \"0.0.0.0:8788\"\n\n[[bots]]\nplatform = \"telegram\"\ntoken_file = \"telegram.token\"\n"},
		"a bot of an account":   {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"account=+49301"}}, file: "listen = \"127.0.0.1:8787\"\n\n[[bots]]\nplatform = \"bell\"\naccount = \"+49301\"\n"},
		"no account":            {flags: Flags{Yes: true, Platform: "bell"}, fails: "--setting"},
		"no such account":       {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"account=ann"}}, fails: "--setting: no number"},
		"another setting":       {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"daemon=x"}}, fails: "--setting"},
		"a setting of choice":   {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"daemon=y", "account=+49301"}}, file: "listen = \"127.0.0.1:8787\"\n\n[[bots]]\nplatform = \"bell\"\naccount = \"+49301\"\ndaemon = \"y\"\n"},
		"an unknown setting":    {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"account=+49301", "demon=y"}}, fails: "--setting: Bell has no \"demon\"; there is: account, daemon"},
		"an unknown secret":     {flags: Flags{Yes: true, Platform: "bell", Settings: []string{"account=+49301"}, SecretFiles: []string{"token=y"}}, fails: "--secret-file: Bell has no \"token\"; there is: none"},
		"one by hand":           {flags: Flags{Yes: true, Platform: "drum"}, fails: "hermes-connector help webhooks shows it"},
		"pages":                 {flags: Flags{Yes: true, Platform: "telegram", TokenStdin: true, Web: "here"}, in: colons, file: "listen = \"127.0.0.1:8787\"\n\n[web]\nlisten = \"127.0.0.1:8788\"\n\n[[bots]]\nplatform = \"telegram\"\ntoken_file = \"telegram.token\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := sitting(t, dir, func(o *Options) { o.Typed, o.Show, o.Flags, o.In = nil, nil, tc.flags, strings.NewReader(tc.in) })
				<-p.ended
				if usage := errors.As(p.err, new(UsageError)); usage != (tc.fails != "") || p.err != nil && !strings.Contains(p.err.Error(), tc.fails) {
					t.Errorf("it ends with %v, want %q", p.err, tc.fails)
				}
				if shown := p.said.String(); tc.shows != "" && strings.Count(shown, tc.shows) != 1 {
					t.Errorf("%q is not shown once:\n%s", tc.shows, shown)
				}
			})
			if text, _ := os.ReadFile(filepath.Join(dir, "connector.toml")); tc.file != "" && string(text) != tc.file {
				t.Errorf("written:\n%s, want\n%s", text, tc.file)
			}
			if made, _ := os.ReadDir(dir); tc.fails != "" && len(made) > 0 {
				t.Errorf("there is %v", made)
			}
		})
	}
}

// bell is a network without tokens, whose bots are accounts.
func bell() platforms.Network {
	number := func(v string) error {
		if !strings.HasPrefix(v, "+") {
			return errors.New("no number")
		}
		return nil
	}
	return platforms.Network{
		Name: "bell", Label: "Bell", Guide: "It has no bots.", Unscoped: true,
		Keys: []platforms.Key{{Name: "account", Check: number}, {Name: "daemon", Default: "x", Check: func(string) error { return nil }}},
		Open: func(o platforms.Options) (platforms.Bot, error) {
			return aBot{id: relay.Bot{Platform: "bell", ID: relay.BotID(o.Values["account"])}, asked: new(int)}, nil
		},
	}
}
