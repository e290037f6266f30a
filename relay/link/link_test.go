package link

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// event is a direct message of user on Telegram.
func event(user relay.UserID, text string) relay.Event {
	return relay.Event{
		Bot:    relay.Bot{Platform: "telegram", ID: "42"},
		Source: relay.Source{Platform: "telegram", ChatID: "dm-" + relay.ChatID(user), ChatType: relay.ChatDM, UserID: user},
		Text:   text,
	}
}

// inGroup is ev, said where others read it.
func inGroup(ev relay.Event) relay.Event {
	ev.Source.ChatType, ev.Source.ChatID = relay.ChatGroup, "group"
	return ev
}

// opened is ev as a network brings it when somebody opened a deep link.
func opened(ev relay.Event) relay.Event {
	ev.Traits.DeepLink = true
	return ev
}

type macer struct{}

func (macer) MAC(purpose string, token relay.Secret) []byte {
	sum := sha256.Sum256([]byte(purpose + "\x00key\x00" + token.RevealString()))
	return sum[:]
}

// bench is a desk over a real store, with a clock that stands still until it is moved.
type bench struct {
	*Desk
	db   *store.DB
	path string
	now  time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := openBench(t)
	t.Cleanup(func() { b.close(t) })
	return b
}

// openBench is newBench for tests that close the store themselves.
func openBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "db"), now: start}
	clock := func() time.Time { return b.now }
	db, err := store.Open(b.path, store.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"home", "kids"} {
		g := store.Gateway{ID: relay.GatewayID(name), Instance: relay.InstanceID(name), Tenant: "ours", CreatedAt: start}
		i := store.Instance{ID: relay.InstanceID(name), Tenant: "ours", CreatedAt: start}
		if err := db.Enroll(t.Context(), nil, g, i); err != nil {
			t.Fatal(err)
		}
	}
	b.db, b.Desk = db, NewDesk(db, macer{}, clock)
	return b
}

func (b *bench) close(t *testing.T) {
	if err := b.db.Close(); err != nil {
		t.Errorf("close store: %v", err)
	}
}

func (b *bench) mint(t *testing.T, i relay.InstanceID, p relay.PlatformID) string {
	t.Helper()
	code, _, err := b.Mint(t.Context(), audit.Actor{}, i, p)
	if err != nil {
		t.Fatalf("Mint: %v", err)
	}
	return code
}

// say runs ev through Command and Do, as the hub does, and is what is answered.
func (b *bench) say(t *testing.T, ev relay.Event) string {
	t.Helper()
	return b.ask(t, ev).Text
}

// ask is say with the options of the answer.
func (b *bench) ask(t *testing.T, ev relay.Event) relay.Answer {
	t.Helper()
	c, ok := Command(ev)
	if !ok {
		t.Fatalf("%q is no control message", ev.Text)
	}
	answer, err := b.Do(t.Context(), ev, c)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if code, shaped := parseCode(c.typed); shaped && (strings.Contains(answer.Text, c.typed) || strings.Contains(answer.Text, code)) {
		t.Errorf("answer %q repeats the code", answer.Text)
	}
	return answer
}

func (b *bench) bindings(t *testing.T, user relay.UserID) []store.Binding {
	t.Helper()
	bs, err := b.db.Bindings(t.Context(), store.BindingFilter{Platform: "telegram", User: user})
	if err != nil {
		t.Fatal(err)
	}
	return bs
}

func TestMint(t *testing.T) {
	b := newBench(t)
	code, expires, err := b.Mint(t.Context(), audit.Actor{}, "home", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(code) != 11 || code[3] != '-' || code[7] != '-' {
		t.Errorf("code %q, want three symbols three times, dashes between", code)
	}
	if want := start.Add(10 * time.Minute); !expires.Equal(want) {
		t.Errorf("expires %v, want %v", expires, want)
	}
	if _, _, err := b.Mint(t.Context(), audit.Actor{}, "nobody", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Mint for nobody: %v, want %v", err, store.ErrNotFound)
	}
}

// Invariant 1.
func TestCodeIsNotInTheFile(t *testing.T) {
	b := openBench(t)
	shown := b.mint(t, "home", "")
	b.close(t)
	file, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	code, _ := parseCode(shown)
	if strings.Contains(string(file), code) || strings.Contains(string(file), shown) {
		t.Error("the database file contains the code")
	}
}

func TestRedeem(t *testing.T) {
	b := newBench(t)
	shown := b.mint(t, "home", "telegram")
	ev := event("ann", "/link "+strings.ToLower(strings.Replace(shown, "-", " ", 1)))
	ev.Source.UserDisplayName = "Ann"
	answer := b.say(t, ev)
	if !strings.Contains(answer, "`home`") {
		t.Errorf("answer %q does not name the instance", answer)
	}
	bs := b.bindings(t, "ann")
	if len(bs) != 1 || bs[0].Instance != "home" || bs[0].Tenant != "ours" || bs[0].DMChat != "dm-ann" || bs[0].Names.Told != "Ann" {
		t.Fatalf("bindings %+v, want one to home with its chat and her name", bs)
	}
	// A crash before the answer: the same message comes again.
	if again := b.say(t, ev); again != answer {
		t.Errorf("the same message again: %q, want %q", again, answer)
	}
	// Anybody else: invariant 1.
	if got := b.say(t, event("bob", "/link "+shown)); got != answerWrong {
		t.Errorf("another person: %q, want %q", got, answerWrong)
	}
	if bs := b.bindings(t, "bob"); len(bs) != 0 {
		t.Errorf("bob is bound: %+v", bs)
	}
}

// TestLinkedBeside: whose direct messages go to another gateway is not told that they come to this one.
func TestLinkedBeside(t *testing.T) {
	b := newBench(t)
	b.say(t, event("ann", "/link "+b.mint(t, "home", "telegram")))
	answer := b.say(t, event("ann", "/link "+b.mint(t, "kids", "telegram")))
	if !strings.Contains(answer, "linked to `kids`") || !strings.Contains(answer, "still goes to `home`") {
		t.Errorf("answer %q; want that direct messages still go to home", answer)
	}
}

func TestDeepLinkRedeems(t *testing.T) {
	b := newBench(t)
	if got := b.say(t, opened(event("ann", "/start "+b.mint(t, "kids", "telegram")))); !strings.Contains(got, "kids") {
		t.Errorf("answer %q, want one that names kids", got)
	}
}

// Invariant 4: one answer for all.
func TestCodesThatDoNotWork(t *testing.T) {
	b := newBench(t)
	expired := b.mint(t, "home", "")
	b.now = start.Add(lifetime)
	other := b.mint(t, "home", "discord")
	used := b.mint(t, "home", "")
	b.say(t, event("carl", "/link "+used))
	for name, code := range map[string]string{
		"expired": expired, "for another platform": other, "used by another": used,
		"unknown": "0000-0000", "mistyped": "0000-000", "no code": "please",
	} {
		user := relay.UserID(name)
		if got := b.say(t, event(user, "/link "+code)); got != answerWrong {
			t.Errorf("%s: %q, want %q", name, got, answerWrong)
		}
		if bs := b.bindings(t, user); len(bs) != 0 {
			t.Errorf("%s: bound to %+v", name, bs)
		}
	}
}

func TestCodeWorksUntilItExpires(t *testing.T) {
	b := newBench(t)
	code := b.mint(t, "home", "")
	b.now = start.Add(lifetime - time.Second)
	if got := b.say(t, event("ann", "/link "+code)); !strings.Contains(got, "home") {
		t.Errorf("a second before the end: %q", got)
	}
}

func TestLinkWithoutACodeExplains(t *testing.T) {
	b := newBench(t)
	if got := b.say(t, event("ann", "/link")); got != answerHow {
		t.Errorf("answer %q, want %q", got, answerHow)
	}
}

// Invariant 2.
func TestCodeTypedInAGroupIsBurnt(t *testing.T) {
	for name, change := range map[string]func(*relay.Event){
		"a person":               func(*relay.Event) {},
		"somebody without an id": func(ev *relay.Event) { ev.Source.UserID = "" },
		"a bot":                  func(ev *relay.Event) { ev.Traits.AuthorIsBot = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			code := b.mint(t, "home", "")
			ev := inGroup(event("ann", "/link "+code))
			change(&ev)
			want := answerBurnt
			if ev.Traits.AuthorIsBot {
				want = ""
			}
			if got := b.say(t, ev); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
			if got := b.say(t, event("ann", "/link "+code)); got != answerWrong {
				t.Errorf("the burnt code in a direct message: %q, want %q", got, answerWrong)
			}
			if bs := b.bindings(t, "ann"); len(bs) != 0 {
				t.Errorf("ann is bound: %+v", bs)
			}
		})
	}
}

func TestWhoCannotRedeem(t *testing.T) {
	for name, change := range map[string]func(*relay.Event){
		"somebody without an id": func(ev *relay.Event) { ev.Source.UserID = "" },
		"a bot":                  func(ev *relay.Event) { ev.Traits.AuthorIsBot = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			code := b.mint(t, "home", "")
			ev := event("ann", "/link "+code)
			change(&ev)
			if got := b.say(t, ev); got != "" {
				t.Errorf("answer %q, want silence", got)
			}
			if got := b.say(t, event("eve", "/link "+code)); !strings.Contains(got, "home") {
				t.Errorf("a person afterwards: %q, want to be linked", got)
			}
		})
	}
}

// Invariant 3.
func TestFiveTriesThenSilence(t *testing.T) {
	b := newBench(t)
	code := b.mint(t, "home", "")
	wrong := event("ann", "/link 0000-0000")
	for i := range 5 {
		b.now = start.Add(time.Duration(i) * time.Minute)
		if got := b.say(t, wrong); got != answerWrong {
			t.Errorf("try %d: %q, want %q", i+1, got, answerWrong)
		}
	}
	for what, ev := range map[string]relay.Event{
		"a wrong code":    wrong,
		"the right code":  event("ann", "/link "+code),
		"no code":         event("ann", "/link"),
		"one in a group":  inGroup(wrong),
		"on the deeplink": opened(event("ann", "/start "+code)),
	} {
		if got := b.say(t, ev); got != "" {
			t.Errorf("sixth try, %s: %q, want silence", what, got)
		}
	}
	if bs := b.bindings(t, "ann"); len(bs) != 0 {
		t.Errorf("the sixth try bound ann: %+v", bs)
	}
	if got := b.say(t, event("bob", "/link 0000-0000")); got != answerWrong {
		t.Errorf("somebody else: %q, want %q", got, answerWrong)
	}
	elsewhere := wrong
	elsewhere.Source.Platform = "discord"
	if got := b.say(t, elsewhere); got != answerWrong {
		t.Errorf("somebody of the same id on another platform: %q, want %q", got, answerWrong)
	}

	b.now = start.Add(tryWindow - time.Second)
	if got := b.say(t, wrong); got != "" {
		t.Errorf("a second before the first try is forgotten: %q, want silence", got)
	}
	b.now = start.Add(tryWindow)
	if got := b.say(t, wrong); got != answerWrong {
		t.Errorf("when the first try is forgotten: %q, want %q", got, answerWrong)
	}
	if got := b.say(t, wrong); got != "" {
		t.Errorf("and once more: %q, want silence", got)
	}
}

func TestBurningIsNotRationed(t *testing.T) {
	b := newBench(t)
	for range maxTries {
		b.say(t, inGroup(event("ann", "/link 0000-0000")))
	}
	code := b.mint(t, "home", "")
	if got := b.say(t, inGroup(event("ann", "/link "+code))); got != "" {
		t.Errorf("sixth code in a group: %q, want silence", got)
	}
	if got := b.say(t, event("bob", "/link "+code)); got != answerWrong {
		t.Errorf("the code after that: %q, want %q", got, answerWrong)
	}
}

func TestSuccessIsNoTry(t *testing.T) {
	b := newBench(t)
	for range maxTries - 1 {
		b.say(t, event("ann", "/link 0000-0000"))
	}
	for _, i := range []relay.InstanceID{"home", "kids", "home"} {
		if got := b.say(t, event("ann", "/link "+b.mint(t, i, ""))); !strings.Contains(got, string(i)) {
			t.Errorf("a right code for %s: %q", i, got)
		}
	}
	if got := b.say(t, event("ann", "/link 0000-0000")); got != answerWrong {
		t.Errorf("fifth wrong code: %q, want %q", got, answerWrong)
	}
	if got := b.say(t, event("ann", "/link 0000-0000")); got != "" {
		t.Errorf("sixth wrong code: %q, want silence", got)
	}
}

func TestStoreTroubleIsAnErrorAndNoTry(t *testing.T) {
	b := openBench(t)
	b.close(t)
	for _, ev := range []relay.Event{event("ann", "/link 7KQ2-9F4M"), inGroup(event("ann", "/link 7KQ2-9F4M"))} {
		for range 2 * maxTries {
			answer, err := b.redeem(t.Context(), ev, "7KQ2-9F4M")
			if err == nil || answer != "" {
				t.Fatalf("Redeem on a closed store = %q, %v; want an error", answer, err)
			}
			if strings.Contains(err.Error(), "7KQ2") {
				t.Errorf("error %q contains the code", err)
			}
		}
	}
}

// Invariant 5.
func TestAudit(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	code, _, err := b.Mint(ctx, audit.Actor{Kind: audit.ActorGateway, Name: "gw"}, "home", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // again: nothing changes
		b.say(t, event("ann", "/link "+code))
	}
	b.say(t, event("bea", "/link "+code))
	got, err := b.db.Audit.List(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Entry{
		{At: start, Actor: audit.Actor{Kind: audit.ActorGateway, Name: "gw"}, Action: "link-code", Tenant: "ours", Instance: "home"},
		{At: start, Actor: audit.Actor{Kind: audit.ActorPerson, Name: "telegram:ann"}, Action: "link", Tenant: "ours", Instance: "home"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows %+v, want %+v", got, want)
	}
}

// TestAnswersThatCost: strangers of many numbers get five answers together that link nobody; a code that works is answered.
func TestAnswersThatCost(t *testing.T) {
	b := newBench(t)
	texted := func(user relay.UserID, text string) relay.Event {
		ev := event(user, text)
		ev.Source.Platform, ev.Traits.Costly = "sms", true
		return ev
	}
	answers := 0
	for i := range 20 {
		text := []string{"/link", "/link x", "/link 0000-0000"}[i%3]
		if b.say(t, texted(relay.UserID(fmt.Sprintf("+1500555%04d", i)), text)) != "" {
			answers++
		}
	}
	if answers != maxTries {
		t.Errorf("%d answers to strangers, want %d", answers, maxTries)
	}
	if got := b.say(t, texted("+4915112345678", "/link "+b.mint(t, "home", ""))); !strings.Contains(got, "home") {
		t.Errorf("a code that works: %q", got)
	}
	b.now = start.Add(tryWindow)
	if got := b.say(t, texted("+4915187654321", "/link x")); got != answerWrong {
		t.Errorf("ten minutes later: %q, want %q", got, answerWrong)
	}
}
