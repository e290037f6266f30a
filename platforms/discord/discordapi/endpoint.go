package discordapi

// EndpointAPI is the address that all requests begin with.
const EndpointAPI = "https://discord.com/api/v9/"

// The addresses of requests. Ids go in as they are; a name in one must be escaped by the caller.

const EndpointGatewayBot = EndpointAPI + "gateway/bot"

func EndpointGuild(guild string) string         { return EndpointAPI + "guilds/" + guild }
func EndpointGuildChannels(guild string) string { return EndpointGuild(guild) + "/channels" }
func EndpointGuildActiveThreads(guild string) string {
	return EndpointGuild(guild) + "/threads/active"
}
func EndpointGuildMember(guild, user string) string { return EndpointGuild(guild) + "/members/" + user }

func EndpointChannel(channel string) string         { return EndpointAPI + "channels/" + channel }
func EndpointChannelThreads(channel string) string  { return EndpointChannel(channel) + "/threads" }
func EndpointChannelTyping(channel string) string   { return EndpointChannel(channel) + "/typing" }
func EndpointChannelMessages(channel string) string { return EndpointChannel(channel) + "/messages" }
func EndpointChannelMessage(channel, message string) string {
	return EndpointChannelMessages(channel) + "/" + message
}
func EndpointChannelMessageThread(channel, message string) string {
	return EndpointChannelMessage(channel, message) + "/threads"
}
func EndpointMessageReaction(channel, message, emoji, user string) string {
	return EndpointChannelMessage(channel, message) + "/reactions/" + emoji + "/" + user
}
func EndpointThreadMember(thread, user string) string {
	return EndpointChannel(thread) + "/thread-members/" + user
}

func EndpointWebhookToken(webhook, token string) string {
	return EndpointAPI + "webhooks/" + webhook + "/" + token
}
func EndpointInteractionResponse(interaction, token string) string {
	return EndpointAPI + "interactions/" + interaction + "/" + token + "/callback"
}
func EndpointApplicationGlobalCommands(app string) string {
	return EndpointAPI + "applications/" + app + "/commands"
}
