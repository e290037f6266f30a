package sender_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

const chat relay.ChatID = "42"

var errNoChat = &relay.ActionError{Outcome: relay.NotSent, Public: "no such chat"}

// in runs test with the turns of a bot, in a bubble of its own time and with the deadline actions have.
func in(t *testing.T, test func(t *testing.T, ctx context.Context, s *sender.Turns)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		explain := func(err error) *relay.ActionError {
			return httpcall.Explain(err, "Net", func(*httpcall.Fault) *relay.ActionError { return relay.Refused("no", nil) })
		}
		test(t, ctx, sender.New(ratelimit.Rates{}, explain, func(id relay.ChatID) error {
			if id == "" {
				return errNoChat
			}
			return nil
		}))
	})
}

func enter(t *testing.T, ctx context.Context, s *sender.Turns, id relay.ChatID) *sender.Turn {
	t.Helper()
	n, err := s.Enter(ctx, id, ratelimit.Message)
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return n
}

func failure(t *testing.T, err error) *relay.ActionError {
	t.Helper()
	var ae *relay.ActionError
	if !errors.As(err, &ae) {
		t.Fatalf("error is %v, want an ActionError", err)
	}
	return ae
}

func busy(d time.Duration, whom httpcall.Whom) *httpcall.Fault {
	return &httpcall.Fault{What: "send", Sent: httpcall.Refused, Status: 429, RetryAfter: d, Whom: whom}
}

// TestDo is about what is tried again, and what is said of it in the end.
func TestDo(t *testing.T) {
	var (
		never   = &httpcall.Fault{What: "send", Sent: httpcall.Never}
		unclear = &httpcall.Fault{What: "send"}
		refused = &httpcall.Fault{What: "send", Sent: httpcall.Refused, Status: 403}
		held    = &httpcall.Fault{What: "send", Sent: httpcall.Never, RetryAfter: time.Minute}
		hung    = &httpcall.Fault{What: "send", Cause: context.DeadlineExceeded}
	)
	for name, tc := range map[string]struct {
		call  sender.Call
		then  []error // each try's, the last one for ever
		want  error   // nil: it works
		tries int     // 0: several
		most  time.Duration
	}{
		"it works":                        {sender.Call{}, []error{nil}, nil, 1, 0},
		"it never left, three times":      {sender.Call{}, []error{never, never, never, nil}, nil, 4, 4 * time.Second},
		"it never leaves":                 {sender.Call{}, []error{never}, never, 0, 22 * time.Second},
		"unclear":                         {sender.Call{}, []error{unclear}, unclear, 1, 0}, // invariant 1
		"no answer":                       {sender.Call{}, []error{hung}, hung, 1, 0},
		"refused":                         {sender.Call{Again: true}, []error{refused}, refused, 1, 0},
		"held back":                       {sender.Call{Again: true}, []error{held}, held, 1, 0},
		"no fault at all":                 {sender.Call{Again: true}, []error{errNoChat}, errNoChat, 1, 0},
		"silence":                         {sender.Call{}, []error{busy(7*time.Second, httpcall.Unsaid), nil}, nil, 2, 7 * time.Second},
		"silence without a time":          {sender.Call{}, []error{busy(0, httpcall.Unsaid), nil}, nil, 2, time.Second},
		"silence of the chat":             {sender.Call{}, []error{busy(7*time.Second, httpcall.Chat), nil}, nil, 2, 7 * time.Second},
		"silence of the bot":              {sender.Call{}, []error{busy(7*time.Second, httpcall.Bot), nil}, nil, 2, 7 * time.Second},
		"harmless and unclear":            {sender.Call{Again: true}, []error{unclear, unclear, nil}, nil, 3, 2 * time.Second},
		"harmless and unclear for ever":   {sender.Call{Again: true}, []error{unclear}, unclear, 0, 22 * time.Second},
		"unclear, then it never left":     {sender.Call{Again: true}, []error{unclear, never}, unclear, 0, 22 * time.Second},
		"unclear, then refused":           {sender.Call{Again: true}, []error{unclear, refused}, unclear, 2, time.Second},
		"unclear, then refused, undone":   {sender.Call{Again: true, Undoes: true}, []error{unclear, refused}, refused, 2, time.Second},
		"unclear, then a long silence":    {sender.Call{Again: true, Undoes: true}, []error{unclear, busy(time.Minute, httpcall.Chat)}, unclear, 2, time.Second},
		"no silence of the chat's, apart": {sender.Call{Apart: true}, []error{busy(7*time.Second, httpcall.Chat), nil}, nil, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				n := enter(t, ctx, s, chat)
				defer n.Leave()
				tries, start := 0, time.Now()
				tc.call.Do = func(context.Context) error {
					err := tc.then[min(tries, len(tc.then)-1)]
					tries++
					return err
				}
				if err := n.Do(ctx, tc.call); err != tc.want {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if tries != tc.tries && (tc.tries != 0 || tries < 3) {
					t.Errorf("%d tries", tries)
				}
				took := time.Since(start)
				if least := silenceOf(tc.then[0]); took > tc.most || took < least && !tc.call.Apart || ctx.Err() != nil {
					t.Errorf("took %v, want at most %v and at least %v", took, tc.most, least)
				}
			})
		})
	}
}

// silenceOf is how long err demands silence.
func silenceOf(err error) time.Duration {
	if f := httpcall.FaultOf(err); f.Limited() {
		return f.RetryAfter
	}
	return 0
}

// TestWhoTriesAgainLater: what certainly was not sent is not tried again for somebody who does that; behind a part that
// stands, it is.
func TestWhoTriesAgainLater(t *testing.T) {
	never := &httpcall.Fault{What: "send", Sent: httpcall.Never}
	for name, tc := range map[string]struct {
		then  []error
		tries int
		why   string // empty: it works
	}{
		"it works":                       {[]error{nil, nil}, 2, ""},
		"it never leaves":                {[]error{never}, 1, "network: Net cannot be reached"},
		"silence":                        {[]error{busy(7*time.Second, httpcall.Chat)}, 1, "network: Flood control exceeded. Retry in 7 seconds"},
		"behind a part it never leaves":  {[]error{nil, never, nil}, 3, ""},
		"behind a part there is silence": {[]error{nil, busy(7*time.Second, httpcall.Chat), nil}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				tries := 0
				_, err := s.Post(platforms.Once(ctx, "name"), chat, &sender.Plain{Parts: []string{"a", "b"}, Part: func(ctx context.Context, n *sender.Turn, part string) (relay.MessageID, error) {
					return relay.MessageID(part), n.Do(ctx, sender.Call{Do: func(context.Context) error {
						err := tc.then[min(tries, len(tc.then)-1)]
						tries++
						return err
					}})
				}})
				if why := relay.Explain(err); tries != tc.tries || (why == nil) != (tc.why == "") || why != nil && why.Public != tc.why {
					t.Errorf("%d tries, %v; want %d, %q", tries, err, tc.tries, tc.why)
				}
			})
		})
	}
}

// TestASilenceLongerThanThereIsTime: the answer has the network's reason and the limiter's time.
func TestASilenceLongerThanThereIsTime(t *testing.T) {
	for name, whom := range map[string]httpcall.Whom{"unsaid": httpcall.Unsaid, "of the chat": httpcall.Chat, "of the bot": httpcall.Bot} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				n := enter(t, ctx, s, chat)
				tries := 0
				err := n.Do(ctx, sender.Call{Do: func(context.Context) error { tries++; return busy(time.Minute, whom) }})
				n.Leave()
				if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != "network: Flood control exceeded. Retry in 60 seconds" || ae.RetryAfter != time.Minute || tries != 1 {
					t.Errorf("%+v after %d tries", ae, tries)
				}
				// From now on nothing leaves: what is cosmetic is dropped.
				start := time.Now()
				for what, err := range map[string]error{
					"send": second(s.Enter(ctx, chat, ratelimit.Message)), "delete": second(s.Enter(ctx, chat, ratelimit.Signal)), "wait": s.WaitOpen(ctx, chat),
				} {
					if ae := failure(t, err); ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "network: ") || ae.RetryAfter != time.Minute {
						t.Errorf("%s: %+v", what, ae)
					}
				}
				if ae := failure(t, second(s.Signal(ctx, chat))); ae.Outcome != relay.NotSent || ae.Public != "rate limited" || ae.RetryAfter != time.Minute {
					t.Errorf("a reaction: %+v", ae)
				}
				if n, err := s.AtOnce(ctx, chat); n != nil || err != nil {
					t.Errorf("a typing: %v, %v", n, err)
				}
				if _, err := s.Enter(ctx, "43", ratelimit.Message); (err != nil) != (whom == httpcall.Bot) {
					t.Errorf("in another chat: %v", err)
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("to learn that took %v", d)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestWhoWaitsKeepsTheOrder: what comes meanwhile goes behind what is tried again.
func TestWhoWaitsKeepsTheOrder(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		start := time.Now()
		var left []string
		done := make(chan error, 2)
		send := func(text string) {
			n, err := s.Enter(ctx, chat, ratelimit.Message)
			if err != nil {
				done <- err
				return
			}
			defer n.Leave()
			done <- n.Do(ctx, sender.Call{Do: func(context.Context) error {
				left = append(left, text)
				if len(left) == 1 {
					return busy(7*time.Second, httpcall.Chat)
				}
				return nil
			}})
		}
		go send("first")
		synctest.Wait()
		go send("second")
		synctest.Wait()
		if err := s.WaitOpen(ctx, chat); err != nil {
			t.Errorf("WaitOpen: %v", err)
		}
		if err := errors.Join(<-done, <-done); err != nil || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if want := []string{"first", "first", "second"}; !slices.Equal(left, want) {
			t.Errorf("%q left, want %q", left, want)
		}
	})
}

// TestSignalsBesideASend: a reaction waits for two seconds, a typing not at all. Neither is repeated.
func TestSignalsBesideASend(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		n := enter(t, ctx, s, chat)
		start := time.Now()
		if typing, err := s.AtOnce(ctx, chat); typing != nil || err != nil || time.Since(start) != 0 {
			t.Errorf("a typing: %v, %v after %v", typing, err, time.Since(start))
		}
		ae := failure(t, second(s.Signal(ctx, chat)))
		if ae.Public != "rate limited" || ae.Outcome != relay.NotSent || time.Since(start) != 2*time.Second {
			t.Errorf("a reaction: %+v after %v", ae, time.Since(start))
		}
		n.Leave()
		reaction, err := s.Signal(ctx, chat)
		if err != nil {
			t.Fatal(err)
		}
		never := &httpcall.Fault{What: "react", Sent: httpcall.Never}
		tries := 0
		if err := reaction.Do(ctx, sender.Call{Again: true, Do: func(context.Context) error { tries++; return never }}); err != error(never) || tries != 1 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

func TestNothingLeavesOnAnEndedContext(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		inside := enter(t, ctx, s, chat)
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for name, err := range map[string]error{
			"send": second(s.Enter(ctx, "43", ratelimit.Message)), "react": second(s.Signal(ctx, "43")), "typing": second(s.AtOnce(ctx, "43")),
			"wait": s.WaitOpen(ctx, "43"),
			"inside": inside.Do(ctx, sender.Call{Do: func(context.Context) error {
				t.Error("a call was made")
				return nil
			}}),
		} {
			if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != "network: not sent before the deadline" {
				t.Errorf("%s: %+v", name, ae)
			}
		}
	})
}

func TestNoTurnInAChatThatCannotBe(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		for name, err := range map[string]error{
			"send": second(s.Enter(ctx, "", ratelimit.Message)), "react": second(s.Signal(ctx, "")), "typing": second(s.AtOnce(ctx, "")),
		} {
			if err != error(errNoChat) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestOutside: what has no place in a chat's order waits for none, and heeds only what is about the bot.
func TestOutside(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		defer enter(t, ctx, s, chat).Leave()
		tries := 0
		err := s.Outside().Do(ctx, sender.Call{Do: func(context.Context) error {
			if tries++; tries == 1 {
				return busy(time.Minute, httpcall.Chat)
			}
			return nil
		}})
		if err != nil || tries != 2 || s.Limiter.Closed(chat) {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

func TestMove(t *testing.T) {
	in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
		n := enter(t, ctx, s, chat)
		if err := n.Move(ctx, "43"); err != nil || n.Chat != "43" || n.MovedTo != "43" {
			t.Errorf("Move: %v, %+v", err, n)
		}
		enter(t, ctx, s, chat).Leave() // the old one is free
		short, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		if _, err := s.Enter(short, "43", ratelimit.Message); err == nil {
			t.Error("the new one is free, too")
		}
		n.Leave()
		enter(t, ctx, s, "43").Leave()
	})
}

// text is a text of some parts, the next of which ends with its error; nil: it stands.
type text []error

var errInvisible = &httpcall.Fault{What: "send", Sent: httpcall.Refused, Status: 400, Message: "nothing to see"}

func (x *text) Left() int { return len(*x) }

func (x *text) Skip(err error) bool {
	if err == error(errInvisible) {
		*x = (*x)[1:]
	}
	return err == error(errInvisible)
}

func (x *text) Send(context.Context, *sender.Turn) (relay.MessageID, error) {
	if err := (*x)[0]; err != nil {
		return "", err
	}
	*x = (*x)[1:]
	return relay.MessageID(rune('a' + len(*x))), nil
}

// TestALongText: of which a part stands must not be sent again, whatever the reason.
func TestALongText(t *testing.T) {
	refused := busy(time.Minute, httpcall.Chat)
	for name, tc := range map[string]struct {
		text text
		want relay.Result
		err  *relay.ActionError
	}{
		"one part":  {text{nil}, relay.Result{MessageID: "a"}, nil},
		"all of it": {text{nil, nil, nil}, relay.Result{MessageID: "a", MessageIDs: []relay.MessageID{"c", "b", "a"}}, nil},
		"nothing of it": {text{refused, nil, nil}, relay.Result{}, &relay.ActionError{
			Outcome: relay.NotSent, Public: "network: Flood control exceeded. Retry in 60 seconds", RetryAfter: time.Minute,
		}},
		"nothing to see": {text{errInvisible}, relay.Result{}, &relay.ActionError{Outcome: relay.NotSent, Public: "no"}},
		"nothing to see in the middle": {text{nil, errInvisible, nil}, relay.Result{
			MessageID: "a", MessageIDs: []relay.MessageID{"c", "a"},
		}, nil},
		"a part": {text{nil, nil, refused, nil, nil}, relay.Result{}, &relay.ActionError{
			Outcome: relay.MaybeSent, RetryAfter: time.Minute, MessageIDs: []relay.MessageID{"e", "d"},
			Public: "timed out: only the first 2 of 5 parts are delivered for certain",
		}},
		"a part in time": {text{nil, platforms.NotSent(0, nil)}, relay.Result{}, &relay.ActionError{
			Outcome: relay.MaybeSent, MessageIDs: []relay.MessageID{"b"},
			Public: "timed out: only the first 1 of 2 parts are delivered for certain",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				got, err := s.Post(ctx, chat, &tc.text)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if tc.err == nil && err == nil {
					return
				}
				ae := *failure(t, err)
				ae.Err = nil
				if diff := cmp.Diff(tc.err, &ae); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				enter(t, ctx, s, chat).Leave() // the turn is over
			})
		})
	}
}

// TestEdit: what does not fit into the message follows it, once the gateway is done.
func TestEdit(t *testing.T) {
	refused := &httpcall.Fault{What: "edit", Sent: httpcall.Refused, Status: 400}
	for name, tc := range map[string]struct {
		content string
		err     error // of the edit
		want    relay.Result
		left    int
	}{
		"done":          {"x", nil, relay.Result{MessageID: "a", MessageIDs: []relay.MessageID{"7", "b", "a"}}, 0},
		"being written": {"x ▉\n", nil, relay.Result{MessageID: "7"}, 2},
		"refused":       {"x", refused, relay.Result{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				x := text{nil, nil}
				got, err := s.Edit(ctx, relay.Edit{Chat: chat, Message: "7", Content: tc.content}, &x, func(context.Context, *sender.Turn) error {
					return tc.err
				})
				if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.err == nil) || len(x) != tc.left {
					t.Errorf("%v, %d parts left; result (-want +got):\n%s", err, len(x), diff)
				}
			})
		})
	}
}

// TestWithoutPatience: what has not begun is given up when a pause or a silence begins, or as soon as the patience ends. Behind
// a part that stands, the rest is waited for.
func TestWithoutPatience(t *testing.T) {
	never := &httpcall.Fault{What: "send", Sent: httpcall.Never}
	for name, tc := range map[string]struct {
		then  []error // of the calls, in order; then it works
		after time.Duration
		tries int
		works bool
	}{
		"it works":                       {nil, 0, 2, true},
		"it never leaves":                {[]error{never, never, never, never}, 2 * time.Second, 0, false},
		"silence":                        {[]error{busy(7*time.Second, httpcall.Chat)}, 2 * time.Second, 1, false},
		"behind a part there is silence": {[]error{nil, busy(7*time.Second, httpcall.Chat)}, 7 * time.Second, 3, true},
		"behind a part it never leaves":  {[]error{nil, never, never, never}, 0, 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, ctx context.Context, s *sender.Turns) {
				patience, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				tries, start := 0, time.Now()
				_, err := s.Post(platforms.Patient(ctx, patience), chat, &sender.Plain{Parts: []string{"a", "b"}, Part: func(ctx context.Context, n *sender.Turn, part string) (relay.MessageID, error) {
					return relay.MessageID(part), n.Do(ctx, sender.Call{Do: func(context.Context) error {
						tries++
						if tries > len(tc.then) {
							return nil
						}
						return tc.then[tries-1]
					}})
				}})
				if took := time.Since(start); (err == nil) != tc.works || tc.tries > 0 && tries != tc.tries || tc.after > 0 && took != tc.after {
					t.Errorf("%v after %v and %d tries", err, took, tries)
				}
				if err != nil && failure(t, err).Outcome != relay.NotSent {
					t.Errorf("%+v, want that it was not sent", failure(t, err))
				}
			})
		})
	}
}
