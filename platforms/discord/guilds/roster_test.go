package guilds

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// scripted is Discord for lookups: for each path what it says, one after the other, the last for
// ever. A body of digits is an HTTP status; "" is a connection that does not come about.
type scripted struct {
	says  map[string][]string
	asked []string
	route map[string]string // by path
}

func (s *scripted) Do(ctx context.Context, method, endpoint string, _, out any) error {
	path, route := "/"+strings.TrimPrefix(endpoint, discordgo.EndpointAPI), rest.RouteOf(method, endpoint)
	s.asked = append(s.asked, path)
	if s.route == nil {
		s.route = map[string]string{}
	}
	s.route[path] = route
	if ctx.Err() != nil {
		return &httpcall.Fault{What: route, Sent: httpcall.Never, Message: "ended", Cause: ctx.Err()}
	}
	script := s.says[path]
	if len(script) == 0 {
		script = []string{"404"}
	} else if len(script) > 1 {
		s.says[path] = script[1:]
	}
	body := script[0]
	if body == "" {
		return &httpcall.Fault{What: route, Sent: httpcall.Never, Message: "connection refused"}
	}
	if status, err := strconv.Atoi(body); err == nil {
		e := &httpcall.Fault{What: route, Status: status, Message: "refused"}
		if status < 500 {
			e.Sent = httpcall.Refused
		}
		if status == 429 {
			e.RetryAfter = time.Second
		}
		return e
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(body), out)
}

// knowing is c with a way to ask.
func knowing(c *Guilds, api api) *Guilds {
	c.api = api
	return c
}

// question is a question about a person in a place of testGuilds, with what Discord says when it is asked, and the
// expected answer.
type question struct {
	chat    relay.ChatID
	scope   relay.ScopeID
	user    relay.UserID // 101 when empty
	learn   [][2]string  // dispatches before
	says    map[string][]string
	want    bool
	wantErr bool
	asked   []string
}

func (q question) ask(t *testing.T, method func(*Guilds, context.Context, relay.Place, relay.UserID) (bool, error)) {
	synctest.Test(t, func(t *testing.T) {
		c := testGuilds(t)
		for _, d := range q.learn {
			if _, err := c.Apply(d[0], []byte(d[1])); err != nil {
				t.Fatal(err)
			}
		}
		api := &scripted{says: q.says}
		place := relay.Place{Platform: "discord", Scope: q.scope, Chat: q.chat}
		if q.user == "" {
			q.user = "101"
		}
		got, err := method(knowing(c, api), t.Context(), place, q.user)
		if got != q.want || (err != nil) != q.wantErr {
			t.Errorf("%t, %v; want %t, error %t", got, err, q.want, q.wantErr)
		}
		if diff := cmp.Diff(q.asked, api.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

const (
	annIsMember = `{"roles":[],"user":{"id":"101"}}`
	annPath     = "/guilds/1/members/101"
)

func TestCanSee(t *testing.T) {
	mod := `{"roles":["33"]}`
	for name, tc := range map[string]question{
		"member": {
			chat: "14", scope: "1", says: map[string][]string{annPath: {annIsMember}},
			want: true, asked: []string{annPath},
		},
		"scope not told":  {chat: "14", says: map[string][]string{annPath: {annIsMember}}, want: true, asked: []string{annPath}},
		"another scope":   {chat: "14", scope: "2"},
		"owner":           {chat: "16", scope: "1", user: "100", want: true},
		"no member":       {chat: "14", scope: "1", says: map[string][]string{annPath: {"404"}}, asked: []string{annPath}},
		"not for the bot": {chat: "14", scope: "1", says: map[string][]string{annPath: {"403"}}, asked: []string{annPath}},
		"denied by role": {
			chat: "11", scope: "1", says: map[string][]string{annPath: {`{"roles":["32"]}`}},
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":"32","type":0,"deny":"1024"}]}`}},
			asked: []string{annPath},
		},
		"hidden from the bot": {chat: "16", scope: "1", says: map[string][]string{annPath: {annIsMember}}, asked: []string{annPath}},
		"administrator in a channel hidden from the bot": {
			chat: "16", scope: "1", says: map[string][]string{annPath: {`{"roles":["31"]}`}}, want: true, asked: []string{annPath},
		},
		"thread": {chat: "21", scope: "1", says: map[string][]string{annPath: {annIsMember}}, want: true, asked: []string{annPath}},
		"thread of a hidden channel": {
			chat: "21", scope: "1", says: map[string][]string{annPath: {annIsMember}},
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":"1","type":0,"deny":"1024"}]}`}},
			asked: []string{annPath},
		},
		"post": {chat: "23", scope: "1", says: map[string][]string{annPath: {annIsMember}}, want: true, asked: []string{annPath}},
		"private thread, not added": {
			chat: "22", scope: "1", says: map[string][]string{annPath: {annIsMember}, "/channels/22/thread-members/101": {"404"}},
			asked: []string{annPath, "/channels/22/thread-members/101"},
		},
		"private thread, added": {
			chat: "22", scope: "1", says: map[string][]string{annPath: {annIsMember}, "/channels/22/thread-members/101": {`{"user_id":"101"}`}},
			want: true, asked: []string{annPath, "/channels/22/thread-members/101"},
		},
		"private thread, moderator": {
			chat: "22", scope: "1", says: map[string][]string{annPath: {mod}},
			learn: [][2]string{{"GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"33","permissions":"17179869184"}}`}},
			want:  true, asked: []string{annPath},
		},
		"private thread, moderator in a timeout": {
			chat: "22", scope: "1", says: map[string][]string{annPath: {`{"roles":["33"],"communication_disabled_until":"2999-01-01T00:00:00+00:00"}`}},
			learn: [][2]string{{"GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"33","permissions":"17179869184"}}`}},
			asked: []string{annPath, "/channels/22/thread-members/101"},
		},
		"private thread, added, but the channel is hidden": {
			chat: "22", scope: "1", says: map[string][]string{annPath: {annIsMember}, "/channels/22/thread-members/101": {`{}`}},
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":"1","type":0,"deny":"1024"}]}`}},
			asked: []string{annPath},
		},
		"private thread, owner": {chat: "22", scope: "1", user: "100", want: true},
		"in a timeout":          {chat: "14", scope: "1", says: map[string][]string{annPath: {`{"roles":[],"communication_disabled_until":"2999-01-01T00:00:00+00:00"}`}}, want: true, asked: []string{annPath}},
		"a channel nobody knows": {
			chat: "19", scope: "1", says: map[string][]string{"/channels/19": {`{"id":"19","type":0,"guild_id":"1"}`}, annPath: {annIsMember}},
			want: true, asked: []string{"/channels/19", annPath},
		},
		"an archived thread": {
			chat: "29", scope: "1",
			says: map[string][]string{"/channels/29": {`{"id":"29","type":12,"guild_id":"1","parent_id":"11","thread_metadata":{"archived":true}}`}, annPath: {annIsMember}, "/channels/29/thread-members/101": {`{}`}},
			want: true, asked: []string{"/channels/29", annPath, "/channels/29/thread-members/101"},
		},
		"a guild nobody knows": {
			chat: "19", scope: "2",
			says: map[string][]string{"/channels/19": {`{"id":"19","type":0,"guild_id":"2"}`}, "/guilds/2": {`{"id":"2","owner_id":"9","roles":[{"id":"2","permissions":"1024"}]}`}, "/guilds/2/members/101": {annIsMember}},
			want: true, asked: []string{"/channels/19", "/guilds/2", "/guilds/2/members/101"},
		},
		"a guild not to be known":    {chat: "19", says: map[string][]string{"/channels/19": {`{"id":"19","type":0,"guild_id":"2"}`}, "/guilds/2": {"403"}}, asked: []string{"/channels/19", "/guilds/2"}},
		"a channel that is gone":     {chat: "19", scope: "1", asked: []string{"/channels/19"}},
		"a channel not to be seen":   {chat: "19", scope: "1", says: map[string][]string{"/channels/19": {"403"}}, asked: []string{"/channels/19"}},
		"another channel comes":      {chat: "19", scope: "1", says: map[string][]string{"/channels/19": {`{"id":"14","type":0,"guild_id":"1"}`}}, asked: []string{"/channels/19"}},
		"a thread in another guild":  {chat: "29", says: map[string][]string{"/channels/29": {`{"id":"29","type":11,"guild_id":"2","parent_id":"11"}`}, "/guilds/2": {`{"id":"2","owner_id":"101"}`}}, asked: []string{"/channels/29", "/guilds/2"}},
		"a thread without a parent":  {chat: "29", scope: "1", says: map[string][]string{"/channels/29": {`{"id":"29","type":11,"guild_id":"1"}`}}, asked: []string{"/channels/29"}},
		"a thread in a thread":       {chat: "29", scope: "1", says: map[string][]string{"/channels/29": {`{"id":"29","type":11,"guild_id":"1","parent_id":"21"}`}}, asked: []string{"/channels/29"}},
		"own direct messages":        {chat: "51", says: map[string][]string{"/channels/51": {`{"id":"51","type":1,"recipients":[{"id":"101"}]}`}}, want: true, asked: []string{"/channels/51"}},
		"another's direct messages":  {chat: "51", user: "102", says: map[string][]string{"/channels/51": {`{"id":"51","type":1,"recipients":[{"id":"101"}]}`}}, asked: []string{"/channels/51"}},
		"direct messages in a scope": {chat: "51", scope: "1", says: map[string][]string{"/channels/51": {`{"id":"51","type":1,"recipients":[{"id":"101"}]}`}}, asked: []string{"/channels/51"}},
		"direct messages with none":  {chat: "51", says: map[string][]string{"/channels/51": {`{"id":"51","type":1}`}}, asked: []string{"/channels/51"}},
		"a group chat":               {chat: "52", says: map[string][]string{"/channels/52": {`{"id":"52","type":3,"recipients":[{"id":"101"}]}`}}, asked: []string{"/channels/52"}},
		"a user who is no number":    {chat: "14", user: "ann"},
		"a chat that is no number":   {chat: "../14"},
		"no chat":                    {},
		"a bot nobody lets in":       {chat: "14", scope: "1", says: map[string][]string{annPath: {"401"}}, wantErr: true, asked: []string{annPath}},
		"a question not understood":  {chat: "14", scope: "1", says: map[string][]string{annPath: {"400"}}, asked: []string{annPath}},
		"busy, then not":             {chat: "14", scope: "1", says: map[string][]string{annPath: {"429", annIsMember}}, wantErr: true, asked: []string{annPath}},
	} {
		t.Run(name, func(t *testing.T) { tc.ask(t, (*Guilds).CanSee) })
	}
}

func TestLookupsHaveTheirRoutes(t *testing.T) {
	api := &scripted{says: map[string][]string{annPath: {annIsMember}}}
	f := knowing(testGuilds(t), api)
	for _, chat := range []relay.ChatID{"22", "19"} {
		if _, err := f.CanSee(t.Context(), relay.Place{Chat: chat}, "101"); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		annPath:                           "GET /guilds/1/members/:id",
		"/channels/22/thread-members/101": "GET /channels/22/thread-members/:id",
		"/channels/19":                    "GET /channels/19",
	}
	if diff := cmp.Diff(want, api.route); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestCanSeeAsksOnce: what else waits for the answer is for the caller to know, and so is asking again.
func TestCanSeeAsksOnce(t *testing.T) {
	for name, fault := range map[string]string{"broken": "500", "busy": "429", "out of reach": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &scripted{says: map[string][]string{annPath: {fault}}}
				f := knowing(testGuilds(t), api)
				place := relay.Place{Scope: "1", Chat: "14"}
				began := time.Now()
				sees, err := f.CanSee(t.Context(), place, "101")
				if sees || !errors.Is(err, ErrUnknownYet) {
					t.Errorf("CanSee = %t, %v; want not known", sees, err)
				}
				if d := time.Since(began); d != 0 || len(api.asked) != 1 {
					t.Errorf("asked %d times in %s, want once", len(api.asked), d)
				}
				api.says[annPath] = []string{annIsMember}
				if sees, err := f.CanSee(t.Context(), place, "101"); !sees || err != nil {
					t.Errorf("afterwards CanSee = %t, %v; want true: a failure is not remembered", sees, err)
				}
			})
		})
	}
}

func TestMemberFactsAreAskedEveryTime(t *testing.T) {
	api := &scripted{says: map[string][]string{annPath: {annIsMember, "404"}}}
	f := knowing(testGuilds(t), api)
	for _, want := range []bool{true, false} {
		if got, err := f.CanSee(t.Context(), relay.Place{Scope: "1", Chat: "14"}, "101"); got != want || err != nil {
			t.Errorf("CanSee = %t, %v; want %t", got, err, want)
		}
	}
}

func TestLocate(t *testing.T) {
	for name, tc := range map[string]struct {
		chat relay.ChatID
		says string // of the channel
		want relay.Place
		bad  bool
	}{
		"channel":          {chat: "11", want: relay.Place{Platform: "discord", Scope: "1", Chat: "11"}},
		"thread":           {chat: "22", want: relay.Place{Platform: "discord", Scope: "1", Chat: "22", Parent: "11"}},
		"looked up":        {chat: "29", says: `{"id":"29","type":11,"guild_id":"1","parent_id":"11"}`, want: relay.Place{Platform: "discord", Scope: "1", Chat: "29", Parent: "11"}},
		"in a category":    {chat: "19", says: `{"id":"19","type":0,"guild_id":"1","parent_id":"10"}`, want: relay.Place{Platform: "discord", Scope: "1", Chat: "19"}},
		"direct messages":  {chat: "51", says: `{"id":"51","type":1,"recipients":[{"id":"101"}]}`, want: relay.Place{Platform: "discord", Chat: "51"}},
		"gone":             {chat: "19", says: "404", bad: true},
		"not for the bot":  {chat: "19", says: "403", bad: true},
		"no number":        {chat: "x", bad: true},
		"a path of others": {chat: "11/../12", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := knowing(testGuilds(t), &scripted{says: map[string][]string{"/channels/" + string(tc.chat): {tc.says}}})
			got, err := f.Locate(t.Context(), tc.chat)
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("Locate = %+v, %v; want %+v, error %t", got, err, tc.want, tc.bad)
			}
		})
	}
}

func TestThread(t *testing.T) {
	for name, tc := range map[string]struct {
		id   relay.ThreadID
		says string // of the channel
		want relay.Place
		open bool
		bad  bool
	}{
		"known":       {id: "22", want: relay.Place{Platform: "discord", Scope: "1", Chat: "22", Parent: "11"}},
		"looked up":   {id: "29", says: `{"id":"29","type":11,"guild_id":"1","parent_id":"11"}`, want: relay.Place{Platform: "discord", Scope: "1", Chat: "29", Parent: "11"}, open: true},
		"private":     {id: "29", says: `{"id":"29","type":12,"guild_id":"1","parent_id":"11"}`, want: relay.Place{Platform: "discord", Scope: "1", Chat: "29", Parent: "11"}},
		"of news":     {id: "29", says: `{"id":"29","type":10,"guild_id":"1","parent_id":"11"}`, want: relay.Place{Platform: "discord", Scope: "1", Chat: "29", Parent: "11"}, open: true},
		"a channel":   {id: "11", bad: true},
		"a post's":    {id: "29", says: `{"id":"29","type":15,"guild_id":"1","parent_id":"10"}`, bad: true},
		"gone":        {id: "29", says: "404", bad: true},
		"no number":   {id: "x", bad: true},
		"other paths": {id: "22/../11", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := knowing(testGuilds(t), &scripted{says: map[string][]string{"/channels/" + string(tc.id): {tc.says}}})
			got, open, err := f.Thread(t.Context(), tc.id)
			if got != tc.want || open != tc.open || (err != nil) != tc.bad {
				t.Errorf("Thread = %+v, %t, %v; want %+v, %t, error %t", got, open, err, tc.want, tc.open, tc.bad)
			}
		})
	}
}

func TestWhatIsLookedUpIsKept(t *testing.T) {
	api := &scripted{says: map[string][]string{
		"/channels/19": {`{"id":"19","type":0,"guild_id":"2"}`}, "/guilds/2": {`{"id":"2","owner_id":"101"}`},
	}}
	f := New(relay.Bot{ID: "7"}, api)
	for range 3 {
		if sees, err := f.CanSee(t.Context(), relay.Place{Chat: "19"}, "101"); !sees || err != nil {
			t.Fatalf("CanSee = %t, %v", sees, err)
		}
	}
	if want := []string{"/channels/19", "/guilds/2"}; !slices.Equal(api.asked, want) {
		t.Errorf("asked = %v, want %v", api.asked, want)
	}
}
