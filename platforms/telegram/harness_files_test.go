package telegram

import (
	"context"
	"net/http"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Taken implements platformtest.FileTaker.
func (h *harness) Taken() []platformtest.Taken {
	var out []platformtest.Taken
	for _, c := range h.fake.carriedOut() {
		if c.file != nil {
			out = append(out, platformtest.Taken{
				Chat: relay.ChatID(c.params.Get("chat_id")), Caption: c.params.Get("caption"), Content: []byte(c.file.content),
			})
		}
	}
	return out
}

// BreakNextFile implements platformtest.FileTaker. What it is called by is known only when it comes.
func (h *harness) BreakNextFile(context.Context) error {
	h.fake.fail(anyFile, fault{cut: true})
	return nil
}

// Show implements platformtest.FileShower.
func (h *harness) Show(_ context.Context, who platformtest.Person, where platformtest.Place, text string, s platformtest.Shown) error {
	chat, topic := h.place(who, where)
	path := "files/" + s.Name
	h.fake.hold(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.Content) })
	f := obj{"file_id": path, "file_unique_id": "U", "file_size": len(s.Content), "file_name": s.Name}
	m := obj{
		"message_id": h.fake.newMessage(), "date": int64(1_790_000_000), "chat": chat, "from": person(who), string(s.Kind): f,
	}
	if s.Kind == relay.TypePhoto {
		m["photo"] = []obj{f}
	}
	if text != "" {
		m["caption"] = text
	}
	if topic != 0 {
		m["message_thread_id"], m["is_topic_message"] = topic, true
	}
	h.fake.push(obj{"message": m})
	return nil
}

// Lose implements platformtest.FileShower.
func (h *harness) Lose(context.Context) error {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	clear(h.fake.files)
	return nil
}
