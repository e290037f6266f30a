package manage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// owl is a bird that finds people.
type owl struct {
	*bird
	knows []relay.Source
}

func (o *owl) FindPeople(context.Context, string) ([]relay.Source, error) { return o.knows, nil }

// wrote is a verdict about something that a pigeon's person wrote.
func wrote(event string, user relay.UserID, name, handle string, i relay.InstanceID, why gate.Reason) gate.Decision {
	return gate.Decision{
		At: noon.Add(time.Duration(len(event)) * time.Second), Platform: "pigeon", BotID: "1", Event: relay.EventID(event), Chat: "loft",
		User: user, Person: name, Handle: handle, Instance: i, Reason: why,
	}
}

// TestLinkByTheNameOfAnAccount: of who is linked, who wrote, and whom the network finds; one, or nobody.
func TestLinkByTheNameOfAnAccount(t *testing.T) {
	live := &server{bots: []platforms.Bot{newBird("pigeon", "1"), &owl{newBird("raven", "1"), []relay.Source{
		{Platform: "raven", UserID: "r1", UserName: "Ann R.", UserHandle: "ann"}, {Platform: "raven", UserID: "r2", UserHandle: "anna"},
	}}}, decisions: []gate.Decision{
		wrote("e1", "p1", "Ann", "ann", "", gate.NoBinding), wrote("e2", "p2", "Bob", "Bob", "", gate.NoBinding), wrote("e3", "p1", "Ann", "ann", "", gate.NoBinding),
	}}
	w := newWorld(t, live)
	w.enroll(t, "home", "kids")
	link := func(p relay.PlatformID, user relay.UserID) (manage.Binding, error) {
		return w.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: p, User: user})
	}
	for _, tc := range []struct {
		on     relay.PlatformID
		handle relay.UserID
		want   relay.UserID
		name   string
	}{{"pigeon", "@ANN", "p1", "Ann"}, {"pigeon", "@bob", "p2", "Bob"}, {"raven", "@ann", "r1", "Ann R."}} {
		if b, err := link(tc.on, tc.handle); err != nil || b.User != tc.want || b.Person != tc.name {
			t.Errorf("%s %s: %+v, %v; want %s, %s", tc.on, tc.handle, b, err, tc.want, tc.name)
		}
	}
	_, err := link("pigeon", "@zoe")
	wantRefusal(t, err, manage.NotFound)
	if !strings.Contains(err.Error(), "cannot look people up") {
		t.Errorf("where bots cannot look: %v", err)
	}
	_, err = link("raven", "@zoe")
	wantRefusal(t, err, manage.NotFound)
	live.decisions = append(live.decisions, wrote("e4", "p9", "Ann", "Ann", "", gate.NoBinding)) // somebody else has the name now
	_, err = link("pigeon", "@ann")
	wantField(t, err, "userId")
	if !strings.Contains(err.Error(), "p1") || !strings.Contains(err.Error(), "p9") {
		t.Errorf("of two: %v, want both ids", err)
	}
	if _, err := link("pigeon", "p9"); err != nil { // by the id, and with the name they wrote under
		t.Fatal(err)
	}
	if _, err := w.Unbind(t.Context(), operator, manage.Bind{Name: "home", Platform: "pigeon", User: "@bob"}); err != nil {
		t.Errorf("unlink by name: %v", err)
	}
	gateway := audit.Actor{Kind: audit.ActorGateway, Name: "home"}
	if _, err := w.SetDMDefault(t.Context(), gateway, manage.Bind{Name: "home", Platform: "pigeon", User: "@ann"}); err == nil || strings.Contains(err.Error(), "p1") {
		t.Errorf("a gateway learns of people by their names: %v", err)
	}
}

// TestLinkByANumber: where people are known by a number that is not their id, it names them in every command of the
// operator's, and a gateway does not learn whose it is.
func TestLinkByANumber(t *testing.T) {
	live := &server{bots: []platforms.Bot{&owl{newBird("raven", "1"), []relay.Source{{Platform: "raven", UserID: "r1", UserHandle: "+49151"}}}}}
	w := newWorld(t, live)
	w.change(func(s *manage.Settings) {
		s.Networks = []platforms.Network{{Name: "raven", IsHandle: func(s string) bool { return strings.HasPrefix(s, "+") }}}
	})
	w.enroll(t, "home")
	who := manage.Bind{Name: "home", Platform: "raven", User: "+49151"}
	if b, err := w.Bind(t.Context(), operator, who); err != nil || b.User != "r1" {
		t.Errorf("linked %+v, %v", b, err)
	}
	if b, err := w.SetDMDefault(t.Context(), operator, who); err != nil || b.User != "r1" {
		t.Errorf("direct messages of %+v, %v", b, err)
	}
	for actor, want := range map[audit.ActorKind]relay.UserID{audit.ActorCLI: "r1", audit.ActorGateway: "+49151"} {
		p, err := w.SetPrincipal(t.Context(), audit.Actor{Kind: actor, Name: "home"}, manage.SetPrincipal{
			Name: "home", Policy: relay.AllowList, Allow: []store.Person{{Platform: "raven", User: "+49151"}},
		})
		if err != nil || len(p.Allow) != 1 || p.Allow[0].User != want {
			t.Errorf("%v: allowed %+v, %v, want %s", actor, p.Allow, err, want)
		}
	}
	if b, err := w.Unbind(t.Context(), operator, who); err != nil || b.User != "r1" {
		t.Errorf("unlinked %+v, %v", b, err)
	}
}

// TestAnIDThatBeginsLikeAName: where ids begin with "@", too, they are ids, of people who have not written yet as well.
func TestAnIDThatBeginsLikeAName(t *testing.T) {
	live := &server{bots: []platforms.Bot{newBird("heron", "1")}}
	w := newWorld(t, live)
	w.change(func(s *manage.Settings) {
		s.Networks = []platforms.Network{{Name: "heron", Label: "Heron", CheckID: func(s string) error {
			if !strings.Contains(s, ":") {
				return errors.New("want @name:server")
			}
			return nil
		}}}
	})
	w.enroll(t, "home")
	if b, err := w.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: "heron", User: "@ann:nest"}); err != nil || b.User != "@ann:nest" {
		t.Errorf("linked %+v, %v", b, err)
	}
	_, err := w.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: "heron", User: "@ann"})
	wantRefusal(t, err, manage.NotFound)
}

func TestNamesOfPeople(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	w.enroll(t, "home")
	_, err := w.NamePerson(t.Context(), operator, manage.NamePerson{Platform: "pigeon", User: "ann", Name: "Aunt Ann"})
	wantRefusal(t, err, manage.NotFound)
	if _, err := w.Bind(t.Context(), operator, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}); err != nil {
		t.Fatal(err)
	}
	if n, err := w.NamePerson(t.Context(), operator, manage.NamePerson{Platform: "pigeon", User: "ann", Name: "Aunt\x1b[31m Ann"}); err != nil || n.Person != "Aunt[31m Ann" {
		t.Errorf("named %+v, %v", n, err)
	}
	_, err = w.NamePerson(t.Context(), operator, manage.NamePerson{Platform: "pigeon", User: "ann", Name: "\u200e"})
	wantField(t, err, "name")
	g, err := w.Gateway(t.Context(), manage.Named{Name: "home"})
	if err != nil || g.Holds.People[0].Person != "Aunt[31m Ann" {
		t.Errorf("people %+v, %v", g.Holds, err)
	}
	rows, err := w.Audit(t.Context(), manage.AuditQuery{})
	if last := rows[len(rows)-1]; err != nil || last.Action != "name" || last.Person != "Aunt[31m Ann" || strings.Contains(last.Detail, "Aunt") {
		t.Errorf("the audit list has %+v, %v", last, err)
	}
}

// TestRename: every operation takes the new name and the id, and no other gateway gets either.
func TestRename(t *testing.T) {
	w := newWorld(t, nil, newBird("pigeon", "1"))
	w.enroll(t, "home", "kids")
	if _, err := w.Enroll(t.Context(), system, manage.Enroll{Name: "other", Tenant: "family"}); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Rename(t.Context(), operator, manage.Rename{Name: "home", To: "kitchen"}); err != nil || r.Instance != "home" || r.Former != "home" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, name := range []string{"home", "kitchen"} {
		g, err := w.Gateway(t.Context(), manage.Named{Name: name})
		if err != nil || g.ID != "home" || g.Name != "kitchen" {
			t.Errorf("gateway %s is %+v, %v", name, g, err)
		}
		if _, err := w.Link(t.Context(), operator, manage.LinkFor{Name: name}); err != nil {
			t.Errorf("link %s: %v", name, err)
		}
		if _, err := w.Rotate(t.Context(), operator, manage.Named{Name: name}); err != nil {
			t.Errorf("rotate %s: %v", name, err)
		}
	}
	for what, r := range map[string]manage.Rename{
		"one of the tenant":     {Name: "kids", To: "kitchen"},
		"one of another tenant": {Name: "other", To: "kitchen"},
		"an id":                 {Name: "other", To: "home"},
	} {
		_, err := w.Rename(t.Context(), operator, r)
		if wantRefusal(t, err, manage.Exists); err == nil {
			t.Errorf("%s is called as %s", r.Name, what)
		}
	}
	_, err := w.Enroll(t.Context(), operator, manage.Enroll{Name: "kitchen"})
	wantRefusal(t, err, manage.Exists)
	_, err = w.Rename(t.Context(), operator, manage.Rename{Name: "kids", To: "two words"})
	wantField(t, err, "to")
	st, err := w.Status(t.Context(), struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range st.Instances {
		if want := map[relay.InstanceID]string{"home": "kitchen"}[i.ID]; i.Name != want {
			t.Errorf("%s has the name %q, want %q", i.ID, i.Name, want)
		}
	}
	for _, f := range st.Findings {
		if f.About == "gateway home" && f.Name != "gateway kitchen" || f.About == "gateway kids" && f.Name != "" {
			t.Errorf("finding %+v", f)
		}
	}
	if !slices.ContainsFunc(st.Findings, func(f finding.Finding) bool { return f.Name == "gateway kitchen" }) {
		t.Error("no finding has the gateway's name")
	}
}

// TestWhoHoldsAChat: the operator is told, and what releases it; a gateway is not.
func TestWhoHoldsAChat(t *testing.T) {
	live := &server{bots: []platforms.Bot{newBird("pigeon", "1")}, manages: places{"loft": {Platform: "pigeon", Chat: "loft"}}}
	w := newWorld(t, live)
	w.enroll(t, "home", "kids")
	if _, err := w.Rename(t.Context(), operator, manage.Rename{Name: "home", To: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	scope := manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"}
	if g, err := w.Claim(t.Context(), operator, scope); err != nil || g.Gateway != "kitchen" {
		t.Fatalf("%+v, %v", g, err)
	}
	scope.Name = "kids"
	_, err := w.Claim(t.Context(), operator, scope)
	wantRefusal(t, err, manage.Held)
	refused := err.(*manage.Error)
	if !strings.Contains(refused.Message, `"kitchen"`) || !slices.Equal(refused.Help, []string{"release", "home", "pigeon", "loft"}) {
		t.Errorf("refused with %q, %q", refused.Message, refused.Help)
	}
	_, err = w.ClaimOwned(t.Context(), audit.Actor{Kind: audit.ActorGateway, Name: "kids"}, scope)
	wantRefusal(t, err, manage.Held)
	if refused := err.(*manage.Error); strings.Contains(refused.Message, "kitchen") || len(refused.Help) > 0 {
		t.Errorf("a gateway is told %q, %q", refused.Message, refused.Help)
	}
}

func TestExplainOfSome(t *testing.T) {
	live := &server{decisions: []gate.Decision{
		wrote("e", "p1", "Ann", "ann", "home", gate.NotAddressed), wrote("e2", "p2", "Bob", "", "kids", gate.NotAddressed),
		wrote("e33", "", "", "", "", gate.OwnMessage), wrote("e444", "p1", "Ann", "ann", "home", gate.NotAddressed),
		wrote("e444", "p1", "Ann", "ann", "kids", gate.NotAddressed), wrote("e5555", "p3", "", "", "", gate.NoBinding),
	}}
	w := newWorld(t, live)
	w.enroll(t, "home", "kids")
	for _, err := range []error{
		w.db.Labels.Give(t.Context(), nil, "home", "kitchen"),
		w.db.Bind(t.Context(), nil, store.Binding{Platform: "pigeon", User: "p1", Instance: "home"}),
		w.db.People.Name(t.Context(), nil, store.Person{Platform: "pigeon", User: "p1"}, "Aunt Ann"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, tc := range map[string]struct {
		ask  manage.Explain
		want string
	}{
		"all but what the bot wrote": {manage.Explain{}, "e e2 e444 e444 e5555"},
		"all":                        {manage.Explain{All: true}, "e e2 e33 e444 e444 e5555"},
		"the last messages":          {manage.Explain{Last: 2}, "e444 e444 e5555"},
		"more than there are":        {manage.Explain{Last: 9}, "e e2 e444 e444 e5555"},
		"a gateway's, by its name":   {manage.Explain{Gateway: "kitchen"}, "e e444"},
		"a gateway's, by its id":     {manage.Explain{Gateway: "kids"}, "e2 e444"},
		"a person's, by their id":    {manage.Explain{Person: "p1"}, "e e444 e444"},
		"with the platform":          {manage.Explain{Person: "pigeon:p2"}, "e2"},
		"by the operator's name":     {manage.Explain{Person: "aunt ann"}, "e e444 e444"},
		"by the account's name":      {manage.Explain{Person: "@ANN", Last: 1}, "e444 e444"},
		"what came since":            {manage.Explain{Since: noon.Add(2 * time.Second)}, "e444 e444 e5555"},
		"one of the bot's own":       {manage.Explain{Event: "e33"}, "e33"},
		"nobody's":                   {manage.Explain{Person: "p9"}, ""},
	} {
		got := ""
		all, err := w.Explain(t.Context(), tc.ask)
		for _, d := range all {
			got += " " + string(d.Event)
		}
		if err != nil || all == nil || strings.TrimSpace(got) != tc.want { // a list in JSON, also when it is empty
			t.Errorf("%s: %q, %v; want %q", what, got, err, tc.want)
		}
	}
	_, err := w.Explain(t.Context(), manage.Explain{Gateway: "kitschen"})
	wantRefusal(t, err, manage.NotFound)
}

// TestEqualNamesInTwoTenants: a person and a gateway of each are called alike. What a tenant's gateway is shown, and what it is
// refused, has nothing of the other's, and the operator is asked which of the two they mean.
func TestEqualNamesInTwoTenants(t *testing.T) {
	live := &server{decisions: []gate.Decision{
		wrote("e1", "p1", "Ann", "ann", "home", gate.NotAddressed), wrote("e2", "p2", "Ann", "ann", "kids", gate.NotAddressed),
	}}
	w := newWorld(t, live, newBird("pigeon", "1"))
	for name, who := range map[string]relay.UserID{"home": "p1", "kids": "p2"} {
		if _, err := w.Enroll(t.Context(), system, manage.Enroll{Name: name, Tenant: "of-" + name}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Bind(t.Context(), operator, manage.Bind{Name: name, Platform: "pigeon", User: who}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.NamePerson(t.Context(), operator, manage.NamePerson{Platform: "pigeon", User: "p1", Name: "Grandmother"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Bind(t.Context(), operator, manage.Bind{Name: "kids", Platform: "pigeon", User: "@ann"})
	wantField(t, err, "userId")

	self, err := w.Self(t.Context(), manage.Named{Name: "kids"})
	if err != nil {
		t.Fatal(err)
	}
	gateway := audit.Actor{Kind: audit.ActorGateway, Name: "kids"}
	_, byName := w.SetDMDefault(t.Context(), gateway, manage.Bind{Name: "kids", Platform: "pigeon", User: "@ann"})
	_, byID := w.SetDMDefault(t.Context(), gateway, manage.Bind{Name: "kids", Platform: "pigeon", User: "p1"})
	shown, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	if byName == nil || byID == nil {
		t.Errorf("a gateway names a person by the account's name: %v; another tenant's person: %v", byName, byID)
	}
	for _, said := range []string{string(shown), fmt.Sprint(byName)} {
		for _, theirs := range []string{"Grandmother", "p1", "home"} {
			if strings.Contains(said, theirs) {
				t.Errorf("kids hears %q of another tenant: %s", theirs, said)
			}
		}
	}
	all, err := w.Explain(t.Context(), manage.Explain{Person: "grandmother"})
	if err != nil || len(all) != 1 || all[0].Event != "e1" {
		t.Errorf("what the operator calls one is the other's too: %+v, %v", all, err)
	}
}
