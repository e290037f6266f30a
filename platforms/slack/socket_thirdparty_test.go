package slack

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// partnerTime bounds what a partner does.
const partnerTime = 30 * time.Second

// lastWords are what Ann says when a partner has been moved to a new socket.
const lastWords = "on the next socket"

// socketWorld is a fake that has a message, a press and a command for whoever connects. Once they are acknowledged it asks to
// connect again; on the next socket there is one message more.
func socketWorld(t *testing.T) *harness {
	h := newHarness(t)
	ts := h.personSays("U0ANN", "C0GROUP", "", "hello & <you>")
	m, _ := h.messageAt("C0GROUP", relay.MessageID(ts))
	h.press("U0ANN", "C0GROUP", m, "hp1:p1:yes", "Yes")
	h.command("U0ANN", "C0GROUP", "what is new?")
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		await(t, func() string {
			if n, sockets := h.unsettled(); n > 0 || sockets == 0 {
				return "the partner does not acknowledge what came"
			}
			return ""
		})
		h.rotate("warning")
		h.cut() // as Slack does when its warning is over
		h.personSays("U0ANN", "C0GROUP", "", lastWords)
	}()
	t.Cleanup(func() { <-settled })
	return h
}

// TestThirdPartySocketGo: slack-go's socket takes what the fake brings as we do, and acknowledges it as we do.
func TestThirdPartySocketGo(t *testing.T) {
	h := socketWorld(t)
	c := socketmode.New(slack.New(testToken, slack.OptionAppLevelToken(testAppToken), slack.OptionAPIURL(h.base+"/")))
	ctx, cancel := context.WithTimeout(t.Context(), partnerTime)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.RunContext(ctx) }()
	var got []string
	for !slices.Contains(got, lastWords) && ctx.Err() == nil {
		var e socketmode.Event
		select {
		case e = <-c.Events:
		case <-ctx.Done():
		}
		switch data := e.Data.(type) {
		case slackevents.EventsAPIEvent:
			if m, ok := data.InnerEvent.Data.(*slackevents.MessageEvent); ok {
				got = append(got, m.Text)
			}
		case slack.InteractionCallback:
			got = append(got, data.ActionCallback.BlockActions[0].Value)
		case slack.SlashCommand:
			got = append(got, data.Command+" "+data.Text)
		}
		if e.Request != nil && e.Request.EnvelopeID != "" {
			c.Ack(*e.Request)
		}
	}
	want := []string{"hello & <you>", "hp1:p1:yes", "/hermes what is new?", lastWords}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slack-go took (-want +got):\n%s", diff)
	}
	cancel()
	<-ended
}

// TestThirdPartySocketMode: so does Slack's own client for Node.
func TestThirdPartySocketMode(t *testing.T) {
	t.Parallel() // it waits
	platformtest.Partner(t, "@slack/socket-mode")
	h := socketWorld(t)
	var got []string
	platformtest.AskPartner(t, "@slack/socket-mode", `
		const c = new partner.SocketModeClient({appToken: input.token, logLevel: 'error', clientOptions: {slackApiUrl: input.base + '/'}});
		const got = [];
		const over = new Promise(done => c.on('slack_event', async ({ack, type, body}) => {
			await ack();
			if (type === 'events_api') got.push(body.event.text);
			if (type === 'interactive') got.push(body.actions[0].value);
			if (type === 'slash_commands') got.push(body.command + ' ' + body.text);
			if (got.at(-1) === input.last) done();
		}));
		await c.start();
		await over;
		console.log(JSON.stringify(got));
		process.exit(0);`, map[string]string{"base": h.base, "token": testAppToken, "last": lastWords}, &got)
	want := []string{"hello & <you>", "hp1:p1:yes", "/hermes what is new?", lastWords}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Slack's client took (-want +got):\n%s", diff)
	}
}

// TestThirdPartyBolt: an app of Slack's own framework talks to people on the fake as a bot of ours does.
func TestThirdPartyBolt(t *testing.T) {
	t.Parallel() // it waits
	platformtest.Partner(t, "@slack/bolt")
	h := socketWorld(t)
	var got []string
	platformtest.AskPartner(t, "@slack/bolt", `
		const app = new partner.App({token: input.token, appToken: input.app, socketMode: true, logLevel: 'error', clientOptions: {slackApiUrl: input.base + '/'}});
		const got = [];
		let done;
		const over = new Promise(resolve => { done = resolve; });
		app.message(async ({message, say}) => {
			got.push(message.text);
			await say({text: 'echo', unfurl_links: false, unfurl_media: false});
			if (message.text === input.last) done();
		});
		app.action(/.*/, async ({ack, action}) => { await ack(); got.push(action.value); });
		app.command('/hermes', async ({ack, command, respond}) => {
			await ack();
			got.push(command.command + ' ' + command.text);
			await respond({text: 'news', response_type: 'in_channel', unfurl_links: false, unfurl_media: false});
		});
		await app.start();
		await over;
		console.log(JSON.stringify(got.sort()));
		process.exit(0);`, map[string]string{"base": h.base, "token": testToken, "app": testAppToken, "last": lastWords}, &got)
	want := []string{"hello & <you>", "hp1:p1:yes", "/hermes what is new?", lastWords}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Bolt took (-want +got):\n%s", diff)
	}
	if n := len(h.texts("C0GROUP")); n != 5 { // the thread's beginning, two of Ann's, two echoes
		t.Errorf("%d messages stand: %q", n, h.texts("C0GROUP"))
	}
}
