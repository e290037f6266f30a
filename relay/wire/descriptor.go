package wire

import (
	"cmp"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Descriptor answers a Hello with the abilities of the platform that the hello named.
type Descriptor struct{ relay.Descriptor }

// defaultMaxLength replaces a missing limit: June gateways take 0 literally, August gateways replace it by this figure.
const defaultMaxLength = 4096

// descriptorJSON is a relay.Descriptor under the wire's names.
type descriptorJSON struct {
	Platform                     relay.PlatformID `json:"platform"`
	Label                        string           `json:"label"`
	MaxMessageLength             int              `json:"max_message_length"`
	LenUnit                      relay.LenUnit    `json:"len_unit"`
	MarkdownDialect              string           `json:"markdown_dialect"`
	SupportsDraftStreaming       bool             `json:"supports_draft_streaming"`
	SupportsEdit                 bool             `json:"supports_edit"`
	SupportsThreads              bool             `json:"supports_threads"`
	Emoji                        string           `json:"emoji,omitempty"`
	PlatformHint                 string           `json:"platform_hint,omitempty"`
	PIISafe                      bool             `json:"pii_safe"`
	SupportsContext              bool             `json:"supports_context"`
	SupportedOps                 []relay.Op       `json:"supported_ops"`
	SupportsInchannelContinuable bool             `json:"supports_inchannel_continuable"`
	SupportsBlockFormatting      bool             `json:"supports_block_formatting"`
}

// descriptorFrame is the form in which a Descriptor is sent.
type descriptorFrame struct {
	bare
	Descriptor struct {
		ContractVersion int `json:"contract_version"`
		descriptorJSON
	} `json:"descriptor"`
}

func (f Descriptor) body() any {
	out := descriptorFrame{bare: bare{typeDescriptor}}
	out.Descriptor.ContractVersion, out.Descriptor.descriptorJSON = relay.ContractVersion, complete(f.Descriptor)
	return out
}

func (f descriptorFrame) frame() Frame {
	d := complete(relay.Descriptor(f.Descriptor.descriptorJSON))
	d.SupportedOps = some(d.SupportedOps)
	return Descriptor{relay.Descriptor(d)}
}

// complete fills in the fields that gateways need.
func complete(d relay.Descriptor) descriptorJSON {
	if d.MaxMessageLength <= 0 {
		d.MaxMessageLength = defaultMaxLength
	}
	if d.SupportedOps == nil {
		d.SupportedOps = []relay.Op{}
	}
	d.LenUnit = cmp.Or(d.LenUnit, relay.LenChars)
	return descriptorJSON(d)
}
