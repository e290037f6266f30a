package ops

import "github.com/hermes-connector/hermes-connector/relay/manage"

// The operations: the name, the operator's command, the gateway's route, and the method. An operation with an empty
// command is not for the operator; one with an empty route is not for gateways. A renamed command keeps its former
// name.
var (
	// Gateways and their credentials.
	Enroll       = change("enroll", "enroll NAME", "", (*manage.Service).Enroll)
	EnrollToken  = change("enroll-token", "enroll [NAME] --token", "", (*manage.Service).EnrollToken)
	Gateways     = look("gateways", "gateway list", "", (*manage.Service).Gateways)
	Gateway      = look("gateway", "gateway show NAME", "", (*manage.Service).Gateway)
	Rename       = change("rename", "gateway rename NAME NEWNAME", "", (*manage.Service).Rename)
	Rotate       = change("rotate", "gateway rotate NAME", "", (*manage.Service).Rotate)
	Revoke       = change("revoke", "gateway revoke NAME", "", (*manage.Service).Revoke)
	Identity     = change("identity", "gateway identity NAME", "", (*manage.Service).Identity)
	DropIdentity = change("drop-identity", "gateway identity NAME --revoke", "", (*manage.Service).DropIdentity)
	SetQuiet     = change("quiet", "gateway quiet NAME [22:00-07:00|off]", "POST /manage/quiet", (*manage.Service).SetQuiet)
	Self         = look("self", "", "GET /manage/self", (*manage.Service).Self)
	Deprovision  = change("deprovision", "", "POST /manage/deprovision", (*manage.Service).Deprovision)

	// Gateways that enroll themselves: the caller has proved its identity, or holds an enrollment token.
	EnrollByToken = change("enroll-by-token", "", "POST /relay/enroll", (*manage.Service).EnrollByToken)
	Provision     = change("provision", "", "POST /relay/provision", (*manage.Service).Provision)

	// People, and to whom they write.
	Link         = change("link", "link NAME", "POST /manage/link", (*manage.Service).Link)
	Bind         = change("bind", "link NAME --user PLATFORM:PERSON", "", (*manage.Service).Bind).formerly("bind NAME PLATFORM PERSON")
	Unbind       = change("unbind", "unlink NAME --user PLATFORM:PERSON", "", (*manage.Service).Unbind).formerly("unbind NAME PLATFORM PERSON")
	SetDMDefault = change("dm-default", "people direct NAME --user PLATFORM:PERSON", "POST /manage/dm-default", (*manage.Service).SetDMDefault).formerly("dm-default NAME PLATFORM PERSON")
	NamePerson   = change("name-person", "people name PLATFORM:PERSON [NAME]...", "", (*manage.Service).NamePerson)
	SetPrincipal = change("principal", "gateway access NAME [owner-only|allow-list|any]", "POST /manage/principal", (*manage.Service).SetPrincipal).formerly("principal NAME [owner-only|allow-list|any]")
	SetRelevance = change("relevance", "gateway policy NAME --platform PLATFORM", "POST /relay/policy", (*manage.Service).SetRelevance).formerly("policy NAME --platform PLATFORM")

	// Programs that reach agents.
	AddCaller    = change("agents-add", "agents add PROGRAM --agent NAME", "", (*manage.Service).AddCaller)
	Callers      = look("agents", "agents list", "", (*manage.Service).Callers)
	AllowCaller  = change("agents-allow", "agents allow PROGRAM --agent NAME", "", (*manage.Service).AllowCaller)
	DenyCaller   = change("agents-deny", "agents deny PROGRAM --agent NAME", "", (*manage.Service).DenyCaller)
	RotateCaller = change("agents-rotate", "agents rotate PROGRAM", "", (*manage.Service).RotateCaller)
	RemoveCaller = change("agents-remove", "agents remove PROGRAM", "", (*manage.Service).RemoveCaller)

	// Chats.
	Claim      = change("claim", "chat claim NAME PLATFORM [CHAT]", "", (*manage.Service).Claim).formerly("scope claim NAME PLATFORM [CHAT]")
	ClaimOwned = change("claim-owned", "", "POST /manage/scope", (*manage.Service).ClaimOwned)
	Release    = change("release", "chat release NAME PLATFORM [CHAT]", "POST /manage/scope/release", (*manage.Service).Release).formerly("scope release NAME PLATFORM [CHAT]")
	Scopes     = look("scopes", "chat list [NAME]", "", (*manage.Service).Scopes).formerly("scope list [NAME]")
	Routes     = look("routes", "chat reserved [NAME]", "", (*manage.Service).Routes).formerly("route list [NAME]")
	DropRoute  = change("drop-route", "chat unreserve PLATFORM KEY", "", (*manage.Service).DropRoute).formerly("route drop PLATFORM KEY")

	// Waiting messages, and those that were given up.
	Entries    = look("entries", "buffer list [NAME]", "", (*manage.Service).Entries)
	Dead       = look("dead", "buffer dead NAME", "", (*manage.Service).Dead)
	Replay     = change("replay", "buffer replay NAME [BUFFERID]...", "", (*manage.Service).Replay)
	Drop       = change("drop", "buffer drop NAME [BUFFERID]...", "", (*manage.Service).Drop)
	Quarantine = look("quarantine", "buffer quarantine", "", (*manage.Service).Quarantine)

	// Answers that wait for a network.
	Answers     = look("answers", "buffer out [NAME] [ID]...", "", (*manage.Service).Answers)
	DropAnswers = change("drop-answers", "buffer out NAME [ID]... --drop", "", (*manage.Service).DropAnswers)

	// The state of everything, and the past.
	Status   = look("status", "status", "", (*manage.Service).Status)
	Diagnose = look("diagnose", "doctor", "", (*manage.Service).Diagnose)
	Explain  = look("explain", "explain [EVENT]", "", (*manage.Service).Explain)
	Audit    = look("audit", "audit [NAME]", "", (*manage.Service).Audit)
	Health   = look("health", "healthcheck", "", (*manage.Service).Health)

	// The running server itself.
	Reload     = change("reload", "reload", "", (*manage.Service).Reload)
	NotifyTest = look("notify-test", "notify test", "", (*manage.Service).NotifyTest)
	WebLink    = change("web", "web", "", (*manage.Service).WebLink)
	WebLogout  = change("web-logout", "web logout --all", "", (*manage.Service).WebLogout)
)
