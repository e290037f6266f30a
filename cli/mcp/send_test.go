package mcp

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestFromKey: a key that the gateways' own code computed names the chat it was computed from, and its thread.
func TestFromKey(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vectors/session_keys_more.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Source struct {
			Platform relay.PlatformID `json:"platform"`
			Type     relay.ChatType   `json:"chat_type"`
			Chat     relay.ChatID     `json:"chat_id"`
			Thread   relay.ThreadID   `json:"thread_id"`
			Scope    relay.ScopeID    `json:"scope_id"`
		} `json:"source"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	seen := make(map[relay.PlatformID]int)
	for _, v := range vectors {
		of := v.Source
		if of.Platform != "slack" && of.Platform != "matrix" && of.Platform != "signal" || of.Chat == "" {
			continue
		}
		seen[of.Platform]++
		if !strings.Contains(v.Key, ":"+string(of.Scope)+":"+string(of.Chat)) { // keys of Slack have it, and no others
			of.Scope = ""
		}
		c, ok := fromKey(v.Key)
		if got := c.Source; !ok || got.ChatID != of.Chat || got.ThreadID != of.Thread || got.Scope != of.Scope || got.ChatType != of.Type {
			t.Errorf("%s: %+v, want %+v", v.Key, got, of)
		}
	}
	if len(seen) != 3 {
		t.Errorf("keys of %v, want some of three networks", seen)
	}
	for key, want := range map[string]relay.Source{
		"agent:main:telegram:dm:7:8":                     {Platform: "telegram", ChatType: relay.ChatDM, ChatID: "7", ThreadID: "8"},
		"agent:main:telegram:group:-100:8":               {Platform: "telegram", ChatType: relay.ChatGroup, ChatID: "-100"},
		"agent:main:discord:thread:9:9":                  {Platform: "discord", ChatType: relay.ChatThread, ChatID: "9", ThreadID: "9"},
		"agent:main:webhook:dm:agents:cron@home/morning": {Platform: "webhook", ChatType: relay.ChatDM, ChatID: "agents:cron@home/morning"},
	} {
		if c, ok := fromKey(key); !ok || c.Source != want {
			t.Errorf("%s: %+v, want %+v", key, c.Source, want)
		}
	}
	for _, key := range []string{"", "7", "agent:main:telegram:dm", "agent:main:telegram:dm:", "other:main:telegram:dm:7", "agent:main:matrix:dm:#name"} {
		if c, ok := fromKey(key); ok {
			t.Errorf("%q is taken for %+v", key, c.Source)
		}
	}
}
