package slack

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// apiWorld is a fake with a message of Ann's, and what a client's calls left of it.
type apiWorld struct {
	*fakeAPI
	base, ts string
}

func newAPIWorld(t *testing.T) apiWorld {
	f := newFakeAPI(t)
	base := f.serve()
	return apiWorld{f, base, f.personSays("U0ANN", "C0GROUP", "", "hello")}
}

// stands is the group's messages with their reactions, files and buttons.
func (w apiWorld) stands() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.channels["C0GROUP"].messages {
		line := readable(m.shown()) + " [" + strings.Join(m.Reactions, " ") + "]"
		if m.ThreadTS != "" {
			root := w.message(w.channels["C0GROUP"], m.ThreadTS)
			line += " under " + root.Text
		}
		for _, id := range m.Files {
			line += " " + w.files[id].name + " " + string(w.files[id].content)
		}
		out = append(out, line+" "+strings.Join(m.buttons(), " "))
	}
	return out
}

// argumentsOf are the names of the arguments with which each method was called.
func (w apiWorld) argumentsOf() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string][]string)
	for _, c := range w.calls {
		out[c.method] = append(slices.AppendSeq(out[c.method], maps.Keys(c.form)), "") // also of a call without any
	}
	return out
}

// oursOn does what the partners do, as a bot of ours.
func oursOn(t *testing.T) (w apiWorld) {
	synctest.Test(t, func(t *testing.T) { // the pauses between messages cost no time
		f := newFakeAPI(t)
		w = apiWorld{f, f.base, f.personSays("U0ANN", "C0GROUP", "", "hello")}
		p, ctx := openOn(t, f, nil), withinAction(t)
		check := func(_ relay.Result, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		in := relay.Metadata{ThreadID: relay.ThreadID(w.ts)}
		res, err := p.Send(ctx, relay.Send{Chat: "C0GROUP", Content: "**one** & two", Meta: in})
		check(res, err)
		check(p.Edit(ctx, relay.Edit{Chat: "C0GROUP", Message: res.MessageID, Content: "three"}))
		check(p.React(ctx, relay.React{Chat: "C0GROUP", Message: relay.MessageID(w.ts), Emoji: "👀"}))
		a := fileAction("C0GROUP", "look", in)
		a.File.Name, a.File.Content, a.File.Size = "a b.txt", bytes.NewReader([]byte("what is in it")), 13
		check(p.SendMedia(ctx, a))
		check(p.Prompt(ctx, relay.Prompt{Chat: "C0GROUP", Content: "Go on?", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: "Yes"}}}))
	})
	return w
}

// TestThirdPartySlackGo: slack-go's own client leaves on the fake what we do, with the methods and arguments that we use.
func TestThirdPartySlackGo(t *testing.T) {
	ours, w := oursOn(t), newAPIWorld(t)
	c := slack.New(testToken, slack.OptionAPIURL(w.base+"/"))
	_, ts, err := c.PostMessageContext(t.Context(), "C0GROUP", slack.MsgOptionText("*one* &amp; two", false), slack.MsgOptionTS(w.ts),
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl())
	errs := []error{err}
	_, _, _, err = c.UpdateMessageContext(t.Context(), "C0GROUP", ts, slack.MsgOptionText("three", false), slack.MsgOptionBlocks([]slack.Block{}...))
	errs = append(errs, err, c.AddReactionContext(t.Context(), "eyes", slack.NewRefToMessage("C0GROUP", w.ts)))
	_, err = c.UploadFileContext(t.Context(), slack.UploadFileParameters{
		Filename: "a b.txt", Title: "a b.txt", Content: "what is in it", FileSize: 13, Channel: "C0GROUP", ThreadTimestamp: w.ts, InitialComment: "look",
	})
	errs = append(errs, err)
	button := slack.NewButtonBlockElement("hp0", "hp1:p1:y", slack.NewTextBlockObject(slack.PlainTextType, "Yes", true, false))
	_, _, err = c.PostMessageContext(t.Context(), "C0GROUP", slack.MsgOptionBlocks(
		slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, "Go on?", false, false), nil, nil), slack.NewActionBlock("", button)))
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ours.stands(), w.stands()); diff != "" {
		t.Errorf("what stands (-ours +slack-go's):\n%s", diff)
	}
	theirs := w.argumentsOf()
	for method, names := range ours.argumentsOf() {
		if method == rest.FileInfo { // slack-go does not say which message the file became
			continue
		}
		for _, name := range names { // of text, slack-go leaves out what is Slack's default
			if !slices.Contains([]string{"parse", "link_names", "unfurl_links", "unfurl_media", "text"}, name) && !slices.Contains(theirs[method], name) {
				t.Errorf("slack-go calls %s without %q, or not at all", method, name)
			}
		}
	}
	// What each refuses is the same word.
	_, _, err = c.PostMessageContext(t.Context(), "C0OTHER", slack.MsgOptionText("x", false))
	if err == nil || err.Error() != "not_in_channel" {
		t.Errorf("%v", err)
	}
	if err := c.AddReactionContext(t.Context(), "eyes", slack.NewRefToMessage("C0GROUP", w.ts)); err == nil || err.Error() != "already_reacted" {
		t.Errorf("%v", err)
	}
	members, _, err := c.GetUsersInConversationContext(t.Context(), &slack.GetUsersInConversationParameters{ChannelID: "C0GROUP"})
	if err != nil || !slices.Equal(members, []string{testBotUser, "U0ANN"}) {
		t.Errorf("%q, %v", members, err)
	}
	replies, _, _, err := c.GetConversationRepliesContext(t.Context(), &slack.GetConversationRepliesParameters{ChannelID: "C0GROUP", Timestamp: w.ts})
	if err != nil || len(replies) != 3 || replies[1].Text != "three" {
		t.Errorf("%d replies, %v", len(replies), err)
	}
}

// TestThirdPartyWebAPI: Slack's own client for Node leaves on the fake what we do, and is refused in the same words.
func TestThirdPartyWebAPI(t *testing.T) {
	platformtest.Partner(t, "@slack/web-api")
	ours, w := oursOn(t), newAPIWorld(t)
	var got []string
	platformtest.AskPartner(t, "@slack/web-api", `
		const c = new partner.WebClient(input.token, {slackApiUrl: input.base + '/', retryConfig: {retries: 0}, logLevel: 'error'});
		const bad = new partner.WebClient('xoxb-other', {slackApiUrl: input.base + '/', retryConfig: {retries: 0}, logLevel: 'error', rejectRateLimitedCalls: true});
		const words = [];
		const refused = async p => { try { await p; words.push('ok'); } catch (e) { words.push(e.data ? e.data.error : String(e)); } };
		const channel = 'C0GROUP', quiet = {unfurl_links: false, unfurl_media: false};
		const m = await c.chat.postMessage({channel, text: '*one* &amp; two', thread_ts: input.ts, ...quiet});
		await c.chat.update({channel, ts: m.ts, text: 'three', blocks: [], ...quiet});
		await c.reactions.add({channel, timestamp: input.ts, name: 'eyes'});
		await c.files.uploadV2({channel_id: channel, thread_ts: input.ts, initial_comment: 'look', filename: 'a b.txt', title: 'a b.txt', file: Buffer.from('what is in it')});
		await c.chat.postMessage({channel, text: 'Go on?', ...quiet, blocks: [
			{type: 'section', text: {type: 'mrkdwn', text: 'Go on?'}},
			{type: 'actions', elements: [{type: 'button', action_id: 'a', value: 'hp1:p1:y', text: {type: 'plain_text', text: 'Yes'}}]}]});
		await refused(c.reactions.add({channel, timestamp: input.ts, name: 'eyes'}));
		await refused(c.reactions.remove({channel, timestamp: input.ts, name: 'x'}));
		await refused(c.chat.postMessage({channel: 'C0OTHER', text: 'x'}));
		await refused(c.chat.postMessage({channel: 'C0NOBODY', text: 'x'}));
		await refused(c.chat.postMessage({channel, text: 'x'.repeat(40001)}));
		await refused(c.chat.postMessage({channel, text: 'x', blocks: [{type: 'section', text: {type: 'mrkdwn', text: 'x'.repeat(3001)}}]}));
		await refused(c.chat.delete({channel, ts: input.ts}));
		await refused(c.chat.update({channel, ts: '1600000000.000001', text: 'x'}));
		await refused(bad.auth.test());
		const members = [];
		for await (const page of c.paginate('conversations.members', {channel, limit: 1})) members.push(...page.members);
		words.push(members.join(' '));
		words.push((await c.users.info({user: 'U0ANN'})).user.profile.display_name);
		words.push((await c.conversations.info({channel})).channel.name);
		words.push((await c.auth.test()).user_id);
		return words;`, map[string]string{"base": w.base, "token": testToken, "ts": w.ts}, &got)
	want := []string{
		"already_reacted", "no_reaction", "not_in_channel", "channel_not_found", "msg_too_long", "invalid_blocks", "cant_delete_message",
		"message_not_found", "invalid_auth", testBotUser + " U0ANN", "Ann", "general", testBotUser,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Slack's client got (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ours.stands(), w.stands()); diff != "" {
		t.Errorf("what stands (-ours +Slack's client's):\n%s", diff)
	}
}
