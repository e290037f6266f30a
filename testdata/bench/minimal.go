package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/coder/websocket"
	bolt "go.etcd.io/bbolt"
)

// asMinimal is the argument by which the bench is the minimal program.
const asMinimal = "minimal"

// minimalProgram is the bench itself in another role.
func minimalProgram(dir string) *contender {
	c := &contender{name: "minimal", dir: must(os.MkdirTemp(dir, "m")), api: newBotAPI(), bearer: func(int) string { return "" }}
	c.commands = [][]string{{listening, must(os.Executable()), asMinimal, c.api.URL}}
	return c
}

// minimal is the least that a program of the same libraries does for a message: it polls a Bot API, stores each message
// before it confirms it, sends it as a frame to the gateway that said hello last, and deletes it when that acknowledges
// it. It keeps nobody out, recognises nothing that comes again, and checks nothing that it reads.
type minimal struct {
	db       *bolt.DB
	stored   chan []byte          // frames, by their number
	acks     chan string          // what was acknowledged
	gateways chan *websocket.Conn // that said hello

	mu sync.Mutex // held for a commit and its sync
}

var minimalBucket = []byte("entries")

func runMinimal(api string) {
	m := &minimal{
		db:     must(bolt.Open("minimal.db", 0o600, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoSync: true, PageSize: 4096})),
		stored: make(chan []byte, messages), acks: make(chan string), gateways: make(chan *websocket.Conn),
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(listening + l.Addr().String())
	go m.poll(api)
	go m.deliver()
	check(http.Serve(l, m)) //nolint:gosec // loopback
}

// commit changes the entries, and returns when that is on the disk.
func (m *minimal) commit(change func(*bolt.Bucket) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	check(m.db.Update(func(t *bolt.Tx) error {
		b, err := t.CreateBucketIfNotExists(minimalBucket)
		if err != nil {
			return err
		}
		b.FillPercent = 1
		return change(b)
	}))
	check(m.db.Sync())
}

// minimalFrame is a frame either way.
type minimalFrame struct {
	Type     string       `json:"type"`
	Event    minimalEvent `json:"event"`
	BufferID string       `json:"bufferId"`
}

type minimalEvent struct {
	Text      string        `json:"text"`
	Kind      string        `json:"message_type"`
	MessageID string        `json:"message_id"`
	Source    minimalSource `json:"source"`
}

type minimalSource struct {
	Platform string `json:"platform"`
	ChatID   string `json:"chat_id"`
	ChatType string `json:"chat_type"`
	ChatName string `json:"chat_name"`
	UserID   string `json:"user_id"`
	UserName string `json:"user_name"`
}

func (m *minimal) poll(api string) {
	offset := 0
	for {
		res := must(http.Get(api + "/bot1:x/getUpdates?timeout=30&offset=" + strconv.Itoa(offset)))
		var answer struct {
			Result []struct {
				UpdateID int `json:"update_id"`
				Message  struct {
					MessageID int    `json:"message_id"`
					Text      string `json:"text"`
					From      struct {
						ID   int    `json:"id"`
						Name string `json:"first_name"`
					} `json:"from"`
					Chat struct {
						ID   int    `json:"id"`
						Name string `json:"first_name"`
					} `json:"chat"`
				} `json:"message"`
			} `json:"result"`
		}
		check(json.NewDecoder(res.Body).Decode(&answer))
		check(res.Body.Close())
		for _, u := range answer.Result {
			id := strconv.Itoa(u.Message.MessageID)
			f := minimalFrame{Type: "inbound", BufferID: id, Event: minimalEvent{Text: u.Message.Text, Kind: "text", MessageID: id, Source: minimalSource{
				Platform: "telegram", ChatID: strconv.Itoa(u.Message.Chat.ID), ChatType: "dm", ChatName: u.Message.Chat.Name,
				UserID: strconv.Itoa(u.Message.From.ID), UserName: u.Message.From.Name,
			}}}
			frame := append(must(json.Marshal(f)), '\n')
			m.commit(func(b *bolt.Bucket) error { return b.Put(minimalKey(id), frame) })
			m.stored <- frame
			offset = u.UpdateID + 1
		}
	}
}

func minimalKey(id string) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(must(strconv.Atoi(id))))
}

// deliver sends one message after the other.
func (m *minimal) deliver() {
	to := <-m.gateways
	for {
		select {
		case to = <-m.gateways:
		case frame := <-m.stored:
			check(to.Write(context.Background(), websocket.MessageText, frame))
			id := <-m.acks
			m.commit(func(b *bolt.Bucket) error { return b.Delete(minimalKey(id)) })
		}
	}
}

func (m *minimal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	for {
		_, data, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		var frame minimalFrame
		check(json.Unmarshal(data, &frame))
		switch frame.Type {
		case "hello":
			const descriptor = `{"type":"descriptor","descriptor":{"contract_version":1,"platform":"telegram","label":"Telegram"}}` + "\n"
			check(conn.Write(context.Background(), websocket.MessageText, []byte(descriptor)))
			m.gateways <- conn
		case "inbound_ack":
			m.acks <- frame.BufferID
		}
	}
}
