package rest

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// Channel looks a channel, a direct message or a group of people up.
func (c *Client) Channel(ctx context.Context, id string) (slack.Channel, error) {
	var out struct {
		Channel slack.Channel `json:"channel"`
	}
	err := c.Call(ctx, ChannelInfo, url.Values{"channel": {id}}, &out)
	return out.Channel, err
}

// User looks somebody up.
func (c *Client) User(ctx context.Context, id string) (slack.User, error) {
	var out struct {
		User slack.User `json:"user"`
	}
	err := c.Call(ctx, UserInfo, url.Values{"user": {id}}, &out)
	return out.User, err
}

// File looks a file up.
func (c *Client) File(ctx context.Context, id string) (slack.File, error) {
	var out struct {
		File slack.File `json:"file"`
	}
	err := c.Call(ctx, FileInfo, url.Values{"file": {id}}, &out)
	return out.File, err
}

// maxPages is how many pages of one list are read: two hundred thousand members.
const maxPages = 200

// pages calls a method until there is no further page, and yields each page in Slack's own JSON.
func (c *Client) pages(ctx context.Context, method string, params url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for range maxPages {
			var raw json.RawMessage
			if err := c.Call(ctx, method, params, &raw); err != nil {
				yield(nil, err)
				return
			}
			var said slack.SlackResponse
			_ = json.Unmarshal(raw, &said) // it succeeds: Call has decoded the same
			if !yield(raw, nil) || said.ResponseMetadata.Cursor == "" {
				return
			}
			params.Set("cursor", said.ResponseMetadata.Cursor)
		}
		yield(nil, &httpcall.Fault{What: method, Message: "a list without an end"})
	}
}

// Members returns the ids of a channel's members, page by page.
func (c *Client) Members(ctx context.Context, channel string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for raw, err := range c.pages(ctx, ChannelMembers, url.Values{"channel": {channel}, "limit": {"1000"}}) {
			var page struct {
				Members []string `json:"members"`
			}
			if err == nil {
				err = httpcall.Decode(raw, &page)
			}
			if !yield(page.Members, err) || err != nil {
				return
			}
		}
	}
}

// Messages returns one page of a list of messages, in Slack's own JSON, and the cursor of the next page; empty: there
// is none.
func (c *Client) Messages(ctx context.Context, method string, params url.Values) (page []json.RawMessage, next string, err error) {
	var out struct {
		Messages []json.RawMessage `json:"messages"`
		Next     struct {
			Cursor string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	err = c.Call(ctx, method, params, &out)
	return out.Messages, out.Next.Cursor, err
}

// Message returns a message of a channel, in a thread or not, in Slack's own JSON; nil: there is none. slack-go's type
// would lose blocks that it does not know.
func (c *Client) Message(ctx context.Context, channel, ts string) (*Message, error) {
	var out struct {
		Messages []Message `json:"messages"`
	}
	err := c.Call(ctx, ThreadReplies, url.Values{
		"channel": {channel}, "ts": {ts}, "oldest": {ts}, "latest": {ts}, "inclusive": {"true"}, "limit": {strconv.Itoa(10)},
	}, &out)
	if RefusedWith(err, "thread_not_found", "message_not_found") {
		return nil, nil
	}
	for _, m := range out.Messages {
		if m.TS == ts { // a thread's root may stand before it
			return &m, nil
		}
	}
	return nil, err
}

// Message is the part of a message that can be written again.
type Message struct {
	TS     string            `json:"ts"`
	User   string            `json:"user"`
	BotID  string            `json:"bot_id"`
	Text   string            `json:"text"`
	Blocks []json.RawMessage `json:"blocks"`
}
