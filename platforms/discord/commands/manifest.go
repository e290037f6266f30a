package commands

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bwmarrin/discordgo"
)

// Discord's limits for slash commands (https://discord.com/developers/docs/interactions/application-commands).
const (
	maxCommands    = 100
	maxName        = 32
	maxDescription = 100 // code points; of a choice's name and value as well
	maxOptions     = 25  // and choices
	maxDepth       = 3   // a group, its sub-commands, their options
)

// slashCommand is a slash command with the fields a gateway can set. It is not discordgo's type, which loses
// bounds of 0 and says null where a gateway said nothing.
type slashCommand struct {
	Name         string                           `json:"name"`
	Names        map[string]string                `json:"name_localizations,omitempty"`
	Type         discordgo.ApplicationCommandType `json:"type"`
	Description  string                           `json:"description"`
	Descriptions map[string]string                `json:"description_localizations,omitempty"`
	Options      []commandOption                  `json:"options,omitempty"`
}

type commandOption struct {
	Type         discordgo.ApplicationCommandOptionType     `json:"type"`
	Name         string                                     `json:"name"`
	Names        map[string]string                          `json:"name_localizations,omitempty"`
	Description  string                                     `json:"description"`
	Descriptions map[string]string                          `json:"description_localizations,omitempty"`
	Required     bool                                       `json:"required,omitempty"`
	Choices      []discordgo.ApplicationCommandOptionChoice `json:"choices,omitempty"`
	Options      []commandOption                            `json:"options,omitempty"`
	ChannelTypes []int                                      `json:"channel_types,omitempty"`
	MinValue     *float64                                   `json:"min_value,omitempty"`
	MaxValue     *float64                                   `json:"max_value,omitempty"`
	MinLength    *int                                       `json:"min_length,omitempty"`
	MaxLength    *int                                       `json:"max_length,omitempty"`
}

// encode returns the command as JSON, always the same for the same command.
func (c slashCommand) encode() json.RawMessage {
	raw, _ := json.Marshal(c) // strings and finite numbers cannot fail
	return raw
}

// ownCommands returns the connector's own commands. They are for direct messages; in other chats a gateway gets them
// like any other command.
func ownCommands() []slashCommand {
	gateway := commandOption{Type: discordgo.ApplicationCommandOptionString, Name: "name", Description: "Its name"}
	return []slashCommand{{
		Name: "link", Type: discordgo.ChatApplicationCommand,
		Description: "Link your account to your agent, with the code its operator gave you",
		Options: []commandOption{{
			Type: discordgo.ApplicationCommandOptionString, Name: "code", Description: "The link code, like KQ2-9F4-M7X", Required: true,
		}},
	}, {
		Name: "agent", Type: discordgo.ChatApplicationCommand,
		Description: "Choose which of your agents answers your direct messages", Options: []commandOption{gateway},
	}, {
		Name: "whoami", Type: discordgo.ChatApplicationCommand,
		Description: "Who you are to me, and which agent answers your direct messages",
	}, {
		Name: "unlink", Type: discordgo.ChatApplicationCommand,
		Description: "Link your account to an agent no more", Options: []commandOption{gateway},
	}}
}

// commandsOf returns the commands to register, sorted by name: the connector's own, and those of the manifest that
// Discord would accept. Of two commands with the same name only the first is in the list. dropped is how many it leaves
// out.
func commandsOf(manifest []json.RawMessage) (list []slashCommand, dropped int) {
	list = ownCommands()
	names := make(map[string]bool)
	for _, c := range list {
		names[c.Name] = true
	}
	for _, raw := range manifest {
		var c slashCommand
		err := json.Unmarshal(raw, &c)
		c = c.normal()
		switch {
		case err != nil || c.Type > discordgo.ChatApplicationCommand:
			dropped++
		case names[c.Name]:
		case !validName(c.Name) || len(list) == maxCommands:
			dropped++
		default:
			names[c.Name] = true
			list = append(list, c)
		}
	}
	byName(list)
	return list, dropped
}

func byName(list []slashCommand) {
	slices.SortFunc(list, func(a, b slashCommand) int { return strings.Compare(a.Name, b.Name) })
}

// optionName is Discord's pattern for names without the limit of their length: repeated 32 times, so large a class of
// characters would take a megabyte.
var optionName = regexp.MustCompile(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]+$`)

// validName reports whether Discord accepts s as a name: letters that have a lower case must be in it.
func validName(s string) bool {
	return optionName.MatchString(s) && utf8.RuneCountInString(s) <= maxName && s == strings.ToLower(s)
}

// normal returns c in the form in which Discord would accept and return it.
func (c slashCommand) normal() slashCommand {
	c.Type = max(c.Type, discordgo.ChatApplicationCommand) // 0 means a slash command, too
	c.Name = strings.ToLower(strings.TrimSpace(c.Name))
	c.Names = named(c.Names)
	c.Description, c.Descriptions = described(c.Description, c.Name), clippedAll(c.Descriptions)
	c.Options = normalOptions(c.Options, 1)
	return c
}

// normalOptions returns the options that Discord would accept: required ones first, and only sub-commands and groups if
// there is one. depth is their level, 1 for those of the command itself.
func normalOptions(list []commandOption, depth int) []commandOption {
	var out []commandOption
	names := make(map[string]bool)
	groups := slices.ContainsFunc(list, commandOption.groups)
	for _, o := range list {
		o.Name = strings.ToLower(strings.TrimSpace(o.Name))
		known := o.Type >= discordgo.ApplicationCommandOptionSubCommand && o.Type <= discordgo.ApplicationCommandOptionAttachment
		if !known || !validName(o.Name) || names[o.Name] || o.groups() != groups || groups && depth == maxDepth || len(out) == maxOptions {
			continue
		}
		names[o.Name] = true
		o.Names = named(o.Names)
		o.Description, o.Descriptions = described(o.Description, o.Name), clippedAll(o.Descriptions)
		o.Choices = normalChoices(o.Choices)
		if groups {
			o.Required = false
			o.Options = normalOptions(o.Options, depth+1)
		} else {
			o.Options = nil
		}
		slices.Sort(o.ChannelTypes)
		out = append(out, o)
	}
	required := func(o commandOption) bool { return o.Required }
	optional := func(o commandOption) bool { return !o.Required }
	return append(slices.DeleteFunc(slices.Clone(out), optional), slices.DeleteFunc(out, required)...)
}

// groups reports whether the option is a sub-command or a group of sub-commands.
func (o commandOption) groups() bool {
	return o.Type == discordgo.ApplicationCommandOptionSubCommand || o.Type == discordgo.ApplicationCommandOptionSubCommandGroup
}

// normalChoices returns the choices that Discord would accept, with texts that it would accept.
func normalChoices(list []discordgo.ApplicationCommandOptionChoice) []discordgo.ApplicationCommandOptionChoice {
	var out []discordgo.ApplicationCommandOptionChoice
	for _, c := range list {
		c.Name, c.NameLocalizations = clipped(c.Name), clippedAll(c.NameLocalizations)
		switch v := c.Value.(type) {
		case string:
			c.Value = clipped(v)
		case float64:
		default:
			continue
		}
		if c.Name != "" && len(out) < maxOptions {
			out = append(out, c)
		}
	}
	return out
}

// described returns a description that Discord accepts: there must be one.
func described(s, name string) string { return cmp.Or(clipped(s), clipped(name)) }

// clipped returns s without blanks around it, with line ends as Discord returns them, and cut to maxDescription code
// points.
func clipped(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(s)
	runes := []rune(strings.TrimSpace(s))
	if len(runes) > maxDescription {
		runes = append(runes[:maxDescription-1], '…')
	}
	return string(runes)
}

// clippedAll returns m with clipped texts, without empty ones.
func clippedAll[L ~string](m map[L]string) map[L]string {
	out := make(map[L]string, len(m))
	for locale, text := range m {
		if text = clipped(text); text != "" {
			out[locale] = text
		}
	}
	return out
}

// named returns m with only the names that Discord accepts.
func named(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(_, name string) bool { return !validName(name) })
	return out
}
