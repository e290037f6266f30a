package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/mcp/spool"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// approvalLife is how long a request waits for a person; maxApprovals is how many requests may be open.
	approvalLife = time.Hour
	maxApprovals = 100
	// ownPrompts is the beginning of our prompts' ids. The rest differs between processes, since a restart closes open
	// requests.
	ownPrompts = "mcp-"
)

// The decisions of a person, as options of a prompt and as Claude Code spells them.
const (
	allow = "allow"
	deny  = "deny"
)

// requestID matches the ids of requests: people type them on a phone, so there is no l, which looks like other letters.
var requestID = regexp.MustCompile(`^[a-km-z]{5}$`)

// typedAnswer matches the answer that a person types where there are no buttons.
var typedAnswer = regexp.MustCompile(`(?i)^\s*(yes|no)\s+([a-km-z]{5})\s*$`)

// request is an action for which Claude Code needs a person's consent.
type request struct {
	ID          string `json:"request_id"`
	Tool        string `json:"tool_name"`
	Description string `json:"description"`
	Preview     string `json:"input_preview"`
}

// approval is a request that no person has answered.
type approval struct {
	request
	asked time.Time
	typed bool         // the person was asked to type the answer
	user  relay.UserID // the person who was asked, if known
}

// approvals holds the open requests. They are not on disk: a restart closes them.
type approvals struct {
	server *Server
	nonce  string       // part of this process's prompt ids
	came   chan request // from take to run

	mu   sync.Mutex // guards open
	open []approval
}

func (a *approvals) init(s *Server) {
	a.server, a.nonce, a.came = s, string(relay.NewMediaID())[:8], make(chan request, maxApprovals)
}

// take reports whether a notification of the client is a request for permission, and if so, queues the request for run.
// A request is logged and dropped if it is malformed, if there is no room, or if there is nobody to ask. take does not
// wait.
func (a *approvals) take(method string, params json.RawMessage) bool {
	if method != requestMethod {
		return false
	}
	var r request
	if err := json.Unmarshal(params, &r); err != nil || !requestID.MatchString(r.ID) || a.server.o.ApproveIn == "" {
		a.server.o.Log.Warn("a request for permission is not understood")
		return true
	}
	select {
	case a.came <- r:
	default:
		a.server.o.Log.Warn("a request for permission is not passed on: too many wait")
	}
	return true
}

// run asks the person, one request after the other, until ctx ends.
func (a *approvals) run(ctx context.Context, sp *spool.Spool) {
	for {
		select {
		case r := <-a.came:
			if err := a.ask(a.server.life, sp, r); err != nil && ctx.Err() == nil {
				a.server.o.Log.Warn("a person may not have been asked for permission", "err", err)
				if refusal, ok := errors.AsType[*relay.ActionError](err); ok && refusal.Outcome == relay.NotSent || errors.Is(err, client.ErrNoLink) {
					a.close(r.ID) // nobody was asked, so nobody can answer
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// where returns the conversation in which people are asked; it has to be direct messages.
func (a *approvals) where(sp *spool.Spool) (relay.Source, error) {
	c, ok := find(sp, a.server.o.ApproveIn)
	if !ok {
		c, ok = fromKey(a.server.o.ApproveIn)
	}
	if !ok || c.Source.ChatType != relay.ChatDM {
		return relay.Source{}, errors.New("--approve-in names no direct messages")
	}
	return c.Source, nil
}

// ask opens a request and asks the person: with buttons or, on a network without prompts, for a typed answer.
func (a *approvals) ask(ctx context.Context, sp *spool.Spool, r request) error {
	src, err := a.where(sp)
	if err != nil {
		return err
	}
	if !a.add(approval{request: r, asked: time.Now(), user: src.UserID}) {
		return errors.New("too many wait")
	}
	words := r.question()
	meta := relay.Metadata{ThreadID: src.ThreadID, Scope: src.Scope, UserID: src.UserID, Notify: true}
	a.server.acting.RLock()
	defer a.server.acting.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, linkWait+answerWait)
	defer cancel()
	_, err = a.server.client.Act(ctx, src.Platform, relay.Prompt{
		Chat: src.ChatID, Content: words, Kind: relay.PromptApproval, PromptID: a.prompt(r.ID), TimeoutS: approvalLife.Seconds(), Meta: meta,
		Options: []relay.PromptOption{{ID: allow, Label: "Allow", Style: "success"}, {ID: deny, Label: "Deny", Style: "danger"}},
	})
	if refusal, ok := errors.AsType[*relay.ActionError](err); !ok || !strings.HasPrefix(refusal.Public, relay.Unsupported(relay.OpPrompt).Public) {
		return err
	}
	a.asTyped(r.ID)
	words += fmt.Sprintf("\n\nAnswer \"yes %s\" or \"no %s\".", r.ID, r.ID)
	_, err = a.server.client.Act(ctx, src.Platform, relay.Send{Chat: src.ChatID, Content: words, Meta: meta})
	return err
}

// question returns the text for the person. The client's text is put into code blocks whose fences it cannot close,
// without invisible characters and those that turn the direction of writing.
func (r request) question() string {
	words := "Claude Code asks to use **" + label(r.Tool) + "** (" + r.ID + ")."
	for _, s := range []string{r.Description, r.Preview} {
		s = strings.Map(func(r rune) rune {
			if r != '\n' && r != '\t' && !relay.Visible(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(s, "\uFFFD"))
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if cut := []rune(s); len(cut) > 1000 {
			s = string(cut[:1000]) + " …"
		}
		fence := "```"
		for strings.Contains(s, fence) {
			fence += "`"
		}
		words += "\n" + fence + "\n" + s + "\n" + fence
	}
	return words
}

func (a *approvals) prompt(id string) string { return ownPrompts + a.nonce + "-" + id }

// add opens a request, in place of an open one with the same id. It returns false if maxApprovals requests are open.
func (a *approvals) add(r approval) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = slices.DeleteFunc(a.open, func(o approval) bool { return o.ID == r.ID || time.Since(o.asked) > approvalLife })
	if len(a.open) >= maxApprovals {
		return false
	}
	a.open = append(a.open, r)
	return true
}

// asTyped notes that the person was asked to type the answer to a request.
func (a *approvals) asTyped(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.open {
		a.open[i].typed = a.open[i].typed || a.open[i].ID == id
	}
}

// list returns the requests that are open, the oldest first.
func (a *approvals) list() []approval {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = slices.DeleteFunc(a.open, func(o approval) bool { return time.Since(o.asked) > approvalLife })
	return slices.Clone(a.open)
}

// close closes a request, and reports whether it was open and is not older than approvalLife.
func (a *approvals) close(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.open, func(o approval) bool { return o.ID == id })
	if i < 0 {
		return false
	}
	inTime := time.Since(a.open[i].asked) <= approvalLife
	a.open = slices.Delete(a.open, i, i+1)
	return inTime
}

// answered reports whether an event is a person's answer to a request, open or closed; such an event is not for the
// client to read. It sends the decision about an open request to the client.
func (a *approvals) answered(ctx context.Context, sp *spool.Spool, ev relay.Event) bool {
	if p := ev.Prompt; p != nil && strings.HasPrefix(p.PromptID, ownPrompts) {
		if id, ours := strings.CutPrefix(p.PromptID, a.prompt("")); ours && a.here(sp, ev) {
			a.decide(ctx, id, p.OptionID)
		}
		return true
	}
	m := typedAnswer.FindStringSubmatch(ev.Text)
	if m == nil || ev.Prompt != nil || !a.here(sp, ev) {
		return false
	}
	id := strings.ToLower(m[2])
	if !slices.ContainsFunc(a.list(), func(o approval) bool {
		return o.ID == id && o.typed && cmp.Or(o.user, ev.Source.UserID) == ev.Source.UserID
	}) {
		return false
	}
	a.decide(ctx, id, map[bool]string{true: allow, false: deny}[strings.EqualFold(m[1], "yes")])
	return true
}

// here reports whether an event came from the direct messages in which people are asked.
func (a *approvals) here(sp *spool.Spool, ev relay.Event) bool {
	src, err := a.where(sp)
	return a.server.o.ApproveIn != "" && err == nil && ev.Source.ChatType == relay.ChatDM &&
		ev.Source.Platform == src.Platform && ev.Source.ChatID == src.ChatID && cmp.Or(src.ThreadID, ev.Source.ThreadID) == ev.Source.ThreadID
}

// decide closes an open request, and sends the decision to the client.
func (a *approvals) decide(ctx context.Context, id, decision string) {
	if decision != allow && decision != deny || !a.close(id) {
		return
	}
	err := a.server.stdio.notify(ctx, permissionMethod, map[string]string{"request_id": id, "behavior": decision})
	if err != nil {
		a.server.o.Log.Warn("the client was not told of a decision", "err", err)
	}
}
