package store

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Prompts are the questions with buttons. The press that answers one is stored by Accept and Decide. All methods: any
// goroutine.
type Prompts struct {
	db    *DB
	notes prompt.Notes
}

// Add is prompt.Add, as of now.
func (ps *Prompts) Add(ctx context.Context, r prompt.Record) (former *prompt.Record, err error) {
	err = ps.db.do(ctx, &op{size: promptSize(r), grows: true, fn: func(t *tx) (err error) {
		former, err = prompt.Add(t.Writer, r, ps.db.now())
		return err
	}})
	return former, err
}

// promptSize is how large a prompt is, about, with its key in the index.
func promptSize(r prompt.Record) int {
	n := 1 << 10
	for _, o := range r.Options {
		n += 64 + len(o.ID) + len(o.Label)
	}
	return n
}

// Posted is prompt.Posted.
func (ps *Prompts) Posted(ctx context.Context, r prompt.Record, chat relay.ChatID, m relay.MessageID) error {
	return ps.db.change(ctx, nil, "prompt posted", func(t *tx) error { return prompt.Posted(t.Writer, r, chat, m) })
}

// Withdraw is prompt.Withdraw.
func (ps *Prompts) Withdraw(ctx context.Context, r prompt.Record, former *prompt.Record) error {
	return ps.db.change(ctx, nil, "withdraw prompt", func(t *tx) error { return prompt.Withdraw(t.Writer, r, former) })
}

// At is the prompt of that id in a chat; ok is false when there is none, or it is damaged.
func (ps *Prompts) At(ctx context.Context, c relay.Chat, id string) (r prompt.Record, ok bool, err error) {
	return First(get(ctx, ps.db, "prompt", func(t *bolt.Tx) ([]prompt.Record, error) {
		r, ok, err := prompt.At(t, prompt.Key(c, id))
		if err != nil || !ok {
			return nil, err
		}
		return []prompt.Record{r}, nil
	}))
}

// In are the prompts of a chat.
func (ps *Prompts) In(ctx context.Context, c relay.Chat) ([]prompt.Record, error) {
	return get(ctx, ps.db, "prompts", func(t *bolt.Tx) ([]prompt.Record, error) { return prompt.In(t, c), nil })
}

// Count is how many prompts of the instance are open now.
func (ps *Prompts) Count(ctx context.Context, i relay.InstanceID) (int, error) {
	return get(ctx, ps.db, "prompts", func(t *bolt.Tx) (int, error) { return prompt.Count(t, i, ps.db.now()) })
}

// Answered are the prompts whose buttons are to go.
func (ps *Prompts) Answered(ctx context.Context) ([]prompt.Record, error) {
	return get(ctx, ps.db, "answered prompts", func(t *bolt.Tx) (out []prompt.Record, err error) {
		for _, r := range table.Readable[prompt.Record](t, prompt.Bucket) {
			if r.Answer != nil {
				out = append(out, r)
			}
		}
		return out, nil
	})
}

// Cleared notes that the buttons of an answered prompt are gone. It does not block, and writes with the next commit.
func (ps *Prompts) Cleared(r prompt.Record) { ps.notes.Set(r.Key(), r.Answer.Event) }
