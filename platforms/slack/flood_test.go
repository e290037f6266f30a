package slack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// TestFlood: agents that write, edit, react and look up as fast as they are let, in channels of their own and in shared ones,
// while Slack counts, and now and then wants a method or a channel left alone for no reason that can be seen. Nothing is asked
// inside a penalty, no rate is passed, what is said stands once and in order, and an instance that floods does not silence
// another.
func TestFlood(t *testing.T) {
	for seed := range uint64(long.Pick(3, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { flood(t, rand.New(rand.NewPCG(seed, 27))) })
		})
	}
}

func flood(t *testing.T, random *rand.Rand) {
	f := newFakeAPI(t)
	f.counts = true
	p := openOn(t, f, nil)
	var mu sync.Mutex // guards random
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	end := time.Now().Add(4 * time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() { // Slack's moods
		for time.Now().Before(end) {
			time.Sleep(time.Duration(20+draw(40)) * time.Second)
			f.refuse([]string{rest.PostMessage, rest.Update, rest.AddReaction, rest.ChannelInfo}[draw(4)], fmt.Sprint(1+draw(20)))
		}
	})
	for instance, chats := range map[relay.InstanceID][]relay.ChatID{
		"loud": {"C0GROUP", "C0TWIN", "D0ANN"}, "quiet": {"D0BOB"}, "neighbour": {"C0GROUP"},
	} {
		for _, chat := range chats {
			wg.Go(func() { chatter(t, f, p, instance, chat, end, draw) })
		}
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inside > 0 || f.exceeded > 0 {
		t.Errorf("%d calls inside a penalty, %d beyond a rate", f.inside, f.exceeded)
	}
	if len(f.channels["D0BOB"].messages) < 12 {
		t.Errorf("the quiet one said %d things in four minutes", len(f.channels["D0BOB"].messages))
	}
}

// chatter has an instance act in a chat until the end. What it was told to have said stands there once, in order.
func chatter(t *testing.T, f *fakeAPI, p *Bot, instance relay.InstanceID, chat relay.ChatID, end time.Time, draw func(int) int) {
	var said []string
	var last relay.MessageID
	for n := 0; time.Now().Before(end); n++ {
		ctx, cancel := context.WithTimeout(platforms.For(t.Context(), instance), 25*time.Second)
		what := draw(5)
		if instance == "quiet" {
			what = 0
		}
		switch text := fmt.Sprintf("%s %d.", instance, n); {
		case what == 0 || last == "":
			res, err := p.Send(ctx, relay.Send{Chat: chat, Content: text})
			if err == nil {
				said, last = append(said, text), res.MessageID
			}
		case what == 1:
			_, _ = p.React(ctx, relay.React{Chat: chat, Message: last, Emoji: []string{"👀", "✅", "❌"}[draw(3)], Remove: draw(2) == 0})
		case what == 2:
			_, _ = p.ChatInfo(ctx, relay.GetChatInfo{Chat: chat})
		default:
			_, _ = p.Edit(ctx, relay.Edit{Chat: chat, Message: last, Content: said[len(said)-1] + strings.Repeat(" ▉", draw(2))})
		}
		cancel()
		if instance == "quiet" {
			time.Sleep(10 * time.Second)
		}
	}
	var stand []string
	for _, text := range f.texts(string(chat)) {
		if text = strings.TrimSuffix(text, " ▉"); strings.HasPrefix(text, string(instance)+" ") {
			stand = append(stand, text)
		}
	}
	if strings.Join(stand, "\n") != strings.Join(said, "\n") {
		t.Errorf("%s in %s was told to have said %q, and %q stand", instance, chat, said, stand)
	}
}
