package matrix

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// annsToken is that of the person who uses matrix-js-sdk.
const annsToken = "syt_of-the-person-0123456789"

// TestThirdPartyPerson: the client of others, in the hands of a person, is understood by the bot, and shows what the bot
// does as it is meant. The fake between them satisfies both.
func TestThirdPartyPerson(t *testing.T) {
	t.Parallel() // it waits
	_ = platformtest.Partner(t, "matrix-js-sdk")
	b := newBench(t)
	b.fake.tokens[annsToken] = ann
	b.start()
	do := func(a relay.Action) relay.Result {
		res, err := platforms.Do(t.Context(), b.Bot, a)
		if err != nil {
			t.Errorf("%s: %v", a.Op(), err)
		}
		return res
	}
	acted := make(chan struct{})
	go func() { // the agent
		defer close(acted)
		ev := b.heard("hello bot")
		res := do(relay.Send{Chat: ev.Source.ChatID, Content: "**hi** ann", ReplyTo: ev.MessageID})
		do(relay.Edit{Chat: ev.Source.ChatID, Message: res.MessageID, Content: "hi *again*"})
		do(relay.React{Chat: ev.Source.ChatID, Message: ev.MessageID, Emoji: "👀"})
		gone := do(relay.Send{Chat: ev.Source.ChatID, Content: "to be deleted"})
		do(relay.Delete{Chat: ev.Source.ChatID, Message: gone.MessageID})
		do(relay.SendMedia{Chat: ev.Source.ChatID, Kind: "image", Caption: "a cat", File: relay.File{
			Content: strings.NewReader("cat"), Name: "cat.png", FileFacts: relay.FileFacts{Kind: relay.TypePhoto, Format: relay.FormatPNG, Mime: "image/png", Size: 3},
		}})
		ev = b.heard("in a thread")
		do(relay.Send{Chat: ev.Source.ChatID, Content: "done", Meta: relay.Metadata{ThreadID: ev.Source.ThreadID}})
	}()
	type message struct {
		Body, HTML, ReplyTo, Thread, URL, Name string
		Edited, Redacted                       bool
	}
	var got struct {
		Hello, Root string
		Messages    map[string]message
		Marks       []string
	}
	platformtest.AskPartner(t, "matrix-js-sdk/lib/index.js", `
		Promise.withResolvers ||= () => { // older Nodes lack it
			const all = {};
			all.promise = new Promise((resolve, reject) => Object.assign(all, {resolve, reject}));
			return all;
		};
		const quiet = () => {}, print = console.log;
		for (const way of ['log', 'info', 'warn', 'error', 'debug', 'trace']) console[way] = quiet; // the answer alone is to stand there
		const logger = {trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet, getChild: () => logger};
		const me = partner.createClient({
			baseUrl: input.base, accessToken: input.token, userId: input.user, deviceId: 'DEV', logger,
			timelineSupport: true, threadSupport: true, scheduler: new partner.MatrixScheduler(() => -1), // it sends nothing twice
		});
		const seen = {}, marks = [];
		const note = e => {
			if (e.getSender() !== input.bot) return;
			if (e.getType() === 'm.reaction') { marks.push(e.getRelation().key + ' ' + e.getRelation().event_id); return; }
			if (e.getType() !== 'm.room.message' || e.isRelation('m.replace')) return;
			seen[e.getId()] = e;
		};
		me.on('Room.timeline', (e, room, start) => { if (!start) note(e); });
		await me.startClient({initialSyncLimit: 5, threadSupport: true});
		await new Promise(done => me.on('sync', state => { if (state === 'PREPARED') done(); }));
		const hello = (await me.sendTextMessage(input.room, 'hello bot')).event_id;
		const until = async is => { for (let i = 0; i < 3000 && !is(); i++) await new Promise(r => setTimeout(r, 20)); };
		await until(() => Object.values(seen).some(e => e.getContent().url));
		const root = (await me.sendTextMessage(input.room, 'the root')).event_id;
		const uri = (await me.uploadContent(Buffer.from('song'), {name: 'song.ogg', type: 'audio/ogg'})).content_uri;
		// Of a message in a thread that a sync shows before its answer comes, as homeservers may, the library says that it is none of its own.
		await me.sendMessage(input.room, root, {msgtype: 'm.text', body: 'in a thread'}).catch(e => {
			if (!e.message.includes('not a local echo')) throw e;
		});
		await me.sendMessage(input.room, {msgtype: 'm.audio', body: 'song.ogg', url: uri, info: {size: 4}});
		await until(() => Object.values(seen).some(e => e.getContent().body === 'done'));
		const messages = {};
		for (const e of Object.values(seen)) {
			const c = e.getContent();
			messages[e.getId()] = {
				body: c.body || '', html: c.formatted_body || '', replyTo: e.replyEventId || '', thread: e.threadRootId || '', url: c.url || '', name: c.filename || '',
				edited: !!e.replacingEventId(), redacted: e.isRedacted(),
			};
		}
		me.stopClient();
		console.log = print;
		setTimeout(() => process.exit(0), 200);
		return {hello, root, messages, marks};`,
		obj{"base": b.base, "token": annsToken, "user": ann, "bot": botUser, "room": annRoom}, &got)
	<-acted
	var messages []message
	for _, m := range got.Messages {
		if m.URL != "" {
			m.URL = m.URL[:strings.LastIndexByte(m.URL, '/')]
		}
		messages = append(messages, m)
	}
	want := []message{
		{Body: "hi *again*", HTML: "hi <em>again</em>", ReplyTo: got.Hello, Edited: true},
		{Redacted: true},
		{Body: "a cat", URL: "mxc://" + server, Name: "cat.png"},
		{Body: "done", ReplyTo: got.Root, Thread: got.Root},
	}
	sorted := cmp.Transformer("sorted", func(in []message) map[message]int {
		out := make(map[message]int)
		for _, m := range in {
			out[m]++
		}
		return out
	})
	if diff := cmp.Diff(want, messages, sorted); diff != "" {
		t.Errorf("what the person sees (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"👀 " + got.Hello}, got.Marks); diff != "" {
		t.Errorf("reactions (-want +got):\n%s", diff)
	}
	if ev := b.heard("in a thread"); ev.Source.ThreadID != relay.ThreadID(got.Root) {
		t.Errorf("what was said in the thread is %+v", ev.Source)
	}
	var song relay.Event
	b.until("the song", func() bool {
		for _, ev := range b.in.events() {
			if ev.Type == relay.TypeAudio {
				song = ev
			}
		}
		return len(song.Attachments) == 1
	})
	r, err := b.FetchMedia(t.Context(), song.Attachments[0])
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(r); string(raw) != "song" || err != nil || r.Close() != nil {
		t.Errorf("the song is %q, %v", raw, err)
	}
}
