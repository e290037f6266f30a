package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// The chats of mallory's own.
const (
	secretChats   = -2000 // and downwards: ten groups whose members Telegram does not tell
	punishedChats = -3000 // ten in which Telegram refuses everything
	plainChat     = "-4001"
	manyChats     = -6000 // and downwards: forty groups
	ownChannels   = 2001  // eight
	malPerson     = "4666"
)

// The chats in which mallory's person sits beside others.
var (
	sharedGroups   = []string{"-1001", "-1002"}
	sharedChannels = []string{"1001", "1002"}
)

// hostile is a tenant that does what it can to its neighbours.
type hostile struct {
	w        *street
	gateways []*neighbour // of instances of their own
	every    time.Duration
	strange  atomic.Int64 // strangers so far

	declined, landed, reacted atomic.Int64 // what was aimed at others, and what came of it

	mob        []*neighbour // the instances that are away
	uploaded   atomic.Int64 // files that were never sent
	foreigners atomic.Int64 // others' reactions that it may not change
	squatted   sync.Map     // spots of messages that have a reaction of mallory's
}

func (m *hostile) ask(n int, platform relay.PlatformID, a relay.Action) (wire.OutboundResult, error) {
	return m.gateways[n%len(m.gateways)].ask(relay.Request{Platform: platform, Action: a})
}

// flood calls do again and again, without waiting for the last 64, until ctx ends.
func (m *hostile) flood(ctx context.Context, every time.Duration, do func(n int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, 64) // full: the flood is as fast as the answers
	for n := 0; nap(ctx, every); n++ {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			do(n)
			<-slots
		})
	}
}

// together does all of it at once.
func (m *hostile) together(ctx context.Context, all ...func(context.Context)) {
	var wg sync.WaitGroup
	for _, do := range all {
		wg.Go(func() { do(ctx) })
	}
	wg.Wait()
}

// stranger is somebody who never wrote before.
func (m *hostile) stranger() string { return strconv.FormatInt(50_000+m.strange.Add(1), 10) }

func nth(first, n, of int) string { return strconv.Itoa(first + n%of) }

// secretGroups: guests write in ten groups about which Telegram does not say who can see them.
func (m *hostile) secretGroups(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		m.w.tg.say(strconv.Itoa(secretChats-1-n%10), "4777", "mallory in secret "+strconv.Itoa(n), nil)
	})
}

// nothingToDelete: messages that do not exist are deleted in channels of its own.
func (m *hostile) nothingToDelete(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		_, _ = m.ask(n, discord.Name, relay.Delete{
			Chat: relay.ChatID(nth(ownChannels, n, 8)), Message: relay.MessageID(strconv.Itoa(7_000_000 + n)),
		})
	})
}

// questions: chats of its own are looked up, and such as do not exist.
func (m *hostile) questions(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		chat, network := relay.ChatID(nth(ownChannels, n, 8)), discord.Name
		if n%4 == 3 {
			chat, network = plainChat, telegram.Name
		}
		_, _ = m.ask(n, network, relay.GetChatInfo{Chat: chat})
	})
}

// punishment: it goes on writing in chats in which Telegram wants it to be silent.
func (m *hostile) punishment(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		chat := relay.ChatID(strconv.Itoa(punishedChats - 1 - n%10))
		actions := []relay.Action{
			relay.Send{Chat: chat, Content: "mallory writes"}, relay.Typing{Chat: chat}, relay.GetChatInfo{Chat: chat},
			relay.React{Chat: chat, Message: "1001", Emoji: "👍"},
		}
		_, _ = m.ask(0, telegram.Name, actions[n/10%len(actions)])
		m.w.tg.say(string(chat), "4777", "mallory in punished "+strconv.Itoa(n), nil)
	})
}

// strangers write to both bots, some of them codes that are none.
func (m *hostile) strangers(ctx context.Context) {
	m.flood(ctx, m.every/2, func(n int) {
		who, text := m.stranger(), "hello"
		if n%10 == 0 {
			text = "/start ABCDEFGH" + strconv.Itoa(n)
		}
		m.w.tg.say(who, who, text, nil)
		m.w.dc.say(direct(who), who, text, nil)
	})
}

// links: codes are asked for at the management door.
func (m *hostile) links(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		g := m.gateways[n%len(m.gateways)]
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://connector.test/manage/link", bytes.NewReader([]byte("{}")))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", g.bearer())
		if resp, err := g.client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	})
}

// others aims at what others said, in chats that mallory's person sees and in such as they do not.
func (m *hostile) others(ctx context.Context) {
	m.flood(ctx, m.every, func(n int) {
		network, walls := telegram.Name, &m.w.tg.walls
		chats := append([]string{"4001", "4002"}, sharedGroups...)
		if n%2 == 1 {
			network, walls = discord.Name, &m.w.dc.walls
			chats = append([]string{direct("4001"), direct("4002"), "3001", "3002"}, sharedChannels...)
		}
		at := chats[n/2%len(chats)]
		id := strconv.Itoa(1000 + n) // a guess
		if all := walls.ids(at); len(all) > 0 && n%7 != 0 {
			id = all[max(0, len(all)-1-n%8)]
		}
		chat, message := relay.ChatID(at), relay.MessageID(id)
		a := []relay.Action{
			relay.Edit{Chat: chat, Message: message, Content: "mallory was here"},
			relay.Delete{Chat: chat, Message: message},
			relay.ThreadRename{Chat: relay.ChatID(sharedChannels[n%2]), Thread: relay.ThreadID(threadOf(sharedChannels[n%2])), Name: "mallory's"},
		}[n/16%3]
		if _, renames := a.(relay.ThreadRename); renames {
			network = discord.Name
		}
		m.aim(n, relay.Request{Platform: network, Action: a})
	})
}

// aim asks for what must be declined.
func (m *hostile) aim(n int, r relay.Request) {
	res, err := m.gateways[n%len(m.gateways)].ask(r)
	switch {
	case err != nil:
	case res.Err == nil:
		m.landed.Add(1)
		m.w.wrong("mallory's %s in %s on %+v was carried out", r.Action.Op(), m.w.phase(), r.Action)
	case res.Err.Code == relay.CodeEgressDeclined:
		m.declined.Add(1)
	}
}

// reactions: to everything in shared chats, which it may, at a rate of its own.
func (m *hostile) reactions(ctx context.Context) {
	m.flood(ctx, 4*m.every, func(n int) {
		network, walls, at := telegram.Name, &m.w.tg.walls, sharedGroups[n/2%2]
		if n%2 == 1 {
			network, walls, at = discord.Name, &m.w.dc.walls, sharedChannels[n/2%2]
		}
		all := walls.ids(at)
		if len(all) == 0 {
			return
		}
		newest := all[len(all)-1]
		res, err := m.ask(0, network, relay.React{Chat: relay.ChatID(at), Message: relay.MessageID(newest), Emoji: "👎", Remove: n%8 > 5})
		if err == nil && res.Err == nil {
			m.squatted.Store(spot{at, newest}, true)
			m.reacted.Add(1)
		}
	})
}

// spelling: frames that name what is not this gateway's.
func (m *hostile) spelling(ctx context.Context) {
	bots := []relay.Bot{
		{Platform: telegram.Name, ID: "999"}, {Platform: discord.Name, ID: telegramBot}, {Platform: telegram.Name, ID: discordBot},
		{Platform: "slack"}, {Platform: "relay"}, {ID: discordBot}, {},
	}
	chats := []string{"4001", "4002", direct("4001"), direct("4002"), "3001", "9999999", "-1003", "04001", "+4001", "4001 "}
	m.flood(ctx, m.every, func(n int) {
		b := bots[n%len(bots)]
		m.aim(n, relay.Request{Platform: b.Platform, Bot: b.ID, Action: relay.Send{Chat: relay.ChatID(chats[n/len(bots)%len(chats)]), Content: "mallory spells"}})
	})
}

// commands: strangers use slash commands, 150 at once.
func (m *hostile) commands(ctx context.Context) {
	m.flood(ctx, 8*time.Second, func(int) {
		for n := range 150 {
			who := m.stranger()
			at := direct(who)
			if n%2 == 0 {
				at = "1010" // nobody's
			}
			m.w.dc.command(at, who, "mallory commands", nil)
		}
	})
}

// monsters: texts of the greatest length, and frames that are none.
func (m *hostile) monsters(ctx context.Context) {
	texts := []string{
		strings.Repeat("mallory *writes* a lot ", 130_000/23), strings.Repeat("> ", 65_000), strings.Repeat("*_", 65_000),
		strings.Repeat("|a|b|\n", 20_000), strings.Repeat("mallory\n\n", 14_000),
	}
	frames := []string{
		`{"type":"outbound","requestId":"m","action":{"op":"send"}}`, `{"type":"outbound","action":{}}`, `[[[[`, `{"type":"hello"`,
		`{"type":"inbound_ack","bufferId":"1-1"}`, strings.Repeat("[", 5000), `{"type":"outbound","requestId":"m","action":{"op":"` + strings.Repeat("x", 100_000) + `"}}`,
	}
	m.together(ctx, func(ctx context.Context) {
		m.flood(ctx, 4*time.Second, func(n int) {
			chat, network := relay.ChatID(plainChat), telegram.Name
			if n%2 == 1 {
				chat, network = relay.ChatID(nth(ownChannels, n, 8)), discord.Name
			}
			_, _ = m.ask(0, network, relay.Send{Chat: chat, Content: texts[n%len(texts)]})
		})
	}, func(ctx context.Context) {
		m.flood(ctx, 8*m.every, func(n int) { m.gateways[1].write([]byte(frames[n%len(frames)] + "\n")) })
	})
}

// everywhere: it writes in very many chats of its own, a little in each.
func (m *hostile) everywhere(ctx context.Context) {
	m.flood(ctx, m.every/2, func(n int) {
		chat, network := relay.ChatID(strconv.Itoa(manyChats-1-n/2%40)), telegram.Name
		if n%2 == 1 {
			chat, network = relay.ChatID(nth(ownChannels, n/2, 8)), discord.Name
		}
		_, _ = m.ask(n/2*btoi(n%2 == 1), network, relay.Send{Chat: chat, Content: "mallory is everywhere"})
	})
}

// manifests: ever new commands.
func (m *hostile) manifests(ctx context.Context) {
	m.flood(ctx, 2*time.Second, func(n int) {
		h := wire.Hello{Platform: discord.Name, BotID: discordBot}
		for c := range 20 {
			h.Manifest = append(h.Manifest, json.RawMessage(fmt.Sprintf(`{"name":"c%dx%d","description":"new","type":1}`, n, c)))
		}
		m.gateways[0].send(h)
	})
}

// kicked: mallory's person is thrown out of the chats of others, and their agent writes on.
func (m *hostile) kicked(ctx context.Context) {
	say := func(n int) (landed int) {
		for _, chat := range append(sharedGroups, sharedChannels...) {
			network := telegram.Name
			if number(chat) > 0 {
				network = discord.Name
			}
			if res, err := m.ask(0, network, relay.Send{Chat: relay.ChatID(chat), Content: "mallory in " + strconv.Itoa(n)}); err == nil && res.Err == nil {
				landed++
			}
		}
		return landed
	}
	if n := say(0); n != 4 {
		m.w.wrong("mallory, who sees four chats of others, can write in %d", n)
	}
	for _, chat := range sharedGroups {
		m.w.tg.throwOut(chat, malPerson)
	}
	m.w.dc.kick("900", malPerson)
	began := time.Now()
	m.flood(ctx, 5*time.Second, func(n int) {
		late := time.Since(began) > 70*time.Second
		if landed := say(n); late && landed > 0 {
			m.w.wrong("mallory wrote in %d chats %s after it was thrown out", landed, time.Since(began))
		}
	})
}
