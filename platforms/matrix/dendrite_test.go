package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// dendriteEnv names a Dendrite, a homeserver that others wrote: the program, with generate-keys and create-account beside
// it. `go build github.com/element-hq/dendrite/cmd/{dendrite,generate-keys,create-account}` makes them in some minutes.
const dendriteEnv = "HERMES_CONNECTOR_DENDRITE"

// homeserver is a Dendrite on this machine, with nobody on it but our users.
type homeserver struct {
	t            *testing.T
	bin, dir, at string
	port         int
	cmd          *exec.Cmd
}

func startDendrite(t *testing.T) *homeserver {
	t.Helper()
	bin := os.Getenv(dendriteEnv)
	if bin == "" {
		t.Skipf("%s is not set: build github.com/element-hq/dendrite v0.15.2, and name its program there", dendriteEnv)
	}
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	h := &homeserver{t: t, bin: bin, dir: t.TempDir(), port: port, at: fmt.Sprintf("http://127.0.0.1:%d", port)}
	db := func(name string) string { return fmt.Sprintf(`{connection_string: "file:%s.db"}`, name) }
	settings := `version: 2
global:
  server_name: dendrite.test
  private_key: key.pem
  disable_federation: true
  database: {connection_string: ""}
  jetstream: {in_memory: true, storage_path: ./}
client_api: {registration_disabled: true, registration_shared_secret: sesame, rate_limiting: {enabled: false}}
app_service_api: {database: ` + db("a") + `}
federation_api: {database: ` + db("f") + `}
key_server: {database: ` + db("k") + `}
media_api: {base_path: ./media, max_file_size_bytes: 104857600, database: ` + db("m") + `}
mscs: {database: ` + db("s") + `}
relay_api: {database: ` + db("r") + `}
room_server: {database: ` + db("o") + `}
sync_api: {database: ` + db("y") + `, search: {enabled: false}}
user_api: {bcrypt_cost: 4, account_database: ` + db("u") + `}
logging: [{type: std, level: error}]
`
	if err := os.WriteFile(filepath.Join(h.dir, "dendrite.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("generate-keys", "--private-key", "key.pem")
	h.start()
	t.Cleanup(h.kill)
	return h
}

func (h *homeserver) run(name string, args ...string) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(h.bin), name), args...)
	cmd.Dir = h.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (h *homeserver) start() {
	h.t.Helper()
	h.cmd = exec.Command(h.bin, "-config", "dendrite.yaml", "-http-bind-address", fmt.Sprintf("127.0.0.1:%d", h.port))
	h.cmd.Dir = h.dir
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	wait.Until(h.t, "Dendrite answers", func() bool {
		resp, err := http.Get(h.at + "/_matrix/client/versions")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// kill ends Dendrite as a power cut would.
func (h *homeserver) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// account is somebody at the homeserver, by bare calls.
type account struct {
	h           *homeserver
	user, token string
	txn         int
}

func (h *homeserver) account(name string) *account {
	h.t.Helper()
	h.run("create-account", "-config", "dendrite.yaml", "-username", name, "-password", "correct horse battery", "-url", h.at)
	a := &account{h: h, user: "@" + name + ":dendrite.test"}
	out := a.do("POST", v3("login"), obj{
		"type": "m.login.password", "identifier": obj{"type": "m.id.user", "user": name}, "password": "correct horse battery",
	})
	a.token = out["access_token"].(string)
	return a
}

// do is one call, which must succeed.
func (a *account) do(method string, path []string, in any) (out obj) {
	a.h.t.Helper()
	var body io.Reader
	if in != nil {
		raw, _ := json.Marshal(in)
		body = bytes.NewReader(raw)
	}
	address, query, _ := strings.Cut(strings.Join(path, "\x00"), "?")
	parts := strings.Split(address, "\x00")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	if query != "" {
		query = "?" + query
	}
	req, err := http.NewRequest(method, a.h.at+"/_matrix/"+strings.Join(parts, "/")+query, body)
	if err != nil {
		a.h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(raw, &out); err != nil || resp.StatusCode != http.StatusOK {
		a.h.t.Fatalf("%s %q: %d %s", method, path, resp.StatusCode, raw)
	}
	return out
}

func (a *account) say(room, text string, more ...obj) string {
	content := obj{"msgtype": "m.text", "body": text}
	for _, m := range more {
		for k, v := range m {
			content[k] = v
		}
	}
	a.txn++
	return a.do("PUT", inRoom(relay.ChatID(room), "send", "m.room.message", fmt.Sprint("t", a.txn)), content)["event_id"].(string)
}

// said are the newest events of a room, the newest first.
func (a *account) said(room string) (out []obj) {
	for _, e := range a.do("GET", inRoom(relay.ChatID(room), "messages?dir=b&limit=50"), nil)["chunk"].([]any) {
		out = append(out, e.(obj))
	}
	return out
}

// find is the newest event in a room with that text, which comes there in Dendrite's own time; nil: none.
func (a *account) find(room, text string) obj {
	for range 50 {
		for _, e := range a.said(room) {
			if e["content"].(obj)["body"] == text {
				return e
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil
}

// listening is a bot that runs, and what it handed in.
type listening struct {
	*Bot
	in   *memoryInbox
	stop func()
}

func (h *homeserver) listen(token string, in *memoryInbox) *listening {
	h.t.Helper()
	o := optionsAt(h.at, nil)
	var log platformtest.Log
	o.Log, o.Token, o.Values[keyUser] = log.Logger(), relay.NewSecret([]byte(token)), "@hermes:dendrite.test"
	p, err := open(o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	l := &listening{Bot: p, in: in}
	l.stop = func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		l.stop = func() {}
	}
	h.t.Cleanup(func() {
		l.stop()
		if h.t.Failed() {
			h.t.Log(log.String())
		}
	})
	wait.Until(h.t, "the bot is connected", func() bool { return p.Status().State == platforms.Connected })
	return l
}

func (l *listening) event(t *testing.T, text string) (ev relay.Event) {
	t.Helper()
	wait.Until(t, "the event "+text, func() bool {
		at := slices.IndexFunc(l.in.events(), func(e relay.Event) bool { return e.Text == text })
		if at >= 0 {
			ev = l.in.events()[at]
		}
		return at >= 0
	})
	return ev
}

// TestDendrite plays against a real homeserver.
func TestDendrite(t *testing.T) {
	h := startDendrite(t)
	hermes, annie, bobby := h.account("hermes"), h.account("ann"), h.account("bob")
	in := &memoryInbox{linked: map[relay.UserID]bool{relay.UserID(annie.user): true}}
	p := h.listen(hermes.token, in)
	ctx := t.Context()

	// A direct invitation of anybody is taken, one into a room only of somebody who is linked.
	direct := annie.do("POST", v3("createRoom"), obj{"is_direct": true, "invite": []string{hermes.user}, "preset": "trusted_private_chat"})["room_id"].(string)
	inside := func(room string, who *account) func() bool {
		return func() bool {
			joined := who.do("GET", inRoom(relay.ChatID(room), "joined_members"), nil)["joined"].(obj)
			return joined[hermes.user] != nil
		}
	}
	wait.Until(t, "the bot is in the direct room", inside(direct, annie))
	theirs := bobby.do("POST", v3("createRoom"), obj{"invite": []string{hermes.user}, "preset": "private_chat"})["room_id"].(string)
	group := annie.do("POST", v3("createRoom"), obj{"name": "The house", "invite": []string{hermes.user, bobby.user}, "preset": "private_chat"})["room_id"].(string)
	bobby.do("POST", inRoom(relay.ChatID(group), "join"), obj{})
	wait.Until(t, "the bot is in the group", inside(group, annie))
	wait.Until(t, "a stranger's invitation is declined", func() bool {
		state := bobby.do("GET", inRoom(relay.ChatID(theirs), "state", "m.room.member", hermes.user), nil)
		return state["membership"] == "leave"
	})

	annie.say(direct, "hello there")
	ev := p.event(t, "hello there")
	if ev.Source.ChatType != relay.ChatDM || ev.Source.UserID != relay.UserID(annie.user) || ev.Source.Scope != "dendrite.test" {
		t.Errorf("the source of a direct message is %+v", ev.Source)
	}
	annie.say(group, "hello all")
	if ev := p.event(t, "hello all"); ev.Source.ChatType != relay.ChatGroup || ev.Source.ChatName != "The house" || ev.Source.ThreadID != "" || ev.Traits.Addressed {
		t.Errorf("an event of the group is %+v", ev)
	}

	// Sends, with HTML; an edit; a reaction, set twice and taken back; typing; a redaction.
	res, err := p.Send(ctx, relay.Send{Chat: relay.ChatID(direct), Content: "**bold** & `code`", ReplyTo: ev.MessageID})
	if err != nil {
		t.Fatal(err)
	}
	sent := annie.find(direct, "**bold** & `code`")
	if sent == nil || sent["event_id"] != string(res.MessageID) {
		t.Fatalf("sent %+v, and ann reads %v", res, sent)
	}
	want := "<strong>bold</strong> &amp; <code>code</code>"
	if got := sent["content"].(obj)["formatted_body"]; got != want {
		t.Errorf("formatted %q, want %q", got, want)
	}
	annie.say(direct, "and again", obj{"m.relates_to": obj{"m.in_reply_to": obj{"event_id": string(res.MessageID)}}})
	if ev := p.event(t, "and again"); !ev.Traits.Addressed || ev.ReplyTo == nil || !ev.ReplyTo.IsOwn {
		t.Errorf("a reply to the bot is %+v", ev)
	}
	do := func(a relay.Action) relay.Result {
		t.Helper()
		res, err := platforms.Do(ctx, p, a)
		if err != nil {
			t.Fatalf("%s: %v", a.Op(), err)
		}
		return res
	}
	do(relay.Edit{Chat: relay.ChatID(direct), Message: res.MessageID, Content: "edited"})
	if e := annie.find(direct, "* edited"); e == nil || e["content"].(obj)["m.new_content"].(obj)["body"] != "edited" {
		t.Errorf("the edit is %v", e)
	}
	mark := relay.React{Chat: relay.ChatID(direct), Message: ev.MessageID, Emoji: "👀"}
	do(mark)
	do(mark)
	marks := func() (n int) {
		for _, e := range annie.said(direct) {
			if e["type"] == "m.reaction" && len(e["content"].(obj)) > 0 {
				n++
			}
		}
		return n
	}
	wait.Until(t, "one reaction stands", func() bool { return marks() == 1 })
	p.marks = recent.New[reaction, id.EventID](10) // as after a restart
	mark.Remove = true
	do(mark)
	wait.Until(t, "no reaction stands", func() bool { return marks() == 0 })
	do(relay.Typing{Chat: relay.ChatID(direct)})
	do(relay.Delete{Chat: relay.ChatID(direct), Message: res.MessageID})
	if info := do(relay.GetChatInfo{Chat: relay.ChatID(group)}).ChatInfo; info.Name != "The house" || info.Type != relay.ChatGroup {
		t.Errorf("the group is %+v", info)
	}

	// A thread: what the bot wrote in it addresses it from then on.
	root := annie.say(group, "let us talk")
	in1 := obj{"m.relates_to": obj{"rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": obj{"event_id": root}}}
	annie.say(group, "in the thread", in1)
	ev = p.event(t, "in the thread")
	if ev.Source.ThreadID != relay.ThreadID(root) || ev.ReplyTo != nil || ev.Traits.Addressed {
		t.Errorf("an event of a thread is %+v", ev)
	}
	do(relay.Send{Chat: relay.ChatID(group), Content: "answering", Meta: relay.Metadata{ThreadID: ev.Source.ThreadID}})
	if e := annie.find(group, "answering"); e["content"].(obj)["m.relates_to"].(obj)["event_id"] != root {
		t.Errorf("an answer in a thread is %v", e)
	}
	p.talks = recent.New[thread, bool](10) // as after a restart
	annie.say(group, "more in the thread", in1)
	if ev := p.event(t, "more in the thread"); !ev.Traits.Addressed {
		t.Error("what is said in a thread in which the bot wrote does not address it")
	}
	lines, _, err := p.History(ctx, ev, 10)
	if err != nil || len(lines) != 0 {
		t.Errorf("before the first line of a thread were %v, %v", lines, err)
	}

	// Files, both ways.
	content := "\x89PNG\r\n\x1a\n" + strings.Repeat("cat", 5000)
	file := relay.File{Content: strings.NewReader(content), Name: "cat.png", FileFacts: relay.FileFacts{
		Format: relay.FormatPNG, Mime: "image/png", Ext: ".png", Kind: relay.TypePhoto, Size: int64(len(content)),
	}}
	do(relay.SendMedia{Chat: relay.ChatID(direct), Kind: "image", Caption: "a cat", File: file})
	e := annie.find(direct, "a cat")
	if e == nil || e["content"].(obj)["msgtype"] != "m.image" {
		t.Fatalf("the picture is %v", e)
	}
	uri := e["content"].(obj)["url"].(string)
	annie.say(direct, "", obj{"msgtype": "m.image", "body": "look", "filename": "cat.png", "url": uri})
	ev = p.event(t, "look")
	r, err := p.FetchMedia(ctx, ev.Attachments[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if _ = r.Close(); err != nil || string(got) != content {
		t.Errorf("%d other bytes came back, want %d, %v", len(got), len(content), err)
	}

	// A transaction is carried out once.
	once := platforms.Once(ctx, "an answer")
	first, err := p.Send(once, relay.Send{Chat: relay.ChatID(direct), Content: "once"})
	if err != nil {
		t.Fatal(err)
	}
	p.txns = recent.New[string, id.EventID](10)
	again, err := p.Send(once, relay.Send{Chat: relay.ChatID(direct), Content: "once"})
	if err != nil || again.MessageID != first.MessageID {
		t.Errorf("the same transaction gave %q, then %q, %v", first.MessageID, again.MessageID, err)
	}

	// Who sees and who manages.
	place := ev.Source.Place()
	place.Chat = relay.ChatID(group)
	for who, want := range map[*account][2]bool{annie: {true, true}, bobby: {true, false}, hermes: {true, false}} {
		sees, err1 := p.CanSee(ctx, place, relay.UserID(who.user))
		manages, err2 := p.CanManage(ctx, place, relay.UserID(who.user))
		if got := [2]bool{sees, manages}; got != want || err1 != nil || err2 != nil {
			t.Errorf("%s sees and manages: %v, want %v (%v, %v)", who.user, got, want, err1, err2)
		}
	}
	bobby.do("POST", inRoom(relay.ChatID(group), "leave"), obj{})
	if sees, err := p.CanSee(ctx, place, relay.UserID(bobby.user)); sees || err != nil {
		t.Errorf("somebody who left sees the room: %t, %v", sees, err)
	}

	// What is missed while nobody listens, more than one answer holds, comes once each, in order.
	p.stop()
	var missed []string
	for i := range 130 {
		missed = append(missed, fmt.Sprintf("missed %d", i))
		annie.say(direct, missed[i])
	}
	annie.find(direct, missed[len(missed)-1]) // what Dendrite has not passed on yet, it forgets
	h.kill()                                  // and the homeserver has a power cut
	h.start()
	p = h.listen(hermes.token, in)
	p.event(t, missed[len(missed)-1])
	var came []string
	for _, ev := range in.events() {
		if strings.HasPrefix(ev.Text, "missed ") {
			came = append(came, ev.Text)
		}
	}
	if diff := cmp.Diff(missed, came); diff != "" {
		t.Errorf("what was missed (-want +got):\n%s", diff)
	}

	// A room that is replaced.
	next := annie.do("POST", inRoom(relay.ChatID(group), "upgrade"), obj{"new_version": "10"})["replacement_room"].(string)
	annie.do("POST", inRoom(relay.ChatID(next), "invite"), obj{"user_id": hermes.user})
	wait.Until(t, "the bot is in the new room", inside(next, annie))
	wait.Until(t, "the move is told", func() bool {
		return slices.Contains(in.moves(), platforms.Move{From: relay.ChatID(group), To: relay.ChatID(next)})
	})

	// An encrypted room is told once, and nothing is written there.
	annie.do("PUT", inRoom(relay.ChatID(next), "state", "m.room.encryption", ""), obj{"algorithm": "m.megolm.v1.aes-sha2"})
	for range 2 {
		annie.txn++
		annie.do("PUT", inRoom(relay.ChatID(next), "send", "m.room.encrypted", fmt.Sprint("t", annie.txn)), obj{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "y"})
	}
	wait.Until(t, "the notice stands", func() bool { return annie.find(next, sealedWords) != nil })
	_, err = p.Send(ctx, relay.Send{Chat: relay.ChatID(next), Content: "in the clear"})
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || slices.ContainsFunc(annie.said(next), func(e obj) bool { return e["content"].(obj)["body"] == "in the clear" }) {
		t.Errorf("a send into an encrypted room: %v", err)
	}
	wait.Until(t, "the status names the room", func() bool { return strings.Contains(p.Status().Reason, "The house") })
	if found := p.Examine(ctx, []relay.Place{{Platform: Name, Chat: relay.ChatID(next)}, {Platform: Name, Chat: relay.ChatID(direct)}}); len(found.Findings) != 1 || found.Findings[0].Code != "HC108" {
		t.Errorf("the examination found %+v", found.Findings)
	}
}
