package guilds

import (
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
)

// The table's Guild: 1 is the guild and @everyone, roles are 10 to 19, people 100 and up, 100 owns it.
const (
	tGuild = ID(1)
	tCrew  = ID(10)
	tQuiet = ID(11)
	tMods  = ID(12)
	tAdmin = ID(13)
	tOwner = ID(100)
	tAnn   = ID(101)
	tBen   = ID(102)
)

// The permissions of the tests.
const (
	mayAdminister    permissions = discordgo.PermissionAdministrator
	mayView          permissions = discordgo.PermissionViewChannel
	mayReadHistory   permissions = discordgo.PermissionReadMessageHistory
	mayConnect       permissions = discordgo.PermissionVoiceConnect
	mayManageThreads permissions = discordgo.PermissionManageThreads
)

func roleOf(id ID, may permissions) role { return role{ID: id, Permissions: may} }

func everyoneMay(may permissions) Guild {
	return Guild{ID: tGuild, Owner: tOwner, Roles: []role{
		roleOf(tGuild, may), roleOf(tCrew, 0), roleOf(tQuiet, 0), roleOf(tMods, mayManageThreads), roleOf(tAdmin, mayAdminister),
	}}
}

func forRole(id ID, allow, deny permissions) overwrite {
	return overwrite{ID: id, Allow: allow, Deny: deny}
}

func forMember(id ID, allow, deny permissions) overwrite {
	return overwrite{ID: id, Type: discordgo.PermissionOverwriteTypeMember, Allow: allow, Deny: deny}
}

func TestSeesChannel(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	muted := now.Add(time.Minute)
	type over = []overwrite
	for name, tc := range map[string]struct {
		everyone permissions // what @everyone may in the guild
		roles    []ID
		who      ID // tAnn when 0
		muted    time.Time
		kind     discordgo.ChannelType
		over     []overwrite
		want     bool
	}{
		"nobody may anything":                              {},
		"everyone may view":                                {everyone: mayView, want: true},
		"everyone may only write":                          {everyone: 1 << 11},
		"everyone may all but view":                        {everyone: mayDoAll &^ mayView &^ mayAdminister},
		"everyone is administrator":                        {everyone: mayAdminister, want: true},
		"a role may view":                                  {roles: []ID{14}, want: true},
		"a role one does not have":                         {roles: []ID{tCrew}},
		"a role nobody knows":                              {roles: []ID{19}},
		"the guild as a role":                              {everyone: mayView, roles: []ID{tGuild}, want: true},
		"owner":                                            {who: tOwner, want: true},
		"owner, shut out everywhere":                       {who: tOwner, over: over{forRole(tGuild, 0, mayView), forMember(tOwner, 0, mayDoAll)}, want: true},
		"owner in a timeout":                               {who: tOwner, muted: muted, over: over{forRole(tGuild, 0, mayView)}, want: true},
		"administrator":                                    {roles: []ID{tAdmin}, want: true},
		"administrator, shut out":                          {roles: []ID{tAdmin}, over: over{forRole(tGuild, 0, mayView), forRole(tAdmin, 0, mayView), forMember(tAnn, 0, mayView)}, want: true},
		"administrator in a timeout":                       {roles: []ID{tAdmin}, muted: muted, want: true},
		"administrator by overwrite":                       {over: over{forMember(tAnn, mayAdminister, 0)}},
		"no administrator any more":                        {everyone: mayView, roles: []ID{tAdmin}, over: over{forMember(tAnn, 0, mayAdminister|mayView)}, want: true},
		"everyone denied":                                  {everyone: mayView, over: over{forRole(tGuild, 0, mayView)}},
		"everyone allowed":                                 {over: over{forRole(tGuild, mayView, 0)}, want: true},
		"everyone denied and allowed":                      {everyone: mayView, over: over{forRole(tGuild, mayView, mayView)}, want: true},
		"denied for a role of others":                      {everyone: mayView, over: over{forRole(tCrew, 0, mayView)}, want: true},
		"allowed for a role of others":                     {over: over{forRole(tCrew, mayView, 0)}},
		"denied for a role":                                {everyone: mayView, roles: []ID{tCrew}, over: over{forRole(tCrew, 0, mayView)}},
		"allowed for a role":                               {roles: []ID{tCrew}, over: over{forRole(tCrew, mayView, 0)}, want: true},
		"role against everyone":                            {everyone: mayView, roles: []ID{tCrew}, over: over{forRole(tGuild, 0, mayView), forRole(tCrew, mayView, 0)}, want: true},
		"role against everyone, told the other way round":  {everyone: mayView, roles: []ID{tCrew}, over: over{forRole(tCrew, mayView, 0), forRole(tGuild, 0, mayView)}, want: true},
		"everyone allowed, role denied":                    {roles: []ID{tCrew}, over: over{forRole(tGuild, mayView, 0), forRole(tCrew, 0, mayView)}},
		"everyone allowed, role denied, the other way":     {roles: []ID{tCrew}, over: over{forRole(tCrew, 0, mayView), forRole(tGuild, mayView, 0)}},
		"one role denied, one allowed":                     {everyone: mayView, roles: []ID{tCrew, tQuiet}, over: over{forRole(tQuiet, 0, mayView), forRole(tCrew, mayView, 0)}, want: true},
		"one role allowed, one denied":                     {everyone: mayView, roles: []ID{tCrew, tQuiet}, over: over{forRole(tCrew, mayView, 0), forRole(tQuiet, 0, mayView)}, want: true},
		"one role denied and allowed":                      {roles: []ID{tCrew}, over: over{forRole(tCrew, mayView, mayView)}, want: true},
		"two roles denied":                                 {everyone: mayView, roles: []ID{tCrew, tQuiet}, over: over{forRole(tCrew, 0, mayView), forRole(tQuiet, 0, mayView)}},
		"member denied":                                    {everyone: mayView, over: over{forMember(tAnn, 0, mayView)}},
		"member denied, role allowed":                      {everyone: mayView, roles: []ID{tCrew}, over: over{forMember(tAnn, 0, mayView), forRole(tCrew, mayView, 0)}},
		"member denied, everyone allowed after":            {over: over{forMember(tAnn, 0, mayView), forRole(tGuild, mayView, 0)}},
		"member allowed, all else denied":                  {roles: []ID{tCrew}, over: over{forMember(tAnn, mayView, 0), forRole(tGuild, 0, mayView), forRole(tCrew, 0, mayView)}, want: true},
		"member denied and allowed":                        {over: over{forMember(tAnn, mayView, mayView)}, want: true},
		"another member denied":                            {everyone: mayView, over: over{forMember(tBen, 0, mayView)}, want: true},
		"another member allowed":                           {over: over{forMember(tBen, mayView, 0)}},
		"a member's overwrite with the id of a role":       {everyone: mayView, roles: []ID{tCrew}, over: over{forMember(tCrew, 0, mayView)}, want: true},
		"a member's overwrite with the id of the guild":    {everyone: mayView, over: over{forMember(tGuild, 0, mayView)}, want: true},
		"a role's overwrite with the id of the member":     {over: over{forRole(tAnn, mayView, 0)}},
		"denied to write, not to view":                     {everyone: mayView | 1<<11, over: over{forRole(tGuild, 0, 1<<11)}, want: true},
		"hidden from the bot":                              {everyone: mayView, over: over{forRole(tGuild, 0, mayView)}},
		"timeout":                                          {everyone: mayView, muted: muted, want: true},
		"timeout in a channel one does not see":            {muted: muted},
		"timeout with the channel denied":                  {everyone: mayView, muted: muted, over: over{forMember(tAnn, 0, mayView)}},
		"voice channel":                                    {everyone: mayView | mayConnect, kind: discordgo.ChannelTypeGuildVoice, want: true},
		"voice channel one may not enter":                  {everyone: mayView, kind: discordgo.ChannelTypeGuildVoice},
		"voice channel, entry denied":                      {everyone: mayView | mayConnect, kind: discordgo.ChannelTypeGuildVoice, over: over{forRole(tGuild, 0, mayConnect)}},
		"voice channel one may enter but not view":         {everyone: mayConnect, kind: discordgo.ChannelTypeGuildVoice},
		"voice channel in a timeout":                       {everyone: mayView | mayConnect, kind: discordgo.ChannelTypeGuildVoice, muted: muted},
		"voice channel in a timeout that is over":          {everyone: mayView | mayConnect, kind: discordgo.ChannelTypeGuildVoice, muted: now, want: true},
		"stage one may not enter":                          {everyone: mayView, kind: discordgo.ChannelTypeGuildStageVoice},
		"stage":                                            {everyone: mayView | mayConnect, kind: discordgo.ChannelTypeGuildStageVoice, want: true},
		"forum":                                            {everyone: mayView, kind: discordgo.ChannelTypeGuildForum, want: true},
		"somebody whose roles nobody knows, view by guild": {who: 199, everyone: mayView, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := everyoneMay(tc.everyone)
			g.Roles = append(g.Roles, roleOf(14, mayView))
			p := person{id: tc.who, roles: tc.roles, mutedUntil: tc.muted}
			if p.id == 0 {
				p.id = tAnn
			}
			c := Channel{ID: 5, Guild: tGuild, Kind: tc.kind, Overwrites: tc.over}
			if got := seesChannel(g, c, p, now); got != tc.want {
				t.Errorf("sees = %t, want %t (permissions %x)", got, tc.want, permissionsIn(g, c, p, now))
			}
		})
	}
}

func TestPermissionsIn(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	g := everyoneMay(mayView | mayReadHistory | 1<<11)
	for name, tc := range map[string]struct {
		p    person
		over []overwrite
		want permissions
	}{
		"base":                   {p: person{id: tAnn}, want: mayView | mayReadHistory | 1<<11},
		"with a role":            {p: person{id: tAnn, roles: []ID{tMods}}, want: mayView | mayReadHistory | 1<<11 | mayManageThreads},
		"timeout":                {p: person{id: tAnn, roles: []ID{tMods}, mutedUntil: now.Add(1)}, want: mayView | mayReadHistory},
		"timeout that is over":   {p: person{id: tAnn, mutedUntil: now}, want: mayView | mayReadHistory | 1<<11},
		"without view nothing":   {p: person{id: tAnn, roles: []ID{tMods}}, over: []overwrite{forRole(tGuild, 0, mayView)}},
		"moderator by overwrite": {p: person{id: tAnn}, over: []overwrite{forMember(tAnn, mayManageThreads, 0)}, want: mayView | mayReadHistory | 1<<11 | mayManageThreads},
		"owner":                  {p: person{id: tOwner, mutedUntil: now.Add(1)}, over: []overwrite{forRole(tGuild, 0, mayDoAll)}, want: mayDoAll},
		"administrator":          {p: person{id: tAnn, roles: []ID{tAdmin}, mutedUntil: now.Add(1)}, want: mayDoAll},
	} {
		t.Run(name, func(t *testing.T) {
			if got := permissionsIn(g, Channel{Overwrites: tc.over}, tc.p, now); got != tc.want {
				t.Errorf("permissions = %x, want %x", got, tc.want)
			}
		})
	}
}

// slowPermissions works one permission at a time through the eight steps of the section "Permission
// Overwrites" of https://docs.discord.com/developers/topics/permissions, and then through what the
// page says of owners, administrators, timeouts and implicit permissions.
func slowPermissions(g Guild, c Channel, p person, now time.Time) map[int]bool {
	const administrator, view, history = 3, 10, 16
	has := func(set permissions, bit int) bool { return uint64(set)/(1<<bit)%2 == 1 }
	isRoleOf := map[ID]bool{}
	for _, id := range p.roles {
		if id != g.ID {
			isRoleOf[id] = true
		}
	}
	inGuild := map[int]bool{}
	for bit := range 64 {
		for _, r := range g.Roles { // 1
			if r.ID == g.ID && has(r.Permissions, bit) {
				inGuild[bit] = true
			}
		}
		for _, r := range g.Roles { // 2
			if isRoleOf[r.ID] && has(r.Permissions, bit) {
				inGuild[bit] = true
			}
		}
	}
	may := map[int]bool{}
	if p.id == g.Owner || inGuild[administrator] {
		for bit := range 64 {
			may[bit] = true
		}
		return may
	}
	for bit := range 64 {
		may[bit] = inGuild[bit]
		step := func(concerns func(overwrite) bool, denies bool) {
			for _, o := range c.Overwrites {
				if concerns(o) && denies && has(o.Deny, bit) {
					may[bit] = false
				}
				if concerns(o) && !denies && has(o.Allow, bit) {
					may[bit] = true
				}
			}
		}
		everyone := func(o overwrite) bool { return o.Type != discordgo.PermissionOverwriteTypeMember && o.ID == g.ID }
		roles := func(o overwrite) bool { return o.Type != discordgo.PermissionOverwriteTypeMember && isRoleOf[o.ID] }
		member := func(o overwrite) bool { return o.Type == discordgo.PermissionOverwriteTypeMember && o.ID == p.id }
		step(everyone, true)  // 3
		step(everyone, false) // 4
		step(roles, true)     // 5
		step(roles, false)    // 6
		step(member, true)    // 7
		step(member, false)   // 8
	}
	if p.mutedUntil.After(now) {
		for bit := range 64 {
			if bit != view && bit != history {
				may[bit] = false
			}
		}
	}
	if !may[view] {
		return map[int]bool{}
	}
	return may
}

func FuzzPermissions(f *testing.F) {
	f.Add([]byte{}, int64(0), uint8(0))
	f.Add([]byte("\x00\x00\x04\x00\x01\x04\x02\x04\x00\x03\x00\x04"), int64(mayView), uint8(1))
	f.Add([]byte("\x01\x04\x00\x11\x00\x04\x02\x04\x04\x13\xff\xff"), int64(mayView|mayManageThreads), uint8(0b0101_0110))
	f.Add([]byte("\x05\x04\x08\x06\x08\x04"), int64(mayAdminister), uint8(0b1000_0000))
	now := time.Unix(1_790_000_000, 0)
	f.Fuzz(func(t *testing.T, over []byte, everyone int64, shape uint8) {
		g := Guild{ID: 1, Owner: 100, Roles: []role{
			roleOf(1, permissions(everyone)), roleOf(2, permissions(everyone>>7)), roleOf(3, mayManageThreads), roleOf(4, permissions(everyone<<9)),
			roleOf(5, mayView), roleOf(6, mayAdminister),
		}}
		p := person{id: 101}
		if shape&1 != 0 {
			p.mutedUntil = now.Add(time.Hour)
		}
		for i := range 5 {
			if shape&(2<<i) != 0 {
				p.roles = append(p.roles, ID(2+i))
			}
		}
		if shape == 0xff {
			p.id = 100
		}
		// Three bytes an overwrite: whose, what is allowed, what is denied. Discord has at most one
		// for each role and member.
		var c Channel
		told := map[overwrite]bool{}
		for ; len(over) >= 3; over = over[3:] {
			o := overwrite{ID: ID(over[0]%8 + 1)}
			if over[0]&0x10 != 0 {
				o = overwrite{ID: o.ID + 99, Type: discordgo.PermissionOverwriteTypeMember}
			}
			if told[o] {
				continue
			}
			told[o] = true
			o.Allow, o.Deny = spread(over[1]), spread(over[2])
			c.Overwrites = append(c.Overwrites, o)
		}
		got, want := permissionsIn(g, c, p, now), slowPermissions(g, c, p, now)
		for bit := range 64 {
			if has := got>>bit&1 == 1; has != want[bit] {
				t.Fatalf("bit %d = %t, the documentation says %t\nguild %+v\nchannel %+v\nperson %+v", bit, has, want[bit], g, c, p)
			}
		}
	})
}

// spread makes permissions out of a byte: those that matter, and some high ones.
func spread(b byte) permissions {
	places := []permissions{mayView, mayManageThreads, mayAdminister, mayConnect, mayReadHistory, 1 << 11, 1 << 51, -1 << 63}
	var out permissions
	for i, p := range places {
		if b&(1<<i) != 0 {
			out |= p
		}
	}
	return out
}
