package telegram

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestRichMessage: whatever stands in the blocks, there is a text.
func TestRichMessage(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"no blocks":             {`{}`, "[Rich message]"},
		"only a divider":        {`{"blocks":[{"type":"divider"}]}`, "[Rich message]"},
		"blanks":                {`{"blocks":[{"type":"paragraph","text":"  "}]}`, "[Rich message]"},
		"not an object":         {`7`, "[Rich message]"},
		"one odd block":         {`{"blocks":[7,{"type":3,"text":{"text":5}},{"cells":[7,[8,{"text":"x"}]]},{"text":"good"}]}`, " | x\ngood"},
		"code keeps its lines":  {`{"blocks":[{"type":"pre","text":"a\n  b"},{"type":"paragraph","text":"c"}]}`, "a\n  b\nc"},
		"a caption of a list":   {`{"blocks":[{"type":"table","cells":[[{"text":"x"}]],"caption":["a ",{"type":"bold","text":"b"}]}]}`, "x\na b"},
		"a caption of a format": {`{"blocks":[{"type":"table","caption":{"type":"bold","text":"b"}}]}`, "b"},
		"a list in a list":      {`{"blocks":[{"type":"list","items":[{"label":"•","blocks":[{"text":"a"},{"items":[{"label":"◦","blocks":[{"text":"b"}]}]}]}]}]}`, "• a\n◦ b"},
	} {
		t.Run(name, func(t *testing.T) {
			var r richMessage
			if err := json.Unmarshal([]byte(tc.raw), &r); err != nil || r.text != tc.want {
				t.Errorf("text = %q, %v, want %q", r.text, err, tc.want)
			}
		})
	}
}

// TestRichMessageIsReadOnce: however deep it is, for a message is decoded by the one reader of all.
func TestRichMessageIsReadOnce(t *testing.T) {
	const depth = 4000
	raw := strings.Repeat(`{"blocks":[`, depth) + `{"text":"deep"}` + strings.Repeat(`]}`, depth)
	least := time.Hour
	for range 5 { // of which a busy machine may stop some
		begin := time.Now()
		var r richMessage
		if err := json.Unmarshal([]byte(raw), &r); err != nil || r.text != "deep" {
			t.Errorf("text = %q, %v", r.text, err)
		}
		if least = min(least, time.Since(begin)); least <= 2*time.Second {
			return
		}
	}
	t.Errorf("it took %v at least", least)
}

// TestRichMention: a text_mention of the bot addresses it, as in an ordinary message.
func TestRichMention(t *testing.T) {
	const raw = `{"message":{"message_id":1,"date":1,"from":{"id":5,"first_name":"Bob"},"chat":{"id":-7,"type":"supergroup","title":"x"},` +
		`"rich_message":{"blocks":[{"text":["𝄞 ",{"type":"text_mention","text":"Pi","user":{"id":700100}}]}]}}}`
	var u update
	if err := json.Unmarshal([]byte(raw), &u); err != nil {
		t.Fatal(err)
	}
	o, err := testNormaliser().normalise(&u)
	if err != nil || o.event == nil || o.event.Text != "𝄞 Pi" || !o.event.Traits.Addressed {
		t.Errorf("event = %+v, %v", o.event, err)
	}
}
