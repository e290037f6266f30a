package platforms

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// ErrCapabilityGone: the network no longer honours a capability.
var ErrCapabilityGone = errors.New("the capability is gone")

// WhyTooLarge is MediaError.Why of a file over relay.MaxFile.
const WhyTooLarge = "larger than the 25 MB kept here"

// MediaError says that a file cannot be had, for good.
type MediaError struct {
	State relay.MediaState // MediaTooLarge or MediaGone
	// Why is for people, and contains no credential: "larger than the 20 MB Telegram gives bots".
	Why string
	Err error // for the log; nil: there is no more to say
}

func (e *MediaError) Error() string {
	if e.Err != nil {
		return e.Why + ": " + e.Err.Error()
	}
	return e.Why
}

func (e *MediaError) Unwrap() error { return e.Err }

// Examination is the result of asking a network about a bot.
type Examination struct {
	Name     string            // the bot's handle, without "@"; empty if it is not known
	Invite   string            // the address at which a person brings the bot into their chats; empty: there is none
	Clock    time.Time         // the network's time when it answered; zero: not learned
	Findings []finding.Finding // in any order
}

// An ability is an optional interface. Ops derives from the abilities what a gateway is told, so that a platform can
// neither claim an operation that it lacks nor forget one that it has. The methods that carry out a relay action follow
// the rules of Bot.Send: any goroutine, ctx's deadline, errors that are *relay.ActionError.
type (
	// Editor changes a message's text. Text over the limit edits the first part and sends the
	// rest; the result names the last part. "Not modified" is success.
	Editor interface {
		Edit(ctx context.Context, a relay.Edit) (relay.Result, error)
	}
	// Typer shows that the bot is at work. A typing that cannot leave at once is dropped and
	// answered as success.
	Typer interface {
		Typing(ctx context.Context, a relay.Typing) (relay.Result, error)
	}
	// Reacter sets or removes the bot's reaction. A reaction that cannot leave soon, or comes during a penalty of the
	// network, is dropped: the error is relay.Dropped's, "rate limited".
	Reacter interface {
		React(ctx context.Context, a relay.React) (relay.Result, error)
		// Reaction returns which reaction a sets or removes: the same one however a spells its message and its emoji. It
		// asks nobody.
		Reaction(a relay.React) relay.Reaction
	}
	// Deleter removes a message.
	Deleter interface {
		Delete(ctx context.Context, a relay.Delete) (relay.Result, error)
	}
	// Examiner asks the network about the bot, before or while the bot runs, and changes nothing. It returns before ctx
	// ends; chats are the granted chats. The result contains no credential.
	Examiner interface {
		Examine(ctx context.Context, chats []relay.Place) Examination
	}
	// Stander asks the network about the bot in one granted place, while the bot runs, and changes nothing: whether it
	// is a member (finding.NotInChat), may write (finding.NoSend) and gets all messages (finding.PrivacyMode). An error
	// means not known now. When the answer may have changed, the bot reports a Batch.Roster without a user, or with
	// itself as the user.
	Stander interface {
		Stands(ctx context.Context, place relay.Place) ([]finding.Finding, error)
	}
	// ChatInformer looks a chat up.
	ChatInformer interface {
		ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error)
	}
	// ThreadCreator opens threads.
	ThreadCreator interface {
		CreateThread(ctx context.Context, a relay.ThreadCreate) (relay.Result, error)
	}
	// ThreadRenamer renames threads.
	ThreadRenamer interface {
		RenameThread(ctx context.Context, a relay.ThreadRename) (relay.Result, error)
	}

	// MediaSender posts files. The result names the file's message, and MessageIDs all messages that were made; a
	// caption that does not fit follows as ordinary messages. Once the last byte of the body may have left, an unclear
	// failure is relay.MaybeSent.
	MediaSender interface {
		// SendMedia posts a.File in the form that a.Kind asks for if its bytes have that type, otherwise as a document.
		SendMedia(ctx context.Context, a relay.SendMedia) (relay.Result, error)
	}
	// Prompter asks a question with buttons, whose data is relay.PromptData. A press comes back as an event of the
	// person who pressed, with Traits.Press, Prompt, relay.TypeCommand and the text "/" and the option's id.
	// Batch.Refused carries the text for a person whose press does not count.
	Prompter interface {
		// Prompt posts a.Content with a button for each of a.Options; the buttons are on the last part. Too many options,
		// or ids that do not fit, are refused with the error of a.Misfit.
		Prompt(ctx context.Context, a relay.Prompt) (relay.Result, error)
		// Unprompt removes the buttons of a message that Prompt made. It succeeds if the message has none.
		Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error
	}
	// Drafter shows text in the making. A draft that cannot leave at once is dropped and answered as success.
	Drafter interface {
		Draft(ctx context.Context, a relay.Draft) (relay.Result, error)
		// Drafts reports whether the operator wants drafts. Constant.
		Drafts() bool
	}
	// MediaFetcher opens the files that came in events.
	MediaFetcher interface {
		// FetchMedia opens the file of an attachment. An error that is no *MediaError is worth trying again.
		FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error)
	}
	// PublicMedia is a network whose pictures have an address that anybody can load for a while.
	PublicMedia interface {
		// PublicURL returns a picture's address, which must not be logged; ok is false for any other file.
		PublicURL(a relay.Attachment) (url string, ok bool)
	}
	// Historian returns earlier messages of a chat.
	Historian interface {
		// History returns the newest n lines before ev in its chat and thread, and after the bot's own last message
		// there, oldest first. whole says that no lines are missing except those that n cut off. An error means not known.
		History(ctx context.Context, ev relay.Event, n int) (lines []relay.ContextLine, whole bool, err error)
	}

	// Roster knows who can see a chat now, as the network says. It returns false without an error if the network
	// refuses to say for good (a 4xx: no such member, a hidden list). An error means not known now; one that wraps a
	// *MutedError says when to ask again. The caller caches the answer; the platform asks once, and reports changes
	// through Batch.Roster.
	Roster interface {
		CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error)
	}
	// PersonFinder finds people by the names of their accounts, where the network lets bots look.
	PersonFinder interface {
		// FindPeople returns the people, with ids and names, whose account has that name and whom the bot can look up.
		// handle has no "@", and case does not matter. An error means not known now.
		FindPeople(ctx context.Context, handle string) ([]relay.Source, error)
	}
	// AuthorTeller knows the author of a message. An error means not known.
	AuthorTeller interface {
		// IsOwn reports whether the bot itself wrote the message.
		IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error)
	}
	// MessageEventer is a network where the event of a person's message has another id than the message.
	MessageEventer interface {
		// MessageEvent returns the id of the event in which the message came.
		MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID
	}
	// Manager knows who may decide who reads a chat: its administrators, as the network names them, not everyone who may
	// write there. A place with an empty chat is the whole scope. A direct chat has no manager. An error means not known,
	// which counts as no.
	Manager interface {
		CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error)
	}
	// DirectChats returns the person of a direct-message chat with the bot, from the chat's id alone.
	DirectChats interface {
		DirectUser(chat relay.ChatID) (relay.UserID, bool)
	}
	// Sharer is a network where others can join the chat in which the bot and a person were alone.
	Sharer interface {
		// Shared reports whether somebody else than the bot and user is in the chat now. An error means not known now.
		Shared(ctx context.Context, chat relay.ChatID, user relay.UserID) (bool, error)
	}
	// DeepLinker makes a link that opens the bot and sends it a link code. ok is false until
	// the bot's name is known.
	DeepLinker interface {
		DeepLink(code string) (url string, ok bool)
	}
	// Locator places a chat the hub knows only by its id: its scope, and its parent if it is a
	// thread. An error means not known.
	Locator interface {
		Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error)
	}
	// Threader is a network where a thread is a chat of its own, so that an action whose metadata names a thread acts
	// on that chat.
	Threader interface {
		// Thread returns the place of a thread in its parent. open: everybody who sees the parent sees the thread. An
		// error means that no such thread is known now.
		Thread(ctx context.Context, id relay.ThreadID) (place relay.Place, open bool, err error)
	}
	// Responder answers through a capability. Errors are those of Send; one that wraps ErrCapabilityGone means that the
	// network no longer accepts the capability: the caller forgets it.
	Responder interface {
		// Thinking reports whether c's placeholder is still in the chat, so that no answer has replaced it. The caller asks
		// when it does not know whether its answer is the first.
		Thinking(ctx context.Context, c Capability) (bool, error)
		// Respond answers with a, one answer at a time. first: the answer replaces c's placeholder.
		Respond(ctx context.Context, c Capability, a relay.Send, first bool) (relay.Result, error)
		// Discard deletes c's placeholder: nobody will answer.
		Discard(ctx context.Context, c Capability) error
		// Settle removes the buttons of the message whose pressed button gave c. It is called once the press is stored.
		Settle(ctx context.Context, c Capability) error
	}
	// MediaResponder is a Responder that answers with files too. The rules are those of Respond.
	MediaResponder interface {
		RespondMedia(ctx context.Context, c Capability, a relay.SendMedia, first bool) (relay.Result, error)
	}
	// PromptResponder is a Responder that asks with buttons too. The rules are those of Respond and of Prompt.
	PromptResponder interface {
		RespondPrompt(ctx context.Context, c Capability, a relay.Prompt, first bool) (relay.Result, error)
	}
	// CommandRegistrar shows the gateways' commands to people, without blocking and in its own time. manifest is
	// the union over all gateways, each command as the gateway wrote it; where the network takes only so
	// many, the first count.
	CommandRegistrar interface {
		SetCommands(manifest []json.RawMessage)
	}
	// CommandKnower is a bot that has to distinguish the gateways' commands from other words. CommandNames implements it.
	CommandKnower interface {
		// KnowCommands replaces the names known before by those of all gateways' commands, for whichever network they
		// were declared. It does not block.
		KnowCommands(names []string)
	}
	// Rememberer is a network that remembers for a while the names that Once gave. If a Send or SendMedia comes again
	// under a name, the network posts nothing, and the result names the message that the first one made.
	Rememberer interface {
		// Remembers returns for how long the network certainly remembers a name. It is constant.
		Remembers() time.Duration
	}
	// Limited tells when a chat's limiter is open. The caller waits for it before it picks the chat's next
	// action, so that newer edits can replace waiting ones.
	Limited interface {
		// WaitOpen returns nil when an action on the chat could leave now, or an
		// *relay.ActionError (not sent, with RetryAfter) when ctx's deadline comes first.
		WaitOpen(ctx context.Context, chat relay.ChatID) error
	}
)

// abilities are the operations, in the order in which they are advertised, each with a test whether a bot has it.
var abilities = []struct {
	op  relay.Op
	has func(Bot) bool
}{
	{relay.OpSend, is[Bot]},
	{relay.OpEdit, is[Editor]},
	{relay.OpTyping, is[Typer]},
	{relay.OpFollowUp, is[Responder]},
	{relay.OpReact, is[Reacter]},
	{relay.OpDelete, is[Deleter]},
	{relay.OpGetChatInfo, is[ChatInformer]},
	{relay.OpThreadCreate, is[ThreadCreator]},
	{relay.OpThreadRename, is[ThreadRenamer]},
	{relay.OpSendMedia, is[MediaSender]},
	{relay.OpPrompt, is[Prompter]},
	{relay.OpDraft, drafts},
}

func is[P any](p Bot) bool {
	_, ok := p.(P)
	return ok
}

// drafts reports whether p can show drafts, and its operator wants them.
func drafts(p Bot) bool {
	d, ok := p.(Drafter)
	return ok && d.Drafts()
}

// Do carries out a on p. An action p has no ability for is refused as unsupported. So is a follow-up: the hub carries
// it out, through the Responder that has the capability.
func Do(ctx context.Context, p Bot, a relay.Action) (relay.Result, error) {
	if !slices.Contains(Ops(p), a.Op()) {
		return relay.Result{}, relay.Unsupported(a.Op())
	}
	switch a := a.(type) {
	case relay.Send:
		return p.Send(ctx, a)
	case relay.Edit:
		return p.(Editor).Edit(ctx, a)
	case relay.Typing:
		return p.(Typer).Typing(ctx, a)
	case relay.React:
		return p.(Reacter).React(ctx, a)
	case relay.Delete:
		return p.(Deleter).Delete(ctx, a)
	case relay.GetChatInfo:
		return p.(ChatInformer).ChatInfo(ctx, a)
	case relay.ThreadCreate:
		return p.(ThreadCreator).CreateThread(ctx, a)
	case relay.ThreadRename:
		return p.(ThreadRenamer).RenameThread(ctx, a)
	case relay.SendMedia:
		return p.(MediaSender).SendMedia(ctx, a)
	case relay.Prompt:
		return p.(Prompter).Prompt(ctx, a)
	case relay.Draft:
		return p.(Drafter).Draft(ctx, a)
	}
	return relay.Result{}, relay.Unsupported(a.Op())
}

// Shared reports whether a chat that was user's direct one with p has others in it by now. If the network cannot say,
// it returns true and an error that makes a gateway try again.
func Shared(ctx context.Context, p Bot, chat relay.ChatID, user relay.UserID) (bool, error) {
	s, ok := p.(Sharer)
	if !ok {
		return false, nil
	}
	shared, err := s.Shared(ctx, chat, user)
	if err != nil {
		return true, relay.Later("who is in the chat is not known yet", err)
	}
	return shared, nil
}

// MessageEvent returns the id of the event in which a person's message came.
func MessageEvent(p Bot, chat relay.ChatID, message relay.MessageID) relay.EventID {
	if e, ok := p.(MessageEventer); ok {
		return e.MessageEvent(chat, message)
	}
	return relay.EventID(message)
}

// Ops returns the operations of p, in a fixed order.
func Ops(p Bot) []relay.Op {
	var ops []relay.Op
	for _, can := range abilities {
		if can.has(p) {
			ops = append(ops, can.op)
		}
	}
	return ops
}

// Describe returns p's descriptor, completed with everything that follows from its abilities.
func Describe(p Bot) relay.Descriptor {
	d := p.Descriptor()
	d.SupportedOps = Ops(p)
	_, d.SupportsEdit = p.(Editor)
	d.SupportsDraftStreaming = drafts(p)
	_, d.SupportsContext = p.(Historian)
	return d
}
