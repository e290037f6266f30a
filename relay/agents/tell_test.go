package agents

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// addTeller lets a program in that may write to Ann, who is linked to home.
func (r *rig) addTeller() *program {
	r.t.Helper()
	r.enroll("home")
	if err := r.db.Bind(r.t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "ann", Instance: "home", DMChat: "@ann", BoundAt: time.Now()}); err != nil {
		r.t.Fatal(err)
	}
	made, err := r.svc.AddCaller(r.t.Context(), audit.Actor{}, manage.CallerFor{Caller: "cron", People: []string{"loopback:ann"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return &program{r, made}
}

// told are the texts that Ann has read.
func (r *rig) told() (out []string) {
	for _, a := range r.net.Acts() {
		if a.Op == relay.OpSend && a.Chat == "@ann" {
			out = append(out, a.Text)
		}
	}
	return out
}

// TestTell: a linked person reads what a program says, once for each dispatch, with the program's name before it.
func TestTell(t *testing.T) {
	r := newRig(t)
	p := r.addTeller()
	wait.Until(t, "the bots run", r.hub.Ready)
	body := map[string]any{"text": "The backup is **done**.", "dispatch_id": "b1"}
	first := p.call("POST", "/agents/tell/loopback:ann", body).want(t, 200, "")
	if first.body["state"] != "sent" {
		t.Errorf("answer %s", first.raw)
	}
	if again := p.call("POST", "/agents/tell/loopback:ann", body); again.raw != first.raw {
		t.Errorf("again: %s, want %s", again.raw, first.raw)
	}
	if got := r.told(); fmt.Sprint(got) != "[cron: The backup is **done**.]" {
		t.Errorf("told %q", got)
	}
	body["text"] = "another"
	p.call("POST", "/agents/tell/loopback:ann", body).want(t, 400, "another text")
	p.call("POST", "/agents/tell/loopback:bob", map[string]any{"text": "x"}).want(t, 404, "not found")
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": " "}).want(t, 400, "text: missing")
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": strings.Repeat("ü", 4001)}).want(t, 413, "4000 characters")
	r.crowd.Store(true)
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x"}).want(t, 403, "no bot can write")
	p.call("POST", "/agents/deliver/home", payloadOf("d", "x")).want(t, 404, "not found") // it may write to a person, and reaches no agent
}

// TestPush: what ntfy's clients publish, with its title, priority and tags.
func TestPush(t *testing.T) {
	r := newRig(t)
	p := r.addTeller()
	wait.Until(t, "the bots run", r.hub.Ready)
	path := strings.TrimPrefix(p.People[0].PushURL, "http://connector.example")
	anonymous := &program{r: r}
	anonymous.Token = "x"
	anonymous.call("POST", path, "Disk full").want(t, 200, "")
	anonymous.send("POST", path, "Disk full", func(r *http.Request) {
		r.Header.Set("Title", "=?UTF-8?Q?K=C3=BCche?=*")
		r.Header.Set("Priority", "urgent")
		r.Header.Set("Tags", "warning,disk")
	}).want(t, 200, "")
	if got := fmt.Sprintf("%q", r.told()); got != `["cron: Disk full" "cron: ❗ **Küche** (warning,disk)\nDisk full"]` {
		t.Errorf("told %s", got)
	}
	anonymous.call("POST", path+"x", "Disk full").want(t, 401, "unauthorized")
	anonymous.call("POST", path, "").want(t, 400, "text: missing")
}

// TestMute: the person has the last word, and so has who linked them.
func TestMute(t *testing.T) {
	r := newRig(t)
	p := r.addTeller()
	wait.Until(t, "the bots run", r.hub.Ready)
	say := func(text string) {
		t.Helper()
		if err := r.net.Say(t.Context(), local.Message{User: "ann", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	say("/mute cron")
	wait.Until(t, "the answer", func() bool { return len(r.told()) == 1 })
	if got := r.told()[0]; !strings.Contains(got, "no longer writes to you") {
		t.Errorf("answer %q", got)
	}
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x"}).want(t, 403, "muted")
	say("/unmute cron")
	wait.Until(t, "the answer", func() bool { return len(r.told()) == 2 })
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x"}).want(t, 200, "")
	say("/mute radio") // no program of that name: it is for the agent
	if got := r.texts("home"); len(got) != 1 || got[0] != "/mute radio" {
		t.Errorf("the agent gets %q", got)
	}
	if err := r.db.Unbind(t.Context(), nil, "home", local.LoopbackID, "ann"); err != nil {
		t.Fatal(err)
	}
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x"}).want(t, 403, "not linked")
}

// TestTellWaits: what the network does not take now waits on disk, and the program is told so.
func TestTellWaits(t *testing.T) {
	r := newRig(t)
	p := r.addTeller()
	wait.Until(t, "the bots run", r.hub.Ready)
	r.net.FailNext(&relay.ActionError{Outcome: relay.NotSent, Public: "loopback: gone for good"})
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x", "dispatch_id": "t"}).want(t, 403, "refused")
	p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": "x", "dispatch_id": "t"}).want(t, 200, "") // it may be tried again
}

// TestAnAgentHearsWhatItsPersonWasTold: with their next message, and once; a command does not bring it, and nobody else hears it.
func TestAnAgentHearsWhatItsPersonWasTold(t *testing.T) {
	r := newRig(t)
	p := r.addTeller()
	r.enroll("kids")
	if err := r.db.Bind(t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "bob", Instance: "home", DMChat: "@bob", BoundAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the bots run", r.hub.Ready)
	tell := func(text string) {
		t.Helper()
		p.call("POST", "/agents/tell/loopback:ann", map[string]any{"text": text}).want(t, 200, "")
	}
	g := r.dial("home", local.LoopbackID)
	hears := func(user, text string, want ...string) {
		t.Helper()
		if err := r.net.Say(t.Context(), local.Message{User: relay.UserID(user), Text: text}); err != nil {
			t.Fatal(err)
		}
		ev := g.inbound()
		var got []string
		for _, l := range ev.Context {
			got = append(got, l.UserName+": "+l.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" || ev.Text != text {
			t.Errorf("%q comes with (-want +got):\n%s", ev.Text, diff)
		}
	}
	hears("ann", "good morning")
	tell("The backup failed.")
	tell("Disk full.")
	hears("bob", "hello")
	hears("ann", "/status")
	hears("ann", "why?", "cron: The backup failed.", "cron: Disk full.")
	hears("ann", "thank you")

	// A gateway that did not acknowledge it gets it again.
	tell("The backup is done.")
	if err := r.net.Say(t.Context(), local.Message{User: "ann", Text: "again?"}); err != nil {
		t.Fatal(err)
	}
	if in, ok := g.read().(wire.Inbound); !ok || len(in.Event.Context) != 1 {
		t.Fatalf("it comes with %v", in.Event.Context)
	}
	_ = g.conn.CloseNow()
	g = r.dial("home", local.LoopbackID)
	if ev := g.inbound(); ev.Text != "again?" || len(ev.Context) != 1 {
		t.Errorf("again: %q with %v", ev.Text, ev.Context)
	}

	// A policy without context, and a person who is forgotten.
	tell("The disk is new.")
	r.update("home", func(i *store.Instance) {
		i.Relevance = map[relay.PlatformID]store.Relevance{local.LoopbackID: {Context: relay.ContextOff}}
	})
	hears("ann", "what?")
	r.update("home", func(i *store.Instance) { i.Relevance = nil })
	r.hub.Forget("home", local.LoopbackID, "ann")
	hears("ann", "and now?")
}

// update changes an agent.
func (r *rig) update(name string, change func(*store.Instance)) {
	r.t.Helper()
	if err := r.db.UpdateInstance(r.t.Context(), nil, relay.InstanceID(name), func(i *store.Instance) error { change(i); return nil }); err != nil {
		r.t.Fatal(err)
	}
}
