package status

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// Fix is something that a command does and the page can do, too, after a question.
type Fix struct {
	Do      string       // the name of the operation
	Gateway string       // its id
	Name    string       // the gateway's name for people
	Grant   manage.Grant // of a release

	// Button is the text of the button, Question the question, and Means what the fix does, below the question.
	Button, Question, Means string
}

func replays(g manage.Gateway) Fix {
	name := called(g)
	return Fix{
		Do: ops.Replay.Name, Gateway: string(g.ID), Name: name, Button: "Deliver them after all", Question: "Deliver to " + name + " the messages that were given up?",
		Means: "They are put behind the messages that already wait for it, as many as there is room for.",
	}
}

func rotates(g manage.Gateway) Fix {
	name := called(g)
	return Fix{
		Do: ops.Rotate.Name, Gateway: string(g.ID), Name: name, Button: "Make a new secret", Question: "Make a new secret for " + name + "?",
		Means: "The next page shows it, once, as lines for the gateway's .env. The old secret works until the gateway connects with the new one, for a day at most.",
	}
}

func releases(g manage.Gateway, of manage.Grant) Fix {
	name := called(g)
	return Fix{
		Do: ops.Release.Name, Gateway: string(g.ID), Name: name, Grant: of, Button: "Release it from " + name,
		Question: "Release " + of.Where() + " from " + name + "?",
		Means:    "The gateway gets nothing more from there, and may not write there. You can then give it to another gateway.",
	}
}

// Address returns the path and query of the page that asks the question.
func (f Fix) Address() string {
	q := url.Values{"do": {f.Do}, "gateway": {f.Gateway}}
	for key, value := range map[string]string{"platform": string(f.Grant.Platform), "scope": string(f.Grant.Scope), "chat": string(f.Grant.Chat)} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "/fix?" + q.Encode()
}

// Fixes returns the fixes for the commands in a text, which is one command or has them in backticks.
func (v view) Fixes(text string) (all []Fix) {
	said := append(strings.Split(text, "`"), text)
	offer := func(f Fix, op *ops.Row, args ...string) {
		if slices.Contains(said, words.Line(op, args...)) {
			all = append(all, f)
		}
	}
	for _, g := range v.Gateways {
		names := []string{string(g.ID)}
		if g.Name != "" {
			names = append(names, g.Name)
		}
		for _, name := range names {
			offer(replays(g), ops.Replay.Row, name)
			offer(rotates(g), ops.Rotate.Row, name)
			if g.Holds == nil {
				continue
			}
			for _, of := range g.Holds.Grants {
				if of.Chat != "" {
					offer(releases(g, of), ops.Release.Row, name, string(of.Platform), string(of.Chat))
				}
			}
		}
	}
	return all
}

// asked returns the fix that a request names; false: the gateway or its grant does not exist.
func (s *Section) asked(ctx context.Context, q url.Values) (Fix, bool) {
	g, err := s.o.Service.Gateway(ctx, manage.Named{Name: q.Get("gateway")})
	if err != nil || g.State == manage.Revoked {
		return Fix{}, false
	}
	switch q.Get("do") {
	case ops.Replay.Name:
		return replays(g), true
	case ops.Rotate.Name:
		return rotates(g), true
	case ops.Release.Name:
		if g.Holds == nil {
			return Fix{}, false
		}
		for _, of := range g.Holds.Grants {
			if of.Platform == relay.PlatformID(q.Get("platform")) && of.Scope == relay.ScopeID(q.Get("scope")) && of.Chat == relay.ChatID(q.Get("chat")) {
				return releases(g, of), true
			}
		}
	}
	return Fix{}, false
}

// nothingToFix answers a request for a fix that is no longer possible.
func nothingToFix(w http.ResponseWriter) {
	page.Answer(w, http.StatusNotFound, page.Words(page.Status, "There is nothing to fix", "It has been fixed meanwhile, or the gateway is gone."))
}

// askFix answers with the page that shows what a fix does, and has the button that does it.
func (s *Section) askFix(w http.ResponseWriter, r *http.Request) {
	f, ok := s.asked(r.Context(), r.URL.Query())
	if !ok {
		nothingToFix(w)
		return
	}
	page.Answer(w, http.StatusOK, page.Page{Title: f.Button, Here: page.Status, Main: templates.HTML("ask", f)})
}

// fix carries out the fix that a request names, and shows the result.
func (s *Section) fix(w http.ResponseWriter, r *http.Request) {
	f, ok := s.asked(r.Context(), page.Form(w, r))
	if !ok {
		nothingToFix(w)
		return
	}
	done, err := s.do(r.Context(), f)
	if err != nil {
		s.notDone(w, "That was not done", err)
		return
	}
	s.forget()
	page.Answer(w, http.StatusOK, page.Page{Title: done.Title, Here: page.Status, Main: templates.HTML("done", done)})
}

// notDone answers with the reason why a change was not made: it was refused, or could not be stored.
func (s *Section) notDone(w http.ResponseWriter, title string, err error) {
	status, why := http.StatusServiceUnavailable, "It could not be stored. hermes-connector doctor says why."
	if refused, ok := errors.AsType[*manage.Error](err); ok {
		status, why = http.StatusConflict, refused.Message+words.Help(refused)
	}
	page.Answer(w, status, page.Words(page.Status, title, relay.InShard(why, s.o.Shard)))
}

// done is the result of a fix. Lines are for the gateway's .env, and are shown only here.
type done struct {
	Title, Words string
	Lines        []string
}

// do carries out f in the name of the person who makes the request.
func (s *Section) do(ctx context.Context, f Fix) (done, error) {
	by := page.Actor(ctx)
	switch f.Do {
	case ops.Replay.Name:
		m, err := s.o.Service.Replay(ctx, by, manage.Letters{Name: f.Gateway})
		d := done{Title: manage.Counted(m.Count, "message waits", "messages wait") + " for " + f.Name + " again"}
		if m.Left > 0 {
			d.Words = manage.Counted(m.Left, "message stays", "messages stay") + " with the dead letters: there is no more room."
		}
		if m.Oversize > 0 {
			d.Words += " " + manage.Counted(m.Oversize, "message is", "messages are") + " too large for any gateway."
		}
		return d, err
	case ops.Rotate.Name:
		e, err := s.o.Service.Rotate(ctx, by, manage.Named{Name: f.Gateway})
		return done{
			Title: f.Name + " has a new secret", Lines: e.EnvLines(),
			Words: "Put these lines into the gateway's .env in place of the old ones, and restart it. They are shown only once.",
		}, err
	default:
		g := f.Grant
		_, err := s.o.Service.Release(ctx, by, manage.Scope{Name: f.Gateway, Platform: g.Platform, Scope: g.Scope, Chat: g.Chat})
		where := g.Where()
		return done{Title: strings.ToUpper(where[:1]) + where[1:] + " is released", Words: "A gateway that it is claimed for gets what people write there."}, err
	}
}
