package guilds

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"io"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// BenchmarkCompression compares what it costs to take in a large server (plain) with what it would
// cost besides to have Discord compress it (inflate). wire-KiB is what travels.
func BenchmarkCompression(b *testing.B) {
	raw := append(append([]byte(`{"t":"GUILD_CREATE","s":2,"op":0,"d":`), bigGuild()...), '}')
	b.Run("plain", func(b *testing.B) {
		c := New(relay.Bot{Platform: "discord", ID: "7"}, nil)
		b.ReportAllocs()
		for b.Loop() {
			var p struct {
				T string          `json:"t"`
				D json.RawMessage `json:"d"`
			}
			if err := json.Unmarshal(raw, &p); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Apply(p.T, p.D); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(raw))/1024, "wire-KiB")
	})
	b.Run("inflate", func(b *testing.B) {
		var wire bytes.Buffer
		w := zlib.NewWriter(&wire)
		_, _ = w.Write(raw)
		_ = w.Flush()
		b.ReportAllocs()
		for b.Loop() {
			r, err := zlib.NewReader(bytes.NewReader(wire.Bytes()))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, r, int64(len(raw))); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(wire.Len())/1024, "wire-KiB")
	})
}
