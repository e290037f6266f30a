// Package service holds the systemd unit of the system: packages install it as it is, and setup where there is no package.
package service

import _ "embed"

// Unit starts /usr/bin/hermes-connector as the user hermes-connector.
//
//go:embed hermes-connector.service
var Unit string
