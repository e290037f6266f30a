package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/platforms/telegram"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

var neighbourhood = flag.Duration("neighbours", 10*time.Second, "how long each phase of TestNeighbours lasts, on its own clock; with a minute or more mallory is faster, too")

// TestNeighbours: home, kids and mallory live on the same two bots. The whole connector runs, but for
// its sockets, on the bubble's clock: what it measures is who waits for whom, whatever the machine does.
// Mallory is hostile in every way that was found, in turn and at last in all of them at once, and then with
// forty instances on everything that is shared. The others' messages come, and are answered, hardly later than
// in quiet times; none is lost, doubled, declined or changed. Their photos and files come through, what they
// posted in the web chat and set as reactions stays, and who is away is poked.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))) // Discord's ids begin in 2015
		w := newStreet(t)
		ctx, end := context.WithCancel(t.Context())
		var living sync.WaitGroup
		w.live(ctx, &living)
		m := w.mallory
		w.settle(warming, 20*time.Second)
		rows := w.audited("home")
		for _, c := range w.tenants {
			c.keepsake(ctx)
		}
		w.enter(quiet)
		w.poke()
		w.settle(quiet, 4**neighbourhood)
		phases := []struct {
			name  string
			do    func(context.Context)
			least time.Duration // that it needs
		}{
			{"secret groups", m.secretGroups, 0},
			{"nothing to delete", m.nothingToDelete, 0},
			{"questions", m.questions, 0},
			{"punishment", m.punishment, 0},
			{"strangers", m.strangers, 0},
			{"links", m.links, 0},
			{"others' messages", m.others, 0},
			{"reactions", m.reactions, 0},
			{"spelling", m.spelling, 0},
			{"commands", m.commands, 0},
			{"monsters", m.monsters, 0},
			{"manifests", m.manifests, 0},
			{"everywhere", m.everywhere, 0},
			{"all at once", func(ctx context.Context) {
				m.together(ctx, m.secretGroups, m.nothingToDelete, m.questions, m.punishment, m.strangers, m.links, m.others,
					m.reactions, m.spelling, m.commands, m.monsters, m.manifests, m.everywhere)
			}, 30 * time.Second},
			{"forty at once", m.forty, 40 * time.Second},
			{"kicked", m.kicked, 85 * time.Second},
		}
		for _, p := range phases {
			w.enter(p.name)
			hostile, stop := context.WithTimeout(ctx, max(*neighbourhood, p.least))
			p.do(hostile)
			stop()
			w.settle(between, 3*time.Second)
		}
		w.enter("the end")
		w.quietly()
		w.judge(rows)
		end()
		living.Wait()
	})
}

// The phases in which nobody is hostile.
const (
	warming = "warming up"
	quiet   = "quiet"
	between = "between"
)

// series is what is measured together.
type series struct{ phase, tenant, network, what string }

// street is the connector with its neighbours.
type street struct {
	t       *testing.T
	tg      *telegramWorld
	dc      *discordWorld
	db      *store.DB
	core    *core
	rooms   *local.Rooms
	door    *platformtest.Pipes
	tenants []*calm
	mallory *hostile
	people  context.CancelFunc // ends what the calm people say
	speech  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	now     string     // the phase
	samples map[series][]time.Duration
	worst   map[series]string // what took longest, and when
	faults  []string
	more    int       // faults that are not in the list
	poking  time.Time // when somebody wrote to the attic whose poke has not come; zero: it has
}

func newStreet(t *testing.T, change ...func(*config.Config)) *street {
	w := &street{t: t, tg: newTelegramWorld(), dc: newDiscordWorld(), door: platformtest.NewPipes(), samples: map[series][]time.Duration{}, worst: map[series]string{}}
	w.tg.secretive = func(chat string) bool { n := number(chat); return n < secretChats && n >= secretChats-5 }
	w.tg.unknown = func(chat string) bool { n := number(chat); return n < secretChats-5 && n >= secretChats-10 }
	w.tg.punished = func(chat string) bool { n := number(chat); return n < punishedChats && n >= punishedChats-10 }
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	cfg := &config.Config{
		DataDir: dir, Delivery: config.Delivery{Window: 8}, Vault: config.Vault{KeyFile: filepath.Join(dir, "vault.key")},
		Identity: identity.Options{Mode: identity.None}, Media: config.Media{MaxTotal: roomOf},
	}
	for _, do := range change {
		do(cfg)
	}
	db, v, err := openStore(t.Context(), cfg, true, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	chat := local.NewWeb(local.NewRooms(), log)
	w.rooms = chat.Rooms()
	if w.core, err = newCore(cfg, db, v, []platforms.Bot{w.tg.open(t, log), w.dc.open(t, log), chat}, cfg.Guard("192.0.2.1:8080"), log, "192.0.2.1:8080", nil); err != nil {
		t.Fatal(err)
	}
	w.core.waker = wake.New(db, db.Lanes, w.core.hub, pokes{w}, wake.Options{Log: log}) // the guard's client would use sockets
	w.core.beside = append(w.core.beside, w.core.waker.Run)
	every := 50 * time.Millisecond
	if *neighbourhood >= time.Minute {
		every = 10 * time.Millisecond
	}
	w.mallory = &hostile{w: w, every: every}
	return w
}

// front is where its server is reached.
func (w *street) front() door.Door {
	return door.Strangers(w.door, nil, nil, slog.New(slog.DiscardHandler))
}

// live starts everything, and lets it end with ctx.
func (w *street) live(ctx context.Context, living *sync.WaitGroup) {
	living.Go(func() { w.dc.run(ctx) })
	closed := make(chan struct{})
	living.Go(func() {
		defer close(closed)
		if err := w.core.run(ctx, ctx, w.front()); err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	living.Go(func() {
		<-closed
		if err := w.db.Close(); err != nil {
			w.t.Error(err)
		}
	})
	speaking, hush := context.WithCancel(ctx)
	w.people = hush
	for n, name := range []string{"home", "kids"} {
		c := &calm{w: w, telegram: make(chan struct{}, 1), said: map[spot]*line{}}
		c.neighbour = w.enroll(name, name, strconv.Itoa(4001+n), n+1, c.hear)
		w.claim(name, telegram.Name, "", sharedGroups[n])
		w.claim(name, discord.Name, "900", sharedChannels[n])
		w.tenants = append(w.tenants, c)
		owner, guest, shift := strconv.Itoa(4001+n), strconv.Itoa(4101+n), time.Duration(n)*110*time.Millisecond+5*time.Second
		speak := func(network relay.PlatformID, chat, guest string, offset time.Duration) {
			w.speech.Go(func() { c.speak(speaking, network, chat, owner, guest, offset+shift) })
		}
		speak(telegram.Name, owner, "", 0)
		speak(telegram.Name, sharedGroups[n], guest, 970*time.Millisecond)
		speak(discord.Name, direct(owner), "", 420*time.Millisecond)
		speak(discord.Name, sharedChannels[n], guest, 1310*time.Millisecond)
		living.Go(func() { c.run(ctx) })
	}
	w.away(attic, "home", atticsOwn, sameHost+attic)
	for n := range mobbed - 2 {
		g := w.away("mob"+strconv.Itoa(n), "mallory", strconv.Itoa(firstMob+n), sameHost+strconv.Itoa(n))
		g.client = &http.Client{Transport: w.door.From("198.51.100." + strconv.Itoa(100+n))}
		w.mallory.mob = append(w.mallory.mob, g)
		living.Go(func() {
			<-ctx.Done()
			g.client.CloseIdleConnections()
		})
	}
	for n, name := range []string{"mallory", "mallet"} {
		g := w.enroll(name, "mallory", strconv.Itoa(4666+n), 5+n, func(relay.Event) {})
		w.mallory.gateways = append(w.mallory.gateways, g)
		living.Go(func() { g.run(ctx) })
	}
	for n := range 10 {
		w.claim("mallory", telegram.Name, "", strconv.Itoa(secretChats-1-n))
		w.claim("mallory", telegram.Name, "", strconv.Itoa(punishedChats-1-n))
	}
	for n := range 40 {
		w.claim("mallory", telegram.Name, "", strconv.Itoa(manyChats-1-n))
	}
	w.claim("mallory", telegram.Name, "", plainChat)
	for n := range 8 {
		w.claim([]string{"mallory", "mallet"}[n%2], discord.Name, "901", nth(ownChannels, n, 8))
	}
	w.speech.Go(func() { // mallory's person is in the others' chats, and says something now and then
		for n := 0; nap(speaking, 20*time.Second); n++ {
			for i := range sharedGroups {
				if w.tg.member(sharedGroups[i], malPerson) {
					w.tg.say(sharedGroups[i], malPerson, "mallory in the group "+strconv.Itoa(n), nil)
					w.dc.say(sharedChannels[i], malPerson, "mallory in the channel "+strconv.Itoa(n), nil)
				}
			}
		}
	})
}

func (w *street) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// enroll makes a gateway with its instance, and binds a person of both networks to it.
func (w *street) enroll(name, tenant, person string, host int, inbox func(relay.Event)) *neighbour {
	w.t.Helper()
	ctx, svc := w.t.Context(), w.core.service
	cred, err := svc.Enroll(ctx, audit.Actor{}, manage.Enroll{Name: name, Tenant: tenant})
	w.must(err)
	no := false
	for _, p := range []relay.PlatformID{telegram.Name, discord.Name} {
		_, err := svc.Bind(ctx, audit.Actor{}, manage.Bind{Name: name, Platform: p, User: relay.UserID(person)})
		_, err2 := svc.SetRelevance(ctx, audit.Actor{}, manage.SetRelevance{Name: name, Platform: p, RequireAddress: &no})
		w.must(errors.Join(err, err2))
	}
	_, err = svc.Bind(ctx, audit.Actor{}, manage.Bind{Name: name, Platform: local.WebID, User: relay.UserID(name)})
	w.must(err)
	_, err = svc.SetPrincipal(ctx, audit.Actor{}, manage.SetPrincipal{Name: name, Policy: relay.AnyOne})
	w.must(err)
	return &neighbour{name: name, cred: cred, inbox: inbox, client: &http.Client{Transport: w.door.From("198.51.100." + strconv.Itoa(host))}}
}

// away makes a gateway that never dials, with a wake URL, and binds a person of Telegram's to it.
func (w *street) away(name, tenant, person, wakeURL string) *neighbour {
	w.t.Helper()
	ctx, svc := w.t.Context(), w.core.service
	cred, err := svc.Enroll(ctx, audit.Actor{}, manage.Enroll{Name: name, Tenant: tenant, WakeURL: wakeURL})
	w.must(err)
	_, err = svc.Bind(ctx, audit.Actor{}, manage.Bind{Name: name, Platform: telegram.Name, User: relay.UserID(person)})
	w.must(err)
	return &neighbour{name: name, cred: cred}
}

func (w *street) claim(name string, p relay.PlatformID, scope, chat string) {
	w.t.Helper()
	w.must(w.db.Claim(w.t.Context(), nil, store.Grant{
		Platform: p, Scope: relay.ScopeID(scope), Chat: relay.ChatID(chat), Instance: relay.InstanceID(name),
		Tenant: relay.TenantID(strings.Replace(name, "mallet", "mallory", 1)), GrantedAt: time.Now(),
	}))
}

func (w *street) phase() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *street) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = phase
}

// settle lets a phase without hostility pass.
func (w *street) settle(phase string, d time.Duration) {
	w.enter(phase)
	time.Sleep(d)
}

// changed makes a network say that a chat is not what it was.
func (w *street) changed(network relay.PlatformID, chat string) {
	if network == telegram.Name {
		w.tg.push(obj{"my_chat_member": obj{
			"chat": obj{"id": number(chat), "type": "supergroup", "title": "Group"}, "new_chat_member": obj{"status": "administrator", "user": obj{"id": number(telegramBot)}},
		}})
		return
	}
	w.dc.dispatch("CHANNEL_UPDATE", channelObject(chat))
}

// quietly lets the people fall silent and everything come to its end.
func (w *street) quietly() {
	w.people()
	w.speech.Wait()
	time.Sleep(time.Minute)
	for _, c := range w.tenants {
		c.turns.Wait()
	}
	synctest.Wait()
}

// took measures what began at a time.
func (w *street) took(s series, began time.Time, what ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := time.Since(began)
	if all := w.samples[s]; len(all) == 0 || d > slices.Max(all) {
		w.worst[s] = fmt.Sprint(what, " at ", time.Now().Format("04:05.000"))
	}
	w.samples[s] = append(w.samples[s], d)
}

// wrong notes what must not happen.
func (w *street) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 30 {
		w.more++
		return
	}
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// audited is how many rows of the audit list are about an instance.
func (w *street) audited(name string) int {
	rows, err := w.core.service.Audit(w.t.Context(), manage.AuditQuery{Name: name})
	w.must(err)
	return len(rows)
}

// of is the nearest-rank quantile.
func of(all []time.Duration, quantile float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[max(0, int(float64(len(all))*quantile+0.999999)-1)]
}

// judge compares what was measured and looks at what stands.
func (w *street) judge(rows int) {
	t, ctx := w.t, w.t.Context()
	messages := 0
	for _, c := range w.tenants {
		messages += c.judge()
		if !c.kept() {
			w.wrong("%s's keepsake is gone from the web chat", c.name)
		}
		if n := c.lost(); n != 0 {
			w.wrong("%s lost its connection %d times", c.name, n)
		}
	}
	if n := w.audited("home"); n != rows {
		w.wrong("the audit list had %d rows of home's, and has %d", rows, n)
	}
	if n := w.dc.thinking(); n != 0 {
		w.wrong("%d slash commands are left thinking", n)
	}
	st, err := w.core.service.Status(ctx, struct{}{})
	w.must(err)
	for _, i := range st.Instances {
		if i.Tenant != "mallory" && i.ID != attic && (i.Backlog != 0 || i.Dead != 0 || len(i.Warnings) != 0) {
			w.wrong("%s ends with %+v", i.ID, i)
		}
	}
	if !st.Ready {
		w.wrong("not ready: %+v", st.Bots)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.SortedFunc(maps.Keys(w.samples), compareSeries) {
		calm := w.samples[series{quiet, s.tenant, s.network, s.what}]
		floor := takes
		switch {
		case s.network == string(discord.Name) && s.what == "react":
			floor = 2 * reactEvery // in a channel where mallory reacts, too, and has its turn
		case s.what == "photo" || s.what == "file": // mallory's places are asked back after three seconds, and looked for every second
			floor = 5 * time.Second
		case s.network == string(discord.Name) && s.what == "out": // each of the three other gateways has its turn at the bot's rate
			floor += 3 * botEvery
		case s.network == string(telegram.Name) && (s.what == "in" || s.what == "shown"):
			// A poll is under way when the message comes, and the look who can see it has to wait for the bot's next.
			floor += botEvery
		case s.network == string(telegram.Name) && (s.what == "out" || s.what == "react"):
			// Of half the bot's burst, home and kids may use up five in one instant by themselves, with the reactions at the
			// ends of turns: then one waits for the bot's next. Before that it may have waited for the end of an action of mallory's in the same chat, and
			// for the bot's turn behind that one. With fewer than a hundred messages the p99 is the one that met all of it.
			floor += 4 * botEvery
		}
		got, most := of(w.samples[s], 0.99), max(of(calm, 0.99)*3/2, of(calm, 0.99)+floor)
		t.Logf("%-17s %-4s %-8s %-5s %4d: p50 %8s p99 %8s", s.phase, s.tenant, s.network, s.what, len(w.samples[s]), of(w.samples[s], 0.5), got)
		if s.phase != warming && got > most {
			t.Errorf("in %s: %s's p99 %s %s is %s, and %s in quiet; the longest: %s", s.phase, s.tenant, s.network, s.what, got, of(calm, 0.99), w.worst[s])
		}
	}
	for _, f := range slices.Concat(w.faults, w.tg.faults, w.dc.faults) {
		t.Error(f)
	}
	if w.more > 0 {
		t.Errorf("and %d more", w.more)
	}
	m := w.mallory
	t.Logf("%d messages of home's and kids'; mallory: %d declined, %d carried out, %d reactions, %d strangers; Discord refused %d of late; counters %v",
		messages, m.declined.Load(), m.landed.Load(), m.reacted.Load(), m.strange.Load(), len(w.dc.refused), st.Counters)
	if m.declined.Load() < 100 || m.reacted.Load() < 10 || m.uploaded.Load() < 8 || m.foreigners.Load() < 10 {
		t.Errorf("mallory did too little: %d declined, %d reactions, %d uploads, %d others' reactions", m.declined.Load(), m.reacted.Load(), m.uploaded.Load(), m.foreigners.Load())
	}
	if w.poking != (time.Time{}) || len(w.samples[series{"forty at once", attic, "", "poke"}]) != 1 {
		t.Error("the attic was not poked")
	}
}

func compareSeries(a, b series) int {
	return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.network, b.network), cmp.Compare(a.what, b.what))
}
