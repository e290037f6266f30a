package guilds

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestCanManage(t *testing.T) {
	// Role 33 is each case's own.
	role := func(permissions string) [2]string {
		return [2]string{"GUILD_ROLE_CREATE", `{"guild_id":"1","role":{"id":"33","permissions":"` + permissions + `"}}`}
	}
	const (
		channels = "16" // Manage Channels
		server   = "32" // Manage Server
		crew     = `{"roles":["33"]}`
		muted    = `{"roles":["33"],"communication_disabled_until":"2999-01-01T00:00:00+00:00"}`
	)
	asked := []string{annPath}
	for name, tc := range map[string]question{
		"a plain member":                 {chat: "14", scope: "1", says: map[string][]string{annPath: {annIsMember}}, asked: asked},
		"manages channels":               {chat: "14", scope: "1", learn: [][2]string{role(channels)}, says: map[string][]string{annPath: {crew}}, want: true, asked: asked},
		"scope not told":                 {chat: "14", learn: [][2]string{role(channels)}, says: map[string][]string{annPath: {crew}}, want: true, asked: asked},
		"manages the server":             {chat: "14", scope: "1", learn: [][2]string{role(server)}, says: map[string][]string{annPath: {crew}}, want: true, asked: asked},
		"administrator":                  {chat: "16", scope: "1", says: map[string][]string{annPath: {`{"roles":["31"]}`}}, want: true, asked: asked},
		"administrator in a timeout":     {chat: "16", scope: "1", says: map[string][]string{annPath: {`{"roles":["31"],"communication_disabled_until":"2999-01-01T00:00:00+00:00"}`}}, want: true, asked: asked},
		"owner":                          {chat: "16", scope: "1", user: "100", want: true},
		"manages channels, in a timeout": {chat: "14", scope: "1", learn: [][2]string{role(channels)}, says: map[string][]string{annPath: {muted}}, asked: asked},
		"manages the server, in a timeout": {
			chat: "14", scope: "1", learn: [][2]string{role(server)}, says: map[string][]string{annPath: {muted}}, asked: asked,
		},
		"may manage messages and roles only": {
			chat: "14", scope: "1", learn: [][2]string{role("268443648")}, says: map[string][]string{annPath: {crew}}, asked: asked,
		},
		"manages this channel alone": {
			chat: "14", scope: "1", says: map[string][]string{annPath: {annIsMember}}, want: true, asked: asked,
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"14","type":0,"guild_id":"1","permission_overwrites":[{"id":"101","type":1,"allow":"16"}]}`}},
		},
		"manages another channel alone": {
			chat: "11", scope: "1", says: map[string][]string{annPath: {annIsMember}}, asked: asked,
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"14","type":0,"guild_id":"1","permission_overwrites":[{"id":"101","type":1,"allow":"16"}]}`}},
		},
		"manages every channel but this one": {
			chat: "14", scope: "1", says: map[string][]string{annPath: {crew}}, asked: asked,
			learn: [][2]string{role(channels), {"CHANNEL_UPDATE", `{"id":"14","type":0,"guild_id":"1","permission_overwrites":[{"id":"33","type":0,"deny":"16"}]}`}},
		},
		"manages a channel hidden from them": {
			chat: "14", scope: "1", says: map[string][]string{annPath: {crew}}, asked: asked,
			learn: [][2]string{role(channels), {"CHANNEL_UPDATE", `{"id":"14","type":0,"guild_id":"1","permission_overwrites":[{"id":"1","type":0,"deny":"1024"}]}`}},
		},
		"a thread of a channel they manage": {
			chat: "21", scope: "1", says: map[string][]string{annPath: {annIsMember}}, want: true, asked: asked,
			learn: [][2]string{{"CHANNEL_UPDATE", `{"id":"11","type":0,"guild_id":"1","permission_overwrites":[{"id":"101","type":1,"allow":"16"}]}`}},
		},
		"a thread, as a plain member":      {chat: "21", scope: "1", says: map[string][]string{annPath: {annIsMember}}, asked: asked},
		"a thread, who manages threads":    {chat: "21", scope: "1", learn: [][2]string{role("17179869184")}, says: map[string][]string{annPath: {crew}}, asked: asked},
		"another scope":                    {chat: "14", scope: "2", user: "100"},
		"no member":                        {chat: "14", scope: "1", says: map[string][]string{annPath: {"404"}}, asked: asked},
		"not for the bot":                  {chat: "14", scope: "1", says: map[string][]string{annPath: {"403"}}, asked: asked},
		"own direct messages":              {chat: "51", says: map[string][]string{"/channels/51": {`{"id":"51","type":1,"recipients":[{"id":"101"}]}`}}, asked: []string{"/channels/51"}},
		"a group chat":                     {chat: "52", says: map[string][]string{"/channels/52": {`{"id":"52","type":3,"owner_id":"101","recipients":[{"id":"101"}]}`}}, asked: []string{"/channels/52"}},
		"a channel that is gone":           {chat: "19", scope: "1", asked: []string{"/channels/19"}},
		"a chat that is no number":         {chat: "../14", scope: "1", wantErr: true},
		"a user who is no number":          {chat: "14", scope: "1", user: "ann", wantErr: true},
		"a bot nobody lets in":             {chat: "14", scope: "1", says: map[string][]string{annPath: {"401"}}, wantErr: true, asked: asked},
		"a question not understood":        {chat: "14", scope: "1", says: map[string][]string{annPath: {"400"}}, asked: asked},
		"whole, by its owner":              {scope: "1", user: "100", want: true},
		"whole, by an administrator":       {scope: "1", says: map[string][]string{annPath: {`{"roles":["31"]}`}}, want: true, asked: asked},
		"whole, by who manages it":         {scope: "1", learn: [][2]string{role(server)}, says: map[string][]string{annPath: {crew}}, want: true, asked: asked},
		"whole, by who manages it, muted":  {scope: "1", learn: [][2]string{role(server)}, says: map[string][]string{annPath: {muted}}, asked: asked},
		"whole, who manages channels":      {scope: "1", learn: [][2]string{role(channels)}, says: map[string][]string{annPath: {crew}}, asked: asked},
		"whole, by a plain member":         {scope: "1", says: map[string][]string{annPath: {annIsMember}}, asked: asked},
		"whole, by no member":              {scope: "1", asked: asked},
		"whole, a guild nobody knows":      {scope: "2", asked: []string{"/guilds/2"}},
		"whole, a scope that is no number": {scope: "1/members", wantErr: true},
		"no place at all":                  {wantErr: true},
		"busy, then not": {
			scope: "1", learn: [][2]string{role(server)}, says: map[string][]string{annPath: {"429", "503", "", crew}}, want: true,
			asked: []string{annPath, annPath, annPath, annPath},
		},
	} {
		t.Run(name, func(t *testing.T) { tc.ask(t, (*Guilds).CanManage) })
	}
}

func TestCanManageIsNotKnownWhileDiscordIsInTrouble(t *testing.T) {
	for name, fault := range map[string]string{"broken": "500", "busy": "429", "out of reach": ""} {
		for _, place := range []relay.Place{{Scope: "1"}, {Scope: "1", Chat: "14"}} {
			t.Run(name+" "+string(place.Chat), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					api := &scripted{says: map[string][]string{annPath: {fault}}}
					f := knowing(testGuilds(t), api)
					began := time.Now()
					if manages, err := f.CanManage(t.Context(), place, "101"); manages || !errors.Is(err, ErrUnknownYet) {
						t.Errorf("CanManage = %t, %v; want not known", manages, err)
					}
					if d := time.Since(began); d > AskWithin {
						t.Errorf("gave up after %s, want up to %s", d, AskWithin)
					}
					// Neither that nor a yes is remembered.
					for answer, want := range map[string]bool{`{"roles":["31"]}`: true, "404": false} {
						api.says[annPath] = []string{answer}
						if manages, err := f.CanManage(t.Context(), place, "101"); manages != want || err != nil {
							t.Errorf("afterwards CanManage = %t, %v; want %t", manages, err, want)
						}
					}
				})
			})
		}
	}
}
