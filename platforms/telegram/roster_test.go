package telegram

import (
	"net/url"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestCanSee(t *testing.T) {
	for name, tc := range map[string]struct {
		chat    relay.ChatID
		user    relay.UserID
		member  any // answer of getChatMember
		want    bool
		wantErr bool
		asked   int
	}{
		"creator":         {chat: "-1", user: "5", member: obj{"status": "creator"}, want: true, asked: 1},
		"administrator":   {chat: "-1", user: "5", member: obj{"status": "administrator"}, want: true, asked: 1},
		"member":          {chat: "-1", user: "5", member: obj{"status": "member"}, want: true, asked: 1},
		"restricted in":   {chat: "-1", user: "5", member: obj{"status": "restricted", "is_member": true}, want: true, asked: 1},
		"restricted out":  {chat: "-1", user: "5", member: obj{"status": "restricted", "is_member": false}, asked: 1},
		"left":            {chat: "-1", user: "5", member: obj{"status": "left"}, asked: 1},
		"kicked":          {chat: "-1", user: "5", member: obj{"status": "kicked"}, asked: 1},
		"something new":   {chat: "-1", user: "5", member: obj{"status": "ghost"}, wantErr: true, asked: 1},
		"not known":       {chat: "-1", user: "5", member: fault{code: 400, description: "Bad Request: user not found"}, asked: 1},
		"hidden list":     {chat: "-1", user: "5", member: fault{code: 400, description: "Bad Request: member list is inaccessible"}, asked: 1},
		"no such chat":    {chat: "-1", user: "5", member: fault{code: 400, description: "Bad Request: chat not found"}, asked: 1},
		"thrown out":      {chat: "-1", user: "5", member: fault{code: 403, description: "Forbidden: bot was kicked from the group chat"}, asked: 1},
		"wrong token":     {chat: "-1", user: "5", member: fault{code: 401, description: "Unauthorized"}, wantErr: true, asked: 1},
		"a proxy's page":  {chat: "-1", user: "5", member: fault{code: 403, html: true}, wantErr: true, asked: 1},
		"no answer":       {chat: "-1", user: "5", member: fault{lose: true}, wantErr: true, asked: 1},
		"busy":            {chat: "-1", user: "5", member: fault{code: 429, description: "Too Many Requests", retryAfter: 9}, wantErr: true, asked: 1},
		"server fault":    {chat: "-1", user: "5", member: fault{code: 500, description: "x"}, wantErr: true, asked: 1},
		"own dm":          {chat: "5", user: "5", want: true},
		"another's dm":    {chat: "6", user: "5"},
		"a channel":       {chat: "-1", user: "-1"},
		"chat no number":  {chat: "x", user: "5", wantErr: true},
		"user no number":  {chat: "-1", user: "ann", wantErr: true},
		"user not a name": {chat: "-1", user: "", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.answer("getChatMember", func(url.Values) any { return tc.member })
			p := openFake(t, f)
			got, err := p.CanSee(t.Context(), relay.Place{Platform: Name, Chat: tc.chat}, tc.user)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("CanSee = %t, %v; want %t, error %t", got, err, tc.want, tc.wantErr)
			}
			calls := f.callsTo("getChatMember")
			if len(calls) != tc.asked {
				t.Fatalf("calls = %d, want %d", len(calls), tc.asked)
			}
			if tc.asked > 0 && (calls[0].Get("chat_id") != "-1" || calls[0].Get("user_id") != "5") {
				t.Errorf("parameters = %v", calls[0])
			}
		})
	}
}

func TestCanManage(t *testing.T) {
	admin := obj{"status": "administrator"}
	for name, tc := range map[string]struct {
		place   relay.Place
		user    relay.UserID
		member  any // answer of getChatMember
		want    bool
		wantErr bool
		asked   int
	}{
		"creator":            {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "creator"}, want: true, asked: 1},
		"administrator":      {place: relay.Place{Chat: "-1"}, user: "5", member: admin, want: true, asked: 1},
		"member":             {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "member"}, asked: 1},
		"restricted":         {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "restricted", "is_member": true}, asked: 1},
		"left":               {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "left"}, asked: 1},
		"kicked":             {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "kicked"}, asked: 1},
		"something new":      {place: relay.Place{Chat: "-1"}, user: "5", member: obj{"status": "ghost"}, asked: 1},
		"not known":          {place: relay.Place{Chat: "-1"}, user: "5", member: fault{code: 400, description: "Bad Request: user not found"}, wantErr: true, asked: 1},
		"server fault":       {place: relay.Place{Chat: "-1"}, user: "5", member: fault{code: 500, description: "x"}, wantErr: true, asked: 1},
		"busy":               {place: relay.Place{Chat: "-1"}, user: "5", member: fault{code: 429, description: "x", retryAfter: 60}, wantErr: true, asked: 1},
		"own dm":             {place: relay.Place{Chat: "5"}, user: "5", member: admin},
		"a channel":          {place: relay.Place{Chat: "-1"}, user: "-1", member: admin},
		"a whole scope":      {place: relay.Place{Scope: "-1"}, user: "5", member: admin, wantErr: true},
		"a chat in a scope":  {place: relay.Place{Scope: "1", Chat: "-1"}, user: "5", member: admin},
		"chat by its handle": {place: relay.Place{Chat: "@park"}, user: "5", member: admin, wantErr: true},
		"user no number":     {place: relay.Place{Chat: "-1"}, user: "ann", member: admin, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.answer("getChatMember", func(url.Values) any { return tc.member })
			got, err := openFake(t, f).CanManage(t.Context(), tc.place, tc.user)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("CanManage = %t, %v; want %t, error %t", got, err, tc.want, tc.wantErr)
			}
			if calls := f.callsTo("getChatMember"); len(calls) != tc.asked {
				t.Errorf("calls = %d, want %d", len(calls), tc.asked)
			}
		})
	}
}

func TestCanManageIsAskedEveryTime(t *testing.T) {
	f := newFake()
	status := "administrator"
	f.answer("getChatMember", func(url.Values) any { return obj{"status": status} })
	p := openFake(t, f)
	for _, now := range []string{"administrator", "member", "administrator"} {
		status = now
		got, err := p.CanManage(t.Context(), relay.Place{Chat: "-1"}, "5")
		if want := now == "administrator"; got != want || err != nil {
			t.Errorf("CanManage as %s = %t, %v; want %t", now, got, err, want)
		}
	}
}

func TestLocate(t *testing.T) {
	p := openFake(t, newFake())
	for chat, ok := range map[relay.ChatID]bool{
		"-1001": true, "4001": true, "": false, "0": false, "x": false, "-01": false, "+5": false, "@park": false, "-1 ": false,
	} {
		got, err := p.Locate(t.Context(), chat)
		var want relay.Place
		if ok {
			want = relay.Place{Platform: Name, Chat: chat}
		}
		if got != want || (err == nil) != ok {
			t.Errorf("Locate(%q) = %+v, %v; want %+v", chat, got, err, want)
		}
	}
}

func TestDirectUser(t *testing.T) {
	p := openFake(t, newFake())
	for chat, want := range map[relay.ChatID]relay.UserID{"4001": "4001", "-1001": "", "0": "", "x": "", "": ""} {
		if got, ok := p.DirectUser(chat); got != want || ok != (want != "") {
			t.Errorf("DirectUser(%q) = %q, %t; want %q", chat, got, ok, want)
		}
	}
}

func TestDeepLink(t *testing.T) {
	f := newFake()
	p := openFake(t, f)
	if got, ok := p.DeepLink("7KQ2-9F4M"); ok {
		t.Errorf("before the name is known: %s", got)
	}
	in := newInbox()
	running(t, p, in)
	f.push(said(annChat(), 1, "hi"))
	if err := in.waitEvents(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got, ok := p.DeepLink("7KQ2-9F4M"); !ok || got != "https://t.me/pi_bot?start=7KQ2-9F4M" {
		t.Errorf("DeepLink = %q, %t", got, ok)
	}
	if at := p.Status().LastEventAt; time.Since(at) > time.Hour {
		t.Errorf("last event at %s", at)
	}
}
