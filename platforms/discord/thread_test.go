package discord

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	toThreads = "POST /channels/42/threads"
	guildID   = "1"
)

// textChannel is a parent of threads.
func textChannel(kind int) obj {
	return obj{"id": "42", "type": kind, "name": "general", "guild_id": guildID}
}

func TestCreateThread(t *testing.T) {
	long := strings.Repeat("ü", 120)
	for name, tc := range map[string]struct {
		kind   int
		create relay.ThreadCreate
		want   []string
		body   obj
		inside []any // messages in the thread
	}{
		"in a channel": {
			0, relay.ThreadCreate{Name: " hand  off\n"}, []string{"GET /channels/42", toThreads}, obj{"name": "hand off", "type": 11.0}, nil,
		},
		"in a news channel": {5, relay.ThreadCreate{Name: "x"}, []string{"GET /channels/42", toThreads}, obj{"name": "x", "type": 10.0}, nil},
		"with a seed": {
			0, relay.ThreadCreate{Name: "x", SeedText: "**begin**"}, []string{"GET /channels/42", toThreads, "POST /channels/501/messages"},
			obj{"name": "x", "type": 11.0}, []any{"**begin**"},
		},
		"on a message": {
			0, relay.ThreadCreate{Name: "x", Anchor: "7"}, []string{"GET /channels/42", "POST /channels/42/messages/7/threads"}, obj{"name": "x"}, nil,
		},
		"in a forum": {
			15, relay.ThreadCreate{Name: "x", SeedText: "begin"}, []string{"GET /channels/42", toThreads},
			obj{"name": "x", "message": obj{"content": "begin", "allowed_mentions": obj{"parse": []any{"users"}, "replied_user": true}, "flags": 4.0}}, nil,
		},
		"in a forum without a seed": {
			16, relay.ThreadCreate{Name: "x", Anchor: "7"}, []string{"GET /channels/42", toThreads},
			obj{"name": "x", "message": obj{"content": "x", "allowed_mentions": obj{"parse": []any{"users"}, "replied_user": true}, "flags": 4.0}}, nil,
		},
		"a long name": {0, relay.ThreadCreate{Name: long}, []string{"GET /channels/42", toThreads}, obj{"name": long[:200], "type": 11.0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/channels/42", textChannel(tc.kind))
				tc.create.Chat = chat
				got, err := p.CreateThread(ctx, tc.create)
				if err != nil || got.ThreadID != "501" {
					t.Fatalf("CreateThread = %+v, %v", got, err)
				}
				if diff := cmp.Diff(tc.want, f.paths()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.body, f.callsTo("POST", "/threads")[0].Body); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.inside, bodies(f.callsTo("POST", "/channels/501/messages"), "content")); diff != "" {
					t.Errorf("messages in the thread (-want +got):\n%s", diff)
				}
				if name, ok := p.createdThread("501"); !ok || name != tc.body["name"] {
					t.Errorf("remembered: %q, %t", name, ok)
				}
			})
		})
	}
}

func TestCreateThreadFails(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/channels/42", textChannel(0))
		f.fail(toThreads, restFault{status: 400, code: 160006, words: "Maximum number of active threads reached"})
		for name, tc := range map[string]struct {
			create relay.ThreadCreate
			public string
		}{
			"no name":   {relay.ThreadCreate{Chat: chat, Name: " "}, errInvalidForm.Public},
			"no anchor": {relay.ThreadCreate{Chat: chat, Name: "x", Anchor: "x"}, errInvalidForm.Public},
			"too many":  {relay.ThreadCreate{Chat: chat, Name: "x"}, "400 Bad Request (error code: 160006): Maximum number of active threads reached"},
		} {
			if ae := failure(t, second(p.CreateThread(ctx, tc.create))); ae.Public != tc.public || ae.Outcome != relay.NotSent {
				t.Errorf("%s: error is %+v", name, ae)
			}
		}
		if len(p.memory.read().Threads) != 0 {
			t.Error("a thread is remembered")
		}
	})
}

// TestUnclearCreateLooksBeforeItTriesAgain: two threads would mean two answers.
func TestUnclearCreateLooksBeforeItTriesAgain(t *testing.T) {
	thread := func(id, parent, owner, name string, at time.Time) obj {
		return obj{
			"id": id, "parent_id": parent, "owner_id": owner, "name": name,
			"thread_metadata": obj{"create_timestamp": at.Format(time.RFC3339)},
		}
	}
	for name, tc := range map[string]struct {
		faults  []restFault
		active  func(now time.Time) []obj
		status  int // of the look
		want    relay.ThreadID
		creates int
	}{
		"it stands": {
			[]restFault{{cut: true}}, func(now time.Time) []obj {
				return []obj{
					thread("60", "42", testBotID, "x", now.Add(-time.Hour)),
					thread("61", "43", testBotID, "x", now),
					thread("62", "42", "7", "x", now),
					thread("63", "42", testBotID, "y", now),
					thread("64", "42", testBotID, "x", now), // ours, of before
					thread("65", "42", testBotID, "x", now),
				}
			}, 200, "65", 1,
		},
		"it does not":          {[]restFault{{lose: true}}, func(time.Time) []obj { return nil }, 200, "501", 2},
		"an internal error":    {[]restFault{{status: 503}}, func(time.Time) []obj { return nil }, 200, "501", 2},
		"nobody can tell":      {[]restFault{{lose: true}}, nil, 403, "", 1},
		"unclear again":        {[]restFault{{lose: true}, {lose: true}}, func(time.Time) []obj { return nil }, 200, "", 2},
		"it never left at all": {[]restFault{{never: true}}, nil, 500, "501", 1},
	} {
		t.Run(name, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				f.has("/channels/42", textChannel(0))
				p.rememberThread("64", "x")
				f.fail(toThreads, tc.faults...)
				f.answer("GET /guilds/1/threads/active", func(restCall) (int, any) {
					if tc.status != http.StatusOK {
						return tc.status, obj{"message": "no", "code": 1}
					}
					return tc.status, obj{"threads": tc.active(time.Now())}
				})
				f.answer(toThreads, func(restCall) (int, any) { return http.StatusCreated, obj{"id": "501"} })
				got, err := p.CreateThread(ctx, relay.ThreadCreate{Chat: chat, Name: "x"})
				if tc.want == "" {
					if ae := failure(t, err); ae.Outcome != relay.MaybeSent || !strings.HasPrefix(ae.Public, "timed out") {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil || got.ThreadID != tc.want {
					t.Errorf("CreateThread = %+v, %v, want %s", got, err, tc.want)
				}
				if n := len(f.callsTo("POST", "/channels/42/threads")); n != tc.creates {
					t.Errorf("%d creates, want %d", n, tc.creates)
				}
			})
		})
	}
}

func TestThreadStandsWithoutItsSeed(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/channels/42", textChannel(0))
		f.fail("POST /channels/501/messages", restFault{status: 403, code: 50013, words: "Missing Permissions"})
		got, err := p.CreateThread(ctx, relay.ThreadCreate{Chat: chat, Name: "x", SeedText: "begin"})
		if err != nil || got.ThreadID != "501" {
			t.Errorf("CreateThread = %+v, %v", got, err)
		}
	})
}

func TestRenameThread(t *testing.T) {
	name := func(s string) *string { return &s }
	for label, tc := range map[string]struct {
		rename  relay.ThreadRename
		kind    int
		parent  string
		current string
		created string // the name the connector gave it; "" if it did not make it
		want    []any  // names it was given
		public  string
	}{
		"plain":             {relay.ThreadRename{}, 11, "42", "old", "", []any{"new"}, ""},
		"by its own id":     {relay.ThreadRename{Chat: "77"}, 11, "42", "old", "", []any{"new"}, ""},
		"already":           {relay.ThreadRename{}, 11, "42", "new", "new", nil, ""},
		"ours":              {relay.ThreadRename{OnlyIfConnectorCreated: true}, 11, "42", "old", "old", []any{"new"}, ""},
		"not ours":          {relay.ThreadRename{OnlyIfConnectorCreated: true}, 11, "42", "old", "", nil, "thread_rename declined: the connector did not create this thread"},
		"ours, but renamed": {relay.ThreadRename{OnlyIfConnectorCreated: true}, 11, "42", "theirs", "old", nil, "thread_rename declined: it was renamed since"},
		"the name expected": {relay.ThreadRename{OnlyIfCurrentName: name("old")}, 11, "42", "old", "", []any{"new"}, ""},
		"another name":      {relay.ThreadRename{OnlyIfCurrentName: name("old")}, 11, "42", "theirs", "", nil, "thread_rename declined: it has another name"},
		"an empty name expected": {
			relay.ThreadRename{OnlyIfCurrentName: name("")}, 11, "42", "old", "", nil, "thread_rename declined: it has another name",
		},
		"the first guard wins": {
			relay.ThreadRename{OnlyIfConnectorCreated: true, OnlyIfCurrentName: name("x")}, 11, "42", "old", "old", []any{"new"}, "",
		},
		"of another chat":  {relay.ThreadRename{}, 11, "43", "old", "", nil, relay.Declined(Name).Public},
		"a channel":        {relay.ThreadRename{Chat: "77"}, 0, "", "old", "", nil, "thread_rename declined: not a thread"},
		"a channel of one": {relay.ThreadRename{}, 0, "42", "old", "", nil, relay.Declined(Name).Public},
	} {
		t.Run(label, func(t *testing.T) {
			onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
				d := obj{"id": "77", "type": tc.kind, "name": tc.current, "guild_id": guildID}
				if tc.parent != "" {
					d["parent_id"] = tc.parent
				}
				f.has("/channels/77", d)
				if tc.created != "" {
					p.rememberThread("77", tc.created)
				}
				tc.rename.Thread, tc.rename.Name = "77", "new"
				if tc.rename.Chat == "" {
					tc.rename.Chat = chat
				}
				got, err := p.RenameThread(ctx, tc.rename)
				if tc.public != "" {
					if ae := failure(t, err); ae.Public != tc.public || ae.Outcome != relay.NotSent {
						t.Errorf("error is %+v", ae)
					}
				} else if err != nil || got.ThreadID != "77" {
					t.Errorf("RenameThread = %+v, %v", got, err)
				}
				if diff := cmp.Diff(tc.want, bodies(f.callsTo("PATCH", "/channels/77"), "name")); diff != "" {
					t.Errorf("names (-want +got):\n%s", diff)
				}
				if now, _ := p.createdThread("77"); tc.created != "" && tc.want != nil && now != "new" {
					t.Errorf("remembered as %q", now)
				}
			})
		})
	}
}

// TestAForeignThreadAndNoneAreDeclinedAlike: otherwise whoever may act on one chat could find out
// which others there are.
func TestAForeignThreadAndNoneAreDeclinedAlike(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/channels/77", obj{"id": "77", "type": 11, "name": "old", "parent_id": "43", "guild_id": guildID})
		for _, gone := range []string{"GET /channels/78", "GET /channels/80"} {
			f.fail(gone, restFault{status: 404, code: discordgo.ErrCodeUnknownChannel, words: "Unknown Channel"})
		}
		f.fail("GET /channels/79", restFault{status: 403, code: 50001, words: "Missing Access"})
		for _, thread := range []relay.ThreadID{"77", "78", "79"} {
			ae := failure(t, second(p.RenameThread(ctx, relay.ThreadRename{Chat: chat, Thread: thread, Name: "new"})))
			if ae.Public != relay.Declined(Name).Public || ae.Code != relay.CodeEgressDeclined {
				t.Errorf("thread %s: error is %+v", thread, ae)
			}
		}
		ae := failure(t, second(p.RenameThread(ctx, relay.ThreadRename{Chat: "80", Name: "new"})))
		if !strings.Contains(ae.Public, "Unknown Channel") {
			t.Errorf("a chat that it may act on and that is gone: %+v", ae)
		}
	})
}

// TestRenameLimitIsNotTheChats: Discord allows two renames in ten minutes, and messages meanwhile.
func TestRenameLimitIsNotTheChats(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.has("/channels/77", obj{"id": "77", "type": 11, "name": "old", "parent_id": "42", "guild_id": guildID})
		f.fail("PATCH /channels/77", restFault{status: 429, after: 540, scope: "user"})
		ae := failure(t, second(p.RenameThread(ctx, relay.ThreadRename{Chat: "77", Name: "new"})))
		if ae.Outcome != relay.NotSent || ae.RetryAfter != 9*time.Minute || !strings.Contains(ae.Public, "network") {
			t.Errorf("error is %+v", ae)
		}
		if _, err := p.Send(ctx, relay.Send{Chat: "77", Content: "x"}); err != nil {
			t.Errorf("Send: %v", err)
		}
	})
}

func TestThreadName(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " a\n b ": "a b", strings.Repeat("😀", 101): strings.Repeat("😀", 100), "a\xff": "a\uFFFD",
		strings.Repeat("x", 99) + " y": strings.Repeat("x", 99),
	} {
		if got := threadName(in); got != want {
			t.Errorf("name of %s is %q, want %q", strconv.Quote(in), got, want)
		}
	}
}
