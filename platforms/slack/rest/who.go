package rest

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// Who is the owner of a token.
type Who struct {
	Team   string   `json:"team_id"`
	User   string   `json:"user_id"`
	Bot    string   `json:"bot_id"` // empty: the token is a person's
	Handle string   `json:"user"`
	Scopes []string `json:"-"` // the token's permissions; nil: Slack does not say
}

// Who asks Slack for the token's owner.
func (c *Client) Who(ctx context.Context) (w Who, err error) {
	a, err := c.call(ctx, AuthTest, nil, &w)
	if said := a.Header.Get("X-OAuth-Scopes"); said != "" {
		for scope := range strings.SplitSeq(said, ",") {
			w.Scopes = append(w.Scopes, strings.TrimSpace(scope))
		}
	}
	return w, err
}

// App returns the app to which an integration belongs.
func (c *Client) App(ctx context.Context, bot string) (string, error) {
	var out struct {
		Bot struct {
			App string `json:"app_id"`
		} `json:"bot"`
	}
	err := c.Call(ctx, BotInfo, url.Values{"bot": {bot}}, &out)
	return out.Bot.App, err
}

// Ticket asks Slack for the address at which a socket can be opened. The token must be the app's own.
func (c *Client) Ticket(ctx context.Context) (string, error) {
	var out struct {
		URL string `json:"url"`
	}
	_, err := c.call(ctx, OpenSocket, nil, &out)
	if err == nil && out.URL == "" {
		err = &httpcall.Fault{What: OpenSocket, Message: "an answer without an address"}
	}
	return out.URL, err
}

// Clock returns Slack's time now, to about a second; zero: Slack has not answered anything after since.
func (c *Client) Clock(since time.Time) time.Time { return c.calls.Clock(since) }

// Joined returns the ids of the channels that the bot is in.
func (c *Client) Joined(ctx context.Context) (all []string, err error) {
	params := url.Values{"types": {"public_channel,private_channel,mpim"}, "exclude_archived": {"true"}, "limit": {"200"}}
	for raw, err := range c.pages(ctx, JoinedChannels, params) {
		var page struct {
			Channels []struct {
				ID string `json:"id"`
			} `json:"channels"`
		}
		if err == nil {
			err = httpcall.Decode(raw, &page)
		}
		if err != nil {
			return nil, err
		}
		for _, ch := range page.Channels {
			all = append(all, ch.ID)
		}
	}
	return all, nil
}
