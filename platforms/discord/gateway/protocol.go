package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
)

// Operations of a payload on the gateway socket.
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// The dispatches this package handles by itself.
const (
	kindReady   = "READY"
	kindResumed = "RESUMED"
)

// closeAgain is the code this side closes with (invariant 1).
const closeAgain websocket.StatusCode = 4000

// intents are the events that the bot asks for. Only the message content must be enabled in the developer portal.
// Members are not included: the rights of a member are looked up when needed.
const intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentDirectMessages |
	discordgo.IntentMessageContent

// Packet is one message on the socket.
type Packet struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  int64           `json:"s"` // counts dispatches within a session, from 1; 0: it has none
	Kind string          `json:"t"`
}

func decodePacket(raw []byte) (Packet, error) {
	var p Packet
	if err := httpcall.Decode(raw, &p); err != nil {
		return Packet{}, err
	}
	if p.Seq < 0 {
		return Packet{}, errors.New("a sequence below zero")
	}
	return p, nil
}

// decodeHead reads operation, sequence and kind from the beginning of a payload. Discord writes these before the data,
// or after the data; in the second case they are zero here.
func decodeHead(raw []byte) (p Packet) {
	head, _, _ := strings.Cut(string(raw), `"d":`)
	if json.Unmarshal([]byte(strings.TrimRight(head, ", \n")+"}"), &p) != nil {
		return Packet{}
	}
	p.Seq = max(p.Seq, 0)
	return p
}

// leastInterval is the shortest interval between heartbeats that a hello can demand.
const leastInterval = 100 * time.Millisecond

// decodeHello reads how often to send a heartbeat.
func decodeHello(data []byte) (time.Duration, error) {
	var d struct {
		Interval int64 `json:"heartbeat_interval"` // milliseconds
	}
	if err := httpcall.Decode(data, &d); err != nil {
		return 0, err
	}
	if d.Interval <= 0 || d.Interval > int64(time.Hour/time.Millisecond) {
		return 0, fmt.Errorf("a heartbeat interval of %d ms", d.Interval)
	}
	return max(time.Duration(d.Interval)*time.Millisecond, leastInterval), nil
}

// Ready is the information that READY gives about the session and the bot.
type Ready struct {
	SessionID string `json:"session_id"`
	ResumeURL string `json:"resume_gateway_url"`
	User      struct {
		Name string `json:"username"`
	} `json:"user"`
	Application struct {
		ID string `json:"id"`
	} `json:"application"`
}

func decodeReady(data []byte) (Ready, error) {
	var r Ready
	if err := httpcall.Decode(data, &r); err != nil {
		return Ready{}, err
	}
	if r.SessionID == "" {
		return Ready{}, errors.New("no session id")
	}
	return r, nil
}

// command is a payload that we send.
type command struct {
	Op   int `json:"op"`
	Data any `json:"d"`
}

// identify asks for a new session.
func identify(token string) command {
	return command{Op: opIdentify, Data: map[string]any{
		"token":   token,
		"intents": intents,
		"properties": map[string]string{
			"os": runtime.GOOS, "browser": "hermes-connector", "device": "hermes-connector",
		},
		"large_threshold": 50, // the minimum: we do not need members
		// Without a presence a bot that is connected shows as offline.
		"presence": map[string]any{"status": "online", "afk": false, "since": nil, "activities": []any{}},
	}}
}

// resume asks for the session to go on behind s.Seq.
func resume(token string, s Session) command {
	return command{Op: opResume, Data: map[string]any{"token": token, "session_id": s.ID, "seq": s.Seq}}
}

// heartbeat names the newest sequence received; 0 means nothing yet.
func heartbeat(seq int64) command {
	if seq == 0 {
		return command{Op: opHeartbeat}
	}
	return command{Op: opHeartbeat, Data: seq}
}

// aftermath is the kind of next step after a connection ended.
type aftermath int

const (
	thenResume   aftermath = iota // connect again and resume
	thenIdentify                  // the session is gone
	thenEnable                    // a person must enable an intent
	thenStop                      // trying again cannot help
	thenRevoked                   // the token is not accepted
)

// ends are the codes Discord closes with after which a resume is no use.
var ends = map[websocket.StatusCode]struct {
	then   aftermath
	reason string
}{
	4004: {thenRevoked, "Discord does not accept the token"},
	4007: {thenIdentify, "Discord does not know the sequence we resumed with"},
	4009: {thenIdentify, "the session timed out"},
	4010: {thenStop, "Discord rejects the shard (4010)"},
	4011: {thenStop, "the bot is in so many servers that Discord demands sharding, which this program does not do (4011)"},
	4012: {thenStop, "Discord no longer serves this version of its gateway (4012); update the program"},
	4013: {thenStop, "Discord does not know the intents asked for (4013); update the program"},
	4014: {thenEnable, "the MESSAGE CONTENT intent is not enabled for this bot (4014); enable it in the developer " +
		"portal under Bot, Privileged Gateway Intents"},
}

// afterClose returns the next step for a close code. For an unknown code it is a resume, too: if the session is gone,
// Discord will say so.
func afterClose(code websocket.StatusCode) (aftermath, string) {
	if end, ok := ends[code]; ok {
		return end.then, end.reason
	}
	return thenResume, fmt.Sprintf("Discord closed the connection (%d)", code)
}
