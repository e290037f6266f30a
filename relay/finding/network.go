package finding

// HC2xx: addresses, certificates and time.
var (
	ClockOff          = kind("HC201", Fault, "Credentials and signed calls are refused because the clock is wrong: gateways cannot connect, and messages are dropped.")
	PortTaken         = kind("HC202", Fault, "The server cannot start, so nobody's messages arrive.")
	PortPrivileged    = kind("HC203", Fault, "The server cannot start, so nobody's messages arrive.")
	AddressElsewhere  = kind("HC204", Fault, "The server cannot start, so nobody's messages arrive.")
	InTheClear        = kind("HC205", Warning, "Others in that network can read messages, and can copy a gateway's credential and answer in its place.")
	PublicSilent      = kind("HC206", Fault, "Gateways that dial this address cannot connect, and their messages wait.")
	PublicElsewhere   = kind("HC207", Fault, "Gateways that dial this address send their credentials to another program, and their messages wait.")
	PublicNoUpgrade   = kind("HC208", Fault, "Gateways speak over a WebSocket: without it none can connect, and their messages wait.")
	AdvertiseSilent   = kind("HC209", Warning, "Other nodes cannot hand requests through to this one: while it leads, who calls them waits.")
	CertificateOver   = kind("HC210", Fault, "Gateways refuse the certificate, so they cannot connect, and their messages wait.")
	CertificateEnds   = kind("HC211", Warning, "When it has expired, no gateway connects any more, and messages wait.")
	CertificateName   = kind("HC212", Fault, "Gateways refuse the certificate, so they cannot connect, and their messages wait.")
	CertificateBroken = kind("HC213", Fault, "The server cannot start with it; a running one keeps the certificate from before until that expires.")
	CertificateDoubt  = kind("HC214", Fault, "Gateways refuse the certificate, so they cannot connect, and their messages wait.")
)
