// Package service holds the systemd unit, which stands once: the packages install it, and setup writes it with another
// program's path. It knows where units are, how the service is started, and what
// the service manager is told.
package service

import _ "embed"

// Unit is the system unit of the packages, which start /usr/bin/hermes-connector as the user hermes-connector.
//
//go:embed hermes-connector.service
var Unit string
