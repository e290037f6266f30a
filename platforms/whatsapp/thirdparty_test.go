package whatsapp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestThirdPartyWhatsApp: a library that others wrote reads and judges the same calls as we do, and sends for each of our
// actions what we send.
func TestThirdPartyWhatsApp(t *testing.T) {
	if _, err := os.Stat(platformtest.Partner(t, "whatsapp-api-js")); err != nil {
		t.Skip("whatsapp-api-js is not installed: npm install --ignore-scripts whatsapp-api-js@6.3.0")
	}
	m := newMeta(t)
	p := opened(t, m)
	theirs := m.said(ann, obj{"type": "text", "text": obj{"body": "grüße 👋"}})["id"]
	if _, err := p.event(message{From: ann, ID: theirs.(string), At: "1", Type: "text"}, nil); err != nil {
		t.Fatal(err)
	}
	p.newest.Put(ann, relay.MessageID(theirs.(string)))
	for _, a := range []relay.Action{
		relay.Send{Chat: ann, Content: "hello", ReplyTo: relay.MessageID(theirs.(string))},
		relay.Send{Chat: bob, Content: "https://example.org"},
		relay.React{Chat: ann, Message: relay.MessageID(theirs.(string)), Emoji: "👍"},
		relay.React{Chat: ann, Message: relay.MessageID(theirs.(string)), Emoji: "👍", Remove: true},
		relay.Typing{Chat: ann},
		relay.Prompt{Chat: ann, Content: "go on?", PromptID: "p1", Options: []relay.PromptOption{{ID: "y", Label: "Yes"}, {ID: "n", Label: "No"}}},
		relay.Prompt{Chat: ann, Content: "which?", PromptID: "p2", Options: []relay.PromptOption{{ID: "a", Label: "A label that is too long for a row"}, {ID: "b", Label: "B"}, {ID: "c", Label: "C"}, {ID: "d", Label: "D"}}},
		relay.SendMedia{Chat: ann, Kind: "image", Caption: "look", File: relay.File{FileFacts: relay.FileFacts{Format: relay.FormatPNG, Mime: "image/png", Size: 3}, Name: "a.png", Content: strings.NewReader("png")}},
		relay.SendMedia{Chat: ann, Kind: "document", File: relay.File{FileFacts: relay.FileFacts{Mime: "application/pdf", Size: 3}, Name: "a.pdf", Content: strings.NewReader("pdf")}},
		relay.SendMedia{Chat: ann, Kind: "voice", File: relay.File{FileFacts: relay.FileFacts{Format: relay.FormatOpus, Mime: "audio/ogg", Size: 3}, Content: strings.NewReader("ogg")}},
	} {
		if _, err := platforms.Do(t.Context(), p, a); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
	}
	bodies := []platforms.HookRequest{
		called(obj{"contacts": []obj{contactOf(ann, "Ann")}, "messages": []obj{m.said(ann, obj{"type": "text", "text": obj{"body": "grüße 👋\u2028"}})}}),
		called(obj{"contacts": []obj{contactOf(bob, "Bob")}, "messages": []obj{m.said(bob, obj{"type": "text", "text": obj{"body": "x"}})}}),
	}
	var calls []map[string]string
	for n := range bodies { // Meta writes ASCII alone, and signs it so
		bodies[n] = signed([]byte(ascii(string(bodies[n].Body))))
		b := bodies[n]
		calls = append(calls, map[string]string{"body": string(b.Body), "signature": b.Header.Get(headerSign)})
	}
	var got struct {
		Sent  []obj
		Heard []struct {
			From, ID, Type, Wrong string
		}
		Challenge, Stranger string
	}
	platformtest.AskPartner(t, "whatsapp-api-js/lib/index.js", `
		const M = await import(require('url').pathToFileURL(require('path').join(process.argv[1], '..', 'messages', 'index.js')));
		const sent = [];
		const api = new partner.WhatsAppAPI({token: input.token, appSecret: input.secret, webhookVerifyToken: input.verify, v: 'v24.0',
			ponyfill: {fetch: async (url, init) => { sent.push(JSON.parse(init.body)); return new Response(JSON.stringify({messages: [{id: 'x'}]})); }}});
		const {ann, bob, theirs, number, files} = input;
		await api.sendMessage(number, ann, new M.Text('hello'), theirs);
		await api.sendMessage(number, {bsuid: bob}, new M.Text('https://example.org'));
		await api.sendMessage(number, ann, new M.Reaction(theirs, '👍'));
		await api.sendMessage(number, ann, new M.Reaction(theirs));
		await api.markAsRead(number, theirs, 'text');
		await api.sendMessage(number, ann, new M.Interactive(new M.ActionButtons(new M.Button('hp1:p1:y', 'Yes'), new M.Button('hp1:p1:n', 'No')), new M.Body('go on?')));
		await api.sendMessage(number, ann, new M.Interactive(new M.ActionList('Choose', new M.ListSection(undefined,
			new M.Row('hp1:p2:a', 'A label that is too lon…', 'A label that is too long for a row'), new M.Row('hp1:p2:b', 'B'), new M.Row('hp1:p2:c', 'C'), new M.Row('hp1:p2:d', 'D'))), new M.Body('which?')));
		await api.sendMessage(number, ann, new M.Image(files[0], true, 'look'));
		await api.sendMessage(number, ann, new M.Document(files[1], true, undefined, 'a.pdf'));
		await api.sendMessage(number, ann, new M.Audio(files[2], true, true));
		const heard = [];
		for (const c of input.calls) {
			const h = {};
			api.on.message = a => { h.from = a.from; h.id = a.message.id; h.type = a.message.type; };
			await api.post(JSON.parse(c.body), c.body, c.signature);
			try { await api.post(JSON.parse(c.body), c.body + ' ', c.signature); } catch (e) { h.wrong = String(e.httpStatus); }
			heard.push(h);
		}
		let stranger = '';
		try { stranger = api.get({'hub.mode': 'subscribe', 'hub.verify_token': 'another', 'hub.challenge': '17'}); } catch (e) { stranger = String(e.httpStatus); }
		return {sent, heard, stranger, challenge: api.get({'hub.mode': 'subscribe', 'hub.verify_token': input.verify, 'hub.challenge': '17'})};
	`, map[string]any{
		"token": ourToken, "secret": ourSecret, "verify": ourVerify, "number": ourNumber, "ann": ann, "bob": bob, "theirs": theirs, "calls": calls,
		"files": uploaded(m),
	}, &got)
	if len(got.Sent) != len(m.calls) || len(got.Heard) != len(bodies) {
		t.Fatalf("they sent %d, we %d; they heard %d", len(got.Sent), len(m.calls), len(got.Heard))
	}
	for n, call := range m.calls {
		delete(call, "id")
		if text, ok := call["text"].(map[string]any); ok {
			delete(text, "preview_url") // which they leave out when it is false
		}
		want, ours := plain(t, got.Sent[n]), plain(t, call)
		if diff := cmp.Diff(want, ours); diff != "" {
			t.Errorf("call %d (-theirs +ours):\n%s", n, diff)
		}
	}
	running(t, p, &box{})
	for n, b := range bodies {
		ev := p.Receive(t.Context(), b)
		wrong := b
		wrong.Body = append(append([]byte{}, b.Body...), ' ')
		if h := got.Heard[n]; ev.Status != 200 || h.ID == "" || h.Type != "text" || h.Wrong != "401" || p.Receive(t.Context(), wrong).Status != http.StatusUnauthorized {
			t.Errorf("call %d: we answer %d; they heard %+v", n, ev.Status, h)
		}
	}
	a := p.Receive(t.Context(), platforms.HookRequest{Method: http.MethodGet, Target: "/?hub.mode=subscribe&hub.verify_token=" + ourVerify + "&hub.challenge=17"})
	if got.Challenge != string(a.Body) || got.Stranger != "403" {
		t.Errorf("asked, they say %q, and %q to a stranger; we say %q", got.Challenge, got.Stranger, a.Body)
	}
}

// ascii is JSON as Meta writes it.
func ascii(s string) string {
	var out strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		if u < 0x7f {
			out.WriteByte(byte(u))
			continue
		}
		_, _ = fmt.Fprintf(&out, `\u%04x`, u)
	}
	return out.String()
}

// uploaded are the ids of the files that were sent, in order.
func uploaded(m *meta) (ids []string) {
	for _, c := range m.calls {
		content, _ := c[fmt.Sprint(c["type"])].(map[string]any)
		if id, ok := content["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// plain is v without what JSON leaves out.
func plain(t *testing.T, v obj) (out any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
