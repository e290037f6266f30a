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
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

const (
	fixToken   = "get the token from @BotFather (/mybots, API Token), put it into the bot's token file, then run `hermes-connector reload`"
	fixPollers = "stop the other program, or give it a bot of its own (@BotFather, /newbot); this server tries again by itself"
	fixPrivacy = "send @BotFather /setprivacy and choose Disable, then remove the bot from the group and add it again; or make it an administrator there"
)

// examiner asks Telegram about a bot, its connection and its chats. It changes nothing.
type examiner struct {
	bot     relay.Bot
	base    string // of the API, as configured
	client  *client
	status  *status.Tracker
	hookURL string // where Telegram posts updates, or where it would if posted were true
	posted  bool   // Telegram posts updates to hookURL, and the bot does not poll
}

// Examine implements platforms.Examiner. It notices another program that polls the bot: from the status if this program
// polls as well, else by a poll of one second that confirms no update.
func (e *examiner) Examine(ctx context.Context, chats []relay.Place) (out platforms.Examination) {
	asked := httpcall.Asked{About: e.bot.String(), Network: "Telegram", Host: httpcall.HostOf(cmp.Or(e.base, publicAPI)), Own: e.base != ""}
	began := time.Now()
	defer func() { out.Clock = e.client.calls.Clock(began) }()
	say := func(f finding.Finding) { out.Findings = append(out.Findings, f) }
	var me tgbotapi.User
	switch err := e.client.call(ctx, "getMe", nil, &me); {
	case refusedToken(err):
		say(finding.DeadToken.Of(asked.About, "Telegram does not accept the token ("+httpcall.FaultOf(err).Message+")", fixToken))
		return out
	case err != nil:
		say(asked.Unanswered(httpcall.FaultOf(err)))
		return out
	case !me.IsBot:
		say(finding.OtherKind.Of(asked.About, "the token belongs to an account that is not a bot", fixToken))
		return out
	}
	out.Name = me.UserName
	if me.UserName != "" {
		out.Invite = "https://t.me/" + me.UserName + "?startgroup=hermes"
	}
	out.Findings = append(out.Findings, e.updates(ctx, asked)...)
	out.Findings = append(out.Findings, e.chats(ctx, asked, me, chats)...)
	return out
}

// updates finds reasons why updates do not arrive here.
func (e *examiner) updates(ctx context.Context, asked httpcall.Asked) []finding.Finding {
	w, err := e.client.webhook(ctx)
	if err != nil {
		return []finding.Finding{asked.Unanswered(httpcall.FaultOf(err))}
	}
	if w.URL != "" && !sameAddress(w.URL, e.hookURL) {
		return []finding.Finding{finding.HookElsewhere.Of(asked.About, "the bot has a web hook at "+httpcall.HostOf(w.URL)+", which gets its messages",
			"stop the program there, or give it a bot of its own; if nobody needs that web hook any more: `curl \""+
				cmp.Or(e.base, publicAPI)+"/bot$TOKEN/deleteWebhook\"`")}
	}
	if e.posted && w.Pending > 0 && w.ErrorDate > time.Now().Add(-time.Hour).Unix() {
		return []finding.Finding{finding.HookFailing.Of(asked.About, "Telegram cannot post to "+e.hookURL+": "+cmp.Or(w.ErrorReason, "it does not say why"),
			"make public_url reachable from the internet over https; `hermes-connector help proxy` shows how")}
	}
	if !e.posted && w.URL == "" && e.polledElsewhere(ctx) {
		return []finding.Finding{finding.TwoPollers.Of(asked.About, "another program polls the bot with the same token", fixPollers)}
	}
	return nil
}

// polledElsewhere reports whether another program is known to poll the bot. While this program polls, the bot's status
// shows it. Otherwise polledElsewhere polls once, for a second: Telegram ends that poll if another program polls. The
// poll confirms no update and does not change which kinds of updates the bot gets.
func (e *examiner) polledElsewhere(ctx context.Context) bool {
	switch st := e.status.Get(); st.State {
	case platforms.Connected, platforms.Connecting:
		return false
	case platforms.Degraded:
		return strings.Contains(st.Reason, otherPoller)
	case platforms.Starting, platforms.Stopped, platforms.BadCredentials:
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := e.client.poll(ctx, "getUpdates", tgbotapi.Params{"limit": "1", "timeout": "1"}, nil)
	return httpcall.FaultOf(err).Refused(http.StatusConflict)
}

// chats finds in which of the granted chats the bot cannot hear or speak.
func (e *examiner) chats(ctx context.Context, asked httpcall.Asked, me tgbotapi.User, chats []relay.Place) []finding.Finding {
	groups := slices.DeleteFunc(slices.Clone(chats), func(c relay.Place) bool {
		return c.Platform != Name || !strings.HasPrefix(string(c.Chat), "-")
	})
	return asked.EachChat(ctx, groups, func(c relay.Place) ([]finding.Finding, error) {
		return e.chat(ctx, asked.About, me, string(c.Chat))
	})
}

// Stands implements platforms.Stander. It asks anew each time whether privacy mode is on. That is a setting of the bot,
// and Telegram sends no update when it changes. In a group the change takes effect when the bot joins again, and
// Telegram does send an update about that.
func (e *examiner) Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error) {
	if !strings.HasPrefix(string(place.Chat), "-") {
		return nil, nil
	}
	var me tgbotapi.User
	if err := e.client.call(ctx, "getMe", nil, &me); err != nil {
		return nil, err
	}
	return e.chat(ctx, e.bot.String(), me, string(place.Chat))
}

// chat returns what keeps the bot from hearing or speaking in one group or channel.
func (e *examiner) chat(ctx context.Context, about string, me tgbotapi.User, chat string) ([]finding.Finding, error) {
	var m struct {
		member
		CanSend bool  `json:"can_send_messages"` // set if the bot is restricted
		Present *bool `json:"is_member"`         // set if the bot is restricted: a restricted bot may have left the group
		CanPost *bool `json:"can_post_messages"` // set if the bot is an administrator of a channel
	}
	where := tgbotapi.Params{"chat_id": chat, "user_id": string(e.bot.ID)}
	err := e.client.call(ctx, "getChatMember", where, &m)
	gone := finding.NotInChat.Of(about, "the bot is not in the claimed chat "+chat,
		"add the bot to that group again; or, if the chat is no longer needed, release it: `hermes-connector chat list` shows whose it is")
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
		if err := e.client.call(ctx, "getChat", where, &c); err == nil && c.Permissions != nil {
			silent = !c.Permissions.CanSend
		}
	}
	var out []finding.Finding
	if silent {
		out = append(out, finding.NoSend.Of(about, "the bot may not send messages in the claimed chat "+chat,
			"in that group: Edit, Permissions, Send Messages; or make the bot an administrator there"))
	}
	if !me.CanReadAllGroupMessages && !admin {
		out = append(out, finding.PrivacyMode.Of(about, "privacy mode is on, and a gateway has claimed the chat "+chat, fixPrivacy))
	}
	return out, nil
}
