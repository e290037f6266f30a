package slack

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Harness { return newHarness(t) })
}

// harness steers the fake for the conformance suite.
type harness struct {
	*fakeSlack
	log  platformtest.Log
	root string // of a thread in the group
}

func newHarness(t testing.TB) *harness {
	h := &harness{fakeSlack: newFakeSlack(t)}
	h.forgets = true
	h.personSays("U0ANN", "C0GROUP", "", "the beginning of a thread")
	h.forgets = false
	h.root = stampOf(time.Now().Add(-2 * maxMissedAge)) // long ago
	h.channels["C0GROUP"].messages[0].TS = h.root
	h.channels["C0GROUP"].Private = true // Bob would see a public one
	return h
}

// quick are settings by which a test does not wait.
var quick = map[string]string{keyRetryWait: "5ms", keyRetryMax: "50ms"}

func (h *harness) Open() (platforms.Bot, error) {
	return openAt(platforms.Options{
		Token: relay.NewSecret([]byte(testToken)), Secrets: map[string]relay.Secret{secretApp: relay.NewSecret([]byte(testAppToken))},
		APIBase: h.base, Values: quick, Log: h.log.Logger(),
	}, pace{check: 10 * time.Millisecond, shared: 10 * time.Millisecond})
}

var (
	userIDs = [...]string{platformtest.Ann: "U0ANN", platformtest.Bob: "U0BOB"}
	chatIDs = [...]string{platformtest.Group: "C0GROUP", platformtest.Twin: "C0TWIN", platformtest.Thread: "C0GROUP"}
)

// place is a channel and, in a thread, its root.
func (h *harness) place(who platformtest.Person, where platformtest.Place) (channel, thread string) {
	if where == platformtest.Direct {
		return "D0" + userIDs[who][2:], ""
	}
	if where == platformtest.Thread {
		thread = h.root
	}
	return chatIDs[where], thread
}

func (h *harness) Say(_ context.Context, who platformtest.Person, where platformtest.Place, text string) error {
	channel, thread := h.place(who, where)
	h.personSays(userIDs[who], channel, thread, dialect.Escape(text))
	return nil
}

func (h *harness) Echo(_ context.Context, where platformtest.Place, text string) error {
	channel, thread := h.place(platformtest.Ann, where)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(h.channels[channel], &fakeMessage{ThreadTS: thread, User: testBotUser, BotID: testBotID, Text: text})
	return nil
}

func (h *harness) Drop(context.Context) error {
	h.cut()
	return nil
}

func (h *harness) Revoke(context.Context) error {
	h.revoke()
	return nil
}

func (h *harness) BreakNextSend(context.Context) error {
	h.breakNext(rest.PostMessage)
	return nil
}

func (h *harness) Received() []platformtest.Received {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.received)
}

// Lacks tells the suite what Slack is without.
func (h *harness) Lacks() platformtest.Lacks { return platformtest.Lacks{Hush: true} }

func (h *harness) Credential() string { return testToken }
func (h *harness) Logged() string     { return h.log.String() }

// Fetched implements platformtest.Previewer.
func (h *harness) Fetched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.fetched)
}

// Buttons implements platformtest.Presser.
func (h *harness) Buttons(chat relay.ChatID, message relay.MessageID) (options []string) {
	m, err := h.messageAt(string(chat), message)
	if err != nil {
		return nil
	}
	for _, value := range m.buttons() {
		if _, option, ok := relay.ParsePromptData(value); ok {
			options = append(options, option)
		}
	}
	return options
}

// Press implements platformtest.Presser.
func (h *harness) Press(_ context.Context, who platformtest.Person, where platformtest.Place, message relay.MessageID, prompt, option string) error {
	channel, _ := h.place(who, where)
	m, err := h.messageAt(channel, message)
	if err != nil {
		return err
	}
	for _, value := range m.buttons() {
		if p, o, ok := relay.ParsePromptData(value); ok && p == prompt && o == option {
			h.press(userIDs[who], channel, m, value, option)
			return nil
		}
	}
	return fmt.Errorf("no button of %s: %q", option, m.buttons())
}

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() (out []platformtest.Taken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.channels {
		for _, m := range ch.messages {
			for _, id := range m.Files {
				out = append(out, platformtest.Taken{Chat: relay.ChatID(ch.ID), Caption: readable(m.Text), Content: h.files[id].content})
			}
		}
	}
	return out
}

// BreakNextFile implements platformtest.FileTaker.
func (h *harness) BreakNextFile(context.Context) error {
	h.breakNext(rest.CompleteUpload)
	return nil
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, s platformtest.Shown) error {
	channel, thread := h.place(who, where)
	file := h.host(s.Name, mimes[s.Kind], s.Content)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(h.channels[channel], &fakeMessage{ThreadTS: thread, User: userIDs[who], Text: dialect.Escape(text), Shown: []map[string]any{file}})
	return nil
}

var mimes = map[relay.MessageType]string{
	relay.TypePhoto: "image/png", relay.TypeVideo: "video/mp4", relay.TypeVoice: "audio/ogg", relay.TypeAudio: "audio/mpeg", relay.TypeDocument: "text/plain",
}

// host keeps a file of a person's, and returns it as Slack describes it.
func (f *fakeSlack) host(name, mime string, content []byte) obj {
	f.smu.Lock()
	defer f.smu.Unlock()
	f.serial++
	id := fmt.Sprint("F0FILE", f.serial)
	f.hosted[id] = content
	address := f.address + "/files/" + id
	return obj{
		"id": id, "name": name, "title": name, "mimetype": mime, "size": len(content), "mode": "hosted", "is_external": false,
		"url_private": address, "url_private_download": address, "file_access": "visible",
	}
}

// Lose implements platformtest.FileShower.
func (h *harness) Lose(context.Context) error {
	h.smu.Lock()
	defer h.smu.Unlock()
	clear(h.hosted)
	return nil
}
