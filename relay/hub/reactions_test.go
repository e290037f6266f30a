package hub

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

const (
	eyes = "👀"
	tick = "👍"
)

// reacts has an instance set, or with "-" in front remove, a reaction on a message of the hall's, and compares whether it
// may, what it hears otherwise, and whether the network was asked.
func (p *parlour) reacts(i relay.InstanceID, m relay.MessageID, emoji string, may bool) {
	p.t.Helper()
	a := relay.React{Chat: "hall", Message: m, Emoji: emoji}
	if emoji[0] == '-' {
		a.Emoji, a.Remove = emoji[1:], true
	}
	before := len(p.scribe.touched)
	_, err := p.do(i, a)
	_, nowhere := p.do(i, relay.React{Chat: "nowhere", Message: m, Emoji: a.Emoji, Remove: a.Remove})
	if (err == nil) != may || err != nil && !reflect.DeepEqual(relay.Explain(err), relay.Explain(nowhere)) {
		p.t.Errorf("%s: %s on %s: %v, want %t, or what it hears of a chat that does not exist: %v", i, emoji, m, err, may, nowhere)
	}
	if n := len(p.scribe.touched) - before; (n == 1) != may {
		p.t.Errorf("%s: %s on %s: the network was asked %d times", i, emoji, m, n)
	}
}

// TestAReactionIsItsGateways, where a bot may have many on a message. "hall" is granted to home; guest and other may write there.
func TestAReactionIsItsGateways(t *testing.T) {
	p := newParlour(t, false, false)
	p.reacts("home", "said1", eyes, true)
	p.reacts("guest", "said1", "-"+eyes, false)
	p.reacts("other", "said1", eyes, true) // it stands already, and is home's as before
	p.reacts("other", "said1", "-"+eyes, false)
	p.reacts("guest", "said1", tick, true) // beside it
	p.reacts("home", "said1", "-"+tick, false)
	p.reacts("guest", "said1", "-"+tick, true)
	p.reacts("home", "said1", "-"+eyes, true)
	p.reacts("other", "said1", eyes, true) // the place is free
	p.reacts("home", "said1", "-"+eyes, false)
	p.reacts("other", "said1", "-"+eyes, true)
	p.reacts("home", "said2", "-"+eyes, false) // nobody remembers whose that would be
	p.may(relay.React{Chat: "@ann", Message: "old", Emoji: eyes, Remove: true}, "guest")
}

// TestABotsOnlyReactionIsNotReplaced: a gateway shows that it is at work, and then how that ended, and no other comes
// between.
func TestABotsOnlyReactionIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		p.scribe.single = true
		p.reacts("home", "said1", eyes, true)
		for _, emoji := range []string{tick, eyes, "-" + eyes, "-" + tick} {
			p.reacts("guest", "said1", emoji, false)
		}
		p.reacts("home", "said1", "-"+eyes, true)
		p.reacts("guest", "said1", tick, false)
		p.reacts("home", "said1", tick, true)
		p.reacts("guest", "said1", "-"+tick, false)
		p.reacts("home", "said1", "-"+tick, true)
		time.Sleep(authors.Held)
		p.reacts("guest", "said1", tick, true)
		p.reacts("home", "said1", eyes, false)
		p.reacts("home", "said2", eyes, true) // of another message
	})
}

// TestWhoReactedOutlivesARestart, without a commit of its own, for two days.
func TestWhoReactedOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		p.scribe.single = true
		before := p.db.Stats().Commits
		p.reacts("home", "said1", eyes, true)
		if n := p.db.Stats().Commits - before; n != 0 {
			t.Errorf("a reaction took %d commits, want 0", n)
		}
		must.Succeed(t, p.db.Close())
		p.open()
		p.reacts("guest", "said1", tick, false)
		time.Sleep(authors.Kept)
		p.reacts("home", "said2", eyes, true)
		p.hear("ann", "hall") // her conversation stands
		p.reacts("guest", "said1", tick, true)
	})
}

// waiting is a scribe whose reactions wait.
type waiting struct {
	*scribe
	under, let chan struct{}
}

func (w waiting) React(ctx context.Context, a relay.React) (relay.Result, error) {
	w.under <- struct{}{}
	<-w.let
	return w.scribe.React(ctx, a)
}

// TestOfTwoReactionsAtOnceOneIsDeclined: the network would keep the later one.
func TestOfTwoReactionsAtOnceOneIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParlour(t, false, false)
		p.scribe.single = true
		slow := waiting{p.scribe, make(chan struct{}), make(chan struct{})}
		p.hub.Bots()[0] = slow
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := p.do("home", relay.React{Chat: "hall", Message: "said1", Emoji: eyes}); err != nil {
				t.Errorf("home: %v", err)
			}
		}()
		<-slow.under
		p.reacts("guest", "said1", tick, false)
		close(slow.let)
		<-done
		p.reacts("guest", "said1", tick, false)
	})
}

// TestWhatIsNotSetIsNobodys: a reaction that the network certainly refused leaves the place free, one that may stand does not.
func TestWhatIsNotSetIsNobodys(t *testing.T) {
	p := newParlour(t, false, false)
	p.scribe.single = true
	for m, outcome := range map[relay.MessageID]relay.Outcome{"said1": relay.NotSent, "said2": relay.MaybeSent} {
		p.scribe.fails = &relay.ActionError{Outcome: outcome, Public: "refused"}
		if _, err := p.do("guest", relay.React{Chat: "hall", Message: m, Emoji: tick}); err == nil {
			t.Fatal("the network did not refuse")
		}
		p.scribe.fails = nil
		p.reacts("home", m, eyes, outcome == relay.NotSent)
	}
}

// TestNoEmojiIsAsLongAsAFrame: what a gateway calls an emoji becomes a key of the database.
func TestNoEmojiIsAsLongAsAFrame(t *testing.T) {
	p := newParlour(t, false, false)
	p.scribe.fails = &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	long := strings.Repeat("x", 1<<16)
	for _, a := range []relay.React{{Chat: "hall", Message: "said1", Emoji: long}, {Chat: "hall", Message: relay.MessageID(long), Emoji: eyes}} {
		_, err := p.do("home", a)
		if ae := relay.Explain(err); ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "invalid react: ") {
			t.Errorf("%.80s, want invalid", ae)
		}
	}
	p.hear("ann", "hall")
	if err := p.db.Probe(); err != nil {
		t.Error(err)
	}
}
