package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// neighbour is one gateway: it dials the real door with its own credential.
type neighbour struct {
	name   string
	cred   manage.Enrolled
	client *http.Client
	inbox  func(relay.Event) // told of every event, before it is acknowledged

	mu      sync.Mutex // guards the fields below
	conn    *wiretest.End
	asked   int
	results map[relay.RequestID]chan wire.OutboundResult // capacity 1; closed with the connection
	losses  int                                          // connections that ended
}

var errHungUp = errors.New("the connection is gone")

func (g *neighbour) bearer() string {
	return "Bearer " + token.Mint(g.cred.Gateway, relay.NewSecret([]byte(g.cred.Secret)), time.Now().Add(time.Hour))
}

// run keeps a connection until ctx ends.
func (g *neighbour) run(ctx context.Context) {
	defer g.client.CloseIdleConnections()
	for {
		g.once(ctx)
		if ctx.Err() != nil || !nap(ctx, 2*time.Second) {
			return
		}
	}
}

func (g *neighbour) once(ctx context.Context) {
	conn, err := wiretest.Dial(ctx, "ws://connector.test/relay", &websocket.DialOptions{
		HTTPClient: g.client, HTTPHeader: http.Header{"Authorization": {g.bearer()}},
	})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	g.mu.Lock()
	g.conn, g.results = conn, map[relay.RequestID]chan wire.OutboundResult{}
	g.mu.Unlock()
	g.send(wire.Hello{Platform: telegram.Name, BotID: telegramBot, Manifest: []json.RawMessage{}})
	g.send(wire.Hello{Platform: discord.Name, BotID: discordBot, Manifest: []json.RawMessage{}})
	g.send(wire.Hello{Platform: local.WebID, BotID: "web"})
	err = conn.Each(ctx, g.take)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn = nil
	for _, got := range g.results {
		close(got)
	}
	if err != nil && ctx.Err() == nil {
		g.losses++
	}
}

func (g *neighbour) take(f wire.Frame) error {
	switch f := f.(type) {
	case wire.Inbound:
		g.inbox(f.Event)
		g.send(wire.InboundAck{Buffer: f.Buffer})
	case wire.OutboundResult:
		g.mu.Lock()
		defer g.mu.Unlock()
		if got := g.results[f.ID]; got != nil {
			delete(g.results, f.ID)
			got <- f
		}
	}
	return nil
}

// send writes a frame, if there is a connection.
func (g *neighbour) send(f wire.Frame) {
	if line, err := wire.Encode(f); err == nil {
		g.write(line)
	}
}

func (g *neighbour) write(line []byte) {
	g.mu.Lock()
	conn := g.conn
	g.mu.Unlock()
	if conn != nil {
		_ = conn.Write(context.Background(), websocket.MessageText, line)
	}
}

// ask carries out an action on a network, or waits in vain until the connection ends.
func (g *neighbour) ask(r relay.Request) (wire.OutboundResult, error) {
	got := make(chan wire.OutboundResult, 1)
	g.mu.Lock()
	if g.conn == nil {
		g.mu.Unlock()
		return wire.OutboundResult{}, errHungUp
	}
	g.asked++
	r.ID = relay.RequestID(strconv.Itoa(g.asked))
	g.results[r.ID] = got
	g.mu.Unlock()
	g.send(wire.Outbound{Request: r})
	res, ok := <-got
	if !ok {
		return res, errHungUp
	}
	return res, nil
}

// lost is how many connections ended before their time.
func (g *neighbour) lost() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.losses
}

// calm is a tenant that minds its own business: people who write in their own chats, and an agent that
// answers each message, edits the answer, and reacts to every third.
type calm struct {
	*neighbour
	w *street
	// telegram is held by the turn on Telegram: there is one at a time. Two at once, when one had to wait for its photo, would
	// use up the gateway's own share of the bot, and then its turns wait for one another and not for mallory.
	telegram chan struct{} // capacity 1

	turns sync.WaitGroup
	mu    sync.Mutex // guards the fields below
	said  map[spot]*line
	late  []spot // of messages that mallory reacted to first
	total int
}

// line is one message of a person's.
type line struct {
	series
	text    string
	at      time.Time
	command bool
	came    int // how often it arrived
	chat    string
	answer  string // the id of the agent's answer
	photo   bool   // it came with one
	marked  bool   // the agent's reactions were all carried out, and the last stands
}

// speak lets somebody write every two seconds in one chat until ctx ends: the owner, or the guest, if there
// is one. Of a guest's chat the network says now and then that it changed, so that it is asked again who
// can see it.
func (c *calm) speak(ctx context.Context, network relay.PlatformID, chat, owner, guest string, offset time.Duration) {
	for n := 0; nap(ctx, offset); n, offset = n+1, 2*time.Second {
		who := owner
		if guest != "" {
			who = guest
			if n%4 == 0 {
				c.w.changed(network, chat)
			}
		}
		c.mu.Lock()
		c.total++
		l := &line{
			series: series{c.w.phase(), c.name, string(network), "in"}, chat: chat, at: time.Now(),
			text: strings.Join([]string{c.name, string(network), "message", strconv.Itoa(c.total)}, " "),
		}
		c.mu.Unlock()
		know := func(id string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.said[spot{string(network) + chat, id}] = l
		}
		switch {
		case network == telegram.Name && n%4 == 3 && who == owner:
			l.photo = true
			c.w.tg.show(chat, who, l.text, know)
		case network == telegram.Name:
			c.w.tg.say(chat, who, l.text, know)
		case n%5 == 4 && who == owner:
			l.command = true
			c.w.dc.command(chat, who, l.text, know)
		default:
			c.w.dc.say(chat, who, l.text, know)
		}
	}
}

// hear takes in an event: it must be one of ours, once, unchanged.
func (c *calm) hear(ev relay.Event) {
	c.mu.Lock()
	l := c.said[spot{string(ev.Source.Platform) + string(ev.Source.ChatID), string(ev.MessageID)}]
	switch {
	case l == nil && strings.HasPrefix(ev.Text, "mallory in "): // who is a guest of the chat as others are
		c.mu.Unlock()
		return
	case l == nil:
		c.w.wrong("%s was given what is not its own: %q", c.name, ev.Text)
		c.mu.Unlock()
		return
	}
	l.came++
	if l.came > 1 || l.text != ev.Text && !((l.command || l.photo) && strings.Contains(ev.Text, l.text)) {
		c.w.wrong("%s: %q came %d times, as %q", c.name, l.text, l.came, ev.Text)
	}
	first := l.came == 1
	c.mu.Unlock()
	if first {
		in := l.series
		if l.photo {
			in.what = "shown"
		}
		c.w.took(in, l.at, "inbound", l.chat)
		c.turns.Go(func() {
			if ev.Source.Platform == telegram.Name {
				c.telegram <- struct{}{}
				defer func() { <-c.telegram }()
			}
			c.turn(ev, l)
		})
	}
}

// timed measures what an agent does about an event.
func (c *calm) timed(ev relay.Event, what string, do func() error) bool {
	s, began := series{c.w.phase(), c.name, string(ev.Source.Platform), what}, time.Now()
	if err := do(); err != nil {
		c.w.wrong("%s in %s: %s of %q after %s: %v", c.name, s.phase, what, ev.Text, time.Since(began), err)
		return false
	}
	c.w.took(s, began, what, ev.Source.ChatID)
	return true
}

// react sets or removes a reaction. On Telegram it is declined where mallory's was first.
func (c *calm) react(ev relay.Event, emoji string, remove bool) (done bool) {
	c.timed(ev, "react", func() error {
		res, err := c.ask(relay.Request{Platform: ev.Source.Platform, Action: relay.React{Chat: ev.Source.ChatID, Message: ev.MessageID, Emoji: emoji, Remove: remove}})
		switch {
		case err != nil:
			return err
		case res.Err == nil:
			done = true
		case res.Err.Code == relay.CodeEgressDeclined:
			c.mu.Lock()
			defer c.mu.Unlock()
			c.late = append(c.late, spot{string(ev.Source.ChatID), string(ev.MessageID)})
		case c.w.phase() == warming && res.Err.Public == "rate limited": // Discord's rates are learned by then
		default:
			return errors.New(res.Err.Public)
		}
		return nil
	})
	return done
}

// turn answers one message.
func (c *calm) turn(ev relay.Event, l *line) {
	chat, id := ev.Source.ChatID, ev.MessageID
	do := func(a relay.Action) (res wire.OutboundResult) {
		c.timed(ev, "out", func() (err error) {
			res, err = c.ask(relay.Request{Platform: ev.Source.Platform, Action: a})
			if err == nil && res.Err != nil {
				err = errors.New(res.Err.Public)
			}
			return err
		})
		return res
	}
	reacts := number(string(id))%3 == 0 && !l.command
	shown := reacts && c.react(ev, "👀", false)
	if l.photo {
		c.look(context.Background(), ev, l)
	}
	sent := do(relay.Send{Chat: chat, Content: "re " + l.text, ReplyTo: id, Meta: relay.Metadata{Notify: true}})
	if sent.Result.MessageID == "" {
		return
	}
	c.mu.Lock()
	l.answer = string(sent.Result.MessageID)
	c.mu.Unlock()
	do(relay.Edit{Chat: chat, Message: sent.Result.MessageID, Content: "re " + l.text + " edited"})
	if shown && c.react(ev, "👀", true) && c.react(ev, "👍", false) {
		c.mu.Lock()
		l.marked = true
		c.mu.Unlock()
	}
}

// judge looks at what stands in the end.
func (c *calm) judge() (messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.late {
		if _, ok := c.w.mallory.squatted.Load(at); !ok {
			c.w.wrong("%s may not react to %+v, where nobody else did", c.name, at)
		}
	}
	for at, l := range c.said {
		walls := &c.w.dc.walls
		if l.network == string(telegram.Name) {
			walls = &c.w.tg.walls
		}
		stands := walls.at(l.chat, l.answer)
		switch {
		case l.came != 1:
			c.w.wrong("%s in %s: %q came %d times", c.name, l.phase, l.text, l.came)
		case stands == nil || stands.text != "re "+l.text+" edited" || stands.edits != 1:
			c.w.wrong("%s in %s: of the answer to %q stands %+v", c.name, l.phase, l.text, stands)
		}
		if marks := walls.reactions(l.chat, at.id); l.marked && (!slices.Contains(marks, "👍") || slices.Contains(marks, "👀") || l.network == string(telegram.Name) && len(marks) != 1) {
			c.w.wrong("%s in %s: the reaction to %q is %v", c.name, l.phase, l.text, marks)
		}
		if own := walls.at(l.chat, at.id); !l.command && (own == nil || own.text != l.text) {
			c.w.wrong("%s in %s: of the message %q stands %+v", c.name, l.phase, l.text, own)
		}
	}
	return len(c.said)
}
