package wire_test

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func BenchmarkEncodeInbound(b *testing.B) {
	for name, ev := range map[string]relay.Event{"plain": plainEvent(), "rich": richEvent()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Encode(wire.Inbound{Event: ev, Buffer: longestBuffer}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"connector.inbound.jsonl", "gateway.outbound.jsonl", "gateway.inbound_ack.jsonl"} {
		line, decode := readLines(b, name)[0], decoderOf(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPack(b *testing.B) {
	ev := plainEvent()
	ev.Context = contextOf(40, 30_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := wire.Pack(ev); !ok {
			b.Fatal("does not fit")
		}
	}
}
