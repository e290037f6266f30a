package telegram

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

const (
	fixToken   = "BotFather shows the token with /mybots, API Token; put it into the bot's token file, then `hermes-connector reload`"
	fixPollers = "stop the other program, or give it a bot of its own (BotFather, /newbot); this one tries again by itself"
	fixPrivacy = "tell BotFather /setprivacy, Disable, then remove the bot from the group and add it again; or make it an administrator there"
)

// Examine implements platforms.Examiner. Whether another program polls the bot shows only while this one does, or in
// a poll of a second that confirms nothing.
func (p *Bot) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: p.bot.String(), Network: "Telegram", Host: hostOf(cmp.Or(p.base, tgbotapi.APIEndpoint)), Own: p.base != ""}
	began := time.Now()
	defer func() { out.Clock = p.client.calls.Clock(began) }()
	say := func(f finding.Finding) { out.Findings = append(out.Findings, f) }
	var me tgbotapi.User
	switch err := p.client.call(ctx, "getMe", nil, &me); {
	case refusedToken(err):
		say(finding.DeadToken.Of(asked.About, "Telegram does not accept the token ("+httpcall.FaultOf(err).Message+")", fixToken))
		return out
	case err != nil:
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	case !me.IsBot:
		say(finding.OtherKind.Of(asked.About, "the token belongs to an account that is no bot", fixToken))
		return out
	}
	out.Name = me.UserName
	if me.UserName != "" {
		out.Invite = "https://t.me/" + me.UserName + "?startgroup=hermes"
	}
	out.Findings = append(out.Findings, p.examineUpdates(ctx, asked)...)
	return p.examineChats(ctx, asked, me, chats, out)
}

// refusedToken reports whether the API knows no bot of this token.
func refusedToken(err error) bool {
	f := httpcall.FaultOf(err)
	return f.Refused(http.StatusUnauthorized) || f.Refused(http.StatusNotFound)
}

// examineUpdates finds what keeps updates from coming here.
func (p *Bot) examineUpdates(ctx context.Context, asked httpcall.Asked) []finding.Finding {
	w, err := p.webhook(ctx)
	if err != nil {
		return []finding.Finding{asked.Unanswered(httpcall.FaultOf(err))}
	}
	if w.URL != "" && !sameAddress(w.URL, p.hookURL) {
		return []finding.Finding{finding.HookElsewhere.Of(asked.About, "a web hook is set for the bot, at "+hostOf(w.URL)+", and gets its messages",
			"stop the program there, or give it a bot of its own; if nobody wants that web hook any more: `curl \""+
				cmp.Or(p.base, "https://api.telegram.org")+"/bot$TOKEN/deleteWebhook\"`")}
	}
	if p.hooked != nil && w.Pending > 0 && w.ErrorDate > time.Now().Add(-time.Hour).Unix() {
		return []finding.Finding{finding.HookFailing.Of(asked.About, "Telegram cannot post to "+p.hookURL+": "+cmp.Or(w.ErrorReason, "it does not say why"),
			"make public_url reachable from the internet over https; `hermes-connector help proxy` shows how")}
	}
	if p.hooked == nil && w.URL == "" && p.polledElsewhere(ctx) {
		return []finding.Finding{finding.TwoPollers.Of(asked.About, "another program polls the bot with the same token", fixPollers)}
	}
	return nil
}

// polledElsewhere reports whether another program is known to poll the bot. While this one runs its own polls tell.
// Else a short poll may: the other program's ends it. It confirms nothing and chooses no kinds of updates.
func (p *Bot) polledElsewhere(ctx context.Context) bool {
	switch st := p.status.Get(); st.State {
	case platforms.Connected, platforms.Connecting:
		return false
	case platforms.Degraded:
		return strings.Contains(st.Reason, otherPoller)
	case platforms.Starting, platforms.Stopped, platforms.BadCredentials:
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := p.client.poll(ctx, "getUpdates", tgbotapi.Params{"limit": "1", "timeout": "1"}, nil)
	return httpcall.FaultOf(err).Refused(http.StatusConflict)
}

// examineChats finds in which of the granted chats the bot cannot hear or speak.
func (p *Bot) examineChats(ctx context.Context, asked httpcall.Asked, me tgbotapi.User, chats []relay.Place, out platforms.Examination) platforms.Examination {
	groups := slices.DeleteFunc(slices.Clone(chats), func(c relay.Place) bool {
		return c.Platform != Name || !strings.HasPrefix(string(c.Chat), "-")
	})
	out.Findings = append(out.Findings, asked.EachChat(ctx, groups, func(c relay.Place) ([]finding.Finding, error) {
		return p.examineChat(ctx, asked.About, me, string(c.Chat))
	})...)
	return out
}

// Stands implements platforms.Stander. Whether privacy mode is on is the bot's own, and asked anew each time: Telegram does
// not say by itself when it changes, and a change holds in a group from when the bot joins it anew, which it does say.
func (p *Bot) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	if !strings.HasPrefix(string(place.Chat), "-") {
		return nil, nil
	}
	var me tgbotapi.User
	if err := p.client.call(ctx, "getMe", nil, &me); err != nil {
		return nil, err
	}
	return p.examineChat(ctx, p.bot.String(), me, string(place.Chat))
}

func (p *Bot) examineChat(ctx context.Context, about string, me tgbotapi.User, chat string) ([]finding.Finding, error) {
	var m struct {
		member
		CanSend bool  `json:"can_send_messages"` // of one that is restricted
		Present *bool `json:"is_member"`         // of one that is restricted: it may be outside
		CanPost *bool `json:"can_post_messages"` // of an administrator, in channels only
	}
	where := tgbotapi.Params{"chat_id": chat, "user_id": string(p.bot.ID)}
	err := p.client.call(ctx, "getChatMember", where, &m)
	gone := finding.NotInChat.Of(about, "the bot is not in the granted chat "+chat,
		"add the bot to that group again; or, if the chat is of no use any more, take the grant back: `hermes-connector chat list` shows it")
	switch {
	case refusedForGood(err), err == nil && (m.Status == "left" || m.Status == "kicked" || m.Present != nil && !*m.Present):
		return []finding.Finding{gone}, nil
	case err != nil:
		return nil, errors.New("not answered")
	}
	admin := m.Status == "administrator" || m.Status == "creator"
	silent := m.CanPost != nil && !*m.CanPost || m.Status == "restricted" && !m.CanSend
	if m.Status == "member" {
		var c struct {
			Permissions *struct {
				CanSend bool `json:"can_send_messages"`
			} `json:"permissions"`
		}
		if err := p.client.call(ctx, "getChat", where, &c); err == nil && c.Permissions != nil {
			silent = !c.Permissions.CanSend
		}
	}
	var out []finding.Finding
	if silent {
		out = append(out, finding.NoSend.Of(about, "the bot may not send messages in the granted chat "+chat,
			"in that group: Edit, Permissions, Send Messages; or make the bot an administrator there"))
	}
	if !me.CanReadAllGroupMessages && !admin {
		out = append(out, finding.PrivacyMode.Of(about, "privacy mode is on, and the chat "+chat+" is granted", fixPrivacy))
	}
	return out, nil
}
