package telegram

import (
	"encoding/json"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestThirdPartyButtons: the server of others shows Ann the buttons, hands in her press, and is told that they go.
func TestThirdPartyButtons(t *testing.T) {
	base := startThirdParty(t, platformtest.Partner(t, thirdPartyName))
	p, err := Network.Open(platforms.Options{
		Token: relay.NewSecret([]byte(thirdPartyToken)), APIBase: base, Log: discard(), Values: map[string]string{keyRetryWait: "20ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := newInbox()
	stop, _ := running(t, p.(*Bot), in)
	ask := p.(platforms.Prompter)
	res, err := ask.Prompt(t.Context(), relay.Prompt{
		Chat: "42", Content: "Water **them**?", PromptID: "a1b2c3.00000001",
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes", Style: "success"}, {ID: "no", Label: "No"}},
	})
	if err != nil || res.MessageID == "" {
		t.Fatalf("%+v, %v", res, err)
	}
	var shown struct {
		Result []struct {
			MessageID int64 `json:"messageId"`
			Message   struct {
				Text   string          `json:"text"`
				Markup json.RawMessage `json:"reply_markup"`
			} `json:"message"`
		} `json:"result"`
	}
	postThirdParty(t, base+"/getUpdates", obj{"token": thirdPartyToken, "chatId": 42}, &shown)
	if len(shown.Result) != 1 || shown.Result[0].Message.Text != "Water them?" {
		t.Fatalf("Ann sees %+v", shown)
	}
	raw := shown.Result[0].Message.Markup
	var text string
	if json.Unmarshal(raw, &text) == nil { // the server leaves a form's fields as they are
		raw = json.RawMessage(text)
	}
	var k replyMarkup
	if err := json.Unmarshal(raw, &k); err != nil || len(k.Rows) != 1 || len(k.Rows[0]) != 2 {
		t.Fatalf("buttons %s: %v", raw, err)
	}
	ann := obj{"id": 42, "first_name": "Ann", "username": "ann", "is_bot": false}
	postThirdParty(t, base+"/sendCallback", obj{
		"botToken": thirdPartyToken, "id": "9001", "from": ann, "data": k.Rows[0][0].Data,
		"message": obj{"message_id": shown.Result[0].MessageID, "date": 1_790_000_000, "chat": obj{"id": 42, "first_name": "Ann", "type": "private"}, "reply_markup": k},
	}, nil)
	if err := in.waitEvents(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ev := in.events()[0]
	want := relay.PromptResponse{PromptID: "a1b2c3.00000001", OptionID: "yes", Label: "Yes", PromptMessageID: res.MessageID}
	if ev.Prompt == nil || *ev.Prompt != want || ev.Text != "/yes" || ev.Source.UserID != "42" || ev.Source.ChatID != "42" {
		t.Errorf("event %+v, answer %+v", ev, ev.Prompt)
	}
	if err := ask.Unprompt(t.Context(), "42", res.MessageID); err != nil {
		t.Errorf("Unprompt: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
