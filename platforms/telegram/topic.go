package telegram

import (
	"context"
	"strconv"
	"strings"
	"sync"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxTopics bounds the topics remembered.
	maxTopics = 10_000
	// maxTopicName is how many characters a topic's name may have.
	maxTopicName = 128
)

// topics remembers the names of topics, because no method of the API returns one. Its methods may be called from any
// goroutine.
type topics struct {
	mu    sync.Mutex // guards known
	known map[topicKey]topicNames
}

// topicNames are the last known name of a topic, and the one that we gave it; empty: we gave none since the start.
type topicNames struct{ now, ours string }

func newTopics() *topics { return &topics{known: make(map[topicKey]topicNames)} }

// names returns the known names of a topic; empty: none.
func (t *topics) names(k topicKey) topicNames {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[k]
}

// learn remembers a topic's name. When the memory is full, some other topic is forgotten.
func (t *topics) learn(k topicKey, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putLocked(k, topicNames{now: name, ours: t.known[k].ours})
}

// named remembers the name that we gave a topic.
func (t *topics) named(k topicKey, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.putLocked(k, topicNames{now: name, ours: name})
}

func (t *topics) putLocked(k topicKey, n topicNames) {
	if _, known := t.known[k]; !known && len(t.known) >= maxTopics {
		for other := range t.known {
			delete(t.known, other)
			break
		}
	}
	t.known[k] = n
}

// topicIn returns a topic by the ids that a gateway names; false: they cannot name one.
func topicIn(chat relay.ChatID, thread relay.ThreadID) (k topicKey, ok bool) {
	c, err := strconv.ParseInt(string(chat), 10, 64)
	n, err2 := strconv.ParseInt(string(thread), 10, 64)
	return topicKey{c, n}, err == nil && err2 == nil && n > 0
}

// topicName returns name in the form that Telegram accepts.
func topicName(name string) string {
	runes := []rune(strings.Join(strings.Fields(markdown.Clean(name)), " "))
	return strings.TrimSpace(string(runes[:min(len(runes), maxTopicName)]))
}

// CreateThread implements platforms.ThreadCreator: a topic of a forum, or of a private chat where the bot has topics.
// The seed text is its first message. An anchor is ignored. After an unknown outcome CreateThread returns the error and
// does not try again.
func (p *Bot) CreateThread(ctx context.Context, a relay.ThreadCreate) (relay.Result, error) {
	name := topicName(a.Name)
	if name == "" {
		return relay.Result{}, relay.Invalid(relay.OpThreadCreate, "the name is empty")
	}
	var seed *letter
	if strings.TrimSpace(a.SeedText) != "" {
		var err error
		if seed, err = p.letter(a.SeedText); err != nil {
			return relay.Result{}, err
		}
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Message)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	var made struct {
		ThreadID int64 `json:"message_thread_id"`
	}
	if err := p.call(ctx, t, "createForumTopic", tgbotapi.Params{"name": name}, &made); err != nil {
		return relay.Result{}, explained(err)
	}
	id := relay.ThreadID(strconv.FormatInt(made.ThreadID, 10))
	if k, ok := topicIn(t.Chat, id); ok {
		p.topics.named(k, name)
	}
	if seed != nil {
		seed.place.thread = string(id)
		if _, err := t.Post(ctx, seed); err != nil { // a second topic would be worse than one without its first words
			p.log.Warn("topic made, but its first message is not all there", "err", err)
		}
	}
	return relay.Result{ThreadID: id, MovedTo: t.MovedTo}, nil
}

// RenameThread implements platforms.ThreadRenamer. OnlyIfConnectorCreated wins over OnlyIfCurrentName, and also asks
// that nobody is known to have renamed the topic since; a.Made, from the hub, says whether the connector made the
// topic. Only names that were seen since the start are known.
func (p *Bot) RenameThread(ctx context.Context, a relay.ThreadRename) (relay.Result, error) {
	name := topicName(a.Name)
	if name == "" {
		return relay.Result{}, relay.Invalid(relay.OpThreadRename, "the name is empty")
	}
	k, ok := topicIn(a.Chat, a.Thread)
	known := p.topics.names(k)
	switch {
	case !ok:
		return relay.Result{}, declinedRename("not a topic")
	case string(a.Thread) == generalTopic:
		return relay.Result{}, declinedRename("General keeps its name")
	case a.OnlyIfConnectorCreated && !a.Made:
		return relay.Result{}, declinedRename("the connector did not create this topic")
	case a.OnlyIfConnectorCreated && known.ours != known.now && known.ours != "":
		return relay.Result{}, declinedRename("it was renamed since")
	case !a.OnlyIfConnectorCreated && a.OnlyIfCurrentName != nil && known.now == "":
		return relay.Result{}, declinedRename("its name is not known")
	case !a.OnlyIfConnectorCreated && a.OnlyIfCurrentName != nil && known.now != *a.OnlyIfCurrentName:
		return relay.Result{}, declinedRename("it has another name")
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	err = p.call(ctx, t, "editForumTopic", tgbotapi.Params{"message_thread_id": string(a.Thread), "name": name}, nil)
	if err != nil && !refusedWith(err, "topic_not_modified") {
		return relay.Result{}, explained(err)
	}
	p.topics.named(k, name)
	return relay.Result{ThreadID: a.Thread, MovedTo: t.MovedTo}, nil
}

func declinedRename(why string) *relay.ActionError {
	return relay.Refused("thread_rename declined: "+why, nil)
}
