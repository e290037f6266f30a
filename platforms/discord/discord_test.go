package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// conforms runs the suite over sockets in the long form, otherwise in memory, where the bot's rates cost no time.
var conforms = long.Pick(platformtest.RunInBubbles, platformtest.Run)

func TestConformance(t *testing.T) {
	for _, interactions := range []string{interactionsInbound, interactionsPassthrough} {
		t.Run(interactions, func(t *testing.T) {
			conforms(t, func(t *testing.T) platformtest.Harness {
				h := newHarness(t)
				h.interactions = interactions
				return h
			})
		})
	}
}

// TestConformanceWithEndpoint: Discord calls over HTTP too, and the socket's promises stay.
func TestConformanceWithEndpoint(t *testing.T) {
	conforms(t, func(t *testing.T) platformtest.Harness {
		h := newHarness(t)
		h.endpoint, h.interactions = true, interactionsInbound
		return h
	})
}

// harness steers the fake for the conformance suite. Its bot has run before, so what is said while
// it connects is not from before its time; and it keeps the state of batches without events by
// itself, so that the suite's refusals meet events only.
type harness struct {
	// Set once.
	fake  *fakeDiscord
	carry http.RoundTripper // nil: the network's own
	log   platformtest.Log
	// endpoint: every message comes with calls over HTTP that are for nobody.
	endpoint bool

	interactions string // the setting

	mu       sync.Mutex // guards the fields below
	open     *Bot       // last
	cursor   []byte
	received []platformtest.Received
	fetched  []string // contents whose links Discord was not told to leave alone
	taken    []platformtest.Taken
	threads  map[string]string   // id to name, of those the bot made
	buttons  map[string][]string // by chat:message, the options that they stand for
	cutNext  bool
	cutNonce string             // of the message that was cut: its repetitions are cut, too
	repeated context.CancelFunc // of the newest message
}

func newHarness(t *testing.T) *harness {
	h := &harness{fake: newFakeDiscord(), threads: map[string]string{}, buttons: map[string][]string{}}
	if long.Pick(false, true) {
		h.fake.serve(t)
	} else {
		afterEpoch()
		h.carry = h.fake.pipe(t)
	}
	twin := testGuild()
	twin["id"], twin["threads"] = "901", []obj{}
	twin["roles"] = []obj{{"id": "901", "permissions": "1024"}}
	twin["channels"] = []obj{{"id": "990", "type": 0, "name": "garden"}}
	h.fake.guilds = []obj{testGuild(), twin}
	h.fake.rest = h.rest
	h.cursor = state{Base: h.fake.address + "/api", Seen: guilds.At(time.Now())}.encode()
	return h
}

// Open implements platformtest.Harness. The bot keeps to no rates of its own: package ratelimit proves them
// without the waiting.
func (h *harness) Open() (platforms.Bot, error) {
	values := maps.Clone(quickWaits)
	if h.endpoint {
		values = endpointValues(quickWaits)
	}
	values[keyInteractions], values[keyCDN] = h.interactions, h.fake.address
	p, err := open(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), APIBase: h.fake.address + "/api",
		Values: values, Log: h.log.Logger(), Transport: h.carry,
	})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = p
	return harnessed{p, h}, nil
}

// harnessed is a bot whose inbox knows the chats, as the hub does.
type harnessed struct {
	*Bot
	h *harness
}

func (p harnessed) Run(ctx context.Context, in platforms.Inbox) error {
	return p.Bot.Run(ctx, door{in, p.h})
}

// Send gives a message the time it gets from the hub. That of one that is cut ends when it was repeated,
// because the suite need not wait for a network that never answers.
func (p harnessed) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p.h.mu.Lock()
	p.h.repeated = cancel
	p.h.mu.Unlock()
	return p.Bot.Send(ctx, a)
}

type door struct {
	platforms.Inbox
	h *harness
}

func (d door) Chats(context.Context) ([]relay.Place, error) {
	return append(places("500", "501"),
		relay.Place{Platform: Name, Scope: "900", Chat: "910"}, relay.Place{Platform: Name, Scope: "901"}), nil
}

func (d door) Seen(_ context.Context, events []relay.EventID) ([]bool, error) {
	return make([]bool, len(events)), nil // it forgets at once
}

var _ platforms.Directory = door{}

func (d door) Accept(ctx context.Context, b platforms.Batch) error {
	if len(b.Events) > 0 {
		if err := d.Inbox.Accept(ctx, b); err != nil {
			return err
		}
	}
	if b.Cursor != nil {
		d.h.mu.Lock()
		defer d.h.mu.Unlock()
		d.h.cursor = b.Cursor
	}
	return nil
}

func (d door) Cursor(context.Context) ([]byte, error) {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	return d.h.cursor, nil
}

func placeOf(who platformtest.Person, where platformtest.Place) string {
	if where == platformtest.Direct && who == platformtest.Bob {
		return "501"
	}
	return map[platformtest.Place]string{
		platformtest.Direct: "500", platformtest.Group: "910", platformtest.Twin: "990", platformtest.Thread: "911",
	}[where]
}

// Say implements platformtest.Harness.
func (h *harness) Say(ctx context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	h.mu.Lock()
	p := h.open
	h.mu.Unlock()
	if h.endpoint && p != nil {
		typing := h.fake.command(testToken)
		typing["type"] = 4
		for _, body := range []obj{{"type": 1}, typing} {
			if a := post(ctx, p, body); a.Status != http.StatusOK || a.Refused != "" {
				return fmt.Errorf("%v is answered with %d %s", body, a.Status, a.Body)
			}
		}
	}
	author := obj{"id": "4001", "username": "ann", "global_name": "Ann"}
	if who == platformtest.Bob {
		author = obj{"id": "4002", "username": "bob"}
	}
	h.fake.write(placeOf(who, where), author, text)
	return nil
}

// Echo implements platformtest.Harness.
func (h *harness) Echo(_ context.Context, where platformtest.Place, text string) error {
	h.fake.write(placeOf(platformtest.Ann, where), botAuthor(), text)
	return nil
}

func botAuthor() obj { return obj{"id": testBotID, "username": "pi", "bot": true} }

// Drop implements platformtest.Harness.
func (h *harness) Drop(context.Context) error {
	h.fake.cut()
	return nil
}

// Revoke implements platformtest.Harness.
func (h *harness) Revoke(ctx context.Context) error {
	h.fake.set(func() { h.fake.revoked = true })
	h.fake.order(ctx, nil, 4004)
	return nil
}

// BreakNextSend implements platformtest.Harness.
func (h *harness) BreakNextSend(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cutNext = true
	return nil
}

// Received implements platformtest.Harness.
func (h *harness) Received() []platformtest.Received {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]platformtest.Received(nil), h.received...)
}

// Fetched implements platformtest.Previewer.
func (h *harness) Fetched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.fetched)
}

// Credential implements platformtest.Harness.
func (h *harness) Credential() string { return testToken }

// Logged implements platformtest.Harness.
func (h *harness) Logged() string { return h.log.String() }

// rest carries out what bots do.
func (h *harness) rest(w http.ResponseWriter, r *http.Request) bool {
	part := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v10"), "/"), "/")
	raw, file, err := readBody(r.Header, r.ContentLength, r.Body)
	if err != nil {
		reply(w, http.StatusBadRequest, obj{"code": 50035, "message": err.Error()})
		return true
	}
	op := relay.OpSend
	if file != nil {
		op = relay.OpSendMedia
	}
	var body struct {
		Flags   discordgo.MessageFlags `json:"flags"`
		Content string                 `json:"content"`
		Name    string                 `json:"name"`
		Nonce   any                    `json:"nonce"`
		Enforce bool                   `json:"enforce_nonce"`
		Buttons *rows                  `json:"components"`
	}
	_ = json.Unmarshal(raw, &body)
	if body.Content != "" && body.Flags&discordgo.MessageFlagsSuppressEmbeds == 0 {
		h.mu.Lock()
		h.fetched = append(h.fetched, body.Content)
		h.mu.Unlock()
	}
	if part[0] == "guilds" && len(part) == 4 && part[2] == "members" {
		if part[3] != "4001" {
			reply(w, http.StatusNotFound, obj{"code": 10007, "message": "Unknown Member"})
			return true
		}
		reply(w, http.StatusOK, obj{"user": obj{"id": "4001", "username": "ann"}, "roles": []string{}})
		return true
	}
	if part[0] != "channels" || len(part) < 2 {
		return h.fake.listings(w, r)
	}
	id := part[1]
	what := r.Method + " " + strings.Join(part[2:], "/")
	switch {
	case what == "POST messages":
		h.mu.Lock()
		nonce, _ := body.Nonce.(string)
		if body.Enforce && nonce != "" && nonce == h.cutNonce {
			h.repeated()
			h.mu.Unlock()
			panic(http.ErrAbortHandler) // Discord knows the message, and again nobody hears of it
		}
		cut := h.cutNext
		if cut {
			h.cutNonce = nonce
		}
		h.cutNext = false
		if body.Buttons != nil {
			op = relay.OpPrompt
		}
		if file != nil {
			h.taken = append(h.taken, platformtest.Taken{Chat: relay.ChatID(id), Caption: body.Content, Content: file.Content})
		}
		h.received = append(h.received, platformtest.Received{Op: op, Chat: relay.ChatID(id), Text: body.Content})
		h.mu.Unlock()
		message := h.fake.write(id, botAuthor(), body.Content)
		h.show(id, message, body.Buttons)
		if cut {
			panic(http.ErrAbortHandler)
		}
		reply(w, http.StatusOK, obj{"id": message, "channel_id": id, "content": body.Content, "author": botAuthor()})
	case strings.HasPrefix(what, "PATCH messages/"):
		h.show(id, part[3], body.Buttons)
		h.did(relay.OpEdit, id, body.Content)
		reply(w, http.StatusOK, obj{"id": part[3], "channel_id": id, "content": body.Content})
	case what == "POST typing":
		h.did(relay.OpTyping, id, "")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(what, "PUT messages/") && strings.Contains(what, "/reactions/"):
		h.did(relay.OpReact, id, "")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(what, "DELETE messages/"):
		h.did(relay.OpDelete, id, "")
		w.WriteHeader(http.StatusNoContent)
	case what == "POST threads":
		h.did(relay.OpThreadCreate, id, "")
		thread := h.fake.id()
		h.mu.Lock()
		h.threads[thread] = body.Name
		h.mu.Unlock()
		reply(w, http.StatusCreated, madeIn(id, thread, body.Name))
	case what == "PATCH ":
		h.did(relay.OpThreadRename, "910", "")
		reply(w, http.StatusOK, madeIn("910", id, body.Name))
	case what == "GET ":
		h.did(relay.OpGetChatInfo, id, "")
		h.mu.Lock()
		name, made := h.threads[id]
		h.mu.Unlock()
		switch {
		case made:
			reply(w, http.StatusOK, madeIn("910", id, name))
		case id == "501":
			reply(w, http.StatusOK, obj{"id": id, "type": 1, "recipients": []obj{{"id": "4002", "username": "bob"}}})
		default:
			return false
		}
	default:
		return false
	}
	return true
}

func (h *harness) did(op relay.Op, chat, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received = append(h.received, platformtest.Received{Op: op, Chat: relay.ChatID(chat), Text: text})
}

func madeIn(parent, thread, name string) obj {
	return obj{"id": thread, "type": 11, "name": name, "parent_id": parent, "guild_id": "900", "owner_id": testBotID,
		"thread_metadata": obj{"archived": false}}
}

func TestCheckToken(t *testing.T) {
	for name, tc := range map[string]struct {
		token string
		fault string // in the error; empty: none
	}{
		"a real one's form":       {"MTIzNDU2Nzg5MDEyMzQ1Njc4.GaBcDe.abcdefghijklmnopqrstuvwxyz0123456789AB", ""},
		"a toy":                   {"MTIzNDU2Nzg5.x.y", ""},
		"a toy with padding":      {"MTIzNDU2Nzg=.x.y", ""},
		"empty":                   {"", "empty"},
		"with Bot":                {"Bot MTIzNDU2Nzg5.x.y", `"Bot "`},
		"with a line break":       {"MTIzNDU2Nzg5.x.y\n", "line breaks"},
		"the application id":      {"123456789012345678", "application id"},
		"the client secret":       {"aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "client secret"},
		"two parts":               {"MTIzNDU2Nzg5.x", "three parts"},
		"an empty part":           {"MTIzNDU2Nzg5..y", "empty part"},
		"foreign characters":      {"MTIzNDU2Nzg5.x!.y", "characters no token has"},
		"no bot's id":             {"aGVsbG8.x.y", "bot's id"},
		"not base64":              {"M.x.y", "bot's id"},
		"a telegram token":        {"123456789:AAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "no dots"},
		"an id that is not one":   {"MA.x.y", "bot's id"}, // "0"
		"an id with a sign":       {"KzEy.x.y", "bot's id"},
		"an id with a zero first": {"MDEy.x.y", "bot's id"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Network.CheckToken(relay.NewSecret([]byte(tc.token)))
			switch {
			case tc.fault == "" && err != nil:
				t.Errorf("CheckToken = %v, want nil", err)
			case tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)):
				t.Errorf("CheckToken = %v, want %q in it", err, tc.fault)
			case err != nil && len(tc.token) > 4 && strings.Contains(err.Error(), tc.token):
				t.Errorf("the error repeats the token: %v", err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	good := platforms.Options{Token: relay.NewSecret([]byte(testToken)), Log: (&platformtest.Log{}).Logger()}
	for name, tc := range map[string]struct {
		change func(*platforms.Options)
		ok     bool
	}{
		"defaults":              {func(*platforms.Options) {}, true},
		"a base":                {func(o *platforms.Options) { o.APIBase = "http://127.0.0.1:1/api" }, true},
		"a base without host":   {func(o *platforms.Options) { o.APIBase = "http:///x" }, false},
		"a base with a query":   {func(o *platforms.Options) { o.APIBase = "http://a/?x=1" }, false},
		"no token":              {func(o *platforms.Options) { o.Token = relay.Secret{} }, false},
		"no duration":           {func(o *platforms.Options) { o.Values = map[string]string{"retry_wait": "soon"} }, false},
		"a duration below zero": {func(o *platforms.Options) { o.Values = map[string]string{"intent_wait": "-1s"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			tc.change(&o)
			p, err := Network.Open(o)
			if (err == nil) != tc.ok {
				t.Fatalf("Open = %v", err)
			}
			if err == nil && p.ID() != (relay.Bot{Platform: Name, ID: testBotID}) {
				t.Errorf("bot %s", p.ID())
			}
		})
	}
}
