// Package service holds the systemd unit. There is one copy: the packages install it, and setup writes it with another
// program's path. The package also knows where units are, how the service is started, and what to report to the service
// manager.
package service

import _ "embed"

// Unit is the system unit of the packages, which start /usr/bin/hermes-connector as the user hermes-connector.
//
//go:embed hermes-connector.service
var Unit string
