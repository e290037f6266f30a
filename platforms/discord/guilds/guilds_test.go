package guilds

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const world = `{"id":"1","name":"Potters","owner_id":"100",
	"roles":[{"id":"1","permissions":"1024"},{"id":"31","permissions":"8","tags":{"bot_id":"7"}}],
	"channels":[
		{"id":"10","type":4,"name":"Workshop"},
		{"id":"11","type":0,"name":"general","topic":"Clay","parent_id":"10","permission_overwrites":[{"id":"31","type":0,"allow":"17179869184","deny":"1024"},{"id":"101","type":1,"allow":"0","deny":"1"}]},
		{"id":"14","type":15,"name":"firings"},
		{"id":"16","type":0,"name":"___hidden___","topic":"x","flags":131072,"permission_overwrites":[{"id":"1","type":0,"allow":"0","deny":"1024"}]}],
	"threads":[
		{"id":"21","type":11,"name":"Lathe","parent_id":"11"},
		{"id":"22","type":12,"name":"Orders","parent_id":"11"},
		{"id":"23","type":11,"name":"Cone 6","parent_id":"14"}],
	"members":[{"user":{"id":"7"},"roles":["31"],"joined_at":false}],"presences":[5],"emojis":"x","stickers":{},"voice_states":null}`

func testGuilds(t testing.TB) *Guilds {
	t.Helper()
	c := New(relay.Bot{Platform: "discord", ID: "7"}, nil)
	if _, err := c.Apply("GUILD_CREATE", []byte(world)); err != nil {
		t.Fatal(err)
	}
	return c
}

// known lists what c holds, by id.
func (c *Guilds) known() []ID {
	var ids []ID
	for id := range c.guilds {
		ids = append(ids, id)
	}
	for id := range c.channels {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func TestGuildCreate(t *testing.T) {
	c := testGuilds(t)
	if diff := cmp.Diff([]ID{1, 11, 14, 16, 21, 22, 23}, c.known()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	own := roleOf(31, 8)
	own.Tags.BotID = 7
	if diff := cmp.Diff(Guild{ID: 1, Owner: 100, Own: 31, Name: "Potters", Roles: []role{roleOf(1, 1024), own}}, c.guilds[1]); diff != "" {
		t.Errorf("guild (-want +got):\n%s", diff)
	}
	want := Channel{ID: 11, Guild: 1, Name: "general", Topic: "Clay", Overwrites: []overwrite{forRole(31, 1<<34, 1024), forMember(101, 0, 1)}}
	if diff := cmp.Diff(want, c.channels[11]); diff != "" {
		t.Errorf("channel (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Channel{ID: 22, Guild: 1, Parent: 11, Kind: 12, Name: "Orders"}, c.channels[22]); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
	if got := c.channels[16]; got.Name != "" || got.Topic != "" {
		t.Errorf("hidden channel is called %q, %q", got.Name, got.Topic)
	}
}

func TestApply(t *testing.T) {
	inGuild := []platforms.RosterChange{{Scope: "1"}}
	inChat := func(chat relay.ChatID) []platforms.RosterChange {
		return []platforms.RosterChange{{Scope: "1", Chat: chat}}
	}
	all := []ID{1, 11, 14, 16, 21, 22, 23}
	for name, tc := range map[string]struct {
		kind, data string
		changes    []platforms.RosterChange
		known      []ID // all when nil
		check      func(c *Guilds) bool
	}{
		"nothing of ours":  {kind: "TYPING_START", data: `no JSON`},
		"resumed":          {kind: "RESUMED", data: `{}`},
		"a new session":    {kind: "READY", data: `{"v":10}`, changes: []platforms.RosterChange{{}}, known: []ID{}},
		"guild again":      {kind: "GUILD_CREATE", data: `{"id":"1","name":"P","owner_id":"5","channels":[{"id":"11","type":0}]}`, changes: inGuild, known: []ID{1, 11}},
		"another guild":    {kind: "GUILD_CREATE", data: `{"id":"2","channels":[{"id":"99","type":0}]}`, changes: []platforms.RosterChange{{Scope: "2"}}, known: []ID{1, 2, 11, 14, 16, 21, 22, 23, 99}},
		"guild comes away": {kind: "GUILD_CREATE", data: `{"id":"1","unavailable":true}`, changes: inGuild, known: []ID{}},
		"guild in trouble": {kind: "GUILD_DELETE", data: `{"id":"1","unavailable":true}`, changes: inGuild, known: []ID{}},
		"guild left":       {kind: "GUILD_DELETE", data: `{"id":"1"}`, changes: inGuild, known: []ID{}},
		"guild of others":  {kind: "GUILD_DELETE", data: `{"id":"2"}`, changes: []platforms.RosterChange{{Scope: "2"}}},
		"guild's new owner": {kind: "GUILD_UPDATE", data: `{"id":"1","name":"Q","owner_id":"101","roles":[{"id":"1","permissions":"0"}]}`, changes: inGuild, check: func(c *Guilds) bool {
			g := c.guilds[1]
			return g.Owner == 101 && g.Name == "Q" && len(g.Roles) == 1 && g.Own == 0
		}},
		"a role": {kind: "GUILD_ROLE_CREATE", data: `{"guild_id":"1","role":{"id":"32","permissions":"17179869184"}}`, changes: inGuild, check: func(c *Guilds) bool {
			return slices.Contains(c.guilds[1].Roles, roleOf(32, 1<<34)) && len(c.guilds[1].Roles) == 3 && c.guilds[1].Own == 31
		}},
		"a role changed": {kind: "GUILD_ROLE_UPDATE", data: `{"guild_id":"1","role":{"id":"1","permissions":"0"}}`, changes: inGuild, check: func(c *Guilds) bool {
			return slices.Contains(c.guilds[1].Roles, roleOf(1, 0)) && len(c.guilds[1].Roles) == 2
		}},
		"own role changed": {kind: "GUILD_ROLE_UPDATE", data: `{"guild_id":"1","role":{"id":"31","permissions":"0","tags":{"bot_id":"7"}}}`, changes: inGuild, check: func(c *Guilds) bool { return c.guilds[1].Own == 31 }},
		"own role deleted": {kind: "GUILD_ROLE_DELETE", data: `{"guild_id":"1","role_id":"31"}`, changes: inGuild, check: func(c *Guilds) bool {
			return c.guilds[1].Own == 0 && cmp.Equal(c.guilds[1].Roles, []role{roleOf(1, 1024)})
		}},
		"a role of a guild nobody knows": {kind: "GUILD_ROLE_DELETE", data: `{"guild_id":"2","role_id":"31"}`, changes: []platforms.RosterChange{{Scope: "2"}}},
		"a channel":                      {kind: "CHANNEL_CREATE", data: `{"id":"17","type":0,"guild_id":"1"}`, changes: inChat("17"), known: []ID{1, 11, 14, 16, 17, 21, 22, 23}},
		"a category":                     {kind: "CHANNEL_CREATE", data: `{"id":"17","type":4,"guild_id":"1"}`, changes: inChat("17")},
		"a channel hidden": {kind: "CHANNEL_UPDATE", data: `{"id":"11","type":0,"guild_id":"1","name":"___hidden___","flags":131072,"permission_overwrites":[{"id":"1","type":0,"deny":"1024"}]}`, changes: inChat("11"), check: func(c *Guilds) bool {
			ch := c.channels[11]
			return ch.Name == "" && cmp.Equal(ch.Overwrites, []overwrite{forRole(1, 0, 1024)})
		}},
		"a channel deleted with its threads": {kind: "CHANNEL_DELETE", data: `{"id":"11","type":0,"guild_id":"1"}`, changes: inChat("11"), known: []ID{1, 14, 16, 23}},
		"a thread":                           {kind: "THREAD_CREATE", data: `{"id":"24","type":11,"guild_id":"1","parent_id":"11","newly_created":true}`, changes: inChat("24"), known: []ID{1, 11, 14, 16, 21, 22, 23, 24}},
		"a thread renamed":                   {kind: "THREAD_UPDATE", data: `{"id":"21","type":11,"guild_id":"1","parent_id":"11","name":"Mill"}`, changes: inChat("21"), check: func(c *Guilds) bool { return c.channels[21].Name == "Mill" }},
		"a thread archived":                  {kind: "THREAD_UPDATE", data: `{"id":"21","type":11,"guild_id":"1","parent_id":"11","thread_metadata":{"archived":true}}`, changes: inChat("21"), known: []ID{1, 11, 14, 16, 22, 23}},
		"a thread deleted":                   {kind: "THREAD_DELETE", data: `{"id":"21","type":11,"guild_id":"1","parent_id":"11"}`, changes: inChat("21"), known: []ID{1, 11, 14, 16, 22, 23}},
		"threads of a channel":               {kind: "THREAD_LIST_SYNC", data: `{"guild_id":"1","channel_ids":["11"],"threads":[{"id":"25","type":11,"parent_id":"11"}]}`, changes: inGuild, known: []ID{1, 11, 14, 16, 23, 25}},
		"no threads of a channel":            {kind: "THREAD_LIST_SYNC", data: `{"guild_id":"1","channel_ids":["14"],"threads":[]}`, changes: inGuild, known: []ID{1, 11, 14, 16, 21, 22}},
		"threads of a guild":                 {kind: "THREAD_LIST_SYNC", data: `{"guild_id":"1","threads":[{"id":"22","type":12,"parent_id":"11"}]}`, changes: inGuild, known: []ID{1, 11, 14, 16, 22}},
		"members of a thread": {kind: "THREAD_MEMBERS_UPDATE", data: `{"id":"22","guild_id":"1","added_members":[{"user_id":"101"}],"removed_member_ids":["102"]}`, changes: []platforms.RosterChange{
			{Scope: "1", Chat: "22", User: "102"}, {Scope: "1", Chat: "22", User: "101"},
		}},
		"a member":      {kind: "GUILD_MEMBER_UPDATE", data: `{"guild_id":"1","user":{"id":"101"},"roles":[]}`, changes: []platforms.RosterChange{{Scope: "1", User: "101"}}},
		"a member left": {kind: "GUILD_MEMBER_REMOVE", data: `{"guild_id":"1","user":{"id":"101"}}`, changes: []platforms.RosterChange{{Scope: "1", User: "101"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := testGuilds(t)
			changes, err := c.Apply(tc.kind, []byte(tc.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.changes, changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			want := tc.known
			if want == nil {
				want = all
			}
			if got := c.known(); !slices.Equal(got, want) {
				t.Errorf("known = %v, want %v", got, want)
			}
			if tc.check != nil && !tc.check(c) {
				t.Errorf("guild = %+v\nchannels = %+v", c.guilds[1], c.channels)
			}
		})
	}
}

func TestApplyOfNonsenseForgetsEverything(t *testing.T) {
	for name, tc := range map[string]struct{ kind, data string }{
		"no JSON":                     {"CHANNEL_UPDATE", `secret words`},
		"words as permissions":        {"CHANNEL_UPDATE", `{"id":"11","guild_id":"1","permission_overwrites":[{"id":"1","deny":"secret words"}]}`},
		"words as an id":              {"CHANNEL_UPDATE", `{"id":"11","guild_id":"1","permission_overwrites":[{"id":"secret words","deny":"1024"}]}`},
		"a number as a name":          {"GUILD_UPDATE", `{"id":"1","name":5}`},
		"a guild without an id":       {"GUILD_DELETE", `{}`},
		"a channel without an id":     {"CHANNEL_DELETE", `{}`},
		"a role without a guild":      {"GUILD_ROLE_DELETE", `{"role_id":"31"}`},
		"threads without a guild":     {"THREAD_LIST_SYNC", `{}`},
		"members without a thread":    {"THREAD_MEMBERS_UPDATE", `{}`},
		"a member without a guild":    {"GUILD_MEMBER_UPDATE", `{"user":{"id":"5"}}`},
		"a role that is no object":    {"GUILD_ROLE_UPDATE", `{"guild_id":"1","role":"secret words"}`},
		"a member who is no object":   {"GUILD_MEMBER_UPDATE", `{"guild_id":"1","user":"secret words"}`},
		"threads that are no objects": {"THREAD_LIST_SYNC", `{"guild_id":"1","threads":["secret words"]}`},
		"members that are no objects": {"THREAD_MEMBERS_UPDATE", `{"id":"22","added_members":["secret words"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := testGuilds(t)
			changes, err := c.Apply(tc.kind, []byte(tc.data))
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v", err)
			}
			if diff := cmp.Diff([]platforms.RosterChange{{}}, changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if got := c.known(); len(got) != 0 {
				t.Errorf("still known: %v", got)
			}
		})
	}
}

func TestWhatWasLookedUpBeforeAChangeIsNotKeptAfterIt(t *testing.T) {
	c := testGuilds(t)
	_, since, _ := known(c, c.guilds, 1)
	if _, err := c.Apply("CHANNEL_UPDATE", []byte(`{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":"1","deny":"1024"}]}`)); err != nil {
		t.Fatal(err)
	}
	keep(c, c.channels, 11, Channel{ID: 11, Guild: 1}, since)
	keep(c, c.guilds, 1, Guild{ID: 1, Owner: 5}, since)
	if len(c.channels[11].Overwrites) != 1 || c.guilds[1].Owner != 100 {
		t.Errorf("channel = %+v, guild = %+v; want what the gateway told last", c.channels[11], c.guilds[1])
	}
	_, since, _ = known(c, c.channels, 12)
	keep(c, c.channels, 12, Channel{ID: 12, Guild: 1}, since)
	if _, _, ok := known(c, c.channels, 12); !ok {
		t.Error("a channel looked up in quiet times is forgotten")
	}
}

// TestReadersSeeWholeGuilds is for the race detector: values handed out do not change any more.
func TestReadersSeeWholeGuilds(t *testing.T) {
	c := testGuilds(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			_, _ = c.Apply("GUILD_ROLE_UPDATE", fmt.Appendf(nil, `{"guild_id":"1","role":{"id":"1","permissions":"%d"}}`, i))
		}
	}()
	for range 200 {
		g, _, ok := known(c, c.guilds, 1)
		if !ok || len(g.Roles) != 2 {
			t.Errorf("guild = %+v", g)
		}
	}
	<-done
}

func FuzzApply(f *testing.F) {
	kinds := []string{
		"READY", "GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE",
		"CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE",
		"THREAD_LIST_SYNC", "THREAD_MEMBERS_UPDATE", "GUILD_MEMBER_UPDATE", "SOMETHING",
	}
	f.Add(uint8(1), []byte(world))
	f.Add(uint8(8), []byte(`{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":1,"allow":null,"deny":5}]}`))
	f.Add(uint8(13), []byte(`{"guild_id":"1","channel_ids":[null],"threads":[{}]}`))
	f.Add(uint8(5), []byte(`{"guild_id":1,"role":{"tags":{"bot_id":7}}}`))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		c := testGuilds(t)
		changes, err := c.Apply(kinds[int(kind)%len(kinds)], data)
		if err != nil {
			if len(c.known()) != 0 || len(changes) != 1 || changes[0] != (platforms.RosterChange{}) {
				t.Fatalf("an error, and yet %v is known, changes %v", c.known(), changes)
			}
			if errors.Unwrap(err) == nil {
				t.Fatalf("error without a cause: %v", err)
			}
			return
		}
		for id, ch := range c.channels {
			if id == 0 || ch.ID != id || !ch.IsThread() && ch.Parent != 0 {
				t.Fatalf("channel %d = %+v", id, ch)
			}
		}
	})
}

// bigGuild is the synthetic guild the library's cache was measured with: 100 channels, 50 roles,
// 50 emojis, 200 members.
func bigGuild() []byte {
	var b strings.Builder
	list := func(name string, n int, item func(i int) string) {
		fmt.Fprintf(&b, `,%q:[`, name)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item(i))
		}
		b.WriteByte(']')
	}
	id := func(kind, i int) string { return fmt.Sprintf("12%02d000000000%06d", kind, i) }
	fmt.Fprintf(&b, `{"id":%q,"name":"A synthetic guild","owner_id":%q`, id(0, 0), id(3, 0))
	list("roles", 50, func(i int) string {
		return fmt.Sprintf(`{"id":%q,"name":"Role number %d","permissions":"2248473465835073","position":%d,"color":0,"hoist":false,"managed":false,"mentionable":false}`, id(0, i), i, i)
	})
	list("channels", 100, func(i int) string {
		return fmt.Sprintf(`{"id":%q,"type":0,"name":"channel-number-%d","topic":"What channel number %d is about, in a sentence","position":%d,"parent_id":%q,"nsfw":false,"permission_overwrites":[{"id":%q,"type":0,"allow":"0","deny":"1024"},{"id":%q,"type":0,"allow":"1024","deny":"0"}]}`, id(1, i), i, i, i, id(1, 0), id(0, 0), id(0, i%50))
	})
	list("emojis", 50, func(i int) string {
		return fmt.Sprintf(`{"id":%q,"name":"emoji_%d","roles":[],"require_colons":true,"managed":false,"animated":false,"available":true}`, id(2, i), i)
	})
	list("members", 200, func(i int) string {
		return fmt.Sprintf(`{"user":{"id":%q,"username":"member%d","discriminator":"0","avatar":"0123456789abcdef0123456789abcdef"},"nick":"Member %d","roles":[%q,%q],"joined_at":"2026-01-02T03:04:05.678000+00:00","deaf":false,"mute":false}`, id(3, i), i, i, id(0, i%50), id(0, i*7%50))
	})
	list("presences", 200, func(i int) string {
		return fmt.Sprintf(`{"user":{"id":%q},"status":"online","activities":[],"client_status":{"desktop":"online"}}`, id(3, i))
	})
	b.WriteByte('}')
	return []byte(b.String())
}

func BenchmarkGuildCreate(b *testing.B) {
	data := bigGuild()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const kept = 64
	before := heap()
	caches := make([]*Guilds, kept)
	for i := range caches {
		caches[i] = New(relay.Bot{}, nil)
		if _, err := caches[i].Apply("GUILD_CREATE", data); err != nil {
			b.Fatal(err)
		}
	}
	perGuild := float64(heap()-before) / kept / 1024
	runtime.KeepAlive(caches)
	c := New(relay.Bot{}, nil)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Apply("GUILD_CREATE", data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(perGuild, "KiB-heap/guild")
}
