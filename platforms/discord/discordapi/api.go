// Package discordapi is the part of Discord's vocabulary that the bot speaks: the numbers of its API, the types of what is
// sent, and the paths of its requests. A test holds all of it against discordgo's, which is imported by tests alone: to
// link it costs half a megabyte of sockets, voice and pictures that would never run.
package discordapi

// The kinds of channels.
type ChannelType int

const (
	ChannelTypeGuildText          ChannelType = 0
	ChannelTypeDM                 ChannelType = 1
	ChannelTypeGuildVoice         ChannelType = 2
	ChannelTypeGroupDM            ChannelType = 3
	ChannelTypeGuildCategory      ChannelType = 4
	ChannelTypeGuildNews          ChannelType = 5
	ChannelTypeGuildNewsThread    ChannelType = 10
	ChannelTypeGuildPublicThread  ChannelType = 11
	ChannelTypeGuildPrivateThread ChannelType = 12
	ChannelTypeGuildStageVoice    ChannelType = 13
	ChannelTypeGuildForum         ChannelType = 15
	ChannelTypeGuildMedia         ChannelType = 16
)

// PermissionOverwriteType says whose permissions a channel changes.
type PermissionOverwriteType int

const PermissionOverwriteTypeMember PermissionOverwriteType = 1

// The permissions, as bits.
const (
	PermissionAdministrator         = 1 << 3
	PermissionManageChannels        = 1 << 4
	PermissionManageGuild           = 1 << 5
	PermissionAddReactions          = 1 << 6
	PermissionViewChannel           = 1 << 10
	PermissionSendMessages          = 1 << 11
	PermissionEmbedLinks            = 1 << 14
	PermissionAttachFiles           = 1 << 15
	PermissionReadMessageHistory    = 1 << 16
	PermissionVoiceConnect          = 1 << 20
	PermissionManageThreads         = 1 << 34
	PermissionCreatePublicThreads   = 1 << 35
	PermissionSendMessagesInThreads = 1 << 38
)

// The events that a socket asks for, as bits.
const (
	IntentGuilds         = 1 << 0
	IntentGuildMessages  = 1 << 9
	IntentDirectMessages = 1 << 12
	IntentMessageContent = 1 << 15
)

// The codes of refusals.
const (
	ErrCodeUnknownChannel                                   = 10003
	ErrCodeUnknownGuild                                     = 10004
	ErrCodeUnknownMessage                                   = 10008
	ErrCodeUnknownEmoji                                     = 10014
	ErrCodeUnknownWebhook                                   = 10015
	ErrCodeInteractionHasAlreadyBeenAcknowledged            = 40060
	ErrCodeMissingAccess                                    = 50001
	ErrCodeCannotSendEmptyMessage                           = 50006
	ErrCodeInvalidWebhookTokenProvided                      = 50027
	ErrCodeInvalidFormBody                                  = 50035
	ErrCodeCannotReplyWithoutPermissionToReadMessageHistory = 160002
)

// GatewayBotResponse is where the socket is, and how often it may be opened.
type GatewayBotResponse struct {
	URL               string             `json:"url"`
	SessionStartLimit SessionInformation `json:"session_start_limit"`
}

// SessionInformation is how many sockets may be opened yet.
type SessionInformation struct {
	Total          int `json:"total,omitempty"`
	Remaining      int `json:"remaining,omitempty"`
	ResetAfter     int `json:"reset_after,omitempty"` // ms
	MaxConcurrency int `json:"max_concurrency,omitempty"`
}
