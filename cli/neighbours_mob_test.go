package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// mobbed is how many instances mallory's tenant has. Most have no socket: for files they need none, and
	// who is away is poked.
	mobbed = 40
	// roomOf is the room for files in the neighbourhood: little, so that it is soon full.
	roomOf = 32 << 20
	// sameHost is where wake URLs are, mallory's and others'.
	sameHost  = "https://gateways.example/"
	firstMob  = 6001 // the people of mallory's instances
	atticsOwn = "4009"
)

// attic is an instance of home's that is away all the time: what it has is a wake URL.
const attic = "attic"

// pokes are what a waker asks: mallory's URLs hang until the guard would give up.
type pokes struct{ w *street }

func (p pokes) Do(r *http.Request) (*http.Response, error) {
	p.w.mu.Lock()
	due := p.w.poking
	if strings.HasSuffix(r.URL.Path, attic) {
		p.w.poking = time.Time{}
	}
	p.w.mu.Unlock()
	switch {
	case !strings.HasSuffix(r.URL.Path, attic):
		nap(r.Context(), 10*time.Second)
		return nil, errors.New("timed out")
	case !due.IsZero():
		p.w.took(series{p.w.phase(), attic, "", "poke"}, due)
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// poke has somebody write to the attic, whose gateway is away.
func (w *street) poke() {
	w.mu.Lock()
	w.poking = time.Now()
	w.mu.Unlock()
	w.tg.say(atticsOwn, atticsOwn, "is anybody there", nil)
}

// forty: a tenant of forty instances takes what it can get of everything that is shared. The files of the web chat come
// first, as long as there is room for them.
func (m *hostile) forty(ctx context.Context) {
	m.shelf(ctx)
	content := make([]byte, 2<<20)
	for n := range roomOf / len(content) { // and on while it holds the places, too
		if _, err := m.mob[n%2].upload(ctx, content); err == nil {
			m.uploaded.Add(1)
		}
	}
	m.together(ctx, m.wakes, m.fill, m.dawdle, m.foreign, func(ctx context.Context) {
		if nap(ctx, 20*time.Second) {
			m.w.poke()
		}
	})
}

// shelf fills the web chat with files.
func (m *hostile) shelf(ctx context.Context) {
	for n := range 4 {
		g := m.gateways[n%len(m.gateways)]
		if err := g.post(ctx, local.WebID, relay.ChatID(g.name), make([]byte, 10<<20)); err != nil {
			m.w.wrong("mallory cannot post in its own web chat: %v", err)
		}
	}
}

// wakes: messages wait for all that are away, and their wake URLs hang.
func (m *hostile) wakes(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for i := range m.mob {
			who := strconv.Itoa(firstMob + i)
			m.w.tg.say(who, who, "mallory in bed "+strconv.Itoa(n), nil)
		}
		nap(ctx, 15*time.Second)
	}
}

// fill uploads files and sends none.
func (m *hostile) fill(ctx context.Context) {
	content := make([]byte, 2<<20)
	m.flood(ctx, 500*time.Millisecond, func(n int) { _, _ = m.mob[n%len(m.mob)].upload(ctx, content) })
}

// dawdle holds places for transfers, with a byte every four seconds.
func (m *hostile) dawdle(ctx context.Context) {
	var all []func(context.Context)
	for _, g := range m.mob {
		all = append(all, func(ctx context.Context) {
			for nap(ctx, time.Second) {
				_, _, _ = g.transfer(ctx, http.MethodPost, uploads, 1<<20, drops{ctx})
			}
		})
	}
	m.together(ctx, all...)
}

// drops is a body that comes a byte at a time.
type drops struct{ ctx context.Context }

func (d drops) Read(b []byte) (int, error) {
	if !nap(d.ctx, 4*time.Second) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, "x"), nil
}

// foreign: it takes away others' reactions, and sets its own in their places.
func (m *hostile) foreign(ctx context.Context) {
	m.flood(ctx, 2*m.every, func(n int) {
		network, walls, at := telegram.Name, &m.w.tg.walls, sharedGroups[n/2%2]
		if n%2 == 1 {
			network, walls, at = discord.Name, &m.w.dc.walls, sharedChannels[n/2%2]
		}
		marked := slices.DeleteFunc(walls.ids(at), func(id string) bool { return len(walls.reactions(at, id)) == 0 })
		if len(marked) == 0 {
			return
		}
		id := marked[max(0, len(marked)-1-n/4%3)]
		a := relay.React{Chat: relay.ChatID(at), Message: relay.MessageID(id), Emoji: []string{"👀", "👍"}[n/12%2], Remove: true}
		if network == telegram.Name && n/24%2 == 0 {
			a.Emoji, a.Remove = "👎", false
		}
		res, err := m.ask(n/4, network, a)
		if err == nil && res.Err != nil && res.Err.Code == relay.CodeEgressDeclined {
			m.foreigners.Add(1)
		}
	})
}
