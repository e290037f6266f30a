package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// agent is a gateway that does what the test says.
type agent struct {
	t      *testing.T
	p      *program
	bearer string
	conn   *wiretest.End
	heard  chan relay.Event // acknowledged
	done   chan wire.OutboundResult
	asked  int
	end    func()
}

// dial connects a gateway that fronts the bots of the platforms, each named like its platform.
func (p *program) dial(e manage.Enrolled, fronts ...relay.PlatformID) *agent {
	p.t.Helper()
	a := &agent{
		t: p.t, p: p, heard: make(chan relay.Event, 100), done: make(chan wire.OutboundResult, 100),
		bearer: "Bearer " + token.Mint(e.Gateway, relay.NewSecret([]byte(e.Secret)), time.Now().Add(5*time.Minute)),
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	conn, err := wiretest.Dial(ctx, "ws"+strings.TrimPrefix(p.door, "http")+"/relay", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {a.bearer}}})
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	a.conn = conn
	for _, id := range fronts {
		bot := relay.BotID(id)
		if id == onTelegram {
			bot = householdBot
		}
		a.send(wire.Hello{Platform: id, BotID: bot, Manifest: []json.RawMessage{}})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.read(ctx)
	}()
	a.end = func() {
		_ = conn.Close(websocket.StatusNormalClosure, "")
		cancel()
		<-ended
	}
	p.t.Cleanup(a.end)
	return a
}

func (a *agent) send(f wire.Frame) {
	a.t.Helper()
	if err := a.conn.Send(a.t.Context(), f); err != nil {
		a.t.Error(err)
	}
}

// read takes what comes, and acknowledges it, until the connection ends.
func (a *agent) read(ctx context.Context) {
	err := a.conn.Each(ctx, func(f wire.Frame) error {
		switch f := f.(type) {
		case wire.Inbound:
			if f.Buffer != "" {
				_ = a.conn.Send(ctx, wire.InboundAck{Buffer: f.Buffer})
			}
			a.heard <- f.Event
		case wire.OutboundResult:
			a.done <- f
		}
		return nil
	})
	if errors.Is(err, wiretest.ErrUnreadable) {
		a.t.Error(err)
	}
}

// hears waits for an event.
func (a *agent) hears() relay.Event {
	a.t.Helper()
	select {
	case ev := <-a.heard:
		return ev
	case <-time.After(within / 2):
		a.t.Fatal("nothing came")
	}
	return relay.Event{}
}

// does asks the bot of a platform for an action, which must succeed.
func (a *agent) does(on relay.PlatformID, action relay.Action) relay.Result {
	a.t.Helper()
	a.asked++
	a.send(wire.Outbound{Request: relay.Request{ID: relay.RequestID(strconv.Itoa(a.asked)), Platform: on, Bot: relay.BotID(on), Action: action}})
	select {
	case res := <-a.done:
		if res.Err != nil {
			a.t.Fatalf("%s: %s", action.Op(), res.Err.Public)
		}
		return res.Result
	case <-time.After(within / 2):
		a.t.Fatalf("%s: no answer", action.Op())
	}
	return relay.Result{}
}

// upload puts a file where an action can name it.
func (a *agent) upload(content []byte) (address string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.p.door+relay.MediaPath, bytes.NewReader(content))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", a.bearer)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != http.StatusOK {
		a.t.Fatalf("upload: %s, %v", res.Status, err)
	}
	return a.p.door + relay.MediaPath + "/" + got.ID
}
