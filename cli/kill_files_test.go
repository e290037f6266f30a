package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// exchange is what an agent does with files and questions, beside the numbers.
type exchange struct {
	base     string              // of the door's addresses
	at       time.Duration       // how long a request may take
	pressed  map[string]string   // message ids of the presses heard, by question; a.mu guards it
	options  map[string]string   // what they said; a.mu guards it
	lookedAt map[string]question // the questions, when it was last looked whether all are answered; a.mu guards it
	kept     string              // the id of an upload that was confirmed and not sent
	keptAs   string
	keptIn   int // the session
	uploads  int
	fetched  int
	asked    int
}

// request asks the door for something with the agent's bearer. ok is false when the server died meanwhile.
func (a *agent) request(ctx context.Context, method, address, name string, body []byte) (status int, answer []byte, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, a.files.at)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		a.fault("%s is no address", address)
		return 0, nil, false
	}
	bearer := token.Mint(relay.GatewayID(a.cred.GatewayID), relay.NewSecret([]byte(a.cred.Secret)), time.Now().Add(time.Minute))
	q.Header.Set("Authorization", "Bearer "+bearer)
	q.Header.Set("X-Media-Filename", name)
	q.Close = true
	res, err := http.DefaultClient.Do(q)
	if err == nil {
		defer res.Body.Close()
		answer, err = io.ReadAll(res.Body)
	}
	if err != nil {
		if a.calm.Load() && ctx.Err() == nil {
			a.fault("nobody kills the server, and %s ends with %v", method, err)
		}
		return 0, nil, false
	}
	if a.changes != nil && res.StatusCode == http.StatusServiceUnavailable {
		return 0, nil, false
	}
	return res.StatusCode, answer, true
}

// given fetches every file that an event with those numbers names, before it is acknowledged: each is there, and is what was
// sent. ok is false when the server died meanwhile.
func (a *agent) given(ctx context.Context, said []int, ev relay.Event) (ok bool) {
	var want [][]byte
	for _, n := range said {
		name, content := fileOf(n)
		if name != "" {
			want = append(want, content)
		}
		if name == "notes.txt" && !strings.Contains(ev.Text, "[Content of notes.txt]:\n"+string(content)) {
			a.fault("%d does not show its text file: %q", n, ev.Text)
		}
	}
	if len(want) != len(ev.Media) {
		a.fault("%v have %d files, want %d: %q", said, len(ev.Media), len(want), ev.Text)
		return true
	}
	for i, m := range ev.Media {
		if !strings.HasPrefix(m.URL, a.files.base+"/relay/media/") {
			a.fault("%v have a file at %s", said, m.URL)
			continue
		}
		status, got, ok := a.request(ctx, http.MethodGet, m.URL, "", nil)
		if !ok || status == http.StatusNotFound && a.changes != nil && a.changes() != a.began { // who leads now fetches it again, as it gives the message again
			return false
		}
		if status != http.StatusOK || !bytes.Equal(got, want[i]) {
			a.fault("file %d of %v is not given: %d, %d bytes", i, said, status, len(got))
		}
		a.files.fetched++
	}
	return true
}

// numbers are those that a text says, a line each, beside what is said of their files.
func numbers(text string) (said []int) {
	for line := range strings.Lines(text) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
			said = append(said, n)
		}
	}
	return said
}

// upload is a file that the server says it has; ok is false if it says nothing, or takes none now.
func (a *agent) upload(ctx context.Context) (id, name string, ok bool) {
	a.files.uploads++
	name = fmt.Sprintf("upload %d of %s", a.files.uploads, a.name)
	content := []byte(name)
	if a.files.uploads%2 == 0 {
		content = slices.Concat(jpegHead, content)
	}
	status, answer, ok := a.request(ctx, http.MethodPost, a.files.base+"/relay/media", "note.txt", content)
	var is struct{ ID string }
	switch {
	case !ok || status == http.StatusTooManyRequests, a.changes != nil && status == http.StatusInsufficientStorage: // the disk may be full
		return "", "", false
	case status != http.StatusOK || json.Unmarshal(answer, &is) != nil || is.ID == "":
		a.fault("an upload is answered with %d: %s", status, answer)
		return "", "", false
	}
	return is.ID, name, true
}

// sendFile sends a file that was uploaded now, or one that was uploaded in an earlier session: once it is
// confirmed it is good for an hour, whoever dies. false means that the socket has ended.
func (v *visit) sendFile(ctx context.Context, n int) bool {
	id, name, origin := v.files.kept, v.files.keptAs, v.files.base
	v.files.kept = ""
	if id == "" {
		var ok bool
		origin = "https://elsewhere.example" // whatever a gateway calls us
		if id, name, ok = v.upload(ctx); !ok {
			return true
		}
		if v.rand.IntN(2) == 0 {
			v.files.kept, v.files.keptAs, v.files.keptIn = id, name, v.tally.sessions
			return true
		}
	}
	return v.do(ctx, relay.SendMedia{
		Chat: v.chat(), Kind: []string{"document", "image"}[n%2], SourceURL: origin + "/relay/media/" + id,
		Caption: v.newAnswer(n, " with "+name),
	})
}

// ask asks the person something, who will press twice.
func (v *visit) ask(ctx context.Context, n int) bool {
	v.files.asked++
	return v.do(ctx, relay.Prompt{
		Chat: v.chat(), Kind: "choice", PromptID: fmt.Sprintf("%s-%d", v.name, v.files.asked), Content: v.newAnswer(n, ""),
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}, {ID: "no", Label: "No"}},
	})
}

// press books that a question was answered.
func (v *visit) press(ev relay.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, id := *ev.Prompt, string(ev.MessageID)
	before, again := v.files.pressed[p.PromptID]
	what := "press " + id
	v.bookLocked(what, !again, before == id && (what == v.overtook || v.fresh && what == v.last && what != v.committed))
	if again && before != id {
		v.faults = append(v.faults, fmt.Sprintf("two presses answered %s", p.PromptID))
	}
	v.files.pressed[p.PromptID] = id
	if ev.Text != "/"+p.OptionID || ev.Type != relay.TypeCommand {
		v.faults = append(v.faults, fmt.Sprintf("a press says %q", ev.Text))
	}
	v.files.options[p.PromptID] = p.OptionID
}

// unanswered are the questions that were pressed and of which the agent has not heard, or that still have
// their buttons.
func (a *agent) unanswered() (out []string) {
	asked := a.bot.questions(a.user)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files.lookedAt = asked
	for id, q := range asked {
		if a.files.options[id] == "" || !q.cleared {
			out = append(out, id)
		}
	}
	return out
}

// judgeQuestions compares what was pressed with what the agent heard. a.mu must be held.
func (a *agent) judgeQuestions(asked map[string]question) {
	for id, q := range asked {
		_, known := a.files.lookedAt[id]
		switch {
		case !known: // its agent asked it as the test ended
		case q.posted != 1:
			a.faults = append(a.faults, fmt.Sprintf("question %s was posted %d times", id, q.posted))
		case a.files.options[id] != q.pressed[0]:
			a.faults = append(a.faults, fmt.Sprintf("question %s was answered with %q, and the agent heard %q", id, q.pressed[0], a.files.options[id]))
		case !q.cleared:
			a.faults = append(a.faults, fmt.Sprintf("question %s still has its buttons", id))
		}
	}
	for id := range a.files.options {
		if _, ok := asked[id]; !ok {
			a.faults = append(a.faults, fmt.Sprintf("question %s was answered and never posted", id))
		}
	}
}

// do sends an action whose text newAnswer has booked last.
func (v *visit) do(ctx context.Context, action relay.Action) bool {
	id := relay.RequestID(strconv.Itoa(len(v.texts)))
	v.texts[id] = v.newest
	return v.conn.Send(ctx, wire.Outbound{Request: relay.Request{ID: id, Action: action}}) == nil
}

func (v *visit) chat() relay.ChatID { return relay.ChatID(strconv.FormatInt(v.user, 10)) }

// newAnswer is a text that nobody else sends.
func (v *visit) newAnswer(n int, end string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = fmt.Sprintf("answer %d of %s to %d%s", len(v.answers), v.name, n, end)
	v.answers[v.newest] = false
	return v.newest
}
