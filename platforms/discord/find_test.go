package discord

import (
	"context"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestPeopleAreFoundByTheirAccounts: the search finds whose names begin so, in a nickname too; of them only the account counts.
func TestPeopleAreFoundByTheirAccounts(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.answer("GET /guilds/1/members/search", func(c restCall) (int, any) {
			return 200, []obj{
				{"nick": "Aunt Ann", "user": obj{"id": "7", "username": "Ann"}},
				{"nick": "ann", "user": obj{"id": "8", "username": "mallory"}},
				{"user": obj{"id": "9", "username": "anna"}},
			}
		})
		f.answer("GET /users/@me/guilds", func(restCall) (int, any) { return 200, []obj{{"id": "1"}, {"id": "2"}} })
		f.answer("GET /guilds/2/members/search", func(restCall) (int, any) { return 403, obj{"message": "Missing Access", "code": 50001} })
		got, err := p.FindPeople(ctx, "ann")
		want := []relay.Source{{Platform: "discord", UserID: "7", UserHandle: "Ann", UserName: "Aunt Ann"}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
}
