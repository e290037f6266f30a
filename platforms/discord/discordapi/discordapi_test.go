package discordapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/bwmarrin/discordgo"
	"github.com/google/go-cmp/cmp"
)

// numbers are our constants and discordgo's.
var numbers = map[string][2]any{
	"ChannelTypeGuildText":                                    {ChannelTypeGuildText, discordgo.ChannelTypeGuildText},
	"ChannelTypeDM":                                           {ChannelTypeDM, discordgo.ChannelTypeDM},
	"ChannelTypeGuildVoice":                                   {ChannelTypeGuildVoice, discordgo.ChannelTypeGuildVoice},
	"ChannelTypeGroupDM":                                      {ChannelTypeGroupDM, discordgo.ChannelTypeGroupDM},
	"ChannelTypeGuildCategory":                                {ChannelTypeGuildCategory, discordgo.ChannelTypeGuildCategory},
	"ChannelTypeGuildNews":                                    {ChannelTypeGuildNews, discordgo.ChannelTypeGuildNews},
	"ChannelTypeGuildNewsThread":                              {ChannelTypeGuildNewsThread, discordgo.ChannelTypeGuildNewsThread},
	"ChannelTypeGuildPublicThread":                            {ChannelTypeGuildPublicThread, discordgo.ChannelTypeGuildPublicThread},
	"ChannelTypeGuildPrivateThread":                           {ChannelTypeGuildPrivateThread, discordgo.ChannelTypeGuildPrivateThread},
	"ChannelTypeGuildStageVoice":                              {ChannelTypeGuildStageVoice, discordgo.ChannelTypeGuildStageVoice},
	"ChannelTypeGuildForum":                                   {ChannelTypeGuildForum, discordgo.ChannelTypeGuildForum},
	"ChannelTypeGuildMedia":                                   {ChannelTypeGuildMedia, discordgo.ChannelTypeGuildMedia},
	"PermissionAdministrator":                                 {int64(PermissionAdministrator), int64(discordgo.PermissionAdministrator)},
	"PermissionManageChannels":                                {int64(PermissionManageChannels), int64(discordgo.PermissionManageChannels)},
	"PermissionManageGuild":                                   {int64(PermissionManageGuild), int64(discordgo.PermissionManageGuild)},
	"PermissionViewChannel":                                   {int64(PermissionViewChannel), int64(discordgo.PermissionViewChannel)},
	"PermissionReadMessageHistory":                            {int64(PermissionReadMessageHistory), int64(discordgo.PermissionReadMessageHistory)},
	"PermissionVoiceConnect":                                  {int64(PermissionVoiceConnect), int64(discordgo.PermissionVoiceConnect)},
	"PermissionManageThreads":                                 {int64(PermissionManageThreads), int64(discordgo.PermissionManageThreads)},
	"PermissionAddReactions":                                  {int64(PermissionAddReactions), int64(discordgo.PermissionAddReactions)},
	"PermissionSendMessages":                                  {int64(PermissionSendMessages), int64(discordgo.PermissionSendMessages)},
	"PermissionEmbedLinks":                                    {int64(PermissionEmbedLinks), int64(discordgo.PermissionEmbedLinks)},
	"PermissionAttachFiles":                                   {int64(PermissionAttachFiles), int64(discordgo.PermissionAttachFiles)},
	"PermissionCreatePublicThreads":                           {int64(PermissionCreatePublicThreads), int64(discordgo.PermissionCreatePublicThreads)},
	"PermissionSendMessagesInThreads":                         {int64(PermissionSendMessagesInThreads), int64(discordgo.PermissionSendMessagesInThreads)},
	"IntentGuilds":                                            {IntentGuilds, discordgo.IntentGuilds},
	"IntentGuildMessages":                                     {IntentGuildMessages, discordgo.IntentGuildMessages},
	"IntentDirectMessages":                                    {IntentDirectMessages, discordgo.IntentDirectMessages},
	"IntentMessageContent":                                    {IntentMessageContent, discordgo.IntentMessageContent},
	"ErrCodeUnknownChannel":                                   {ErrCodeUnknownChannel, discordgo.ErrCodeUnknownChannel},
	"ErrCodeUnknownGuild":                                     {ErrCodeUnknownGuild, discordgo.ErrCodeUnknownGuild},
	"ErrCodeUnknownMessage":                                   {ErrCodeUnknownMessage, discordgo.ErrCodeUnknownMessage},
	"ErrCodeUnknownEmoji":                                     {ErrCodeUnknownEmoji, discordgo.ErrCodeUnknownEmoji},
	"ErrCodeUnknownWebhook":                                   {ErrCodeUnknownWebhook, discordgo.ErrCodeUnknownWebhook},
	"ErrCodeInteractionHasAlreadyBeenAcknowledged":            {ErrCodeInteractionHasAlreadyBeenAcknowledged, discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged},
	"ErrCodeMissingAccess":                                    {ErrCodeMissingAccess, discordgo.ErrCodeMissingAccess},
	"ErrCodeCannotSendEmptyMessage":                           {ErrCodeCannotSendEmptyMessage, discordgo.ErrCodeCannotSendEmptyMessage},
	"ErrCodeInvalidWebhookTokenProvided":                      {ErrCodeInvalidWebhookTokenProvided, discordgo.ErrCodeInvalidWebhookTokenProvided},
	"ErrCodeInvalidFormBody":                                  {ErrCodeInvalidFormBody, discordgo.ErrCodeInvalidFormBody},
	"ErrCodeCannotReplyWithoutPermissionToReadMessageHistory": {ErrCodeCannotReplyWithoutPermissionToReadMessageHistory, discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory},
	"PermissionOverwriteTypeMember":                           {PermissionOverwriteTypeMember, discordgo.PermissionOverwriteTypeMember},
	"EndpointAPI":                                             {EndpointAPI, discordgo.EndpointAPI},
	"EndpointGatewayBot":                                      {EndpointGatewayBot, discordgo.EndpointGatewayBot},
	"InteractionPing":                                         {InteractionPing, discordgo.InteractionPing},
	"InteractionApplicationCommand":                           {InteractionApplicationCommand, discordgo.InteractionApplicationCommand},
	"InteractionMessageComponent":                             {InteractionMessageComponent, discordgo.InteractionMessageComponent},
	"InteractionApplicationCommandAutocomplete":               {InteractionApplicationCommandAutocomplete, discordgo.InteractionApplicationCommandAutocomplete},
	"InteractionModalSubmit":                                  {InteractionModalSubmit, discordgo.InteractionModalSubmit},
	"InteractionResponsePong":                                 {InteractionResponsePong, discordgo.InteractionResponsePong},
	"InteractionResponseChannelMessageWithSource":             {InteractionResponseChannelMessageWithSource, discordgo.InteractionResponseChannelMessageWithSource},
	"InteractionResponseDeferredChannelMessageWithSource":     {InteractionResponseDeferredChannelMessageWithSource, discordgo.InteractionResponseDeferredChannelMessageWithSource},
	"InteractionResponseDeferredMessageUpdate":                {InteractionResponseDeferredMessageUpdate, discordgo.InteractionResponseDeferredMessageUpdate},
	"InteractionApplicationCommandAutocompleteResult":         {InteractionApplicationCommandAutocompleteResult, discordgo.InteractionApplicationCommandAutocompleteResult},
	"ChatApplicationCommand":                                  {ChatApplicationCommand, discordgo.ChatApplicationCommand},
	"UserApplicationCommand":                                  {UserApplicationCommand, discordgo.UserApplicationCommand},
	"MessageApplicationCommand":                               {MessageApplicationCommand, discordgo.MessageApplicationCommand},
	"ApplicationCommandOptionSubCommand":                      {ApplicationCommandOptionSubCommand, discordgo.ApplicationCommandOptionSubCommand},
	"ApplicationCommandOptionSubCommandGroup":                 {ApplicationCommandOptionSubCommandGroup, discordgo.ApplicationCommandOptionSubCommandGroup},
	"ApplicationCommandOptionString":                          {ApplicationCommandOptionString, discordgo.ApplicationCommandOptionString},
	"ApplicationCommandOptionAttachment":                      {ApplicationCommandOptionAttachment, discordgo.ApplicationCommandOptionAttachment},
	"InteractionContextPrivateChannel":                        {InteractionContextPrivateChannel, discordgo.InteractionContextPrivateChannel},
	"MessageTypeDefault":                                      {MessageTypeDefault, discordgo.MessageTypeDefault},
	"MessageTypeReply":                                        {MessageTypeReply, discordgo.MessageTypeReply},
	"MessageTypeChatInputCommand":                             {MessageTypeChatInputCommand, discordgo.MessageTypeChatInputCommand},
	"MessageTypeContextMenuCommand":                           {MessageTypeContextMenuCommand, discordgo.MessageTypeContextMenuCommand},
	"MessageFlagsEphemeral":                                   {MessageFlagsEphemeral, discordgo.MessageFlagsEphemeral},
	"MessageFlagsLoading":                                     {MessageFlagsLoading, discordgo.MessageFlagsLoading},
	"MessageFlagsIsVoiceMessage":                              {MessageFlagsIsVoiceMessage, discordgo.MessageFlagsIsVoiceMessage},
	"AllowedMentionTypeRoles":                                 {AllowedMentionTypeRoles, discordgo.AllowedMentionTypeRoles},
	"AllowedMentionTypeUsers":                                 {AllowedMentionTypeUsers, discordgo.AllowedMentionTypeUsers},
	"AllowedMentionTypeEveryone":                              {AllowedMentionTypeEveryone, discordgo.AllowedMentionTypeEveryone},
	"StickerFormatTypePNG":                                    {StickerFormatTypePNG, discordgo.StickerFormatTypePNG},
	"StickerFormatTypeAPNG":                                   {StickerFormatTypeAPNG, discordgo.StickerFormatTypeAPNG},
	"StickerFormatTypeGIF":                                    {StickerFormatTypeGIF, discordgo.StickerFormatTypeGIF},
	"ActionsRowComponent":                                     {ActionsRowComponent, discordgo.ActionsRowComponent},
	"ButtonComponent":                                         {ButtonComponent, discordgo.ButtonComponent},
	"PrimaryButton":                                           {PrimaryButton, discordgo.PrimaryButton},
	"SecondaryButton":                                         {SecondaryButton, discordgo.SecondaryButton},
	"SuccessButton":                                           {SuccessButton, discordgo.SuccessButton},
	"DangerButton":                                            {DangerButton, discordgo.DangerButton},
	"MessageReferenceTypeForward":                             {MessageReferenceTypeForward, discordgo.MessageReferenceTypeForward},
}

// TestNumbers: every constant here is the library's.
func TestNumbers(t *testing.T) {
	for name, pair := range numbers {
		if ours, theirs := asJSON(t, pair[0]), asJSON(t, pair[1]); ours != theirs {
			t.Errorf("%s is %s, discordgo says %s", name, ours, theirs)
		}
	}
	for _, name := range constants(t) {
		if _, ok := numbers[name]; !ok {
			t.Errorf("%s is held against nothing", name)
		}
	}
}

// constants are the names of all that this package declares.
func constants(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, s := range d.Specs {
					for _, id := range s.(*ast.ValueSpec).Names {
						names = append(names, id.Name)
					}
				}
			}
			return true
		})
	}
	return names
}

func TestEndpoints(t *testing.T) {
	for name, pair := range map[string][2]string{
		"guild":          {EndpointGuild("1"), discordgo.EndpointGuild("1")},
		"channels":       {EndpointGuildChannels("1"), discordgo.EndpointGuildChannels("1")},
		"active threads": {EndpointGuildActiveThreads("1"), discordgo.EndpointGuildActiveThreads("1")},
		"member":         {EndpointGuildMember("1", "2"), discordgo.EndpointGuildMember("1", "2")},
		"channel":        {EndpointChannel("1"), discordgo.EndpointChannel("1")},
		"threads":        {EndpointChannelThreads("1"), discordgo.EndpointChannelThreads("1")},
		"typing":         {EndpointChannelTyping("1"), discordgo.EndpointChannelTyping("1")},
		"messages":       {EndpointChannelMessages("1"), discordgo.EndpointChannelMessages("1")},
		"message":        {EndpointChannelMessage("1", "2"), discordgo.EndpointChannelMessage("1", "2")},
		"its thread":     {EndpointChannelMessageThread("1", "2"), discordgo.EndpointChannelMessageThread("1", "2")},
		"reaction":       {EndpointMessageReaction("1", "2", "x", "@me"), discordgo.EndpointMessageReaction("1", "2", "x", "@me")},
		"thread member":  {EndpointThreadMember("1", "2"), discordgo.EndpointThreadMember("1", "2")},
		"webhook":        {EndpointWebhookToken("1", "t"), discordgo.EndpointWebhookToken("1", "t")},
		"interaction":    {EndpointInteractionResponse("1", "t"), discordgo.EndpointInteractionResponse("1", "t")},
		"commands":       {EndpointApplicationGlobalCommands("1"), discordgo.EndpointApplicationGlobalCommands("1")},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, discordgo says %s", name, pair[0], pair[1])
		}
	}
}

// TestWhatIsSent: our types become the library's JSON.
func TestWhatIsSent(t *testing.T) {
	no := false
	for name, pair := range map[string][2]any{
		"reference":     {MessageReference{MessageID: "1", FailIfNotExists: &no}, discordgo.MessageReference{MessageID: "1", FailIfNotExists: &no}},
		"mentions":      {MessageAllowedMentions{Parse: []AllowedMentionType{AllowedMentionTypeUsers}, RepliedUser: true}, discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{discordgo.AllowedMentionTypeUsers}, RepliedUser: true}},
		"no mentions":   {MessageAllowedMentions{Parse: []AllowedMentionType{}}, discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}}},
		"choice":        {ApplicationCommandOptionChoice{Name: "a", NameLocalizations: map[string]string{"de": "ä"}, Value: 1}, discordgo.ApplicationCommandOptionChoice{Name: "a", NameLocalizations: map[discordgo.Locale]string{"de": "ä"}, Value: 1}},
		"sticker":       {StickerItem{ID: "1", Name: "a", FormatType: StickerFormatTypeGIF}, discordgo.StickerItem{ID: "1", Name: "a", FormatType: discordgo.StickerFormatTypeGIF}},
		"session start": {SessionInformation{1, 2, 3, 4}, discordgo.SessionInformation{Total: 1, Remaining: 2, ResetAfter: 3, MaxConcurrency: 4}},
	} {
		if diff := cmp.Diff(asJSON(t, pair[1]), asJSON(t, pair[0])); diff != "" {
			t.Errorf("%s (-discordgo +ours):\n%s", name, diff)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
