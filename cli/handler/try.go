package handler

import "context"

// Try does for a message what a runner does, without a connector. It returns the messages that the person would read;
// worked is false if no program ran, or one failed.
func (e *Engine) Try(ctx context.Context, text string) (messages []string, worked bool) {
	run, instead := e.prepare(message{conversation: "try", text: text})
	if run == nil {
		return instead, false
	}
	messages = run(ctx)
	return messages, len(messages) == 0 || messages[len(messages)-1] != didNotWork
}
