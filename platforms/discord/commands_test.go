package discord

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

var (
	listCommands = "GET /applications/" + testBotID + "/commands"
	putCommands  = "PUT /applications/" + testBotID + "/commands"
)

func manifest(commands ...string) (out []json.RawMessage) {
	for _, c := range commands {
		out = append(out, json.RawMessage(c))
	}
	return out
}

// registering runs the loop of p with what Discord has at first.
func registering(t *testing.T, ctx context.Context, f *fakeREST, p *Bot, has ...string) {
	t.Helper()
	f.answer(listCommands, func(restCall) (int, any) { return http.StatusOK, manifest(has...) })
	f.answer(putCommands, func(c restCall) (int, any) { return http.StatusOK, c.Body["list"] })
	t.Cleanup(registersAlone(ctx, p))
}

// put is the names of the commands of each PUT so far; "link" stands for all of the connector's own, if they are there.
func (f *fakeREST) put() (out [][]string) {
	for _, c := range f.callsTo("PUT", "/commands") {
		var names []string
		others := 0
		for _, one := range c.Body["list"].([]any) {
			switch name := one.(obj)["name"].(string); name {
			case "agent", "unlink", "whoami":
				others++
			default:
				names = append(names, name)
			}
		}
		if others != 3 {
			names = append(names, "and without some of ours")
		}
		out = append(out, names)
	}
	return out
}

const (
	linkAsRegistered = `{"id":"1","application_id":"9","version":"3","type":1,"name":"link","nsfw":false,"dm_permission":true,
		"name_localizations":null,"description":"Link your account to your agent, with the code its operator gave you",
		"default_member_permissions":null,"contexts":null,"integration_types":[0],
		"options":[{"type":3,"name":"code","description":"The link code, like KQ2-9F4-M7X","required":true}]}`
	agentAsRegistered  = `{"id":"11","type":1,"name":"agent","description":"Choose which of your agents answers your direct messages","options":[{"type":3,"name":"name","description":"Its name"}]}`
	whoamiAsRegistered = `{"id":"12","type":1,"name":"whoami","description":"Who you are to me, and which agent answers your direct messages"}`
	unlinkAsRegistered = `{"id":"13","type":1,"name":"unlink","description":"Link your account to an agent no more","options":[{"type":3,"name":"name","description":"Its name"}]}`
	modelInManifest    = `{"name":"model","description":"Choose a model","options":[{"type":3,"name":"name","description":"Which"}]}`
	modelAsRegistered  = `{"id":"2","type":1,"name":"model","description":"Choose a model","options":[{"type":3,"name":"name","description":"Which","required":false}]}`
)

func TestCommandsAreRegistered(t *testing.T) {
	for name, tc := range map[string]struct {
		has  []string
		want [][]string
	}{
		"none yet":        {nil, [][]string{{"link", "model"}}},
		"the same":        {[]string{modelAsRegistered, linkAsRegistered, agentAsRegistered, whoamiAsRegistered, unlinkAsRegistered}, nil},
		"one more":        {[]string{modelAsRegistered, linkAsRegistered, `{"id":"3","type":1,"name":"old","description":"x"}`}, [][]string{{"link", "model"}}},
		"another text":    {[]string{strings.Replace(modelAsRegistered, "Choose", "Pick", 1), linkAsRegistered}, [][]string{{"link", "model"}}},
		"of other types":  {[]string{`{"id":"4","type":3,"name":"Ask about this"}`}, [][]string{{"Ask about this", "link", "model"}}},
		"only these left": {[]string{`{"id":"4","type":3,"name":"Ask"}`, modelAsRegistered, linkAsRegistered, agentAsRegistered, whoamiAsRegistered, unlinkAsRegistered}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				registering(t, ctx, f, p, tc.has...)
				p.SetCommands(manifest(modelInManifest))
				<-time.After(20 * time.Second)
				if diff := cmp.Diff(tc.want, f.put()); diff != "" {
					t.Errorf("registered (-want +got):\n%s", diff)
				}
				if p.memory.read().Commands == "" {
					t.Error("no fingerprint is kept")
				}
				before := len(f.paths())
				p.SetCommands(manifest(modelInManifest)) // a restart, or one more hello
				<-time.After(20 * time.Second)
				if got := f.paths()[before:]; len(got) != 0 {
					t.Errorf("the same commands again: %q", got)
				}
			})
		})
	}
}

func TestCommandsWaitForEachOther(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		registering(t, ctx, f, p)
		for i := range 10 { // hellos every 4 s, for 40 s
			p.SetCommands(manifest(`{"name":"c` + strconv.Itoa(i) + `","description":"x"}`))
			<-time.After(4 * time.Second)
		}
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"c7", "link"}}, f.put()); diff != "" {
			t.Errorf("registered during the hellos (-want +got):\n%s", diff)
		}
		<-time.After(30 * time.Second)
		if got := f.put(); len(got) != 2 || got[1][0] != "c9" {
			t.Errorf("registered %q, want the last within 30 s", got)
		}
	})
}

func TestCommandsAreTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		fault restFault
		after time.Duration // of the second try, at least
		puts  int
	}{
		"a limit":            {restFault{status: 429, after: 300, scope: "user"}, 5 * time.Minute, 2},
		"an internal error":  {restFault{status: 500}, 2 * time.Second, 2},
		"no connection":      {restFault{never: true}, 2 * time.Second, 1},
		"an unclear one":     {restFault{cut: true}, 2 * time.Second, 2},
		"refused is refused": {restFault{status: 400, code: 50035, words: "Invalid Form Body"}, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				registering(t, ctx, f, p)
				f.fail(putCommands, tc.fault)
				p.SetCommands(manifest(modelInManifest))
				<-time.After(15*time.Second + tc.after - time.Millisecond)
				synctest.Wait()
				if n := len(f.callsTo("GET", "/commands")); n != 1 {
					t.Errorf("%d tries before %v are over", n, tc.after)
				}
				<-time.After(20 * time.Minute)
				if n := len(f.put()); n != tc.puts {
					t.Errorf("%d writes, want %d", n, tc.puts)
				}
				if kept := p.memory.read().Commands != ""; kept == (tc.fault.status == 400) {
					t.Errorf("a fingerprint is kept: %t", kept)
				}
			})
		})
	}
}

// TestOneBadCommandHoldsUpNoOther: the commands of all gateways go in one request.
func TestOneBadCommandHoldsUpNoOther(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		registering(t, ctx, f, p, `{"id":"4","type":3,"name":"Ask"}`)
		f.answer(putCommands, func(c restCall) (int, any) {
			faults := obj{}
			for i, one := range c.Body["list"].([]any) {
				if strings.HasPrefix(one.(obj)["name"].(string), "bad") {
					faults[strconv.Itoa(i)] = obj{"_errors": []obj{{"code": "APPLICATION_COMMAND_TOO_LARGE"}}}
				}
			}
			if len(faults) == 0 {
				return http.StatusOK, c.Body["list"]
			}
			return http.StatusBadRequest, obj{"code": discordgo.ErrCodeInvalidFormBody, "message": "Invalid Form Body", "errors": faults}
		})
		all := manifest(modelInManifest, `{"name":"bad1","description":"x"}`, `{"name":"bad2","description":"x"}`)
		p.SetCommands(all)
		<-time.After(20 * time.Second)
		want := [][]string{{"Ask", "bad1", "bad2", "link", "model"}, {"Ask", "link", "model"}}
		if diff := cmp.Diff(want, f.put()); diff != "" {
			t.Errorf("registered (-want +got):\n%s", diff)
		}
		p.SetCommands(all) // one more hello
		<-time.After(20 * time.Second)
		if n := len(f.put()); n != len(want) {
			t.Errorf("%d writes after the same commands again, want %d", n, len(want))
		}
	})
}

func TestNewCommandsEndAWait(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		registering(t, ctx, f, p)
		f.fail(putCommands, restFault{status: 429, after: 3600, scope: "user"})
		p.SetCommands(manifest(modelInManifest))
		<-time.After(time.Minute)
		p.SetCommands(manifest())
		<-time.After(2 * time.Hour)
		want := [][]string{{"link", "model"}, {"link"}}
		if diff := cmp.Diff(want, f.put()); diff != "" {
			t.Errorf("registered (-want +got):\n%s", diff)
		}
	})
}

// registersAlone runs the loop of p until stop is called.
func registersAlone(ctx context.Context, p *Bot) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.commands.Run(ctx)
	}()
	return func() { // in the bubble: it waits
		cancel()
		<-done
	}
}

// TestCommandPenaltyOutlivesARestart: what Discord does not want yet, the next process
// does not write either; and when the time has come it does.
func TestCommandPenaltyOutlivesARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		down  time.Duration
		skew  time.Duration // of the clock
		wants time.Duration // from the penalty to the next write, at most a backoff later
	}{
		"at once":               {0, 0, time.Hour},
		"half an hour later":    {30 * time.Minute, 0, time.Hour},
		"when it is over":       {2 * time.Hour, 0, 2*time.Hour + 15*time.Second},
		"with a clock set back": {0, -30 * day, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.answer(listCommands, func(restCall) (int, any) { return http.StatusOK, manifest() })
				f.fail(putCommands, restFault{status: 429, after: 3600, scope: "user"})
				stop := registersAlone(ctx, p)
				p.SetCommands(manifest(modelInManifest))
				<-time.After(16 * time.Second)
				stop()
				penalty := time.Now().Add(-time.Second)
				if n := len(f.put()); n != 1 {
					t.Fatalf("%d writes before the restart", n)
				}
				s := p.memory.read()
				s.CommandsAt = s.CommandsAt.Add(-tc.skew)
				kept, err := readState(s.encode(), "")
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(tc.down)
				next, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), Transport: f, Log: p.log})
				if err != nil {
					t.Fatal(err)
				}
				next.memory.recall(kept)
				defer registersAlone(ctx, next)()
				next.SetCommands(manifest(modelInManifest))
				before := len(f.paths())
				<-time.After(time.Until(penalty.Add(tc.wants)) - time.Second)
				synctest.Wait()
				if got := f.paths()[before:]; len(got) != 0 {
					t.Errorf("inside the penalty: %q", got)
				}
				<-time.After(20 * time.Second)
				synctest.Wait()
				if n := len(f.put()); n != 2 {
					t.Errorf("%d writes, want 2", n)
				}
				if s := next.memory.read(); s.Commands == "" || !s.CommandsAt.IsZero() {
					t.Errorf("kept %q, %v", s.Commands, s.CommandsAt)
				}
			})
		})
	}
}
