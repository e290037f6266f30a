package discordapi

// InteractionType is what a person did.
type InteractionType uint8

const (
	InteractionPing                           InteractionType = 1
	InteractionApplicationCommand             InteractionType = 2
	InteractionMessageComponent               InteractionType = 3
	InteractionApplicationCommandAutocomplete InteractionType = 4
	InteractionModalSubmit                    InteractionType = 5
)

// InteractionContextType is where he did it.
type InteractionContextType uint

const InteractionContextPrivateChannel InteractionContextType = 2

// InteractionResponseType is how an interaction is answered.
type InteractionResponseType uint8

const (
	InteractionResponsePong                             InteractionResponseType = 1
	InteractionResponseChannelMessageWithSource         InteractionResponseType = 4
	InteractionResponseDeferredChannelMessageWithSource InteractionResponseType = 5
	InteractionResponseDeferredMessageUpdate            InteractionResponseType = 6
	InteractionApplicationCommandAutocompleteResult     InteractionResponseType = 8
)

// ApplicationCommandType is where a command is found.
type ApplicationCommandType uint8

const (
	ChatApplicationCommand    ApplicationCommandType = 1
	UserApplicationCommand    ApplicationCommandType = 2
	MessageApplicationCommand ApplicationCommandType = 3
)

// ApplicationCommandOptionType is what a command's option takes.
type ApplicationCommandOptionType uint8

const (
	ApplicationCommandOptionSubCommand      ApplicationCommandOptionType = 1
	ApplicationCommandOptionSubCommandGroup ApplicationCommandOptionType = 2
	ApplicationCommandOptionString          ApplicationCommandOptionType = 3
	ApplicationCommandOptionAttachment      ApplicationCommandOptionType = 11
)

// ApplicationCommandOptionChoice is one value of an option that is chosen from a list.
type ApplicationCommandOptionChoice struct {
	Name              string            `json:"name"`
	NameLocalizations map[string]string `json:"name_localizations,omitempty"`
	Value             any               `json:"value"`
}
