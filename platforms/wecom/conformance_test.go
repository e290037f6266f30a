package wecom

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// corporation is a network with one application.
type corporation struct {
	platformtest.Log
	platformtest.Caller
	api

	app *Bot
	n   int
}

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness {
		c := &corporation{}
		c.Start(t)
		return c
	})
}

func (c *corporation) Lacks() platformtest.Lacks {
	return platformtest.Lacks{Groups: true, Lookup: true, Wide: true}
}

func (c *corporation) Open() (platforms.Bot, error) {
	p, err := Network.Open(options(c.Logger(), &c.api, ourSecret))
	if err == nil {
		c.app = p.(*Bot)
		c.Calls(c.app)
	}
	return p, err
}

func (c *corporation) Say(_ context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	if where != platformtest.Direct {
		return errors.ErrUnsupported
	}
	c.n++
	said := strings.ReplaceAll(strings.ReplaceAll(ourXML, "hello", text), "7300000000000000001", strconv.Itoa(c.n))
	said = strings.ReplaceAll(said, "[ann]", "["+map[platformtest.Person]string{platformtest.Ann: "ann", platformtest.Bob: "bob"}[who]+"]")
	app := c.app
	c.Caller.Say(func() platforms.HookRequest { return posted(app, said, time.Now()) })
	return nil
}

// Echo does nothing: WeCom does not post what an application wrote.
func (c *corporation) Echo(context.Context, platformtest.Place, string) error { return nil }

// Drop loses the answer to a post: WeCom posts it again.
func (c *corporation) Drop(context.Context) error {
	c.Caller.Drop()
	return nil
}

// Revoke has WeCom refuse the secret and every token, which the bot learns with its next answer.
func (c *corporation) Revoke(ctx context.Context) error {
	c.api.mu.Lock()
	c.dead, c.deny = 1000, `{"errcode":40001,"errmsg":"invalid credential `+ourSecret+`"}`
	c.api.mu.Unlock()
	if _, err := c.app.Send(ctx, relay.Send{Chat: ourCorp + ":ann", Content: "x"}); err == nil {
		return errors.New("an answer left with a revoked credential")
	}
	return nil
}

func (c *corporation) BreakNextSend(context.Context) error {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	c.lost = true
	return nil
}

func (c *corporation) Received() (all []platformtest.Received) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	for _, m := range c.sent {
		all = append(all, platformtest.Received{
			Op: relay.OpSend, Chat: relay.ChatID(ourCorp + ":" + m["touser"].(string)), Text: m["text"].(map[string]any)["content"].(string),
		})
	}
	return all
}

func (c *corporation) Credential() string { return ourSecret }
func (c *corporation) Logged() string     { return c.String() }
