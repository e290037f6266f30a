package wire

import (
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Descriptor answers a Hello with what that platform can do.
type Descriptor struct{ relay.Descriptor }

// defaultMaxLength replaces a limit that is none: June gateways take 0 at its word, August
// gateways replace it by this figure.
const defaultMaxLength = 4096

// requiredDescriptorKeys raise inside a gateway's reader when they are missing, in every age.
func requiredDescriptorKeys() []string {
	return []string{
		"contract_version", "platform", "label", "max_message_length", "supports_draft_streaming",
		"supports_edit", "supports_threads", "markdown_dialect", "len_unit",
	}
}

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

func encodeDescriptor(f Descriptor) any {
	d := descriptorJSON(f.Descriptor)
	if d.MaxMessageLength <= 0 {
		d.MaxMessageLength = defaultMaxLength
	}
	if d.LenUnit == "" {
		d.LenUnit = relay.LenChars
	}
	if d.SupportedOps == nil {
		d.SupportedOps = []relay.Op{}
	}
	type body struct {
		ContractVersion int `json:"contract_version"`
		descriptorJSON
	}
	return struct {
		Type       string `json:"type"`
		Descriptor body   `json:"descriptor"`
	}{typeDescriptor, body{relay.ContractVersion, d}}
}

func decodeDescriptor(o object) (Frame, error) {
	d := o.sub("descriptor")
	for _, key := range requiredDescriptorKeys() {
		if _, ok := d[key]; !ok {
			return nil, fmt.Errorf("descriptor without %s: %w", key, ErrUnusable)
		}
	}
	out := relay.Descriptor{
		Platform: relay.PlatformID(d.id("platform")), Label: d.words("label"),
		MaxMessageLength: defaultMaxLength, LenUnit: relay.LenChars,
		MarkdownDialect:        d.words("markdown_dialect"),
		SupportsDraftStreaming: d.hint("supports_draft_streaming"),
		SupportsEdit:           d.hint("supports_edit"), SupportsThreads: d.hint("supports_threads"),
		Emoji: d.words("emoji"), PlatformHint: d.words("platform_hint"), PIISafe: d.hint("pii_safe"),
		SupportsContext: d.hint("supports_context"), SupportedOps: ids[relay.Op](d, "supported_ops"),
		SupportsInchannelContinuable: d.hint("supports_inchannel_continuable"),
		SupportsBlockFormatting:      d.hint("supports_block_formatting"),
	}
	if n, ok := d.integer("max_message_length"); ok && n > 0 && n <= MaxFrame {
		out.MaxMessageLength = int(n)
	}
	if d.words("len_unit") == string(relay.LenUTF16) {
		out.LenUnit = relay.LenUTF16
	}
	return Descriptor{out}, nil
}
