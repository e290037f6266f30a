package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func FuzzDecodePacket(f *testing.F) {
	for _, s := range []string{
		`{"op":10,"d":{"heartbeat_interval":41250}}`, `{"op":0,"s":1,"t":"READY","d":{"session_id":"a","resume_gateway_url":"wss://x"}}`,
		`{"t":null,"s":null,"op":11,"d":null}`, `{"op":9,"d":true}`, `{"s":-1}`, `{"op":1e9}`, `[`, ``, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePacket(raw)
		if err != nil && (p.Op != 0 || p.Seq != 0 || p.Kind != "" || p.Data != nil) {
			t.Errorf("a value and an error: %+v, %v", p, err)
		}
		if err == nil {
			head := decodeHead(raw)
			if head.Seq < 0 {
				t.Errorf("sequence %d", head.Seq)
			}
		}
		if d, err := decodeHello(p.Data); (err == nil) != (d >= leastInterval) {
			t.Errorf("interval %s, %v", d, err)
		}
		if r, err := decodeReady(p.Data); (err == nil) != (r.SessionID != "") {
			t.Errorf("ready %+v, %v", r, err)
		}
	})
}

// FuzzDecodeHead: the beginning of a payload tells as much as is there.
func FuzzDecodeHead(f *testing.F) {
	f.Add("GUILD_CREATE", int64(7), uint(40))
	f.Add("", int64(0), uint(0))
	f.Fuzz(func(t *testing.T, kind string, seq int64, cut uint) {
		if seq < 0 {
			seq = -(seq + 1)
		}
		whole := fmt.Appendf(nil, `{"t":%q,"s":%d,"op":0,"d":{"x":"`, "k"+strings.ToValidUTF8(strings.Map(plain, kind), ""), seq)
		whole = append(whole, bytes.Repeat([]byte("x"), 100)...)
		p := decodeHead(whole)
		if p.Seq != seq || p.Op != opDispatch || !strings.HasPrefix(p.Kind, "k") {
			t.Errorf("head %+v of %s", p, whole)
		}
		decodeHead(whole[:min(int(cut%1000), len(whole))])
	})
}

func plain(r rune) rune {
	if r < 'A' || r > 'z' || r == '\\' {
		return -1
	}
	return r
}
