package setup

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// aBot is one that its network knows, and nothing else.
type aBot struct{ platforms.Bot }

func (aBot) ID() relay.Bot { return relay.Bot{Platform: "discord", ID: "7"} }

func (aBot) Examine(context.Context, []relay.Place) platforms.Examination {
	return platforms.Examination{Name: "pi", Invite: "https://example.net/invite"}
}

func options(t *testing.T, typed io.Reader, said io.Writer) Options {
	network := platforms.Network{
		Name: "discord", Label: "Discord", Guide: "ask for one",
		CheckToken: func(relay.Secret) error { return nil },
		Open:       func(platforms.Options) (platforms.Bot, error) { return aBot{}, nil },
	}
	return Options{
		Terminal: true, In: typed, Talk: said, Out: said, Echo: func(bool) {},
		Config: filepath.Join(t.TempDir(), "connector.toml"), Env: []string{"HOME=" + t.TempDir()}, Networks: []platforms.Network{network},
	}
}

// TestInviteIsAScreen: what comes after it would take the link away before anybody opened it.
func TestInviteIsAScreen(t *testing.T) {
	var said strings.Builder
	o := options(t, strings.NewReader("discord\ntoken"), &said)
	if err := Run(t.Context(), o); !errors.Is(err, errStopped) {
		t.Fatalf("setup ended with %v", err)
	}
	if shown := said.String(); !strings.Contains(shown, "https://example.net/invite\n\nEnter, when it is there.\n[done] > ") {
		t.Errorf("the last question is not whether the bot is invited:\n%s", shown)
	}
}

// TestYesAsksNothing also at a terminal: a script does the same there.
func TestYesAsksNothing(t *testing.T) {
	var said strings.Builder
	o := options(t, strings.NewReader("discord\ntoken"), &said)
	o.Yes = true
	if err := Run(t.Context(), o); !errors.As(err, new(UsageError)) || !strings.Contains(err.Error(), "--platform") {
		t.Errorf("setup --yes ended with %v, want that --platform is missing", err)
	}
}

// TestInviteOfAScript: whoever runs the script has a phone, too.
func TestInviteOfAScript(t *testing.T) {
	var said strings.Builder
	o := options(t, strings.NewReader("token"), &said)
	o.Yes, o.Platform, o.TokenStdin, o.Reach = true, "discord", true, "here"
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if shown := said.String(); strings.Count(shown, "https://example.net/invite\n") != 1 || !strings.Contains(shown, "\n█████") {
		t.Errorf("the link and its QR code are not shown:\n%s", shown)
	}
}
