package relay

import "slices"

// ContractVersion is the version of the relay contract this connector speaks.
const ContractVersion = 1

// LenUnit says what MaxMessageLength counts.
type LenUnit string

// Telegram counts UTF-16 code units, everyone else code points.
const (
	LenChars LenUnit = "chars"
	LenUTF16 LenUnit = "utf16"
)

// Descriptor is what a platform can do, as a gateway learns it at its hello.
type Descriptor struct {
	Platform PlatformID
	Label    string
	// MaxMessageLength is in LenUnit and never 0: gateways of June 2026 would use 0 as the limit.
	MaxMessageLength int
	LenUnit          LenUnit
	// MarkdownDialect: anything but "" and "plain" tells the gateway that code blocks render.
	MarkdownDialect              string
	SupportsDraftStreaming       bool
	SupportsEdit                 bool
	SupportsThreads              bool
	Emoji                        string
	PlatformHint                 string
	PIISafe                      bool
	SupportsContext              bool
	SupportedOps                 []Op
	SupportsInchannelContinuable bool
	SupportsBlockFormatting      bool
}

// RelayPlatform is the name under which a gateway that was never told a platform says hello.
const RelayPlatform PlatformID = "relay"

// LeastCommon returns the descriptor of platform "relay": the abilities that all of ds have. With no ds it is a
// platform to which one can only send text.
func LeastCommon(ds []Descriptor) Descriptor {
	out := Bare(RelayPlatform)
	out.Label = "Relay"
	if len(ds) == 0 {
		return out
	}
	out.SupportsEdit, out.SupportsThreads = true, true
	out.LenUnit, out.MaxMessageLength = ds[0].LenUnit, ds[0].MaxMessageLength
	out.MarkdownDialect = ds[0].MarkdownDialect
	out.SupportedOps = slices.Clone(ds[0].SupportedOps)
	for _, d := range ds {
		out.MaxMessageLength = min(out.MaxMessageLength, d.MaxMessageLength)
		if d.LenUnit == LenUTF16 { // the stricter unit: never fewer units than code points
			out.LenUnit = LenUTF16
		}
		if d.MarkdownDialect != out.MarkdownDialect {
			out.MarkdownDialect = "markdown"
		}
		out.SupportsEdit = out.SupportsEdit && d.SupportsEdit
		out.SupportsThreads = out.SupportsThreads && d.SupportsThreads
		out.SupportedOps = slices.DeleteFunc(out.SupportedOps, func(op Op) bool {
			return !slices.Contains(d.SupportedOps, op)
		})
	}
	return out
}

// Bare returns the descriptor of a platform this connector does not host: its name and no ability.
func Bare(p PlatformID) Descriptor {
	return Descriptor{
		Platform: p, Label: string(p), MaxMessageLength: 4096, LenUnit: LenChars, MarkdownDialect: "plain",
	}
}
